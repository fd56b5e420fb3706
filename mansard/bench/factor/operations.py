"""Factorizations of batches and what is computed by them: operands, kernels, and what must be moved and computed.

There are K matrices of M x M. `qr` leaves R and reflectors, `qrq` forms Q as well; `solve` has one right-hand side; of
Hermitian matrices (`eigh`, `eigvalsh`, `tridiagonalize`) the lower triangle counts; reductions give diagonals. The
form "ragged" has square matrices of any size from 1 to M. The operations of stacks, these and those of
batched/operations.py, are `STACKED`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import kernels as families
from ...machine.roofline import Work
from ...operations.factor.two_sided.chain import chain_of
from ...operations.factor.two_sided.task import Task
from ...plan.problem import ITEMSIZE, REAL, Problem
from ..batched.operations import BATCHED, Shape, offsets, ragged_sizes

ONE_SIDED = ("cholesky", "lu", "qr", "qrq", "solve", "inverse", "determinant")
TWO_SIDED = ("eigh", "eigvalsh", "svd", "svdvals")
REDUCTIONS = ("tridiagonalize", "bidiagonalize")  # diagonals alone
SPECTRAL = (*TWO_SIDED, *REDUCTIONS)
SHORT = {"tridiagonalize": "tridiagonal", "bidiagonalize": "bidiagonal"}  # as tasks, without orthogonal factors
FACTORS = (*ONE_SIDED, *SPECTRAL)
STACKED = (*BATCHED, *FACTORS)
RAGGED = "ragged"
MOST = 65_535  # matrices of a call: cuSOLVER's XsyevBatched and gesvdaStridedBatched fail above
_ONE_TRIANGLE = ("cholesky", "eigh", "eigvalsh", "tridiagonalize")  # operations that read half of a matrix
_INFO = _PIVOT = 4  # bytes
WANTS = {
    "cholesky": ("cholesky", "factor"), "lu": ("lu", "factor"), "qr": ("qr", "raw"), "qrq": ("qr", "reduced"),
    "solve": ("lu", "solve"), "inverse": ("lu", "inverse"), "determinant": ("lu", "determinant"),
}  # fmt: skip


def shapes(operation: str, M: int, K: int, form: str, dtype: str) -> tuple[Shape, Shape, Shape]:
    """Shapes of A, B and the largest result; B is a single element where the operation has none."""
    if form == RAGGED:
        squares, vectors = ((1, int(offsets(M, K, columns, dtype)[-1])) for columns in (M, 1))
        return squares, vectors, vectors if operation == "solve" else squares
    sides = (K, M, 1) if operation == "solve" else (1, 1, 1)
    return (K, M, M), sides, _result(operation, K, M)


def _result(operation: str, K: int, M: int) -> Shape:
    """Shape of the largest result."""
    if operation == "determinant":
        return K, 1, 1
    return (K, M, 1) if operation in ("solve", "eigvalsh", "svdvals", *REDUCTIONS) else (K, M, M)


def problems(operation: str, dtype: str, M: int, K: int, form: str) -> tuple[Problem, ...]:
    """Problems whose kernels are compiled ahead; none where no single kernel answers."""
    if operation in SPECTRAL:  # on GPUs and on CPUs; what is not for the device is left out when it is compiled
        task = Task(SHORT.get(operation, operation))
        return tuple(dict.fromkeys(one for on_cpu in (False, True) for one in chain_of(task, dtype, M, K, on_cpu)))
    family, want = WANTS[operation]
    if form == RAGGED or family not in families.names():
        return ()
    spec: Any = families.family_of(family).spec
    traits: dict[str, Any] = {"want": want}
    if want == "solve":
        traits["NRHS"] = 1
    if want == "determinant":  # one number per matrix
        traits["pitch_f"] = 1
    made = spec.problem(dtype, *((M,) if family == "cholesky" else (M, M)), K, **traits)
    return () if spec.refusal(made) else (made,)


def uniform_sizes(M: int, K: int) -> tuple[int, int]:
    """Size and number of equal matrices that a ragged batch is compared with: as many bytes, and about as many flops.
    Sums of n^2 and of n^3 decide."""
    sizes = ragged_sizes(M, K).astype(float)
    size = max(1, round(float((sizes**3).sum() / (sizes**2).sum())))
    return size, max(1, round(float((sizes**2).sum()) / size**2))


def work(row: dict[str, Any]) -> Work:
    """Least work of a row or a case: bytes moved once, with pivots and info, and LAPACK's count of flops."""
    operation, dtype, M, K = row["operation"], row["dtype"], row["M"], row["K"]
    if row.get("form") == RAGGED:
        sizes, counts = np.unique(ragged_sizes(M, K), return_counts=True)
    else:
        sizes, counts = np.array([M]), np.array([K])
    read = written = flops = spared = 0
    for n, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        item = ITEMSIZE[dtype]
        read += count * item * (n * n + (n if operation == "solve" else 0))
        written += count * _written(operation, n, item, ITEMSIZE[REAL[dtype]])
        flops += round(count * _flops(operation, n, dtype.startswith("complex")))
        spared += count * item * (n * (n - 1) // 2) * (operation in _ONE_TRIANGLE)
    return Work(read, written, flops, dtype, spared)


def _written(operation: str, n: int, item: int, real: int) -> int:
    """Bytes that the results of one matrix take; `real` is the size of a value."""
    return {
        "cholesky": n * n * item + _INFO,
        "lu": n * n * item + n * _PIVOT + _INFO,
        "qr": n * n * item + n * item,
        "qrq": 2 * n * n * item,
        "solve": n * item + _INFO,
        "inverse": n * n * item + _INFO,
        "determinant": item + _INFO,
        "eigh": n * n * item + n * real + _INFO,
        "eigvalsh": n * real + _INFO,
        "svd": 2 * n * n * item + n * real + _INFO,
        "svdvals": n * real + _INFO,
        **dict.fromkeys(REDUCTIONS, (2 * n - 1) * real),
    }[operation]


# multiplications and additions of LAPACK's routines, as polynomials of n: n^3, n^2, n
_COUNTS = {
    "potrf": ((1 / 6, 1 / 2, 1 / 3), (1 / 6, 0, -1 / 6)),
    "getrf": ((1 / 3, 0, -1 / 3), (1 / 3, -1 / 2, 1 / 6)),
    "getrs": ((0, 1, 0), (0, 1, -1)),
    "getri": ((2 / 3, 1 / 2, 5 / 6), (2 / 3, -3 / 2, 5 / 6)),
    "geqrf": ((2 / 3, 3 / 2, 23 / 6), (2 / 3, 1 / 2, 5 / 6)),
    "orgqr": ((2 / 3, 1, -5 / 3), (2 / 3, 0, 1 / 3)),
    "diagonal": ((0, 0, 1), (0, 0, 0)),
}
_ROUTINES = {
    "cholesky": ("potrf",), "lu": ("getrf",), "qr": ("geqrf",), "qrq": ("geqrf", "orgqr"), "solve": ("getrf", "getrs"),
    "inverse": ("getrf", "getri"), "determinant": ("getrf", "diagonal"),
}  # fmt: skip


# n^3; of values, the reduction alone
_CUBES = {"eigh": 9.0, "eigvalsh": 4 / 3, "svd": 22.0, "svdvals": 8 / 3, "tridiagonalize": 4 / 3,
          "bidiagonalize": 8 / 3}  # fmt: skip


def _flops(operation: str, n: int, is_complex: bool) -> float:
    """Flops of one matrix; a complex multiplication counts six, an addition two. What an iteration takes depends on
    the matrix: eigenvalues and singular values are counted by the usual multiples of n^3."""
    if operation in SPECTRAL:
        return _CUBES[operation] * n**3 * (4 if is_complex else 1)
    each = (6, 2) if is_complex else (1, 1)
    return sum(
        cost * (a * n**3 + b * n**2 + c * n)
        for routine in _ROUTINES[operation]
        for cost, (a, b, c) in zip(each, _COUNTS[routine], strict=True)
    )
