"""Triangular systems and products by libraries: SciPy's BLAS on CPUs, products of the array library elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ...arrays.types import Array, Kind, Matrices
from ...kernels.batched.trsm import lapack, spec
from ...plan.problem import Problem
from .. import stacks
from ..stacks import Operand
from .triangular_run import Solve, Way, matrix_of


def by_lapack(problem: Problem, each: Callable[..., None] = lapack.solve_each) -> Way:
    """SciPy's BLAS, for arrays of any library that lie in the CPU's memory."""

    def solve(A: Matrices, X: Matrices, alpha: complex) -> None:
        for a, x in _pairs(A, X):
            matrices, lead = _numpy(a), x.shape[:-2]
            if a.shape[:-2] != lead:
                matrices = np.broadcast_to(matrices, (*lead, *a.shape[-2:]))
            each(problem, matrices, _numpy(x), alpha)

    return solve


def straight(
    kind: Kind, problem: Problem, given: Sequence[Operand], shape: tuple[int, ...], routine: str
) -> Solve | None:  # fmt: skip
    """The answer of BLAS's `routine` for arrays in the CPU's memory that lie like these, without questions; None where
    they have to be looked at: lists, a matrix for several right-hand sides, results that are no adjacent rows."""
    a, b = given[:2]
    if any(one.listed for one in given) or (*a.shape, *b.shape) != 2 * shape:
        return None
    if len(given) == 3 and not (kind.on_host_alone and _is_fresh(given[2], b, shape)):
        return None
    shape = (*shape, b.rows, b.columns)
    each, dtype = lapack.bound(problem, a.layout[0] != "col", shape, routine), np.dtype(problem.dtype)

    def solve(A: Array, B: Array, out: Array = None) -> Array:
        X = np.empty(shape, dtype) if out is None else out
        if X is not B:
            X[...] = B
        each(A, X)
        return X

    if kind.on_host_alone:
        return solve
    download, upload = kind.download, kind.upload

    def solve_elsewhere(A: Array, B: Array, out: Array = None) -> Array:
        return upload(solve(download(A), download(B)), B)

    return solve_elsewhere


def _is_fresh(x: Operand, b: Operand, shape: tuple[int, ...]) -> bool:
    """Whether a result lies as a new one would: row after row, matrix after matrix."""
    wanted = stacks.result_of(b, b, shape)
    return (x.strides, x.row, x.column) == (wanted.strides, wanted.row, wanted.column)


def by_library(problem: Problem) -> Way:
    """Row by row, by products of the array library."""
    traits = problem.side, problem.uplo, problem.trans, problem.unit

    def solve(A: Matrices, X: Matrices, alpha: complex) -> None:
        for a, x in _pairs(A, X):
            x[...] = spec.reference(a, x, alpha, *traits) if alpha else 0

    return solve


def _pairs(A: Matrices, X: Matrices) -> Iterable[tuple[Array, Array]]:
    return ((matrix_of(A, i), x) for i, x in enumerate(X)) if stacks.is_list(X) else ((A, X),)


def _numpy(array: Array) -> Array:
    """The same memory as a NumPy array; a copy of what is lazily conjugated."""
    return array if isinstance(array, np.ndarray) else array.resolve_conj().numpy()
