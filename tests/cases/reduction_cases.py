"""Matrices and launches for the reductions to tridiagonal and bidiagonal form."""

from __future__ import annotations

from typing import Any

import numpy as np
from two_sided_cases import rotations

from mansard import testing
from mansard.backends import cuda, emulated
from mansard.kernels import family_of
from mansard.plan.problem import REAL, Problem

BACKENDS = {"cuda": cuda, "emulated": emulated}
KINDS = (
    "random", "clustered", "graded", "rank-deficient", "identity", "zero", "negative", "signs", "wilkinson", "ones",
    "huge", "tiny", "subnormal", "diagonal", "steep", "rotations",
)  # fmt: skip


def phases(problem: Problem, values: Any) -> Any:
    """Phases in double precision, of modulus one whatever the number of factors: columns of Q are as long as they."""
    wide = values.astype("complex128")
    off = np.abs(np.abs(wide) - 1)
    assert (off[np.isfinite(off)] <= 2 * epsilon(problem)).all(), (problem, off.max() / epsilon(problem))
    return wide


def epsilon(problem: Problem) -> float:
    return float(np.finfo(REAL[problem.dtype]).eps)


def random(problem: Problem, seed: int = 0) -> Any:
    """A stack of general matrices, in double precision."""
    rng, shape = np.random.default_rng(seed), (problem.BATCH, problem.N, problem.N)
    A = rng.standard_normal(shape)
    return A + 1j * rng.standard_normal(shape) if problem.is_complex else A


