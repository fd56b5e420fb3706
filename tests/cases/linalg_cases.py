"""Matrices of all kinds, LAPACK's test ratios, and kernels of factorizations played by LAPACK, which take descriptions
of operands at their word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from batched_cases import at, matrices_at

import mansard.settings
from mansard import kernels as families
from mansard.operations.factor import lapack as factor_lapack
from mansard.operations.factor.kernel import POINTERS, STRIDED
from mansard.operations.factor.task import Sizes, Task, dtype_of
from mansard.plan.problem import REAL, Problem
from mansard.plan.route import Choice, Kernel, Library

WIDE = {"float32": "float64", "float64": "longdouble", "complex64": "complex128", "complex128": "clongdouble"}
KINDS = ("random", "graded", "ill", "deficient", "tiny", "huge", "identity")
FLAT = ("INFO", "PIVOTS", "TAU")
THRESHOLD = 30  # of LAPACK's own tests


def adjoint(array: Any) -> Any:
    return array.conj().swapaxes(-1, -2)


def normal(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else values).astype(dtype)


def matrix(rng: Any, kind: str, rows: int, columns: int, dtype: str) -> Any:
    """One matrix of a kind."""
    A, eps = normal(rng, (rows, columns), dtype), np.finfo(dtype).eps
    if kind == "graded":
        return (A * np.logspace(0, np.log10(eps), columns)).astype(dtype)
    if kind in ("ill", "deficient"):
        U, _, V = np.linalg.svd(A, full_matrices=False)
        values = np.logspace(0, np.log10(eps) + 1, min(rows, columns))
        values[-1] *= kind == "ill"
        return (U * values @ V).astype(dtype)
    if kind in ("tiny", "huge"):
        limit = np.log2(float(np.finfo(dtype).max))
        return (A * 2.0 ** (0.45 * limit * (1 if kind == "huge" else -1))).astype(dtype)
    return np.eye(rows, columns, dtype=dtype) if kind == "identity" else A


def positive(rng: Any, kind: str, n: int, dtype: str) -> Any:
    """A definite one of a kind; a rank-deficient one is lifted a little."""
    if kind == "identity":
        return np.eye(n, dtype=dtype)
    eps, wide = float(np.finfo(dtype).eps), WIDE[dtype]
    values = {"ill": np.logspace(0, np.log10(eps * n) + 1, n), "deficient": np.r_[np.ones(n - 1), 20 * n * eps]}
    Q = np.linalg.qr(normal(rng, (n, n), "complex128" if dtype.startswith("complex") else "float64"))[0].astype(wide)
    A = (Q * values.get(kind, np.linspace(1, 3, n))) @ adjoint(Q)
    if kind == "graded":
        scale = np.logspace(0, np.log10(eps) / 2, n)
        A = A * scale * scale[:, None]
    limit = np.log2(float(np.finfo(dtype).max))
    return (A * 2.0 ** (0.45 * limit * {"huge": 1, "tiny": -1}.get(kind, 0))).astype(dtype)


# ---- ratios: errors over what rounding explains -----------------------------------------------------------


def norm(array: Any) -> Any:
    """The largest sum of a column, of every matrix."""
    return np.abs(array).sum(-2).max(-1)


def ratio(error: Any, scale: Any, n: int, dtype: str) -> float:
    """The largest of a batch; anything that is not finite is infinitely wrong."""
    size, scale = norm(error), np.asarray(scale)
    size = np.where(size == 0, 0, size / np.where(scale == 0, 1, scale))
    found = (size / (n * np.finfo(dtype).eps)).max()
    return float(found) if np.isfinite(found) else float("inf")


def wide(array: Any) -> Any:
    return np.asarray(array).astype(WIDE[np.asarray(array).dtype.name])


def cholesky_ratio(A: Any, L: Any) -> float:
    a, factor = wide(A), wide(L)
    lower = np.tril(a) + adjoint(np.tril(a, -1))
    return ratio(factor @ adjoint(factor) - lower, norm(lower), A.shape[-1], A.dtype.name)


def lu_ratio(A: Any, F: Any, pivots: Any) -> float:
    rows, columns = A.shape[-2:]
    K = min(rows, columns)
    L = np.tril(wide(F)[..., :K], -1) + np.eye(rows, K)
    product = (L @ np.triu(wide(F)[..., :K, :])).copy()
    for index in np.ndindex(A.shape[:-2]):
        for i in reversed(range(K)):
            product[index][[i, pivots[index][i]]] = product[index][[pivots[index][i], i]]
    return ratio(product - wide(A), norm(wide(A)), max(rows, columns), A.dtype.name)


def qr_ratios(A: Any, Q: Any, R: Any) -> tuple[float, float]:
    dtype, rows = A.dtype.name, A.shape[-2]
    residual = ratio(wide(Q) @ wide(R) - wide(A), norm(wide(A)), rows, dtype)
    return residual, ratio(adjoint(wide(Q)) @ wide(Q) - np.eye(Q.shape[-1]), 1, rows, dtype)


def solve_ratio(A: Any, X: Any, B: Any) -> float:
    scale = norm(wide(A)) * norm(wide(X))
    return ratio(wide(A) @ wide(X) - wide(B), scale, A.shape[-1], A.dtype.name)


# ---- kernels played by LAPACK -----------------------------------------------------------------------------


class PlayedFactors:
    """Stands in for `call.prepare` and, as `choose`, for `dispatch.choose`. Other families have no kernels."""

    def __init__(self, widest: int = 64) -> None:
        self.widest, self.problems, self.launches = widest, list[Problem](), 0

    def choose(self, problem: Problem, device: Any) -> Choice:
        family = families.family_of(problem.operation)
        if problem.operation not in ("cholesky", "lu", "qr") or self.refused(problem):
            return Choice(family, Library("NumPy", "not played"), "rule")
        return Choice(family, Kernel("played", "played"), "model")

    def __call__(
        self, emit: Any, problem: Problem, backend: Any, strides: tuple[int, ...], choice: Choice | None = None
    ) -> Any:
        choice = choice or self.choose(problem, backend.device)
        if choice.config is None:
            return None, choice, None
        assert choice.config == "played"
        self.problems.append(problem)
        order = STRIDED[problem.operation]
        steps = {name: strides[3 * i : 3 * i + 3] for i, name in enumerate(order)}

        def launch(pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
            assert scalars == ()
            self.launches += 1
            self.play(problem, dict(zip(POINTERS[problem.operation], pointers, strict=True)), steps)

        return launch, choice, None

    def refused(self, problem: Problem) -> bool:
        return max(dict(problem.sizes).get("M", 0), problem.N) > self.widest and problem.want != "swap"

    def play(self, problem: Problem, pointers: dict[str, int], steps: dict[str, Any]) -> None:
        extra = {"upper": problem.uplo == "upper"} if problem.operation == "cholesky" else {}
        extra = {"pivot": problem.pivot} if problem.operation == "lu" else extra
        task = Task(problem.operation, problem.want, **extra)
        sizes = Sizes(dict(problem.sizes).get("M", problem.N), problem.N, problem.NRHS)
        places = {}
        for name, pointer in pointers.items():
            if name in steps and pointer:
                places[name] = self.matrices(problem, task, sizes, name, pointer, steps[name])
            elif pointer:
                shape = (problem.BATCH, *sizes.shape(task, name))
                dense = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
                places[name] = at(pointer, shape, dense, dtype_of(task, name, problem.dtype))
            else:
                assert (name not in task.parts and name not in steps) or steps[name] == (0, 0, 0)
        for i in range(problem.BATCH):
            right = places["B"][i] if "B" in places else None
            if task.want == "swap":
                places["F"][i][...] = exchanged(places["A"][i], places["PIVOTS"][i])
                continue
            for part, value in played_answer(task, places["A"][i].copy(), right).items():
                if part in FLAT and part in places:
                    places[part][i] = value
                elif part in places:
                    places[part][i][...] = value

    def matrices(
        self, problem: Problem, task: Task, sizes: Sizes, name: str, pointer: int, strides: tuple[int, ...]
    ) -> list[Any]:  # fmt: skip
        rows, columns = {"A": (sizes.M, sizes.N), "B": (sizes.M, sizes.NRHS)}.get(name) or (
            sizes.shape(task, name) or (1, 1)
        )
        side = name.lower()
        layout, stack, pitch = (getattr(problem, f"{trait}_{side}") for trait in ("layout", "stack", "pitch"))
        matrix, row, column = strides
        if layout != "any":
            assert (row, column) == ((pitch, 1) if layout == "row" else (1, pitch))
            assert pitch >= (columns if layout == "row" else rows)
        if stack == "packed":
            assert layout != "any" and pitch == (columns if layout == "row" else rows)
            assert problem.BATCH == 1 or matrix == rows * columns
        assert stack in ("packed", "strided", "pointers") and (stack != "strided" or problem.BATCH == 1 or matrix)
        dtype = REAL[problem.dtype] if (task.want, name) == ("logdet", "X") else problem.dtype
        return matrices_at(problem, stack, pointer, (rows, columns), strides, dtype)


def exchanged(A: Any, pivots: Any) -> Any:
    result = A.copy()
    for i, other in enumerate(pivots):
        result[[i, other]] = result[[other, i]]
    return result


def played_answer(task: Task, A: Any, B: Any) -> dict[str, Any]:
    if task.want != "panel":
        found = factor_lapack.answer(task, A, B)
        return found if task.family == "qr" else {"INFO": 0} | found
    found = factor_lapack.answer(task._replace(want="raw"), A, B)
    V, tau = np.tril(found["F"], -1) + np.eye(*A.shape), found["TAU"]
    T = np.zeros((len(tau), len(tau)), A.dtype)
    for i, factor in enumerate(tau):
        T[:i, i] = -factor * (T[:i, :i] @ (adjoint(V[:, :i]) @ V[:, i]))
        T[i, i] = factor
    return found | {"Q": T}


@pytest.fixture(name="libraries")
def by_libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What does not ask for a backend is answered by libraries: nothing is compiled."""
    monkeypatch.setenv("MANSARD_BACKEND", "reference")
    mansard.settings.reread()
    yield
    monkeypatch.undo()
    mansard.settings.reread()


def definite(rng: Any, lead: tuple[int, ...], n: int, dtype: str = "float64") -> Any:
    A = normal(rng, (*lead, n, n), dtype)
    return A @ adjoint(A) + n * np.eye(n, dtype=dtype)
