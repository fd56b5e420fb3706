"""`plan` and `tune`: the same calls as the one-shot functions, held or measured instead of just run."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..plan.plan import Plan
from .batched.gemm_call import plan_gemm
from .batched.gemv_call import form_of, plan_gemv
from .batched.triangular_call import plan_trmm, plan_trsm, triangle
from .factor.hold import plan_factorization
from .recipes import repeatable
from .tall_skinny.gram_call import plan_gram
from .tall_skinny.tsm2r_call import plan_tsm2r
from .tall_skinny.tsmm_call import plan_tsmm


def plan(
    operation: str,
    A: Any,
    B: Any = None,
    *,
    out: Any = None,
    conj: bool = True,
    deterministic: bool = True,
    backend: str | None = None,
    **options: Any,
) -> Plan:
    """A held call: `plan("gram", A, B)` chooses and compiles now; `plan(A, B)` runs, `.explain()` says what and why.

    Operations are `gram`, `tsmm`, `tsm2r` and, for stacks or lists of small matrices, `gemm`, `gemv`, `trsm` and
    `trmm`, the last three with BLAS's options (side, uplo, trans, diag), and the factorizations `cholesky`, `lu` and
    `qr`.

    Later arrays must have the same shapes, strides, dtype, alignment and device as the ones given here.

    A plan can be pickled, for another process say, which makes it again: it chooses and compiles for its own device.
    """
    made = _plan(operation, A, B, out, conj, deterministic, backend, options)
    operands = {"A": A, "B": B, "out": out}
    options |= {"conj": conj, "deterministic": deterministic, "backend": backend}
    return repeatable(made, partial(plan, operation), operands, **options)


def _plan(
    operation: str, A: Any, B: Any, out: Any, conj: bool, deterministic: bool, backend: str | None,
    options: dict[str, Any],
) -> Plan:  # fmt: skip
    if operation in ("cholesky", "lu", "qr"):
        return plan_factorization(operation, A, B, out, backend, **options)
    if operation in ("trsm", "trmm"):
        if B is None:
            raise TypeError(f"{operation} takes triangular matrices and what they act on: pass B")
        return (plan_trsm if operation == "trsm" else plan_trmm)(A, B, out, backend, triangle(**options))
    if operation == "gemv":
        if B is None:
            raise TypeError("gemv multiplies the matrices of A with vectors: pass B")
        return plan_gemv(A, B, out, backend, form_of(**options))
    if options:
        raise TypeError(f"{operation} has no option {', '.join(options)}")
    if operation == "tsmm":
        if B is None:
            raise TypeError("tsmm multiplies A with a small matrix: pass B")
        return plan_tsmm(A, B, out, backend)
    if operation == "tsm2r":
        if B is None:
            raise TypeError("tsm2r multiplies A with a skinny matrix: pass B")
        return plan_tsm2r(A, B, out, backend)
    if operation == "gemm":
        if B is None:
            raise TypeError("gemm multiplies the matrices of A with those of B: pass B")
        return plan_gemm(A, B, out, backend)
    if operation != "gram":
        known = ("gram", "tsmm", "tsm2r", "gemm", "gemv", "trsm", "trmm", "cholesky", "lu", "qr")
        raise ValueError(f"operation={operation!r}: there are {', '.join(map(repr, known))}")
    return plan_gram(A, None if B is A else B, out, conj, deterministic, backend)


def tune(
    operation: str, A: Any, B: Any = None, *, strategy: str = "top", limit: int = 24, conj: bool = True, **options: Any
) -> Any:
    """Measure candidates for these arrays on their device and remember the winner for later calls.

    Every candidate is checked against the reference before it is timed. Returns the tuning result; calls planned
    before keep their kernel, new ones use the winner.
    """
    from ..tune.session import tune_problem
    from .batched import gemm_call, gemv_call, triangular_call
    from .factor import plan as factor_plan
    from .tall_skinny import gram as tall_skinny
    from .tall_skinny import matmul

    held = plan(operation, A, B, conj=conj, **options)
    result = tune_problem(held.problem, held.backend, strategy=strategy, limit=limit)
    for module in (tall_skinny, gemm_call, gemv_call, triangular_call):
        module._PLANS.clear()
    for held_by in (matmul._RUNS, factor_plan._PLANS, factor_plan._QUICK):
        held_by.clear()
    return result
