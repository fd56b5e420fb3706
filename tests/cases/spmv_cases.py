"""Problems, matrices and configurations that between them reach every branch of the spmv kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scalars import factors_of

from mansard import testing
from mansard.backends import cpu, cuda, emulated
from mansard.kernels.sparse.spmv import emit, space, spec
from mansard.kernels.sparse.spmv.space import Block, Config, Csr, Merge, Rows, Sell
from mansard.kernels.sparse.spmv.space_cpu import Simd
from mansard.operations.sparse import chunked, operand, storage
from mansard.plan.problem import REAL, Problem

BACKENDS: dict[str, Any] = {"cpu": cpu, "emulated": emulated, "cuda": cuda}
P = spec.problem


def sparse(problem: Problem, seed: int = 0, integers: bool = True) -> Any:
    """A CSR matrix with about NNZ entries: rows of all lengths, empty ones, and if `skewed` a few very long ones; rows
    of one length if not `ragged`. 16-bit columns stay within reach of each other."""
    rng = np.random.default_rng(seed)
    rows, cols, mean = problem.ROWS, problem.COLS, problem.NNZ / problem.ROWS
    if not problem.ragged:
        lengths = np.full(rows, round(mean))
    elif problem.skewed:
        lengths = (mean * (rng.random(rows) < 0.3)).astype(int)
        lengths[rng.integers(0, rows, 2)] = problem.NNZ // 2
    else:
        lengths = rng.integers(0, round(2 * mean) + 1, rows)
    lengths = np.minimum(lengths, cols)
    reach = min(cols, 65536) if problem.index == "delta16" else cols
    start = rng.integers(0, cols - reach + 1)
    indices = [start + np.sort(rng.choice(reach, length, replace=False)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = numbers(rng, int(indptr[-1]), problem.values, integers)
    return scipy.sparse.csr_array((data, np.concatenate([*indices, []]).astype(int), indptr), (rows, cols))


def numbers(rng: Any, shape: Any, dtype: str, integers: bool) -> Any:
    def draw() -> Any:
        return rng.integers(-3, 4, shape) if integers else rng.standard_normal(shape)

    parts = draw() + 1j * draw() if dtype.startswith("complex") else draw()
    return parts.astype(dtype)


def stored(problem: Problem, A: Any, xp: Any) -> Any:
    """The matrix as the problem says it is stored, on the device of `xp`."""
    wide, narrow = ("int64" if problem.wide else "int32"), "int64" if problem.index == "int64" else "int32"
    rows = storage.Csr(
        A.shape, xp.asarray(A.indptr.astype(wide)), xp.asarray(A.indices.astype(narrow)), xp.asarray(A.data)
    )
    if problem.format == "csr":
        return rows
    if problem.format == "ell":
        return storage.ell_from_csr(rows, problem.index, xp=xp)
    return chunked.sell_from_csr(rows, problem.C, 48 if problem.permuted else 1, problem.index, xp=xp)


def launch(
    problem: Problem, config: Config, backend: str, A: Any, arrays: list[Any], scalars: tuple[complex, ...],
) -> None:  # fmt: skip
    """The kernel itself; `arrays` are X, Y and Z, matrices whose rows are adjacent."""
    where, xp = BACKENDS[backend].backend(), testing.array_module(backend)
    reason = space.illegal(problem, config, where.device)
    assert reason is None, reason
    matrix = stored(problem, A, xp)
    problem = problem.replace(ragged=operand.traits(matrix).get("ragged", False), NNZ=A.nnz)
    address = (lambda array: array.ctypes.data) if xp is np else (lambda array: array.data.ptr)
    splits = None
    if isinstance(config, Merge):
        splits = operand.merge_splits(matrix, config.BLOCK * config.PER_THREAD, xp)
    strides = (*(array.strides[0] // array.itemsize for array in arrays), *operand.layout(matrix))
    kernel = emit.kernel(problem, config, where.device, strides)
    pointers = (*operand.pointers(matrix, address, splits), *map(address, arrays))
    where.prepare(kernel)(pointers, tuple(part for s in scalars for part in (complex(s).real, complex(s).imag)), 0)
    where.synchronize()


def vectors(problem: Problem, rows: int, rng: Any, xp: Any, integers: bool) -> Any:
    """A block of vectors inside a wider one of NaN: `vector` columns at once stay aligned."""
    extra = 2 * problem.vector if problem.NVECS > 1 else 0
    wide = xp.full((rows, problem.NVECS + extra), np.nan, problem.dtype)
    wide[:, : problem.NVECS] = xp.asarray(numbers(rng, (rows, problem.NVECS), problem.dtype, integers))
    return wide


def exact(problem: Problem, config: Config, backend: str, scaled: bool = False, seed: int = 0) -> None:
    """Small integers: every order of summation gives the same, exact result. Unscaled, Y starts as NaN. What lies
    between the rows of Y stays as it is."""
    xp, rng = testing.array_module(backend), np.random.default_rng(seed + 1)
    A = sparse(problem, seed)
    X, Y, Z = (vectors(problem, rows, rng, xp, True) for rows in (problem.COLS, problem.ROWS, problem.ROWS))
    alpha, beta = factors_of(problem, scaled)
    gamma = -alpha if scaled else 0.0
    problem = problem.replace(accumulate=scaled and not problem.recurrence)
    x, y, z = (block[:, : problem.NVECS] for block in (X, Y, Z))
    args = (testing_host(one) for one in (x, y))
    more = (testing_host(z), gamma) if problem.recurrence else (None, 0)
    expected = spec.reference(A, *args, alpha, beta, problem.conj, *more)
    if not scaled:
        Y.fill(np.nan)
    scalars = (alpha, beta, gamma) if problem.recurrence else (alpha, beta)
    launch(problem, config, backend, A, [X, Y, Z], scalars)
    wrong = np.argwhere(testing_host(y) != expected)
    assert len(wrong) == 0, f"{len(wrong)} of {expected.size} differ, first {wrong[0]}: {problem} {config}"
    y[...] = np.nan
    assert bool(xp.isnan(Y).all()), f"written between the rows: {problem} {config}"


def bounded(problem: Problem, config: Config, backend: str, seed: int = 1) -> None:
    """Random numbers: every entry within the bound of the error analysis, 2 gamma |A| |x|."""
    xp, rng = testing.array_module(backend), np.random.default_rng(seed + 1)
    A = sparse(problem, seed, integers=False)
    X, Y, Z = (vectors(problem, rows, rng, xp, False) for rows in (problem.COLS, problem.ROWS, problem.ROWS))
    launch(problem.replace(recurrence=False), config, backend, A, [X, Y, Z], (1.0, 0.0))
    wide = "complex128" if problem.is_complex else "float64"
    x, y = (testing_host(block[:, : problem.NVECS]) for block in (X, Y))
    full = A.astype(wide)
    error = np.abs(y - spec.reference(full, x.astype(wide), conj=problem.conj))
    longest = int(np.diff(A.indptr).max())
    scale = abs(A).astype("float64") @ np.abs(x).astype("float64")
    tiny = np.finfo(REAL[problem.dtype]).tiny
    assert bool((error <= 2 * testing.gamma(problem.dtype, longest) * scale + tiny).all()), (problem, config)


def testing_host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


GPU: list[tuple[Problem, Config]] = [
    # one lane per row and several, ragged chunks and full ones, rows that do not fill the last chunk
    (P("float64", 1, 1, 1), Sell(32, 1)),
    (P("float64", 70, 90, 500), Sell(64, 4)),
    (P("float64", 70, 90, 500, ragged=False), Sell(64, 8)),
    (P("float64", 200, 200, 3000, recurrence=True), Sell(64, 3, 3)),
    (P("float64", 100, 70000, 900, index="delta16"), Sell(32, 2, 2, "once")),
    (P("float64", 100, 100, 900, C=8, permuted=True), Sell(64, 2, 2, "normal")),
    (P("float64", 70, 70, 900, C=1), Sell(64, 1, 5)),
    (P("float32", 100, 100, 900, C=4, index="int64", recurrence=True), Sell(64, 4)),
    (P("complex64", 100, 100, 900, C=16, conj=True), Sell(64, 2, 2)),
    (P("complex128", 100, 100, 700, values="complex64", permuted=True, conj=True), Sell(64, 3)),
    (P("complex128", 100, 100, 700, values="float64", index="delta16", C=2), Sell(64, 3, 1, "once")),
    (P("float64", 100, 100, 900, values="float32", format="ell"), Sell(64, 4)),
    (P("complex64", 64, 70, 640, format="ell", index="int64", ragged=False), Sell(32, 4, 2, "once")),
    # CSR: short rows, long rows, empty ones
    (P("float64", 70, 90, 500, format="csr"), Csr(1, 64, 1)),
    (P("float64", 70, 90, 2000, format="csr", wide=True), Csr(8, 64, 2)),
    (P("float32", 70, 70, 2000, format="csr", index="int64", recurrence=True), Csr(32, 64, 3, "streaming")),
    (P("complex128", 70, 70, 900, format="csr", values="float32"), Csr(4, 64, 4, "once")),
    # rows over several blocks and warps, many rows without entries
    (P("float64", 300, 3000, 4000, format="csr", skewed=True), Merge(64, 7)),
    (P("float64", 5, 3000, 4000, format="csr", skewed=True, recurrence=False), Merge(32, 3)),
    (P("float64", 300, 300, 600, format="csr", skewed=True, recurrence=True, wide=True), Merge(64, 5, "once")),
    (P("complex64", 900, 900, 900, format="csr", skewed=True, conj=True), Merge(128, 4, "normal")),
    (P("complex128", 300, 300, 900, 3, format="csr", skewed=True, index="int64"), Merge(64, 2)),
    # several times as many entries as a warp has lanes, in rows of one length and of others
    (P("float64", 40, 200, 5000, ragged=False), Sell(64, 7)),
    (P("float64", 70, 300, 5670, C=8), Sell(64, 4, 2)),
    (P("float64", 40, 300, 5000, format="csr"), Csr(8, 64, 2)),
    (P("float64", 40, 200, 5000, 4, vector=2), Block(2, 64, 2)),
    # several vectors
    (P("float64", 70, 90, 500, 4, vector=2), Block(2, 64, 2)),
    (P("float64", 70, 90, 500, 16, vector=2), Block(8, 64, 1)),
    (P("float64", 70, 70, 500, 3, recurrence=True), Block(4, 64, 3)),
    (P("float64", 70, 70, 900, 10, vector=2, C=4, permuted=True, index="delta16"), Block(4, 32, 2, "once")),
    (P("float64", 70, 70, 900, 5, C=1, index="int64"), Block(2, 64, 2)),
    (P("float32", 70, 70, 500, 20, vector=4, ragged=False), Block(2, 64, 2, "normal")),
    (P("complex64", 70, 70, 500, 6, vector=2, conj=True, C=16), Block(4, 64, 1)),
    (P("complex128", 70, 70, 500, 2, values="float32", format="ell"), Block(1, 64, 4)),
    (P("float64", 70, 90, 500, 4, format="csr", vector=2), Rows(8, 2, 64)),
    (P("float64", 70, 70, 900, 17, format="csr", recurrence=True), Rows(8, 8, 64, "streaming")),
    (P("complex64", 70, 70, 900, 3, format="csr", conj=True, wide=True), Rows(32, 4, 64, "once")),
]  # fmt: skip

CPU: list[tuple[Problem, Config]] = [
    (P("float64", 1, 1, 1), Simd(2)),
    (P("float64", 700, 900, 9000), Simd(2)),
    (P("float64", 200, 200, 3000, ragged=False, recurrence=True), Simd(2, 1, 512)),
    (P("float64", 100, 70000, 900, index="delta16", permuted=True), Simd(2)),
    (P("float64", 100, 100, 900, C=4, values="float32"), Simd(2)),
    (P("float64", 40, 200, 5000, index="delta16", ragged=False), Simd(2)),
    (P("float64", 40, 200, 5000, 4), Simd(2)),
    (P("float64", 40, 300, 3240, format="csr"), Simd(1)),
    (P("float64", 100, 100, 900, C=1, index="int64"), Simd(1)),
    (P("float32", 100, 100, 900, index="delta16"), Simd(4)),
    (P("float32", 100, 100, 900, C=8, permuted=True, index="int64", recurrence=True), Simd(4, 2)),
    (P("complex64", 100, 100, 900, C=16, conj=True), Simd(2)),
    (P("complex128", 100, 100, 700, values="complex64", conj=True, permuted=True), Simd(2)),
    (P("complex128", 100, 100, 700, values="float64", recurrence=True), Simd(2)),
    (P("float64", 100, 100, 900, format="ell"), Simd(2)),
    (P("complex128", 100, 100, 900, 2, format="ell", index="int64", ragged=False), Simd(2)),
    (P("float64", 70, 90, 500, format="csr"), Simd(1)),
    (P("complex64", 300, 300, 900, format="csr", skewed=True, wide=True, conj=True), Simd(2)),
    (P("float64", 70, 90, 500, 4), Simd(2)),
    (P("float64", 70, 70, 500, 17, recurrence=True, index="delta16"), Simd(2)),
    (P("float32", 70, 70, 500, 6, format="csr", values="float32"), Simd(4)),
    (P("complex128", 70, 70, 500, 5, values="float32", C=8), Simd(2)),
    (P("complex64", 70, 70, 500, 3, conj=True, permuted=True), Simd(4)),
]  # fmt: skip
CASES = GPU


def case_id(case: tuple[Problem, Config]) -> str:
    problem, config = case
    place = (GPU if case in GPU else CPU).index(case)
    return f"{config.VARIANT}-{problem.format}-{problem.dtype}-{problem.NVECS}-{place}"
