"""Systems with factors that are there already, by LAPACK: one call per matrix (getrs, potrs) for NumPy arrays whose
triangles BLAS would solve one after the other. An exchange of rows and two triangles cost several times as much there.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...arrays.types import Array, Kind
from ...backends.select import select
from ...kernels.batched import trsm
from ...plan import dispatch, pin
from ...plan.route import Library, Request
from .. import stacks
from . import lapack
from .swaps import BEYOND

LARGEST = 128  # rows; LAPACK copies factors that lie row by row, which larger ones with one right-hand side feel
WHY = "one call of LAPACK's {} per matrix in place of these steps, whose triangles BLAS would solve one by one"


def answers(kind: Kind, F: Array, B: Array, backend: str | None) -> bool:
    """Whether LAPACK solves: stacks of one dtype in the CPU's memory, with triangles that are left to the library."""
    if not kind.on_host_alone or stacks.is_list(F) or stacks.is_list(B):
        return False
    return answers_for(F, B, backend)


def answers_for(F: Array, B: Array, backend: str | None = None) -> bool:
    """Whether LAPACK solves systems of these NumPy stacks: of one dtype, with few rows, and left to the library."""
    if backend is not None or pin.pins():
        return False
    if F.shape[:-2] != B.shape[:-2] or F.dtype != B.dtype or 0 in B.shape or F.shape[-1] > LARGEST:
        return False
    rows, columns = B.shape[-2:]
    return _left_to_library(F.dtype.name, rows, columns, prod(B.shape[:-2]))


def _left_to_library(dtype: str, rows: int, columns: int, count: int) -> bool:
    problem = trsm.spec.problem(dtype, rows, columns, count)
    request = Request.of(select(("cpu", 0), None), "trsm", may_hand_over=True, spares_compiling=True)
    return isinstance(dispatch.decide(problem, request).route, Library)


def lu_solve(F: Array, pivots: Array, B: Array, trans: int, out: Array = None) -> Array:
    """Solve A X = B (or with the transpose, 1, or conjugate transpose, 2, of A) by the factors of A."""
    if not 0 <= pivots.min() <= pivots.max() < F.shape[-1]:
        raise ValueError(BEYOND)
    return _placed(lapack.lu_solve(F, pivots, B, trans), out)


def cholesky_solve(C: Array, lower: bool, B: Array, out: Array = None) -> Array:
    """Solve L L^H X = B, or U^H U X = B. None where `out` may lie on the factor, which is for others to refuse."""
    if out is not None and np.may_share_memory(out, C):
        return None
    return _placed(lapack.cholesky_solve(C, lower, B), out)


def _placed(X: Array, out: Array) -> Array:
    if out is None:
        return X
    out[...] = X
    return out
