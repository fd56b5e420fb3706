"""`mansard bench solvers`: every contender solves the same problem, and the table compares them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
from conftest import needs_cpu

from mansard.bench import applications
from mansard.bench.solvers import bench


@needs_cpu
@pytest.mark.parametrize("method", bench.METHODS)
def test_contenders_solve_the_same(method: str) -> None:
    case = bench.Case(method, 7)
    found = [bench.measure(case, one, 1, 0.0) for one in bench.contenders("cpu", True)]
    assert [row["solver"] for row in found] == ["mansard", "mansard, matrix of the library", "library"]
    assert all(row["samples"] == 1 and 0 < row["fastest"] <= row["slowest"] for row in found)
    assert found[0]["iterations"] == found[1]["iterations"] > 1 and found[2]["iterations"] > 1
    assert all(row["residual"] <= 1.01 * row["tolerance"] for row in found)
    (product,) = found[0]["products"]
    product["bound"] = product["seconds"] / 2
    table = bench.table(found)
    assert table.cells[0][0] == f"{method}, 7^3" and table.cells[0][-2:] == ("1.00", "50%")
    assert float(table.cells[2][-2]) == pytest.approx(found[2]["median"] / found[0]["median"], abs=0.01)


def _noting(solver: Callable[..., Any], name: str, solved: list[str]) -> Callable[..., Any]:
    @wraps(solver)
    def noted(*given: Any, **more: Any) -> Any:
        solved.append(name)
        return solver(*given, **more)

    return noted


@needs_cpu
def test_windows_of_joules_repeat_a_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solve that is timed, by the solver of the contender."""
    solved: list[str] = []
    for module, contender in ((bench.ours, "mansard"), (scipy.sparse.linalg, "library")):
        monkeypatch.setattr(module, "cg", _noting(module.cg, contender, solved))
        call = bench.work(bench.Case("cg", 7), ("numpy", contender))
        solved.clear()
        call(), call()
        assert solved == [contender] * 2


def test_preconditioner_is_the_same_polynomial_and_positive() -> None:
    problem = bench._Problem(bench.Case("lobpcg", 5), "numpy")
    ours, theirs = (problem._preconditioner(is_peer, problem.A)(problem.X) for is_peer in (False, True))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    x = np.linspace(1e-3, 12, 1000)
    p = np.polynomial.Chebyshev(bench.polynomial(7, 0.4, 12.0), [0, 12])(x)
    assert (p > 0).all() and (abs(1 - x * p)[x > 0.4] < 0.11).all() and abs(1 - x * p).max() < 1


def test_sets_and_devices() -> None:
    assert applications.load("solvers").SETS == bench.SETS
    assert [case.name for case in bench.cases("full", "cpu")] == [f"{one}, 100^3" for one in bench.METHODS]
    assert bench.cases("sizes", "cuda")[-1] == bench.Case("cg", 200)
    assert bench.contenders("cuda", False) == [("cupy", "mansard"), ("cupy", "mansard, matrix of the library")]
