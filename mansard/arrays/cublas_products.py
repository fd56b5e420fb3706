"""Products by cuBLAS on addresses: what the native launcher calls for CuPy's and PyTorch's arrays alike."""

from __future__ import annotations

from ..backends import cublas
from ..backends.cublas import Columnwise, CublasLaunch
from .gemm import LETTER, Gemm

_PLAIN, _TRANSPOSE, _ADJOINT = 0, 1, 2  # what cuBLAS does to an operand
_LARGEST = 2**31 - 1  # extent and leading dimension of what cuBLAS takes


def launch(gemm: Gemm, device: int) -> CublasLaunch | None:
    """The products as a launch; None where cuBLAS cannot take the operands as they lie, or is not loaded."""
    found = columnwise(gemm)
    return None if found is None else cublas.launch(device, found)


def columnwise(gemm: Gemm) -> Columnwise | None:
    """Products as cuBLAS is asked for them. It takes columns: what lies row by row is the transpose, of a result too,
    and then the operands change places. None: operands need several calls, are too large, or would have to be
    conjugated without being transposed."""
    if any(name == "any" or pitch > _LARGEST for name, pitch in gemm.layouts):
        return None
    if max(map(max, gemm.shapes)) > _LARGEST or len(gemm.starts) != 1 or any(gemm.starts[0]):
        return None
    if not 0 < gemm.batch <= _LARGEST or 0 in (*gemm.shapes[0], *gemm.shapes[1]):
        return None
    rows = [name == "row" for name, _ in gemm.layouts]
    order = (1, 0, 2) if rows[2] else (0, 1, 2)
    operations = [operation(rows[side] != rows[2], gemm.conjugated[side]) for side in order[:2]]
    left, right = operations
    if left is None or right is None:
        return None
    (M, K), (_, N) = gemm.shapes[:2]
    m, n = (N, M) if rows[2] else (M, N)
    pitches, steps = ((given[order[0]], given[order[1]], given[2]) for given in (_pitches(gemm), gemm.steps))
    return Columnwise(LETTER[gemm.dtype], (left, right), (m, n, K), order, pitches, steps, gemm.batch)


def _pitches(gemm: Gemm) -> list[int]:
    return [pitch for _, pitch in gemm.layouts]


def operation(transposed: bool, conjugated: bool) -> int | None:
    """cublasOperation_t of an operand; None: cuBLAS has none that conjugates without transposing."""
    if conjugated:
        return _ADJOINT if transposed else None
    return _TRANSPOSE if transposed else _PLAIN
