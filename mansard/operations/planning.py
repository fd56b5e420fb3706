"""`plan` and `tune`: the same calls as the one-shot functions, held or measured instead of just run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..plan.plan import Plan
from .batched.gemm_call import plan_gemm
from .batched.gemv_call import form_of, plan_gemv
from .batched.triangular_call import plan_trmm, plan_trsm, triangle
from .factor.hold import plan_factorization
from .plans import PLANS
from .recipes import repeatable
from .tall_skinny import gram
from .tall_skinny.matmul import plan_matmul
from .tall_skinny.tsm2r_call import plan_tsm2r
from .tall_skinny.tsmm_call import plan_tsmm

Planner = Callable[..., Plan]  # (A, B, out, backend, **options)


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

    Operations have the names that users call: `gram`, `matmul`; for stacks or lists of small matrices `gemm`, `gemv`,
    `trsm` and `trmm`, the last three with BLAS's options (side, uplo, trans, diag); `cholesky`, `lu_factor`, `qr`,
    `solve`, `inv`, `det` and `slogdet`. `tsmm`, `tsm2r` and `lu` (with `want`) name a kernel family itself.

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
    if operation not in _PLANNERS:
        raise ValueError(f"operation={operation!r}: there are {', '.join(map(repr, _PLANNERS))}")
    if B is None and operation in _NEEDED:
        raise TypeError(f"{operation} {_NEEDED[operation]}: pass B")
    if operation == "gram":
        options = {"conj": conj, "deterministic": deterministic, **options}
    try:
        return _PLANNERS[operation](A, B, out, backend, **options)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise TypeError(f"{operation} has no option {', '.join(options)}") from None


def _gram(A: Any, B: Any, out: Any, backend: str | None, *, conj: bool, deterministic: bool) -> Plan:
    return gram.plan_gram(A, None if B is A else B, out, backend, gram.Form(conj, deterministic))


def _matmul(A: Any, B: Any, out: Any, backend: str | None) -> Plan:
    return plan_matmul(A, B, out, backend)


def _product(planner: Planner, A: Any, B: Any, out: Any, backend: str | None) -> Plan:
    return planner(A, B, out, backend)


def _gemv(A: Any, B: Any, out: Any, backend: str | None, **options: Any) -> Plan:
    return plan_gemv(A, B, out, backend, form_of(**options))


def _triangular(planner: Planner, A: Any, B: Any, out: Any, backend: str | None, **options: Any) -> Plan:
    return planner(A, B, out, backend, triangle(**options))


def _solve(A: Any, B: Any, out: Any, backend: str | None, *, assume_a: str = "gen", pivot: bool = True) -> Plan:
    if assume_a not in _FAMILIES:
        raise ValueError(f"assume_a={assume_a!r} is not one of {', '.join(map(repr, _FAMILIES))}")
    return plan_factorization(_FAMILIES[assume_a], A, B, out, backend, want="solve", pivot=pivot)


_FAMILIES = {"gen": "lu", "pos": "cholesky"}
_PLANNERS: dict[str, Planner] = {
    "gram": _gram,
    "matmul": _matmul,
    "tsmm": partial(_product, plan_tsmm),
    "tsm2r": partial(_product, plan_tsm2r),
    "gemm": partial(_product, plan_gemm),
    "gemv": _gemv,
    "trsm": partial(_triangular, plan_trsm),
    "trmm": partial(_triangular, plan_trmm),
    "cholesky": partial(plan_factorization, "cholesky"),
    "lu": partial(plan_factorization, "lu"),
    "lu_factor": partial(plan_factorization, "lu"),
    "qr": partial(plan_factorization, "qr"),
    "solve": _solve,
    "inv": partial(plan_factorization, "lu", want="inverse"),
    "det": partial(plan_factorization, "lu", want="determinant"),
    "slogdet": partial(plan_factorization, "lu", want="logdet"),
}
_NEEDED = {
    "matmul": "multiplies A with another matrix",
    "tsmm": "multiplies A with a small matrix",
    "tsm2r": "multiplies A with a skinny matrix",
    "gemm": "multiplies the matrices of A with those of B",
    "gemv": "multiplies the matrices of A with vectors",
    "trsm": "takes triangular matrices and what they act on",
    "trmm": "takes triangular matrices and what they act on",
    "solve": "takes matrices and right-hand sides",
}


def tune(
    operation: str, A: Any, B: Any = None, *, strategy: str = "top", limit: int = 24, conj: bool = True, **options: Any
) -> Any:
    """Measure candidates for these arrays on their device and remember the winner for later calls.

    Every candidate is checked against the reference before it is timed. Returns the tuning result; calls planned
    before keep their kernel, new ones use the winner.
    """
    from ..tune.session import tune_problem

    held = plan(operation, A, B, conj=conj, **options)
    result = tune_problem(held.problem, held.backend, strategy=strategy, limit=limit)
    PLANS.forget()
    return result
