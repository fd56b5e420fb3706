"""Scaled products of matrices and stacks by the array library's own BLAS, in the place of the result: blocked
factorizations would spend most of their time in copies of `matmul`, which takes neither factors nor gaps."""

from __future__ import annotations

from ...arrays.gemm import LETTER, Gemm, Product
from ...arrays.kinds import View
from ...arrays.types import Kind
from ...backends.base import Launch
from ...plan.problem import Problem
from .. import library_launch
from ..run import layout
from ..stacks import Batch


def strided_product(kind: Kind, problem: Problem, batch: Batch) -> Product | None:
    """The routine for stacks on a GPU that lie like these; None where there is none."""
    if batch.operands[0].view.device[0] != "cuda":
        return None
    scattered = any(operand.listed for operand in batch.operands) or any(t is not None for t in batch.walk.tables)
    if scattered or any(one.layout[0] == "any" or one.view.conjugated for one in batch.operands):
        return None
    return kind.strided_gemm(described(problem, batch))


def product_launch(kind: Kind, problem: Problem, batch: Batch) -> Launch | None:
    """cuBLAS on addresses for stacks that lie like these; None where it cannot be called directly."""
    scattered = any(operand.listed for operand in batch.operands) or any(t is not None for t in batch.walk.tables)
    if scattered or any(one.layout[0] == "any" for one in batch.operands):
        return None
    return library_launch.launch_of(kind, described(problem, batch), batch.operands[0].view.device)


def host_launch(kind: Kind, problem: Problem, batch: Batch) -> Launch | None:
    """NumPy's BLAS for stacks that lie like these; None where it cannot be called directly."""
    if any(operand.listed for operand in batch.operands) or any(t is not None for t in batch.walk.tables):
        return None
    return library_launch.on_host(kind, described(problem, batch), [operand.view for operand in batch.operands])


def described(problem: Problem, batch: Batch) -> Gemm:
    """The products of a batch as array libraries are asked for them. Problems of vectors have no conj_b."""
    shapes = tuple((operand.rows, operand.columns) for operand in batch.operands)
    strides = tuple(batch.strides[3 * side + 1 : 3 * side + 3] for side in range(3))
    layouts, traits = tuple(operand.layout for operand in batch.operands), dict(problem.traits)
    conjugated = bool(traits.get("conj_a")), bool(traits.get("conj_b"))
    walk = batch.walk
    return Gemm(problem.dtype, shapes, layouts, strides, walk.steps, walk.starts, walk.batch, conjugated)


def matrix_product(kind: Kind, a: View, b: View, c: View) -> Product | None:
    """The routine for single matrices that lie like these; None where there is none."""
    if a.dtype not in LETTER or c.dtype != a.dtype or 0 in (*a.shape, *b.shape):
        return None
    return kind.gemm((a, b, c), [layout(view) for view in (a, b, c)])
