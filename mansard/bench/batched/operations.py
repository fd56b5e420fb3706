"""Operations on batches: shapes of their operands, the kernels they need, and what they must move and compute.

There are K matrices. A is M x `inner` (M x M where inner is 0); the other operand is inner x N for gemm, a vector for
gemv and trsv, M x N for trsm. `form` holds BLAS's options: gemv "T" is y = A^T x, a triangular system "U" has the upper
triangle (backward substitution) and none the lower one. The matrices of a ragged batch are square, of any size from 1
to M, and multiplied with square ones (N = M) or with vectors (N = 1).
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from ...kernels import family_of
from ...machine.roofline import Work
from ...operations.ragged_layout import ALIGNMENT
from ...plan.batched_rules import SMALL
from ...plan.problem import ITEMSIZE, Problem

Shape = tuple[int, ...]
BATCHED = ("gemm", "gemv", "trsv", "trsm", "ragged")
SOLVES = ("trsv", "trsm")
_SEED = 13  # of the sizes of ragged batches


def shapes(operation: str, M: int, N: int, K: int, inner: int, form: str, dtype: str) -> tuple[Shape, Shape, Shape]:
    """Shapes of A, B and the result; for ragged batches, of their buffers as single rows."""
    inner = inner or M
    if operation == "gemm":
        return (K, M, inner), (K, inner, N), (K, M, N)
    if operation == "gemv":
        taken, made = ((K, M), (K, inner)) if form == "T" else ((K, inner), (K, M))
        return (K, M, inner), taken, made
    if operation == "trsv":
        return (K, M, M), (K, M), (K, M)
    if operation == "trsm":
        return (K, M, M), (K, M, N), (K, M, N)
    squares, others = (offsets(M, K, columns, dtype)[-1] for columns in (M, N))
    return (1, int(squares)), (1, int(others)), (1, int(others))


@lru_cache(maxsize=8)
def ragged_sizes(M: int, K: int) -> Any:
    """The sizes of K matrices, any from 1 to M as often as another."""
    found = np.random.default_rng(_SEED).integers(1, M + 1, K)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=16)
def offsets(M: int, K: int, N: int, dtype: str) -> Any:
    """Offsets of the K matrices of a ragged batch in elements, and the end of the last one: multiples of 32 bytes.
    Matrices are square, or have one column where N is 1."""
    sizes, unit = ragged_sizes(M, K), max(1, ALIGNMENT // ITEMSIZE[dtype])
    elements = sizes * (sizes if N > 1 else 1)
    return np.concatenate([[0], np.cumsum(-(-elements // unit) * unit)])


def uniform_sizes(M: int, N: int, K: int) -> tuple[int, int]:
    """Size and number of equal matrices that a ragged batch is compared with: they have the same bytes, and at that
    size about the same number."""
    sizes = ragged_sizes(M, K)
    size = max(1, round(sqrt(float((sizes.astype(float) ** 2).mean()))))
    each = 3 * size**2 if N > 1 else size**2 + 2 * size
    return size, max(1, _ragged_elements(M, N, K) // each)


def _ragged_elements(M: int, N: int, K: int) -> int:
    sizes = ragged_sizes(M, K)
    squares = int((sizes.astype(np.int64) ** 2).sum())
    return 3 * squares if N > 1 else squares + 2 * int(sizes.sum())


def problems(operation: str, dtype: str, M: int, N: int, K: int, inner: int, form: str, accumulate: bool) -> tuple[
    Problem, ...
]:  # fmt: skip
    """Problems whose kernels are compiled ahead.

    A plan of gemm has a kernel that reads no result, and makes the accumulating one on demand. Wide products belong to
    the array library or a record, and ragged batches choose their kernels per call: they are compiled when their case
    runs.
    """
    inner = inner or M
    if operation == "gemm":
        if max(M, N, inner) > SMALL:
            return ()
        make = family_of("gemm").spec.problem
        adding = (make(dtype, M, N, inner, K, accumulate=True),) if accumulate else ()
        return (*adding, make(dtype, M, N, inner, K))
    if operation == "gemv":
        make = family_of("gemv").spec.problem
        return (make(dtype, inner, M, K, layout_a="col") if form == "T" else make(dtype, M, inner, K),)
    return (_system(dtype, M, N, K, form),) if operation in SOLVES else ()


def _system(dtype: str, M: int, N: int, K: int, form: str) -> Problem:
    uplo = "upper" if "U" in form else "lower"
    return family_of("trsm").spec.problem(dtype, M, N, K, uplo=uplo)


def work(row: dict[str, Any]) -> Work:
    """Least work of a row or a case: every operand is moved once, an accumulated result twice. A triangular matrix
    counts with its n (n + 1) / 2 referenced entries."""
    operation, dtype = row["operation"], row["dtype"]
    M, N, K, inner = row["M"], row["N"], row["K"], row["inner"] or row["M"]
    item, flop = ITEMSIZE[dtype], 8 if dtype.startswith("complex") else 2
    if operation == "gemm":
        gemm = family_of("gemm")
        return gemm.work.work(gemm.spec.problem(dtype, M, N, inner, K, accumulate=row["accumulate"]))
    if operation == "gemv":
        vectors = (M, inner) if row["form"] == "T" else (inner, M)
        return Work((M * inner + vectors[0]) * K * item, vectors[1] * K * item, flop * M * inner * K, dtype)
    if operation in SOLVES:
        return family_of("trsm").work.work(_system(dtype, M, N, K, row["form"]))
    sizes, others = ragged_sizes(M, K).astype(np.int64), 2 if N > 1 else 1
    results = int((sizes**others).sum())
    return Work((_ragged_elements(M, N, K) - results) * item, results * item, flop * int((sizes ** (1 + others)).sum()),
                dtype)  # fmt: skip


def whole_bytes(row: dict[str, Any]) -> int:
    """Bytes of a triangular system if all of A were read, both triangles."""
    M, N, K = row["M"], row["N"], row["K"]
    return int(ITEMSIZE[row["dtype"]] * K * (M * M + 2 * M * N))
