"""Problems and configurations of the sweeps kernels, matrices of every difficult kind, and what must hold of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal, hessenberg
from two_sided_cases import rotations, spectral

from mansard import testing
from mansard.backends import cuda, emulated
from mansard.kernels.factor.sweeps import emit, space, spec
from mansard.kernels.factor.sweeps.space import Thread
from mansard.plan.problem import Problem

BACKENDS = {"cuda": cuda, "emulated": emulated}
KINDS = (
    "random", "clustered", "graded", "reverse graded", "rank deficient", "rank one", "identity", "minus identity",
    "zero", "wilkinson", "ones", "alternating", "rotations", "nan", "infinite",
)  # fmt: skip


def _problem(dtype: str, N: int, BATCH: int, form: str, want: str) -> Problem:
    capacity = spec.capacity(N) if want == "rotations" else 0
    return spec.problem(dtype, N, BATCH, capacity, form=form, want=want)


CASES: list[tuple[Problem, Thread]] = [
    (_problem("float64", 8, 70, "tridiagonal", "values"), Thread(64)),
    (_problem("float64", 8, 70, "tridiagonal", "rotations"), Thread(32)),
    (_problem("float64", 8, 70, "bidiagonal", "values"), Thread(64)),
    (_problem("float64", 8, 33, "bidiagonal", "rotations"), Thread(32)),
    (_problem("float32", 13, 31, "tridiagonal", "rotations"), Thread(32)),
    (_problem("float32", 13, 31, "bidiagonal", "rotations"), Thread(64)),
    (_problem("float64", 1, 3, "tridiagonal", "values"), Thread(32)),
    (_problem("float64", 2, 40, "tridiagonal", "rotations"), Thread(32)),
    (_problem("float64", 2, 40, "bidiagonal", "rotations"), Thread(64)),
    (_problem("float64", 3, 200, "tridiagonal", "values"), Thread(128)),
    (_problem("float32", 32, 14, "tridiagonal", "values"), Thread(32)),
    (_problem("float64", 33, 14, "tridiagonal", "rotations"), Thread(32)),
    (_problem("float64", 50, 14, "bidiagonal", "rotations"), Thread(32)),
    (_problem("float64", 20, 7, "bidiagonal", "rotations"), Thread(32, MATRICES_PER_BLOCK=2)),
    (_problem("float32", 50, 14, "bidiagonal", "values"), Thread(32)),
]


def case_id(case: tuple[Problem, Thread]) -> str:
    problem, config = case
    return f"{problem.dtype}-{problem.form}-{problem.want}-{problem.N}x{problem.BATCH}-{config.THREADS}"


# --- matrices -------------------------------------------------------------------------------------------------------


def dense(kind: str, n: int, seed: int) -> Any:
    """A matrix of a kind, neither symmetric nor reduced, with entries near one."""
    random = np.random.default_rng([seed, n])
    A = random.standard_normal((n, n))
    U, V = (np.linalg.qr(random.standard_normal((n, n)))[0] for _ in range(2))
    grades = np.logspace(0, -12, n)
    made = {
        "clustered": lambda: (U * (1 + 1e-14 * np.arange(n) + 0.5 * (np.arange(n) % 2))) @ V,
        "graded": lambda: A * np.sqrt(np.outer(grades, grades)),
        "reverse graded": lambda: A * np.sqrt(np.outer(grades, grades))[::-1, ::-1],
        "rank deficient": lambda: A[:, : max(1, n // 3)] @ random.standard_normal((max(1, n // 3), n)),
        "rank one": lambda: np.outer(A[0], A[0]),
        "identity": lambda: np.eye(n),
        "minus identity": lambda: -np.eye(n),
        "zero": lambda: np.zeros((n, n)),
        "ones": lambda: np.ones((n, n)),
        "alternating": lambda: np.diag((-1.0) ** np.arange(n)),
        "rotations": lambda: rotations(n),
    }
    return made.get(kind, lambda: A)()


def diagonals(kind: str, n: int, form: str, seed: int) -> tuple[Any, Any]:
    """Diagonal and off-diagonal (with one entry more, which is NaN) of a reduced matrix of a kind, largest entry 1."""
    if kind == "wilkinson":
        d, e = np.abs(np.arange(n) - (n - 1) / 2), np.ones(n)
    elif form == "tridiagonal":
        A = dense(kind, n, seed)
        H = hessenberg(A + A.T)
        d, e = np.diag(H).copy(), np.append(np.diag(H, -1), 0.0)
    else:
        d, e = _bidiagonal(dense(kind, n, seed))
    largest = max(np.abs(d).max(), np.abs(e[: n - 1]).max(initial=0.0))
    if largest > 0:
        d, e = d / largest, e / largest
    if kind in ("nan", "infinite"):
        (d if seed % 2 or n == 1 else e)[n // 3] = np.nan if kind == "nan" else -np.inf
    e[n - 1] = np.nan
    return d, e


def _bidiagonal(A: Any) -> tuple[Any, Any]:
    """Golub and Kahan's reduction by reflectors, in NumPy."""
    B, n = A.copy(), len(A)
    for k in range(n - 1):
        for M in (B[k:, k:], B[k:, k + 1 :].T):
            x = M[:, 0].copy()
            if len(x) > 1 and np.linalg.norm(x[1:]) > 1e-100:
                x[0] += np.copysign(np.linalg.norm(x), x[0])
                M -= np.outer(x, (2 / (x @ x)) * (x @ M))
    return np.diag(B).copy(), np.append(np.diag(B, 1), 0.0)


