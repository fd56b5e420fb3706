"""Problems and configurations that between them reach every branch of the tridiagonal kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import reduction_cases as common
from exact_values import exact_eigenvalues
from two_sided_cases import spectral

from mansard.kernels.factor.tridiagonal import spec
from mansard.kernels.factor.tridiagonal.space import Block, Config, Lanes, Panels
from mansard.plan.problem import Problem

P = spec.problem
CASES: list[tuple[Problem, Config]] = [
    (P("float64", 3, 30), Lanes(4, 1)),
    (P("float64", 8, 31), Lanes(8)),
    (P("float64", 13, 15, uplo="upper"), Lanes(8, 1, ROLL=4)),
    (P("float64", 13, 15, want="values", stack_a="strided"), Lanes(16, 1)),
    (P("complex128", 8, 29, stack_a="strided"), Lanes(8, ROLL=4)),
    (P("float32", 13, 29), Lanes(4, 1, ROLL=4)),
    (P("complex64", 13, 15, uplo="upper"), Lanes(16, 1)),
    (P("float64", 32, 15), Lanes(16, ROLL=4)),
    (P("float64", 33, 16), Block(2)),
    (P("complex128", 33, 16, uplo="upper"), Block(3)),
    (P("float64", 50, 16, want="values", stack_a="strided"), Block(4)),
    (P("float32", 50, 16, uplo="upper"), Block(2)),
    (P("complex64", 33, 16, want="values"), Block(6, 1)),
    (P("float64", 2, 17), Lanes(4, 1)),
    (P("float64", 40, 16), Panels(4, 2)),
    (P("float32", 33, 15, want="values", stack_a="strided"), Panels(16, 3)),
    (P("complex128", 13, 15, uplo="upper"), Panels(8, 1)),
    (P("float64", 2, 17), Panels(2, 1)),
]  # fmt: skip


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    return f"{config.VARIANT}-{problem.want}-{problem.dtype}-{problem.N}-{CASES.index(case)}"


def hidden_half(problem: Problem, A: Any) -> Any:
    """A with NaN where it must not be read: in the other triangle, and as imaginary parts of the diagonal."""
    N = problem.N
    other = np.triu(np.ones((N, N), bool), 1) if problem.uplo == "lower" else np.tril(np.ones((N, N), bool), -1)
    shown = np.where(other, np.nan, A).astype(problem.dtype)
    if problem.is_complex:
        shown.imag[:, np.arange(N), np.arange(N)] = np.nan
    return shown


def run(problem: Problem, config: Config | None, backend: str, A: Any) -> dict[str, Any]:
    """The kernel on a stack of Hermitian matrices."""
    shown, strides = hidden_half(problem, A), None
    if problem.stack_a == "strided":
        shown, strides = common.strided(problem, shown)
    found = common.launch(problem, config, backend, shown, strides)
    assert common.untouched(found, problem), (problem, config)
    return {name: array[: problem.BATCH] for name, array in found.items() if name != "A"}


def factors(problem: Problem, found: dict[str, Any]) -> tuple[Any, Any]:
    """Q and T, in double precision."""
    N, wide = problem.N, "complex128" if problem.is_complex else "float64"
    V = found["V"].reshape(-1, N, N).astype(wide)[:, : N - 2]
    inverses = np.real(np.diagonal(V, 0, 1, 2))
    vectors = np.where(np.arange(N) > np.arange(N - 2)[:, None], V, 0)
    Q = common.apply_reflectors(vectors, inverses)
    if problem.is_complex:
        Q = Q * common.phases(problem, found["PHASE"])[:, None, :]
    return Q, tridiagonal(found)


def tridiagonal(found: dict[str, Any]) -> Any:
    """T of each matrix, in double precision."""
    D, E = found["D"].astype("float64"), found["E"].astype("float64")[:, :-1]
    return np.stack([np.diag(d) + np.diag(e, 1) + np.diag(e, -1) for d, e in zip(D, E, strict=True)])


def check(problem: Problem, A: Any, found: dict[str, Any]) -> None:
    """Residual, orthogonality, eigenvalues, scale and info of finite matrices."""
    N, eps = problem.N, common.epsilon(problem)
    SA = common.scaled(A, found["SCALE"][:, 0])
    known = exact_eigenvalues(SA)
    size = np.abs(known).max(1).astype("float64")
    assert (found["INFO"] == 0).all() and common.is_scale(A, found["SCALE"][:, 0], problem)
    if problem.want == "vectors":
        Q, T = factors(problem, found)
        off = spectral(Q.conj().swapaxes(1, 2) @ SA @ Q - T)
        assert (off <= 3 * N * eps * size).all(), (problem, (off / (eps * N * size + 1e-300)).max())
        assert spectral(Q.conj().swapaxes(1, 2) @ Q - np.eye(N)).max() <= 5 * N * eps
    assert (np.abs(exact_eigenvalues(tridiagonal(found)) - known).max(1) <= 16 * eps * size).all()


def exact(problem: Problem, config: Config | None, backend: str) -> None:
    """Every kind of matrix, and two that are not finite: they are reported and change nothing else."""
    A = common.mixed(problem, hermitian=True)
    found = run(problem, config, backend, A)
    check(problem, A, found)
    spoiled = A.copy()
    spoiled[1, -1, -1], spoiled[problem.BATCH - 1, 0, 0] = np.nan, np.inf
    other = run(problem, config, backend, spoiled)
    bad = np.isin(np.arange(problem.BATCH), (1, problem.BATCH - 1))
    assert (other["INFO"][:, 0] == np.where(bad, problem.N + 1, 0)).all() and np.isnan(other["D"][bad]).all()
    for name, array in found.items():
        assert np.array_equal(array[~bad], other[name][~bad], equal_nan=True), name
