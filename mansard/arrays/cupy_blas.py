"""cuBLAS by CuPy's handle, on CuPy's current stream. It takes leading dimensions, alpha and beta; CuPy's matmul has no
factors, copies what has gaps, and takes three times as long to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.cublas import cublas
from ..plan.problem import ITEMSIZE
from .cublas_products import operation
from .gemm import LETTER, Gemm, Product, scalars
from .view import View

_PLAIN, _TRANSPOSE, _ADJOINT = 0, 1, 2  # what cuBLAS does to an operand
_LARGEST = 2**31 - 1  # extent and leading dimension of what cuBLAS takes

StreamOf = Callable[[tuple[str, int]], Callable[[], int]]


def gemm(stream_of: StreamOf, views: Sequence[View], layouts: Sequence[tuple[str, int]]) -> Product | None:
    """gemm for single matrices A, B, C that lie like these; None if their strides or sizes are not cuBLAS's."""
    for (name, pitch), view in zip(layouts, views, strict=True):
        if name == "any" or pitch > _LARGEST or max(view.shape) > _LARGEST:
            return None
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas as bound

    (a, _, c), dtype = views, views[0].dtype
    routine, handle = getattr(bound, f"{LETTER[dtype]}gemm"), device.get_cublas_handle
    rows, (line_a, line_b, line_c) = [name == "row" for name, _ in layouts], [pitch for _, pitch in layouts]
    turn_a, turn_b = (_TRANSPOSE if rows[side] != rows[2] else _PLAIN for side in (0, 1))
    (m, n), k = c.shape, a.shape[1]
    unscaled, step = np.array([1.0, 0.0], dtype), ITEMSIZE[dtype]
    one = unscaled.ctypes.data

    def run(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        scaled = alpha != 1.0 or beta != 0.0
        factors = np.array(scalars(dtype, alpha, beta), dtype) if scaled else unscaled
        at = factors.ctypes.data if scaled else one
        of_a, of_b, of_c = A.data.ptr, B.data.ptr, C.data.ptr
        if rows[2]:
            given = (turn_b, turn_a, n, m, k, at, of_b, line_b, of_a, line_a, at + step, of_c, line_c)
        else:
            given = (turn_a, turn_b, m, n, k, at, of_a, line_a, of_b, line_b, at + step, of_c, line_c)
        try:
            routine(handle(), *given)
        except NotImplementedError:  # CuPy's answer while the stream is being captured
            _capture(stream_of, dtype, "gemm", C, given)

    return run


def strided_gemm(stream_of: StreamOf, gemm: Gemm) -> Product | None:
    """gemmStridedBatched. cuBLAS takes columns: what lies row by row is the transpose, of a result too, and then the
    operands change places. None: an operand would have to be conjugated without being transposed."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas as bound

    routine = getattr(bound, f"{LETTER[gemm.dtype]}gemmStridedBatched")
    rows = [name == "row" for name, _ in gemm.layouts]
    order = (1, 0, 2) if rows[2] else (0, 1, 2)
    operations = [operation(rows[side] != rows[2], gemm.conjugated[side]) for side in order[:2]]
    if None in operations:
        return None
    (M, K), (_, N) = gemm.shapes[:2]
    m, n = (N, M) if rows[2] else (M, N)
    dtype, lines, steps = np.dtype(gemm.dtype), [pitch for _, pitch in gemm.layouts], gemm.steps

    def run(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        factors, handle = np.array(scalars(gemm.dtype, alpha, beta), dtype), device.get_cublas_handle()
        at, given = factors.ctypes.data, (A, B, C)
        for start in gemm.starts:
            left, right, out = (
                (given[side].data.ptr + start[side] * dtype.itemsize, lines[side], steps[side]) for side in order
            )
            numbers = (*operations, m, n, K, at, *left, *right, at + dtype.itemsize, *out, gemm.batch)
            try:
                routine(handle, *numbers)
            except NotImplementedError:  # CuPy's answer while the stream is being captured
                _capture(stream_of, gemm.dtype, "gemmStridedBatched", C, numbers)

    return run


def _capture(stream_of: StreamOf, dtype: str, name: str, C: Any, arguments: tuple[Any, ...]) -> None:
    """Record the call in a graph, which CuPy's binding refuses. Adjoints and sums that become a row or a column, as
    reflections have them, stay refused: they were never captured on a device."""
    left, right, m, n, k = arguments[:5]
    if _ADJOINT in (left, right) or (min(m, n) == 1 and k > 1):
        raise NotImplementedError("a graph cannot hold this product: CuPy does not let cuBLAS be captured")
    device = C.device.id
    cublas().call(LETTER[dtype], name, device, stream_of(("cuda", device))(), arguments)
