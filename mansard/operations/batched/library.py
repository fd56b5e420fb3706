"""Scaled products of matrices and stacks by the array library's own BLAS, in the place of the result.

CuPy's matmul has neither alpha nor beta and copies what has gaps: blocked factorizations spent most of their time
there. cuBLAS itself takes leading dimensions and both factors, and so do PyTorch's addmm and baddbmm. CuPy's function
also takes three times as long to call as cuBLAS's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.cublas import cublas
from ...plan.problem import ITEMSIZE, Problem
from ..run import layout
from ..stacks import Batch

_PLAIN, _TURNED, _ADJOINT = 0, 1, 2  # what cuBLAS does to an operand
_LARGEST = 2**31 - 1  # extent and leading dimension of what cuBLAS takes
_LETTER = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}

Product = Callable[[Array, Array, Array, complex, complex], None]  # (A, B, C, alpha, beta): C = alpha A B + beta C


def strided_product(kind: Kind, problem: Problem, batch: Batch) -> Product | None:
    """The routine for arrays that lie like these; None where there is none."""
    if kind.name not in _ROUTINES or batch.operands[0].view.device[0] != "cuda":
        return None
    scattered = any(operand.listed for operand in batch.operands) or any(t is not None for t in batch.walk.tables)
    if scattered or any(one.layout[0] == "any" or one.view.conjugated for one in batch.operands):
        return None
    return _ROUTINES[kind.name](kind, problem, batch)


def matrix_product(kind: Kind, a: View, b: View, c: View) -> Product | None:
    """The same for single matrices that lie like these."""
    if a.dtype not in _LETTER or c.dtype != a.dtype or 0 in (*a.shape, *b.shape):
        return None
    if kind.name == "PyTorch":
        return _by_addmm(kind, a.dtype)
    layouts = [layout(view) for view in (a, b, c)]
    taken = all(name != "any" and pitch <= _LARGEST and max(view.shape) <= _LARGEST
                for (name, pitch), view in zip(layouts, (a, b, c), strict=True))  # fmt: skip
    return _by_gemm(kind, (a, b, c), layouts) if taken and kind.name == "CuPy" else None


def _by_gemm(kind: Any, views: tuple[View, View, View], layouts: list[tuple[str, int]]) -> Product:
    """gemm by CuPy's handle, on CuPy's current stream."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas as bound

    (a, _, c), dtype = views, views[0].dtype
    routine, handle = getattr(bound, f"{_LETTER[dtype]}gemm"), device.get_cublas_handle
    rows, (line_a, line_b, line_c) = [name == "row" for name, _ in layouts], [pitch for _, pitch in layouts]
    turn_a, turn_b = (_TURNED if rows[side] != rows[2] else _PLAIN for side in (0, 1))
    (m, n), k = c.shape, a.shape[1]
    unscaled, step = np.array([1.0, 0.0], dtype), ITEMSIZE[dtype]
    one = unscaled.ctypes.data

    def run(A: Array, B: Array, C: Array, alpha: complex, beta: complex) -> None:
        scaled = alpha != 1.0 or beta != 0.0
        factors = np.array(_factors(dtype, alpha, beta), dtype) if scaled else unscaled
        at = factors.ctypes.data if scaled else one
        of_a, of_b, of_c = A.data.ptr, B.data.ptr, C.data.ptr
        if rows[2]:
            given = (turn_b, turn_a, n, m, k, at, of_b, line_b, of_a, line_a, at + step, of_c, line_c)
        else:
            given = (turn_a, turn_b, m, n, k, at, of_a, line_a, of_b, line_b, at + step, of_c, line_c)
        try:
            routine(handle(), *given)
        except NotImplementedError:  # CuPy's answer while the stream is being captured
            _capture(kind, dtype, "gemm", C, given)

    return _on_its_device(run) if kind._several else run


def _capture(kind: Kind, dtype: str, name: str, C: Array, arguments: tuple[Any, ...]) -> None:
    """The same call as part of a graph, for which CuPy has none. Adjoints and sums that become a row or a column, as
    reflections have them, stay refused: they were never captured on a device."""
    left, right, m, n, k = arguments[:5]
    if _ADJOINT in (left, right) or (min(m, n) == 1 and k > 1):
        raise NotImplementedError("a graph cannot hold this product: CuPy does not let cuBLAS be captured")
    device = C.device.id
    cublas().call(_LETTER[dtype], name, device, kind.stream_of(("cuda", device))(), arguments)


