"""`plan` and `tune`: the same calls as the one-shot functions, held or measured instead of just run."""

from __future__ import annotations

from typing import Any

from ..plan.plan import Plan
from .gemm_call import plan_gemm
from .gram_call import plan_gram
from .tsm2r_call import plan_tsm2r
from .tsmm_call import plan_tsmm


def plan(
    operation: str,
    A: Any,
    B: Any = None,
    *,
    out: Any = None,
    conj: bool = True,
    deterministic: bool = True,
    backend: str | None = None,
) -> Plan:
    """A held call: `plan("gram", A, B)` chooses and compiles now; `plan(A, B)` runs, `.explain()` says what and why.

    Operations are `gram`, `tsmm`, `tsm2r` and `gemm` (stacks or lists of small matrices).

    Later arrays must have the same shapes, strides, dtype, alignment and device as the ones given here.
    """
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
        raise ValueError(f"operation={operation!r}: there are 'gram', 'tsmm', 'tsm2r' and 'gemm'")
    return plan_gram(A, None if B is A else B, out, conj, deterministic, backend)


def tune(operation: str, A: Any, B: Any = None, *, strategy: str = "top", limit: int = 24, conj: bool = True) -> Any:
    """Measure candidates for these arrays on their device and remember the winner for later calls.

    Every candidate is checked against the reference before it is timed. Returns the tuning result; calls planned
    before keep their kernel, new ones use the winner.
    """
    from ..tune.session import tune_problem
    from . import gemm_call, matmul, tall_skinny

    held = plan(operation, A, B, conj=conj)
    result = tune_problem(held.problem, held.backend, strategy=strategy, limit=limit)
    for held_plans in (tall_skinny._PLANS, matmul._RUNS, gemm_call._PLANS):
        held_plans.clear()
    return result
