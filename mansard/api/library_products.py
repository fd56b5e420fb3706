"""Scaled products of stacks by the array library's own BLAS, in the place of the result.

CuPy's matmul has neither alpha nor beta and copies what has gaps: blocked factorizations spent most of their time
there. cuBLAS itself takes leading dimensions and both factors, and so does PyTorch's baddbmm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..plan.problem import Problem
from .stacks import Batch

_PLAIN, _TURNED, _ADJOINT = 0, 1, 2  # what cuBLAS does to an operand
_LETTER = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}

Product = Callable[[Any, Any, Any, complex, complex], None]  # (A, B, C, alpha, beta): C = alpha A B + beta C


def strided_product(kind: Any, problem: Problem, batch: Batch) -> Product | None:
    """The routine for arrays that lie like these; None where there is none."""
    if kind.name not in _ROUTINES or batch.operands[0].view.device[0] != "cuda":
        return None
    scattered = any(operand.listed for operand in batch.operands) or any(t is not None for t in batch.walk.tables)
    if scattered or any(one.layout[0] == "any" or one.view.conjugated for one in batch.operands):
        return None
    return _ROUTINES[kind.name](kind, problem, batch)


def _by_cublas(kind: Any, problem: Problem, batch: Batch) -> Product | None:
    """gemmStridedBatched by CuPy's handle, on CuPy's current stream. cuBLAS takes columns: what lies row by row is the
    transpose, of a result too, and then the operands change places."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    routine = getattr(cublas, f"{_LETTER[problem.dtype]}gemmStridedBatched")
    rows = [operand.layout[0] == "row" for operand in batch.operands]
    order = (1, 0, 2) if rows[2] else (0, 1, 2)
    operations = [_operation(rows[side] != rows[2], (problem.conj_a, problem.conj_b)[side]) for side in order[:2]]
    if None in operations:
        return None
    m, n = (problem.N, problem.M) if rows[2] else (problem.M, problem.N)
    dtype, count = np.dtype(problem.dtype), batch.walk.batch
    lines, steps = [operand.layout[1] for operand in batch.operands], batch.walk.steps

    def run(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        factors, handle = np.array(_factors(problem, alpha, beta), dtype), device.get_cublas_handle()
        at, given = factors.ctypes.data, (A, B, C)
        for start in batch.walk.starts:
            left, right, out = (
                (given[side].data.ptr + start[side] * dtype.itemsize, lines[side], steps[side]) for side in order
            )
            routine(handle, *operations, m, n, problem.K, at, *left, *right, at + dtype.itemsize, *out, count)

    def on_its_device(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        with C.device:
            run(A, B, C, alpha, beta)

    return on_its_device if kind._several else run


def _operation(transposed: bool, conjugated: bool) -> int | None:
    """None: there is no way to conjugate without transposing."""
    if conjugated:
        return _ADJOINT if transposed else None
    return _TURNED if transposed else _PLAIN


def _factors(problem: Problem, *given: complex) -> list[complex]:
    """Real numbers for real matrices, however they were given."""
    return [factor if problem.is_complex else complex(factor).real for factor in given]


def _by_torch(kind: Any, problem: Problem, batch: Batch) -> Product:
    """baddbmm, which hands the strides of its operands to cuBLAS."""
    shapes = [(batch.walk.batch, operand.rows, operand.columns) for operand in batch.operands]
    inner = [batch.strides[3 * side + 1 : 3 * side + 3] for side in range(3)]
    conj = (problem.conj_a, problem.conj_b, False)

    def view(array: Any, side: int, start: int) -> Any:
        strides = (batch.walk.steps[side], *inner[side])
        found = array.as_strided(shapes[side], strides, array.storage_offset() + start)
        return found.conj() if conj[side] else found

    def run(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        alpha, beta = _factors(problem, alpha, beta)
        for start in batch.walk.starts:
            a, b, c = (view(array, side, start[side]) for side, array in enumerate((A, B, C)))
            kind._torch.baddbmm(c, a, b, alpha=alpha, beta=beta, out=c)

    return run


_ROUTINES = {"CuPy": _by_cublas, "PyTorch": _by_torch}