def _on_its_device(run: Product) -> Product:
    def other(A: Array, B: Array, C: Array, alpha: complex, beta: complex) -> None:
        with C.device:
            run(A, B, C, alpha, beta)

    return other


def _by_cublas(kind: Any, problem: Problem, batch: Batch) -> Product | None:
    """gemmStridedBatched by CuPy's handle, on CuPy's current stream. cuBLAS takes columns: what lies row by row is the
    transpose, of a result too, and then the operands change places."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas as bound

    routine = getattr(bound, f"{_LETTER[problem.dtype]}gemmStridedBatched")
    rows = [operand.layout[0] == "row" for operand in batch.operands]
    order = (1, 0, 2) if rows[2] else (0, 1, 2)
    operations = [_operation(rows[side] != rows[2], (problem.conj_a, problem.conj_b)[side]) for side in order[:2]]
    if None in operations:
        return None
    m, n = (problem.N, problem.M) if rows[2] else (problem.M, problem.N)
    dtype, count = np.dtype(problem.dtype), batch.walk.batch
    lines, steps = [operand.layout[1] for operand in batch.operands], batch.walk.steps

    def run(A: Array, B: Array, C: Array, alpha: complex, beta: complex) -> None:
        factors, handle = np.array(_factors(problem.dtype, alpha, beta), dtype), device.get_cublas_handle()
        at, given = factors.ctypes.data, (A, B, C)
        for start in batch.walk.starts:
            left, right, out = (
                (given[side].data.ptr + start[side] * dtype.itemsize, lines[side], steps[side]) for side in order
            )
            numbers = (*operations, m, n, problem.K, at, *left, *right, at + dtype.itemsize, *out, count)
            try:
                routine(handle, *numbers)
            except NotImplementedError:  # CuPy's answer while the stream is being captured
                _capture(kind, problem.dtype, "gemmStridedBatched", C, numbers)

    return _on_its_device(run) if kind._several else run


def _operation(transposed: bool, conjugated: bool) -> int | None:
    """None: there is no way to conjugate without transposing."""
    if conjugated:
        return _ADJOINT if transposed else None
    return _TURNED if transposed else _PLAIN


def _factors(dtype: str, *given: complex) -> list[complex]:
    """Real numbers for real matrices, however they were given."""
    if dtype.startswith("complex"):
        return list(given)
    if any(complex(factor).imag for factor in given):
        raise TypeError(f"alpha and beta must be real for {dtype} matrices")
    return [complex(factor).real for factor in given]


def _by_torch(kind: Any, problem: Problem, batch: Batch) -> Product:
    """baddbmm, which hands the strides of its operands to cuBLAS."""
    shapes = [(batch.walk.batch, operand.rows, operand.columns) for operand in batch.operands]
    inner = [batch.strides[3 * side + 1 : 3 * side + 3] for side in range(3)]
    conj = (problem.conj_a, problem.conj_b, False)

    def view(array: Array, side: int, start: int) -> Array:
        strides = (batch.walk.steps[side], *inner[side])
        found = array.as_strided(shapes[side], strides, array.storage_offset() + start)
        return found.conj() if conj[side] else found

    def run(A: Array, B: Array, C: Array, alpha: complex, beta: complex) -> None:
        alpha, beta = _factors(problem.dtype, alpha, beta)
        for start in batch.walk.starts:
            a, b, c = (view(array, side, start[side]) for side, array in enumerate((A, B, C)))
            kind._torch.baddbmm(c, a, b, alpha=alpha, beta=beta, out=c)

    return run


def _by_addmm(kind: Any, dtype: str) -> Product:
    def run(A: Array, B: Array, C: Array, alpha: complex, beta: complex) -> None:
        alpha, beta = _factors(dtype, alpha, beta)
        kind._torch.addmm(C, A, B, alpha=alpha, beta=beta, out=C)

    return run


_ROUTINES = {"CuPy": _by_cublas, "PyTorch": _by_torch}