def stack(problem: Problem, seed: int = 0) -> tuple[Any, Any, list[str]]:
    """D and E of a batch that has all kinds in turn, and the kinds."""
    kinds = [KINDS[(m + seed) % len(KINDS)] for m in range(problem.BATCH)]
    made = [diagonals(kind, problem.N, problem.form, seed + m // len(KINDS)) for m, kind in enumerate(kinds)]
    D, E = (np.array([one[k] for one in made]).astype(problem.dtype) for k in range(2))
    return D, E, kinds


def whole(problem: Problem, d: Any, e: Any) -> Any:
    """The matrix in double precision."""
    upper = np.diag(d.astype("float64")) + np.diag(e[:-1].astype("float64"), 1)
    return upper + np.triu(upper, 1).T if problem.form == "tridiagonal" else upper


# --- runs -----------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What a launch left, as NumPy arrays."""

    W: Any
    left: Any
    right: Any
    ranges: Any
    count: Any
    info: Any


def run(
    problem: Problem, config: Thread, backend: str, D: Any, E: Any, shifts: Any = None, scale: Any = None
) -> Found:  # fmt: skip
    """One launch. Results begin as NaN, or as numbers that no kernel writes."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)
    assert space.illegal(problem, config, where.device) is None
    words = spec.record_words(problem.N, problem.BATCH, problem.CAPACITY)
    sides = (0, 0) if problem.want == "values" else (words, words if problem.form == "bidiagonal" else 0)
    left, right = (xp.full(size, np.nan, problem.dtype) for size in sides)
    W = xp.full((problem.BATCH, problem.N), np.nan, problem.dtype)
    ranges = xp.full((problem.BATCH, problem.CAPACITY), -7, "int32")
    count, info = (xp.full(problem.BATCH, -7, "int32") for _ in range(2))
    given = [None if one is None else xp.ascontiguousarray(xp.asarray(one)) for one in (D, E, shifts, scale)]
    arrays = (*given[:3], W, left, right, ranges, count, given[3], info)
    where.prepare(emit.kernel(problem, config, where.device))(tuple(map(address, arrays)), (), 0)
    where.synchronize()
    return Found(*(one if backend == "emulated" else one.get() for one in (W, left, right, ranges, count, info)))


def address(array: Any) -> int:
    if array is None:
        return 0
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def replayed(problem: Problem, found: Found, records: Any, matrix: int) -> Any:
    """The product of all recorded rotations of a matrix, in double precision."""
    Q = np.eye(problem.N)
    for sweep in range(found.count[matrix]):
        by = spec.records_of(records, problem, matrix, sweep).astype("float64")
        first, end = found.ranges[matrix, sweep] & 0xFFFF, found.ranges[matrix, sweep] >> 16
        assert 0 <= first < end < problem.N
        for i in range(end - 1, first - 1, -1):
            c, s = 1 + by[i, 0], by[i, 1]
            x, y = Q[:, i].copy(), Q[:, i + 1].copy()
            Q[:, i], Q[:, i + 1] = c * x - s * y, s * x + c * y
    return Q


# --- what must hold -------------------------------------------------------------------------------------------------


def expected_values(problem: Problem, D: Any, E: Any) -> Any:
    """Values of all (finite) matrices in ascending order, in extended precision where there is one: bisection around
    those of LAPACK. Singular values are eigenvalues of a tridiagonal matrix with d and e in turn off its diagonal."""
    D, E = D.astype("float64"), E[:, :-1].astype("float64")
    if problem.form == "tridiagonal":
        near = np.array([eigvalsh_tridiagonal(d, e) for d, e in zip(D, E, strict=True)])
        diagonal, off = D, E
    else:
        near = np.linalg.svd(np.array([np.diag(d) + np.diag(e, 1) for d, e in zip(D, E, strict=True)]))[1][:, ::-1]
        off = np.insert(D[:, 1:], np.arange(problem.N - 1), E, axis=1)
        diagonal, off = np.zeros((len(D), 2 * problem.N)), np.concatenate([D[:, :1], off], axis=1)
    squares, wide = off.astype("longdouble") ** 2, near.astype("longdouble")
    reach = 1e-13 * np.abs(near).max(axis=1, keepdims=True, initial=0.0)
    low, high = wide - reach, wide + reach
    below = np.arange(problem.N) + (0 if problem.form == "tridiagonal" else problem.N)
    for _ in range(18):
        middle = (low + high) / 2
        fewer = _eigenvalues_below(diagonal, squares, middle) <= below
        low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
    return (low + high) / 2


def _eigenvalues_below(diagonal: Any, squares: Any, x: Any) -> Any:
    """Number of eigenvalues below each x: negative pivots of T - x (Sturm)."""
    pivot = diagonal[:, :1] - x
    count = (pivot < 0).astype(int)
    for k in range(1, diagonal.shape[1]):
        pivot = np.where(pivot == 0, 1e-300, pivot)
        pivot = diagonal[:, k : k + 1] - x - squares[:, k - 1 : k] / pivot
        count += pivot < 0
    return count


def check_values(problem: Problem, found: Found, D: Any, E: Any, kinds: list[str], scale: Any = None) -> None:
    """Values are within 16 units of the norm; matrices that are not finite are NaN, and say so."""
    bad = np.array([kind in ("nan", "infinite") for kind in kinds])
    assert (found.info == np.where(bad, problem.N + 1, 0)).all() and np.isnan(found.W[bad]).all()
    own = found.W[~bad].astype("longdouble") * (1 if scale is None else scale[~bad, None])
    if problem.sorted:
        own = own if problem.form == "tridiagonal" else own[:, ::-1]
        assert (np.diff(own) >= 0).all()
    else:
        own = np.sort(own if problem.form == "tridiagonal" else np.abs(own))
    errors = values_error(problem, own, D[~bad], E[~bad])
    assert errors.max() <= 16, (kinds[np.flatnonzero(~bad)[errors.argmax()]], errors.max())


def values_error(problem: Problem, own: Any, D: Any, E: Any) -> Any:
    """Largest error of each matrix's sorted values, in units of the norm."""
    exact = expected_values(problem, D, E)
    norm = np.maximum(np.abs(exact).max(axis=1), np.finfo("float64").tiny)
    return np.abs(own - exact).max(axis=1) / norm / np.finfo(problem.dtype).eps


def check_rotations(problem: Problem, found: Found, D: Any, E: Any, kinds: list[str]) -> None:
    """The recorded rotations are orthogonal, and make the matrix diagonal."""
    eps, n = float(np.finfo(problem.dtype).eps), problem.N
    for m, kind in enumerate(kinds):
        if kind in ("nan", "infinite"):
            assert found.count[m] == 0
            continue
        A = whole(problem, D[m], E[m])
        Q = replayed(problem, found, found.left, m)
        V = Q if problem.form == "tridiagonal" else replayed(problem, found, found.right, m)
        for one in (Q, V):
            assert spectral(one.T @ one - np.eye(n)) <= 5 * n * eps, (m, kind)
        assert spectral(Q.T @ A @ V - np.diag(found.W[m])) <= 3 * n * eps * spectral(A), (m, kind)


def exact(problem: Problem, config: Thread, backend: str, seed: int = 0) -> None:
    """A batch of all kinds of matrices; rotations with the values of a first pass as shifts."""
    D, E, kinds = stack(problem, seed)
    if problem.want == "values":
        scale = (2.0 ** (np.arange(problem.BATCH) % 9 - 4)).astype(problem.dtype)
        check_values(problem, run(problem, config, backend, D, E, scale=scale), D, E, kinds, scale)
        return
    values = problem.replace(want="values", CAPACITY=0)
    first = run(values, config, backend, D, E)
    check_values(values, first, D, E, kinds)
    found = run(problem, config, backend, D, E, shifts=first.W)
    check_values(problem, found, D, E, kinds)
    check_rotations(problem, found, D, E, kinds)
