"""Problems and configurations that between them reach every branch of the bidiagonal kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import reduction_cases as common
from exact_values import exact_singular_values
from two_sided_cases import spectral

from mansard.kernels.factor.bidiagonal import spec
from mansard.kernels.factor.bidiagonal.space import Block, Config, Lanes, Panels
from mansard.plan.problem import Problem

P = spec.problem
CASES: list[tuple[Problem, Config]] = [
    (P("float64", 3, 30), Lanes(4, 1)),
    (P("float64", 8, 31), Lanes(8)),
    (P("float64", 13, 15), Lanes(8, 1, ROLL=4)),
    (P("float64", 13, 15, want="values", stack_a="strided"), Lanes(16, 1, ROLL=4)),
    (P("complex128", 8, 29, stack_a="strided"), Lanes(8, ROLL=4)),
    (P("float32", 13, 29), Lanes(4, 1, ROLL=4)),
    (P("complex64", 13, 15), Lanes(16, 1, ROLL=4)),
    (P("float64", 32, 15), Lanes(16, ROLL=4)),
    (P("float64", 33, 16), Block(2)),
    (P("complex128", 33, 16), Block(3, 1)),
    (P("float64", 50, 16, want="values", stack_a="strided"), Block(4)),
    (P("float32", 50, 16), Block(2)),
    (P("complex64", 33, 16, want="values"), Block(6, 1)),
    (P("float64", 2, 17), Lanes(4, 1)),
    (P("float64", 40, 16), Panels(4, 2)),
    (P("float32", 33, 15, want="values", stack_a="strided"), Panels(16, 3)),
    (P("complex128", 13, 15), Panels(8, 1)),
    (P("float64", 2, 17), Panels(2, 1)),
]  # fmt: skip


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.want}-{problem.dtype}-{problem.N}-{CASES.index(case)}"


def run(problem: Problem, config: Config | None, backend: str, A: Any) -> dict[str, Any]:
    """The kernel on a stack of matrices."""
    shown, strides = A.astype(problem.dtype), None
    if problem.stack_a == "strided":
        shown, strides = common.strided(problem, shown)
    found = common.launch(problem, config, backend, shown, strides)
    assert common.untouched(found, problem), (problem, config)
    return {name: array[: problem.BATCH] for name, array in found.items() if name != "A"}


def factors(problem: Problem, found: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Qu, B and Qv, in double precision."""
    N, wide = problem.N, "complex128" if problem.is_complex else "float64"
    sides = []
    for side, count in (("U", N - 1), ("V", N - 2)):
        first = np.arange(count)[:, None] + (side == "V")
        vectors = found[side].reshape(-1, N, N).astype(wide)[:, :count]
        vectors = np.where(np.arange(N) >= first, vectors, 0)
        Q = common.apply_reflectors(vectors, found[f"TAU_{side}"].astype("float64"))
        sides.append(Q * common.phases(problem, found[f"PHASE_{side}"])[:, None, :] if problem.is_complex else Q)
    return sides[0], bidiagonal(found), sides[1]


def bidiagonal(found: dict[str, Any]) -> Any:
    """B of each matrix, in double precision."""
    D, E = found["D"].astype("float64"), found["E"].astype("float64")[:, :-1]
    return np.stack([np.diag(d) + np.diag(e, 1) for d, e in zip(D, E, strict=True)])


def check(problem: Problem, A: Any, found: dict[str, Any]) -> None:
    """Residual, orthogonality, singular values, scale and info of finite matrices."""
    N, eps = problem.N, common.epsilon(problem)
    SA = common.scaled(A, found["SCALE"][:, 0])
    known = exact_singular_values(SA)
    size = np.abs(known).max(1).astype("float64")
    assert (found["INFO"] == 0).all() and common.is_scale(A, found["SCALE"][:, 0], problem)
    if problem.want == "vectors":
        left, B, right = factors(problem, found)
        off = spectral(left.conj().swapaxes(1, 2) @ SA @ right - B)
        assert (off <= 3 * N * eps * size).all(), (problem, (off / (eps * N * size + 1e-300)).max())
        for Q in (left, right):
            assert spectral(Q.conj().swapaxes(1, 2) @ Q - np.eye(N)).max() <= 5 * N * eps
    assert (np.abs(exact_singular_values(bidiagonal(found)) - known).max(1) <= 16 * eps * size).all()


def exact(problem: Problem, config: Config | None, backend: str) -> None:
    """Every kind of matrix, and two that are not finite: they are reported and change nothing else."""
    A = common.mixed(problem, hermitian=False)
    found = run(problem, config, backend, A)
    check(problem, A, found)
    spoiled = A.copy()
    spoiled[1, -1, 0], spoiled[problem.BATCH - 1, 0, -1] = np.nan, np.inf
    other = run(problem, config, backend, spoiled)
    bad = np.isin(np.arange(problem.BATCH), (1, problem.BATCH - 1))
    assert (other["INFO"][:, 0] == np.where(bad, problem.N + 1, 0)).all() and np.isnan(other["D"][bad]).all()
    for name, array in found.items():
        assert np.array_equal(array[~bad], other[name][~bad], equal_nan=True), name
