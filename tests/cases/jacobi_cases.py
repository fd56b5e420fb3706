"""Matrices of all kinds in one batch, and how launches of the jacobi kernels are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gemm_cases
import numpy as np
from exact_values import exact_eigenvalues, exact_singular_values
from gemm_cases import Stack, address
from kernel_cases import BACKENDS
from linalg_cases import WIDE, adjoint, normal
from two_sided_cases import rotations, spectral

from mansard import testing
from mansard.kernels.batched.gemm import spec as gemm_spec
from mansard.kernels.factor.jacobi import defaults, emit, space, spec
from mansard.kernels.factor.jacobi.space import Block, Config, Threads
from mansard.plan.problem import REAL, Problem

P = spec.problem
_STRIDED: dict[str, Any] = {"stack_a": "strided"}
CASES: list[tuple[Problem, Config]] = [
    # every size, tails of a tile, records of odd and even length
    (P("float64", 1, 65), Threads(32)),
    (P("float64", 2, 131), Threads(128, SHEARS=False)),
    (P("float64", 3, 67), Threads(64)),
    (P("float64", 4, 70), Threads(32)),
    (P("float64", 5, 33), Threads(32, SHEARS=False)),
    (P("float64", 6, 31), Threads(32)),
    (P("float64", 7, 65), Threads(64, "shared")),
    (P("float64", 8, 40), Threads(32)),
    (P("float64", 1, 33, want="svd"), Threads(32)),
    (P("float64", 2, 129, want="svd"), Threads(128)),
    (P("float64", 3, 67, want="svd"), Threads(64, "shared")),
    (P("float64", 4, 40, want="svd"), Threads(32, SHEARS=False)),
    (P("float64", 5, 40, want="svd"), Threads(32)),
    (P("float64", 6, 31, want="svd"), Threads(32, "shared", SHEARS=False)),
    (P("float64", 7, 33, want="svd"), Threads(32)),
    (P("float64", 8, 65, want="svd"), Threads(64, "shared")),
    # values alone
    (P("float64", 3, 70, want="eigvalsh"), Threads(64)),
    (P("float64", 8, 33, want="eigvalsh"), Threads(32)),
    (P("float64", 4, 33, want="svdvals"), Threads(32)),
    (P("float64", 7, 33, want="svdvals"), Threads(32)),
    # the other dtypes
    (P("float32", 2, 131), Threads(128)),
    (P("float32", 7, 33), Threads(32)),
    (P("float32", 3, 67, want="svd"), Threads(64)),
    (P("float32", 8, 33, want="svd"), Threads(32)),
    (P("float32", 5, 33, want="eigvalsh"), Threads(32)),
    (P("float32", 6, 33, want="svdvals"), Threads(32)),
    (P("complex64", 3, 67), Threads(64)),
    (P("complex64", 8, 33), Threads(32, "shared")),
    (P("complex64", 4, 40, want="svd"), Threads(32)),
    (P("complex64", 7, 33, want="svd"), Threads(32, "shared")),
    (P("complex128", 1, 33), Threads(32)),
    (P("complex128", 2, 40), Threads(32)),
    (P("complex128", 6, 33), Threads(32, "shared")),
    (P("complex128", 5, 33, want="eigvalsh"), Threads(32)),
    (P("complex128", 3, 40, want="svd"), Threads(32)),
    (P("complex128", 8, 33, want="svd"), Threads(32, "shared")),
    (P("complex128", 4, 33, want="svdvals"), Threads(32)),
    # triangles, layouts, pitches, stacks
    (P("float64", 5, 40, uplo="upper"), Threads(32)),
    (P("complex128", 4, 40, uplo="upper"), Threads(32)),
    (P("complex64", 5, 40, layout_a="col"), Threads(32)),
    (P("complex128", 3, 40, layout_a="col", uplo="upper", want="eigvalsh"), Threads(32)),
    (P("float64", 4, 40, layout_a="col", want="svd"), Threads(32)),
    (P("float64", 3, 40, pitch_a=5, **_STRIDED), Threads(32)),
    (P("complex64", 4, 40, pitch_a=7, want="svd", **_STRIDED), Threads(32)),
    (P("complex128", 3, 40, layout_a="any", uplo="upper", **_STRIDED), Threads(32)),
    (P("float32", 6, 40, stack_a="pointers"), Threads(32)),
    (P("float64", 2, 40, stack_a="pointers", layout_a="col", want="svdvals"), Threads(32)),
    # a block per matrix: one warp and several, odd numbers of columns, idle teams, whole and partial pieces
    (P("float64", 2, 17, want="svd"), Block(4)),
    (P("float64", 3, 17, want="svd"), Block(32)),
    (P("float64", 9, 17, want="svd"), Block(4)),
    (P("float64", 9, 17, want="svd", pitch_a=11, **_STRIDED), Block(8, "shared")),
    (P("float64", 16, 17, want="svd"), Block(4)),
    (P("float64", 16, 17, want="svd", layout_a="col"), Block(8, "shared")),
    (P("float64", 17, 17, want="svd"), Block(8)),
    (P("float64", 32, 17, want="svd"), Block(8)),
    (P("float64", 33, 17, want="svd"), Block(16)),
    (P("float64", 50, 17, want="svd"), Block(8)),
    (P("float64", 16, 17, want="svdvals", stack_a="pointers"), Block(8)),
    (P("float64", 33, 17, want="svdvals"), Block(8)),
    (P("float32", 9, 17, want="svd"), Block(8)),
    (P("float32", 16, 17, want="svd"), Block(4, "shared")),
    (P("float32", 17, 17, want="svdvals"), Block(8)),
    (P("float32", 33, 17, want="svd"), Block(8)),
    (P("complex64", 9, 17, want="svd", stack_a="pointers"), Block(8)),
    (P("complex64", 17, 17, want="svd"), Block(8, "shared")),
    (P("complex64", 32, 17, want="svd", layout_a="any", **_STRIDED), Block(8)),
    (P("complex128", 9, 17, want="svd"), Block(4)),
    (P("complex128", 16, 17, want="svdvals"), Block(8)),
    (P("complex128", 33, 17, want="svd"), Block(8)),
]  # fmt: skip
KINDS = (
    "random", "clustered", "graded", "deficient", "identity", "zero", "wilkinson", "ones", "tiny", "huge", "negative",
    "signs", "permuted", "rotations", "nan", "inf",
)  # fmt: skip


def case_id(case: tuple[Problem, Any]) -> str:
    problem, config = case
    place = f"{problem.layout_a}-{problem.stack_a}-{problem.uplo}"
    shape = f"{getattr(config, 'VARIANT', 'rule')}-{getattr(config, 'VECTORS', '')}"
    return f"{problem.dtype}-{problem.want}-{problem.N}-{place}-{shape}"


# --- matrices ----------------------------------------------------------------------------------------------------


def matrix(rng: Any, kind: str, n: int, dtype: str, hermitian: bool) -> Any:
    """One matrix of a kind, in double precision or of the dtype's own range."""
    wide = "complex128" if dtype.startswith("complex") else "float64"
    eps, largest = float(np.finfo(dtype).eps), 1e150 if np.finfo(dtype).bits == 64 else 1e18
    diagonals = {
        "clustered": 1 + np.arange(n) * 8 * eps, "graded": np.logspace(0, 2 * np.log10(eps), n),
        "deficient": np.where(np.arange(n) < n // 2, 1.0 + np.arange(n), 0),
    }  # fmt: skip
    if kind in diagonals:
        Q, S = (np.linalg.qr(normal(rng, (n, n), wide))[0] for _ in range(2))
        return (Q * diagonals[kind]) @ adjoint(Q if hermitian else S)
    fixed = {
        "identity": np.eye(n), "zero": np.zeros((n, n)), "ones": np.ones((n, n)), "negative": -np.eye(n),
        "wilkinson": np.diag(abs(np.arange(n) - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1),
        "signs": np.diag((-1.0) ** np.arange(n)), "permuted": np.eye(n)[::-1],
        "rotations": rotations(n, hermitian),
    }  # fmt: skip
    if kind in fixed:
        return fixed[kind].astype(wide)
    A = normal(rng, (n, n), wide)
    A = A + adjoint(A) if hermitian else A
    A = A * {"tiny": 1 / largest, "huge": largest}.get(kind, 1)
    if kind in ("nan", "inf"):
        A[n - 1, 0] = A[0, n - 1] = np.nan if kind == "nan" else -np.inf
    return A


def hostile(rng: Any, n: int, dtype: str) -> dict[str, Any]:
    """General matrices that need more than the norm's scale: null and parallel columns, columns and rows of all
    magnitudes that the dtype has, entries near its limits."""
    wide, limits = ("complex128" if dtype.startswith("complex") else "float64"), np.finfo(dtype)
    eps, least, i = float(limits.eps), float(limits.tiny), np.arange(n)
    some = lambda: normal(rng, (n, n), wide)  # noqa: E731  a fresh one each time
    grades, null, equal, alternating = np.logspace(0, np.log10(least), n), some(), some(), some()
    null[:, [1, n // 2, n - 1]], equal[:, ::2] = 0, equal[:, :1]
    alternating[:, ::2] *= 100 * least
    alternating[:, 1::2] *= float(limits.max) ** 0.5
    return {
        "null columns": null, "null rows": null.T, "equal columns": equal, "both ends": alternating,
        "one column": some() * (i == 0), "one entry": 3.0 * np.outer(i == n // 2, i == n - 1),
        "rank one": np.outer(some()[0], some()[0]), "almost": np.outer(some()[0], some()[0]) + eps * some(),
        "parallel": np.ones((n, n)) + np.sqrt(eps) * some(), "more parallel": np.ones((n, n)) + eps * some(),
        "column grades": some() * grades, "columns upwards": some() * grades[::-1],
        "row grades": some() * grades[:, None],
        "kahan": 0.5 ** i[:, None] * (np.eye(n) - 0.75**0.5 * np.triu(np.ones((n, n)), 1)),
        "hilbert": 1 / (i[:, None] + i + 1), "jordan": np.eye(n, k=1) + 1e-9 * np.eye(n), "-0": -0.0 * np.ones((n, n)),
        "integers": rng.integers(-1, 2, (n, n)), "sparse": some() * (rng.random((n, n)) < 0.2),
        "largest": np.sign(some().real) * float(limits.max) / (2 * n), "smallest": some() * 4 * least,
    }  # fmt: skip


def stack(problem: Problem, seed: int = 0, kinds: tuple[str, ...] = KINDS) -> Any:
    """A batch that mixes all kinds; half of it is random."""
    rng, hermitian = np.random.default_rng(seed), not spec.is_svd(problem)
    chosen = [kinds[rng.integers(len(kinds))] if i % 2 else "random" for i in range(problem.BATCH)]
    chosen[-len(kinds) :] = kinds[: len(chosen[-len(kinds) :])]
    made = [matrix(rng, kind, problem.N, problem.dtype, hermitian) for kind in chosen]
    return np.array(made).astype(problem.dtype).reshape(problem.BATCH, problem.N, problem.N)


# --- launches ----------------------------------------------------------------------------------------------------


@dataclass
class Result:
    """What a kernel left behind, on the host; Z and VH are None where they are not wanted."""

    W: Any
    Z: Any
    VH: Any
    info: Any


def stack_of(problem: Problem, xp: Any, values: Any) -> Stack:
    """`values` as the operand A; everything between the entries is NaN."""
    traits = {f"{trait}_c": getattr(problem, f"{trait}_a") for trait in ("layout", "pitch", "stack")}
    alike = gemm_spec.problem(problem.dtype, problem.N, problem.N, 1, problem.BATCH, **traits)
    return gemm_cases.stack_of(alike, "c", xp, xp.asarray(values))


def launch(problem: Problem, config: Config | None, backend: str, A: Any) -> Result:
    """The kernel itself, or (None) the one that rules choose. Results begin as NaN; what follows them stays."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)
    config = config or defaults.default(problem, where.device)
    assert config is not None
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    batch, n, beyond = int(problem.BATCH), int(problem.N), 5
    a = stack_of(problem, xp, A)
    W = xp.full(batch * n + beyond, np.nan, REAL[problem.dtype])
    Z, VH = (xp.full(batch * n * n + beyond, np.nan, problem.dtype) for _ in range(2))
    info = xp.full(batch + beyond, -7, np.int32)
    pointers = (a.pointer, address(W), address(Z), address(VH), address(info))
    where.prepare(emit.kernel(problem, config, where.device, a.strides))(pointers, (), 0)
    where.synchronize()
    W, Z, VH, info = (array if isinstance(array, np.ndarray) else array.get() for array in (W, Z, VH, info))
    assert np.isnan(W[batch * n :]).all() and np.isnan(Z[batch * n * n :]).all() and (info[batch:] == -7).all()
    vectors = [array[: batch * n * n].reshape(batch, n, n) for array in (Z, VH)]
    wanted = (spec.has_vectors(problem), problem.want == "svd")
    assert all(asked or np.isnan(array).all() for asked, array in zip(wanted, vectors, strict=True))
    Z, VH = (array if asked else None for asked, array in zip(wanted, vectors, strict=True))
    return Result(W[: batch * n].reshape(batch, n), Z, VH, info[:batch])


# --- checks ------------------------------------------------------------------------------------------------------


def seen(problem: Problem, A: Any) -> Any:
    """The matrix that a kernel is to decompose: for eigenvalues, the Hermitian one with the triangle `uplo` of A."""
    if spec.is_svd(problem):
        return A
    half = np.tril(A, -1) if problem.uplo == "lower" else adjoint(np.triu(A, 1))
    whole = half + adjoint(half)
    np.einsum("bii->bi", whole)[...] = np.einsum("bii->bi", A).real
    return whole


def ratios(problem: Problem, A: Any, got: Result) -> dict[str, float]:
    """Worst errors in units of the bounds, in spectral norms: values 16 eps |A|, residual 3 n eps |A|, orthogonality
    5 n eps."""
    eps, n, wide = float(np.finfo(problem.dtype).eps), problem.N, WIDE[problem.dtype]
    A = seen(problem, A).astype(wide)
    scale = abs(A).max(axis=(1, 2), initial=0)
    scale = np.where(scale == 0, 1, scale)[:, None, None]
    A, W = A / scale, got.W.astype(WIDE[REAL[problem.dtype]]) / scale[:, :, 0]
    expected = exact_singular_values(A) if spec.is_svd(problem) else exact_eigenvalues(A)
    size = np.maximum(abs(expected).max(axis=1, initial=0), np.finfo("float64").tiny)
    found = {"values": abs(W - expected).max(axis=1, initial=0) / (16 * eps * size)}
    sign = -1 if spec.is_svd(problem) else 1
    assert (np.diff(sign * got.W, axis=1) >= 0).all(), f"not sorted: {problem}"
    if got.Z is not None:
        Z = got.Z.astype(wide)
        right = adjoint(Z) if got.VH is None else got.VH.astype(wide)
        found["residual"] = spectral(A - (Z * W[:, None, :]) @ right) / (3 * n * eps * size)
        for name, Q in (("left", Z), ("right", adjoint(right))):
            found[name] = spectral(adjoint(Q) @ Q - np.eye(n)) / (5 * n * eps)
    return {name: float(values.max(initial=0)) for name, values in found.items()}


def exact(problem: Problem, config: Config | None, backend: str, seed: int = 0) -> None:
    """A batch of all kinds is within all bounds; matrices with an infinity or a NaN are reported, and are NaN."""
    A = stack(problem, seed)
    if not spec.is_svd(problem):  # the other triangle is not read
        other = np.triu_indices(problem.N, 1) if problem.uplo == "lower" else np.tril_indices(problem.N, -1)
        A[:, other[0], other[1]] = np.nan
    got = launch(problem, config, backend, A)
    finite = np.isfinite(seen(problem, A)).all(axis=(1, 2))
    assert (got.info == np.where(finite, 0, problem.N + 1)).all(), (problem, got.info)
    for array in (got.W, got.Z, got.VH):
        assert array is None or np.isnan(array[~finite]).all()
    keep = Result(*(None if array is None else array[finite] for array in (got.W, got.Z, got.VH, got.info)))
    worst = ratios(problem, A[finite], keep)
    assert all(ratio <= 1 for ratio in worst.values()), (problem, config, worst)


def bounded(problem: Problem, config: Config | None, backend: str) -> None:
    """Random matrices alone."""
    A = stack(problem, 1, ("random",))
    got = launch(problem, config, backend, A)
    assert (got.info == 0).all() and max(ratios(problem, A, got).values()) <= 1
