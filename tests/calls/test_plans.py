"""One cache of plans for all operations, plans by the names that users call, and nothing compiled in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard.backends import cpu
from mansard.operations import planning
from mansard.operations.plans import PLANS, Plans

V, S, B = np.arange(30.0).reshape(10, 3), np.eye(3) * 2, np.ones((3, 3))
STACK, RIGHT = np.stack([np.eye(3) * 2] * 4), np.ones((4, 3, 2))
OPERANDS: dict[str, tuple[Any, ...]] = {
    "gram": (V,), "matmul": (V, S), "tsmm": (V, S), "tsm2r": (V, S), "gemm": (STACK, RIGHT),
    "gemv": (STACK, np.ones(3)),
    "trsm": (STACK, RIGHT), "trmm": (STACK, RIGHT), "cholesky": (STACK,), "lu": (STACK,), "lu_factor": (STACK,),
    "qr": (STACK,), "solve": (STACK, RIGHT), "inv": (STACK,), "det": (STACK,), "slogdet": (STACK,),
}  # fmt: skip
CALLS: dict[str, Any] = {
    "gram": ms.gram, "matmul": ms.matmul, "gemm": ms.blas.gemm, "gemv": ms.blas.gemv, "trsm": ms.blas.trsm,
    "trmm": ms.blas.trmm, "cholesky": ms.linalg.cholesky, "solve": ms.linalg.solve, "inv": ms.linalg.inv,
    "det": ms.linalg.det,
}  # fmt: skip


@needs_cpu
@pytest.mark.parametrize("name", planning._PLANNERS)
def test_every_operation_is_planned_by_its_name(name: str) -> None:
    plan = ms.plan(name, *OPERANDS[name])
    assert "runs" in plan.explain() and "because" in plan.explain()
    found = plan(*OPERANDS[name])
    if name in CALLS:
        first = found[0] if isinstance(found, tuple) else found
        assert np.array_equal(first, CALLS[name](*OPERANDS[name]))


def test_names_and_options_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="'solve'"):
        ms.plan("solv", STACK, RIGHT)
    with pytest.raises(TypeError, match="solve has no option trans"):
        ms.plan("solve", STACK, RIGHT, trans="T")
    with pytest.raises(TypeError, match="matmul multiplies A with another matrix: pass B"):
        ms.plan("matmul", V)


@needs_cpu
def test_nothing_is_compiled_where_the_library_answers(no_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers is decided before a compiler is called."""

    def compiled(*_: Any) -> None:
        raise AssertionError("a kernel was prepared")

    monkeypatch.setattr(cpu.CpuBackend, "prepare", compiled)
    square, large = np.ones((300, 300)), np.ones((3, 200, 200))
    for A, C in ((square, square), (large, large), (square, square[0]), (np.ones((2, 2), int), np.ones((2, 2), int))):
        assert np.array_equal(ms.matmul(A, C), A @ C)
        assert "library" in ms.plan("matmul", A, C).explain()


def test_a_cache_of_plans_is_bounded_and_forgets() -> None:
    plans = Plans(most=2)
    for key in "abc":
        plans.keep(key, key)
    assert len(plans) == 1 and plans.get("c") == "c"
    with ms.pin(TILE_M=1):
        plans.keep("d", "d")
        assert plans.made("c", lambda: "new") == "new"
    assert plans.get("d") is None and plans.made("c", lambda: "new") == "c"
    plans.forget()
    assert len(plans) == 0


@needs_cpu
def test_all_operations_share_the_cache(no_plans: None) -> None:
    for name, function in CALLS.items():
        before = len(PLANS)
        function(*OPERANDS[name])
        assert len(PLANS) > before, name
