"""Triangular systems and products by libraries: SciPy's BLAS on CPUs, products of the array library elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from ...arrays.types import Array, Kind, Matrices
from ...kernels.batched.trsm import lapack, spec
from ...plan.problem import Problem
from .. import stacks
from ..stacks import Operand
from .triangular_run import Solve, Way, matrix_of

_OWN = 32  # unknowns from which PyTorch's solve is faster than SciPy's BLAS, with its copies (Xeon, 2026-11-19)


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
    if routine == "trsm" and problem.side == "left" and not problem.unit and problem.N >= _OWN and len(given) == 2:
        return partial(_by_own_routine, kind, problem)
    download, upload = kind.download, kind.upload

    def solve_elsewhere(A: Array, B: Array, out: Array = None) -> Array:
        return upload(solve(download(A), download(B)), B)

    return solve_elsewhere


def _by_own_routine(kind: Kind, problem: Problem, A: Array, B: Array, out: Array = None) -> Array:
    """The array library's triangular solve, for tensors in the CPU's memory."""
    lower = problem.uplo == "lower"
    if problem.trans in "CR":
        A = kind.conj(A)
    if problem.trans in "TC":
        A, lower = A.swapaxes(-1, -2), not lower
    return kind.linalg.solve_triangular(A, B, lower=lower)


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
