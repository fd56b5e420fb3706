"""What the tuner measures factorizations by: operands of known factors, which candidates must give back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_cases import BACKENDS
from sparing import rotated

import mansard as ms
from mansard.errors import UnsupportedProblem
from mansard.kernels.factor import cholesky, lu, qr
from mansard.plan.problem import Problem
from mansard.tune import verify
from mansard.tune.cases import make_case

pytestmark = rotated(2)

PROBLEMS = [
    cholesky.spec.problem("float64", 5, 40),
    cholesky.spec.problem("complex64", 9, 20, want="solve", NRHS=2, uplo="upper"),
    lu.spec.problem("float64", 6, 6, 33, layout_a="col"),
    lu.spec.problem("float32", 9, 9, 20, want="solve", NRHS=1, stack_a="pointers", stack_b="packed"),
    lu.spec.problem("complex128", 5, 5, 20, want="inverse"),
    lu.spec.problem("complex128", 5, 5, 20, want="determinant"),
    lu.spec.problem("float64", 6, 6, 33, want="logdet"),
    qr.spec.problem("float64", 6, 4, 20),
    qr.spec.problem("complex128", 6, 6, 20, want="reduced", stack_a="strided", stack_f="packed", stack_q="packed"),
]


def _host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: f"{problem.operation}-{problem.want}-{problem.dtype}")
def test_a_right_kernel_passes_and_a_wrong_result_does_not(problem: Problem, backend: str) -> None:
    engine = BACKENDS[backend].backend()
    case = make_case(problem, engine)
    verifier = verify.Verifier(case)
    assert bool(verifier.exact_cases) == (problem.operation != "qr" and problem.want != "logdet")
    config = case.family.defaults.default(problem, engine.device)
    wait = lambda: np.asarray(_host(case.xp.zeros(1)))  # noqa: E731
    verifier.exact(config, wait)
    out = case.poisoned()
    case.call(engine.prepare(case.kernel(config)), out)()
    wait()
    verifier.bounded(out)
    for spoilt in (np.nan, float(_host(abs(out).max())) * 1.01):
        wrong = out.copy()
        wrong[0, 0] = spoilt
        with pytest.raises(verify.Wrong, match="entry \\[0,0\\]"):
            verifier.bounded(wrong)


def test_what_cannot_be_tuned_is_said() -> None:
    with pytest.raises(UnsupportedProblem, match="only factor, solve, inverse, determinant, logdet can be tuned"):
        make_case(lu.spec.problem("float64", 3, 3, 5, want="swap"), BACKENDS["cpu"].backend())
    with pytest.raises(UnsupportedProblem, match="tune det"):
        make_case(lu.spec.problem("complex64", 3, 3, 5, want="logdet"), BACKENDS["cpu"].backend())


def test_tuning_a_stack(own_cache: Any) -> None:
    """From the face to a winner, on the CPU."""
    A = np.eye(4) * 4 + np.ones((300, 4, 4))
    result = ms.tune("cholesky", A, limit=2)
    assert result.winner is not None and result.winner.ok
    np.testing.assert_allclose(ms.linalg.cholesky(A), np.linalg.cholesky(A), rtol=1e-12, atol=1e-14)