def kind(problem: Problem, name: str, A: Any, hermitian: bool) -> Any:
    """A matrix of the named kind, made from the general matrix A."""
    n = problem.N
    # entries of a steep matrix end where their squares are negligible
    steep = np.geomspace(1, 1e-73 if epsilon(problem) < 1e-10 else 1e-9, n)
    large, least = (1e150, 2.0**-1060) if epsilon(problem) < 1e-10 else (1e18, 2.0**-145)
    Q, P = np.linalg.qr(A)[0], np.linalg.qr(A.T)[0]
    right = Q if hermitian else P
    general = (A + A.conj().T) / 2 if hermitian else A
    made = {
        "random": lambda: general,
        "clustered": lambda: (Q * (1 + 1e-10 * np.arange(n))) @ right.conj().T,
        "graded": lambda: general * np.outer(2.0 ** -np.arange(n), 2.0 ** -np.arange(n)),
        "rank-deficient": lambda: A[:, : max(1, n // 3)] @ (A if hermitian else A.conj())[:, : max(1, n // 3)].conj().T,
        "identity": lambda: np.eye(n),
        "zero": lambda: np.zeros((n, n)),
        "negative": lambda: -np.eye(n),
        "signs": lambda: np.diag((-1.0) ** np.arange(n)),
        "wilkinson": lambda: np.diag(np.abs(np.arange(n) - n // 2) * 1.0) + np.eye(n, k=1) + np.eye(n, k=-1),
        "ones": lambda: np.ones((n, n)),
        "huge": lambda: general * large,
        "tiny": lambda: general / large,
        "subnormal": lambda: np.clip(np.round(np.real(general) * 4), -9, 9) * least,
        "steep": lambda: general * np.outer(steep, steep),
        "rotations": lambda: rotations(n, hermitian),
        "diagonal": lambda: np.diag(np.real(np.diagonal(general))),
    }
    return made[name]()


def mixed(problem: Problem, hermitian: bool, seed: int = 0) -> Any:
    """A stack in which every kind of matrix has its turn, in the problem's dtype."""
    A = random(problem, seed)
    return np.stack([kind(problem, KINDS[m % len(KINDS)], A[m], hermitian) for m in range(problem.BATCH)]).astype(
        problem.dtype
    )


def launch(problem: Problem, config: Any, backend: str, A: Any, strides: tuple[int, ...] | None = None) -> Any:
    """What the kernel leaves, by the names of its pointers, as NumPy arrays; results start as NaN, or as -7.

    A is a stack, or (with `strides`) a buffer in which the matrices lie by these strides of matrices, rows, columns.
    """
    family, where = family_of(problem.operation), BACKENDS[backend].backend()
    config = config or family.defaults.default(problem, where.device)
    reason = family.space.illegal(problem, config, where.device)
    assert reason is None, reason
    kernel = family.emit.kernel(problem, config, where.device, strides or family.spec.strides(problem))
    xp, given = testing.array_module(backend), results(problem, config)
    given = {name: xp.asarray(array) for name, array in given.items()}
    given["A"] = xp.ascontiguousarray(xp.asarray(A))
    pointers = family.spec.POINTERS  # type: ignore[attr-defined]
    where.prepare(kernel)(tuple(_address(given[name]) if name in given else 0 for name in pointers), (), 0)
    where.synchronize()
    return {name: array.get() if backend == "cuda" else array for name, array in given.items()}


def results(problem: Problem, config: Any = None) -> dict[str, Any]:
    """Arrays for the results of a problem, with a guard of one matrix behind each stack."""
    family, N, real = family_of(problem.operation), problem.N, REAL[problem.dtype]
    shapes: dict[str, Any] = {"D": (N, real), "E": (N, real), "SCALE": (1, real)}
    if problem.want == "vectors":
        shapes |= {"V": (N * N, problem.dtype), "U": (N * N, problem.dtype)}
        shapes |= {"TAU_U": (N, real), "TAU_V": (N, real)}
        if problem.is_complex:
            shapes |= {name: (N, problem.dtype) for name in ("PHASE", "PHASE_U", "PHASE_V")}
    names = family.spec.POINTERS  # type: ignore[attr-defined]
    if config is not None and config.VARIANT == "panels":  # the matrix is reduced in the first array of reflectors
        shapes["U" if "U" in names else "V"] = (N * N, problem.dtype)
    found = {
        name: np.full((problem.BATCH + 1, length), np.nan, dtype)
        for name, (length, dtype) in shapes.items()
        if name in names
    }
    return found | {"INFO": np.full((problem.BATCH + 1, 1), -7, "int32")}


def untouched(found: dict[str, Any], problem: Problem) -> bool:
    """Whether nothing was written behind the last matrix."""
    guards = {name: array[problem.BATCH :] for name, array in found.items() if name != "A"}
    return all(bool((guard == -7).all() if name == "INFO" else np.isnan(guard).all()) for name, guard in guards.items())


def strided(problem: Problem, A: Any, aligned: bool = False) -> tuple[Any, tuple[int, ...]]:
    """A as column-major matrices with gaps between columns and matrices, which are NaN, and their strides."""
    N, pitch = problem.N, problem.N + 3
    matrix = N * pitch + 5
    buffer = np.full(problem.BATCH * matrix, np.nan, problem.dtype)
    steps = (matrix, 1, pitch)
    view = np.lib.stride_tricks.as_strided(buffer, A.shape, tuple(step * A.itemsize for step in steps))
    view[...] = A
    return buffer, steps


def apply_reflectors(vectors: Any, inverses: Any) -> Any:
    """H_0 H_1 ... with H_k = I - u_k u_k^H inverse_k, for a stack of rows u_k."""
    count, _, N = vectors.shape
    Q = np.broadcast_to(np.eye(N, dtype=vectors.dtype), (count, N, N)).copy()
    for k in range(vectors.shape[1]):
        u = vectors[:, k]
        Q -= (Q @ u[:, :, None]) * inverses[:, k, None, None] * u.conj()[:, None, :]
    return Q


def scaled(A: Any, scale: Any) -> Any:
    """A times its scale, in double precision."""
    wide = "complex128" if np.iscomplexobj(A) else "float64"
    return np.asarray(A, wide) * np.asarray(scale, "float64")[:, None, None]


def is_scale(A: Any, scale: Any, problem: Problem) -> bool:
    """Whether every scale is the power of two that the largest part of its matrix asks for."""
    parts = np.maximum(np.abs(np.real(A)), np.abs(np.imag(A))).reshape(len(A), -1).max(1).astype("float64")
    least = float(np.finfo(REAL[problem.dtype]).smallest_normal)
    after, powers = parts * scale, np.frexp(scale)[0] == 0.5
    normal = (after >= 0.5) & (after < 1)
    return bool((powers & np.where(parts == 0, scale == 1, normal | ((parts < least) & (after < 1)))).all())


def _address(array: Any) -> int:
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(array.data.ptr)
