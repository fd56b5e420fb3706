"""Steps of refinement whose results are exact, and how launches of the refinement kernels are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from gemm_cases import address
from kernel_cases import BACKENDS, numbered
from systems_cases import integers

from mansard import testing
from mansard.kernels.factor.refinement import emit, space, spec, work
from mansard.kernels.factor.refinement.space import Columns, Config, Matrices, Update
from mansard.plan.problem import REAL, Problem

P = spec.problem
CASES: list[tuple[Problem, Config]] = [
    (P("float64", 37, 5), Matrices(2)),
    (P("complex128", 130, 3, want="narrow", layout="col"), Matrices(4)),
    (P("float64", 9, 7, NRHS=3, want="judge"), Columns(2)),
    (P("complex128", 34, 5, NRHS=2, want="update"), Update(2)),
    (P("float64", 40, 5, NRHS=5, want="start"), Columns(4)),
    (P("complex128", 5, 6, layout="col"), Matrices(1)),
    (P("float64", 200, 4, want="norms"), Matrices(8)),
    (P("complex128", 45, 6, NRHS=1, want="judge"), Columns(1)),
    (P("float64", 1, 70, NRHS=2, want="update"), Update(1)),
    (P("float64", 70, 4, layout="col"), Matrices(8)),
    (P("complex128", 3, 5, NRHS=4, want="start"), Columns(1)),
    (P("float64", 129, 3, want="norms", layout="col"), Matrices(2)),
]
case_id = numbered(CASES)
Arrays = dict[str, Any]


def launch(problem: Problem, config: Config, backend: str, given: Arrays, strides: tuple[int, ...]) -> Arrays:
    """What one launch leaves of these arrays, as NumPy arrays."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    held = {name: xp.array(np.ascontiguousarray(array)) for name, array in given.items()}
    pointers = tuple(address(held[name]) if name in held else 0 for name in emit.POINTERS)
    where.prepare(emit.kernel(problem, config, where.device, strides))(pointers, (), 0)
    where.synchronize()
    return {name: one if backend == "emulated" else one.get() for name, one in held.items()}


def exact(problem: Problem, config: Config, backend: str) -> None:
    """Integers times powers of two, whose sums and products by powers of two do not round."""
    check = _matrices if problem.want in spec.OF_MATRICES else _update if problem.want == "update" else _columns
    check(problem, config, backend, np.random.default_rng(3))


def _sizes(problem: Problem) -> Any:
    """SIZES that begin as NaN."""
    return np.full((problem.BATCH, 1 + 2 * problem.NRHS), np.nan)


def _exponent(size: Any) -> Any:
    return np.where(size > 0, np.clip(np.frexp(np.where(size > 0, size, 1.0))[1] - 1, -1000, 1000), -1000)


