"""What the tuner measures launches of two-sided factorizations by: right kernels pass, spoilt results do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_cases import BACKENDS

from mansard.errors import UnsupportedProblem
from mansard.kernels.factor import back_transform, bidiagonal, jacobi, sweeps, tridiagonal
from mansard.plan.problem import Problem
from mansard.tune import call, verify
from mansard.tune.cases import CASES, make_case

_ROOM = sweeps.spec.capacity(8)
PROBLEMS = [
    jacobi.spec.problem("float64", 4, 40),
    tridiagonal.spec.problem("float64", 8, 21),
    bidiagonal.spec.problem("float64", 8, 21),
    tridiagonal.spec.problem("float64", 8, 21, want="values"),
    sweeps.spec.problem("float64", 8, 40, form="tridiagonal"),
    sweeps.spec.problem("float64", 8, 40, _ROOM, form="bidiagonal", want="rotations"),
    back_transform.spec.problem("float64", 8, 21, _ROOM),
    back_transform.spec.problem("float64", 8, 21, _ROOM, side="right"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: "-".join(map(str, dict(problem.traits).values())))
def test_a_right_kernel_passes_and_a_wrong_result_does_not(problem: Problem, gpu_backend: str) -> None:
    engine = BACKENDS[gpu_backend].backend()
    case: Any = make_case(problem, engine)
    verifier = verify.Verifier(case)
    config = case.family.defaults.default(problem, engine.device)
    out = case.poisoned()
    verifier.exact(config, lambda: None)
    with pytest.raises(verify.Wrong):
        verifier.bounded(out)  # nothing is written yet
    case.call(engine.prepare(case.kernel(config)), out)()
    engine.synchronize(0)
    verifier.bounded(out)
    assert case.family.space.illegal(problem, config, engine.device) is None
    name = case.named.get("W") or case.named.get("Z") or case.named["D"]
    spoilt, begin = out.copy(), case.offsets()[name]
    spoilt[0, begin : begin + 8].view("float64")[...] += 1e-3
    with pytest.raises(verify.Wrong, match="random"):
        verifier.bounded(spoilt)


def test_batches_fit_the_scratch_memory() -> None:
    engine = BACKENDS["emulated"].backend()
    large = sweeps.spec.problem("float64", 64, 10**6, sweeps.spec.capacity(64), want="rotations")
    fitted = CASES["sweeps"].fitted(large, engine)
    assert 128 <= fitted.BATCH < 10_000 and fitted.BATCH % 128 == 0
    few = large.replace(BATCH=7)
    assert CASES["sweeps"].fitted(few, engine) == few
    with pytest.raises(UnsupportedProblem, match="without gaps"):
        make_case(tridiagonal.spec.problem("float64", 8, 5, stack_a="strided"), engine)


def test_every_launch_of_a_function_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Problem] = []
    monkeypatch.setattr(call, "tune_problem", lambda problem, backend, **_: asked.append(problem))
    A = np.zeros((40, 8, 8))
    call.tune("svd", A, backend="emulated", driver="qr")
    names = [(problem.operation, getattr(problem, "want", getattr(problem, "side", ""))) for problem in asked]
    assert names == [("bidiagonal", "vectors"), ("sweeps", "values"), ("sweeps", "rotations"),
                     ("back_transform", "left"), ("back_transform", "right")]  # fmt: skip
    for problem in asked:
        make_case(problem, BACKENDS["emulated"].backend())
