"""`ms.plan`: the same calls as the one-shot functions, held instead of just run."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..arrays.types import Matrices
from ..plan.plan import Plan
from ..plan.problem import Options
from . import registry
from .ragged import Ragged
from .recipes import repeatable
from .registry import PublicOperation


def plan(
    operation: str, A: Matrices, B: Matrices = None, *, out: Matrices = None, backend: str | None = None, **options: Any
) -> Plan:  # fmt: skip
    """Choose and compile a call now, run it later: `plan = ms.plan("gram", A, B)`, then `plan(A, B)`.

    `plan.explain()` says which kernel was chosen, why, and the least time that this device allows; `plan.source()`
    shows the generated text, `plan.log()` what the compiler reported.

    Operations have the names that users call, of `ms`, `ms.linalg` and `ms.blas`, with the operands and options of the
    call: `plan("solve", A, b, assume_a="pos")`, `plan("lu_solve", (lu, piv), b)`. `plan("matvec", A, x)` is a product
    with an `ms.sparse.matrix`, `plan("matrix_powers", A, p)` what `ms.matrix_powers` returns; both are called with x.
    `tsmm`, `tsm2r` and `lu` (with `want`) name a kernel family itself. Factorizations and `solve` take ragged batches,
    too: `.explain()` then has a line for each class of sizes, and their kernels compile with the first call.

    Later arrays must have the same shapes, strides, dtype, alignment and device as the ones given here; others raise
    ValueError.

    A plan can be pickled. The process that loads it plans again, for its own device.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.ones((1000, 2))
    >>> plan = ms.plan("gram", V)
    >>> plan(V)
    array([[1000., 1000.],
           [1000., 1000.]])
    >>> "limit" in plan.explain()
    True
    """
    found = _named(operation)
    _check(found, B, options)
    made: Any = found.plan(A, B, out, backend, found.form(**options))
    if found.home == "mansard.sparse" or found.name == "matrix_powers" or isinstance(A, Ragged):
        return made  # type: ignore[no-any-return]  # sparse ones pickle with their matrix, ragged ones do not
    return repeatable(made, partial(plan, operation), {"A": A, "B": B, "out": out}, backend=backend, **options)


def _named(operation: str) -> PublicOperation:
    if operation not in registry.names():
        known = ", ".join(map(repr, registry.names()))
        raise ValueError(f"operation={operation!r}: there are {known}{registry.near(operation)}")
    return registry.named(operation)


def _check(operation: PublicOperation, B: Matrices, options: Options) -> None:
    """Options that the operation has, and as many operands as it needs."""
    unknown = [name for name in options if name not in operation.options]
    if unknown:
        known = f"; it has {', '.join(operation.options)}" if operation.options else ""
        raise TypeError(f"{operation.name} has no option {', '.join(unknown)}{known}")
    first, second = operation.operands
    if B is not None and not second:
        raise TypeError(f"{operation.name} takes {first} alone ({operation.text}): leave B out")
    if B is None and operation.required > 1:
        raise TypeError(f"{operation.name} takes {first} and {second} ({operation.text}): pass B")