def _matrices(problem: Problem, config: Config, backend: str, rng: Any) -> None:
    """Norms and rounded matrices; one is zero, one has a NaN, one is large, one too large for powers of two."""
    N, batch, low = problem.N, int(problem.BATCH), spec.NARROW[problem.dtype]
    powers = rng.integers(-200, 200, batch)
    powers[3:4] = 1000
    A = integers(rng, (batch, N, N), problem.dtype) * 2.0 ** powers[:, None, None]
    A[0], A[1, N // 2, N - 1] = 0, np.nan
    norm = spec.one_norm(A).sum(-1).max(-1)
    norm[1] = np.nan
    by_columns, device = problem.layout_a == "col", BACKENDS[backend].backend().device
    row, column = (1, N) if by_columns else (N, 1)
    held = A.swapaxes(1, 2) if by_columns else A
    parts = work.parts(problem, device)
    rows = -(-N // parts)
    of_parts = np.array([[spec.one_norm(one[p * rows : (p + 1) * rows]).sum(-1).max() for p in range(parts)]
                         for one in A])  # fmt: skip
    given = {"A": held, "LOW": np.full(A.shape, np.nan, low), "SIZES": _sizes(problem),
             "PARTS": of_parts if problem.want == "narrow" else np.full((batch, parts), np.nan),
             "STATE": np.full(batch, -7, np.int32)}  # fmt: skip
    assert parts > 1 or problem.want == "whole"
    found = launch(problem, config, backend, given, (N * N, row, column, row, column))
    if problem.want == "norms":
        assert np.array_equal(found["PARTS"], of_parts, equal_nan=True) and (found["STATE"] == -7).all()
        return
    fits = (norm >= spec.LEAST) & (norm <= spec.MOST)
    assert not fits[:2].any() and (batch < 4 or not fits[3]) and fits[2]
    scale = np.where(fits, np.ldexp(1.0, -_exponent(np.where(fits, norm, 1.0))), 0.0)[:, None, None]
    rounded = np.where(fits[:, None, None], held * scale, 0).astype(low)
    assert np.array_equal(found["LOW"], rounded)
    assert np.array_equal(found["SIZES"][:, 0], norm, equal_nan=True)
    assert np.array_equal(found["STATE"], np.where(fits, spec.RUNNING, spec.FAILED))


def _columns(problem: Problem, config: Config, backend: str, rng: Any) -> None:
    """Sizes and rounded columns; who has converged by |r| before and after."""
    N, batch, sides, low = problem.N, int(problem.BATCH), problem.NRHS, spec.NARROW[problem.dtype]
    right = integers(rng, (batch, N, sides), problem.dtype) * 2.0 ** rng.integers(-300, 300, (batch, 1, sides))
    right[1, :, 0] = 0
    X = integers(rng, (batch, N, sides), problem.dtype)
    size, sizes = spec.size(right, 1), _sizes(problem)
    sizes[:, 0] = 4.0
    state = np.zeros(batch, np.int32)
    starts = problem.want == "start"
    if starts:
        right[2, N - 1, sides - 1] = np.inf
        size[2, sides - 1], state[3] = np.inf, spec.FAILED
        expected = np.where([False, False, True, True, *[False] * (batch - 4)], spec.FAILED, spec.RUNNING)
    else:
        sizes[:, 1 : 1 + sides] = of_b = np.full((batch, sides), 2.0**-310) + 2.0**50 * size
        sizes[0, 1], of_b[0, 0] = np.inf, np.inf  # no bound
        of_b[2:4] = sizes[2:4, 1 : 1 + sides] = np.sqrt(N) * size[2:4] * 2.0**51.5 / N**0.25  # between both bounds
        before = size * 4
        before[3] = size[3]  # no longer halves: has converged
        before[4], sizes[4, 1 : 1 + sides], of_b[4], X[4] = size[4] * 1.5, 0, 0, 0  # no longer halves: has failed
        sizes[:, 1 + sides :], state[-1] = before, spec.CONVERGED
        limit = 4.0 * spec.size(X, 1) + of_b
        X[2:4], limit[2:4] = 0, of_b[2:4]
        of_columns = np.vectorize(spec.state)(size, before, limit, N)
        expected = np.where((of_columns == spec.CONVERGED).all(-1), spec.CONVERGED,
                            np.where((of_columns == spec.FAILED).any(-1), spec.FAILED, spec.RUNNING))  # fmt: skip
        expected[-1] = spec.CONVERGED
    given = {"B" if starts else "R": right, "X": np.full(X.shape, np.nan, X.dtype) if starts else X,
             "LOW": np.full(X.shape, np.nan, low), "SIZES": sizes, "STATE": state}  # fmt: skip
    found = launch(problem, config, backend, given, (0, 0, 0, 0, 0))
    assert np.array_equal(found["STATE"], expected) and (starts or set(expected) == {0, 1, 2} or batch < 6)
    runs = np.full(batch, True) if starts else state == spec.RUNNING
    with np.errstate(invalid="ignore"):
        rounded = (right * np.ldexp(1.0, -_exponent(np.minimum(size, 2.0**1000)))[:, None]).astype(low)
    finite = runs & np.isfinite(size).all(-1)
    assert np.array_equal(found["LOW"][finite], rounded[finite])
    assert np.array_equal(found["SIZES"][runs, 1 + sides :], size[runs])
    assert np.array_equal(found["SIZES"][~runs], sizes[~runs]) and np.isnan(found["LOW"][~runs]).all()
    if starts:
        assert (found["X"] == 0).all() and np.array_equal(found["SIZES"][:, 1 : 1 + sides], size)


def _update(problem: Problem, config: Config, backend: str, rng: Any) -> None:
    """X grows by scaled corrections where matrices are running; R = B everywhere."""
    N, batch, sides, real = problem.N, int(problem.BATCH), problem.NRHS, REAL[problem.dtype]
    X, B, D = (integers(rng, (batch, N, sides), problem.dtype) for _ in range(3))
    sizes = np.ones((batch, 1 + 2 * sides), real) * 1.75
    sizes[:, 0] *= 2.0 ** rng.integers(-900, 900, batch)
    power = rng.integers(-3, 4, (batch, sides))
    sizes[:, 1 + sides :] = 1.5 * 2.0 ** (power + _exponent(sizes[:, :1]))
    state = rng.integers(0, 3, batch).astype(np.int32)
    state[:2] = spec.RUNNING, spec.FAILED
    given = {"X": X, "B": B, "R": np.full_like(X, np.nan), "LOW": D.astype(spec.NARROW[problem.dtype]),
             "SIZES": sizes, "STATE": state}  # fmt: skip
    found = launch(problem, config, backend, given, (0, 0, 0, 0, 0))
    grown = X + D * (2.0**power)[:, None]
    assert np.array_equal(found["X"], np.where((state == spec.RUNNING)[:, None, None], grown, X))
    assert np.array_equal(found["R"], B)
