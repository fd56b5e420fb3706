"""Orthonormal bases of blocks with few rows, on CPUs: Householder QR by LAPACK, in the block's own precision.

Cholesky QR plans its steps with some fifty calls of NumPy, whatever the sizes. LAPACK is done with a short block before
that, and reflections leave Q orthonormal for any condition. Where columns may be dependent, or the squares of their
norms leave the range of the dtype, the steps of orthogonal_steps.py decide, as they do for long blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.base import Described
from ...backends.select import select
from ...kernels.tall_skinny.gram import spec
from ...plan import pin, tall_skinny_rules
from ...plan.plan import Plan
from ...plan.problem import Problem
from ...plan.route import Choice, Request
from .. import run as call
from . import small_factors as small

Factors = tuple[Array, Array, Array]  # Q, R, which columns are dependent
Run = Callable[[Array, Array], Factors | None]  # (V, out) -> the factors; None: somebody else decides


def chosen(view: View, shift: str, backend: str | None) -> tuple[Problem, Choice, Described] | None:
    """The choice of LAPACK for a block of a CPU's memory; None where Cholesky QR goes its steps."""
    if shift != "auto" or view.device[0] != "cpu" or pin.pins():
        return None
    found, (rows, columns) = select(view.device, backend), view.shape
    problem = spec.problem(view.dtype, columns, columns, rows, same=True)
    choice = tall_skinny_rules.short_block(problem, Request.of(found, "cholesky_qr", may_hand_over=backend is None))
    return None if choice is None else (problem, choice, found)


def plan(kind: Kind, V: Array, out: Array, shift: str, backend: str | None) -> Plan | None:
    """The plan of a block that LAPACK factors; None where Cholesky QR goes its steps."""
    found = chosen(kind.view(V, "V"), shift, backend)
    if found is None:
        return None
    run = by_norm(kind, V) if V.shape[1] == 1 else by_lapack(kind, V)
    verify = call.make_verify(kind, V, None, out, ("V", "B"))
    return Plan(*found, None, lambda V, B=None, out=None, alpha=1.0, beta=0.0: run(V, out), verify)


def for_later(
    kind: Kind, V: Array, out: Array, shift: str, backend: str | None, steps: Callable[[Array, Array], Factors]
) -> Run:
    """What later calls on blocks like V do without checks: LAPACK, or the `steps`, as on GPUs. It gives None where
    `out` overlaps V."""
    routine = by_norm if V.shape[1] == 1 else by_lapack
    by_reflections = routine(kind, V) if chosen(kind.view(V, "V"), shift, backend) else None
    apart, address = _overlap(kind, V, out), kind.address

    def run(V: Array, out: Array) -> Factors | None:
        if apart is not None and apart(address(V), 0, address(out)):
            return None
        found = None if by_reflections is None else by_reflections(V, out)
        return steps(V, out) if found is None else found

    return run


def by_lapack(kind: Kind, V: Array) -> Run:
    """Householder QR of blocks like V, with a positive diagonal; None where columns may be dependent."""
    view = kind.view(V, "V")
    (rows, columns), dtype, real = view.shape, np.dtype(view.dtype), small.unit_roundoff(view.dtype)
    factor, build, room = _routines(rows, columns, view.dtype)
    weakest, smallest = small.WEAK * real, small.least_norm(view.dtype)
    diagonal, upper = slice(None, columns * columns, columns + 1), _upper(columns)
    written = kind.written
    download, upload, independent = kind.download, kind.upload, np.zeros(columns, bool)

    def run(V: Array, out: Array) -> Factors | None:
        reflected, scales, _, _ = factor(np.array(download(V), dtype, order="F"), lwork=room, overwrite_a=1)
        R = np.multiply(reflected[:columns], upper, order="C")
        pivots = R.reshape(-1)[diagonal].real
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.add.reduce((R.conj() * R).real, 0))
        sizes = np.abs(pivots)
        # comparisons with NaN are false, too
        if not (norms.min() >= smallest and norms.max() < np.inf and (sizes > weakest * norms).all()):
            return None
        Q = build(reflected, scales, lwork=room, overwrite_a=1)[0]
        signs = pivots / sizes
        R *= signs[:, None]
        place = np.empty((rows, columns), dtype) if out is None else download(out)
        _transpose(np.multiply(Q, signs, Q), place)
        if out is not None and written is not None:
            written((out,))
        return (upload(place, V) if out is None else out), upload(R, V), independent.copy()

    return run


def by_norm(kind: Kind, V: Array) -> Run:
    """`by_lapack` for a single column, whose reflection is its norm."""
    view = kind.view(V, "V")
    shape, dtype, smallest = view.shape, np.dtype(view.dtype), small.least_norm(view.dtype)
    norm, largest = get_blas_funcs(("nrm2",), dtype=dtype)[0], float(np.finfo(view.dtype).max) ** 0.5
    download, upload, written = kind.download, kind.upload, kind.written

    def run(V: Array, out: Array) -> Factors | None:
        column = download(V)
        size = norm(column[:, 0])
        if not smallest <= size <= largest:  # false for NaN, too
            return None
        place = np.empty(shape, dtype) if out is None else download(out)
        np.divide(column, size, place)
        if out is not None and written is not None:
            written((out,))
        R = np.empty((1, 1), dtype)
        R[0, 0] = size
        return (upload(place, V) if out is None else out), upload(R, V), np.zeros(1, bool)

    return run


def _routines(rows: int, columns: int, dtype: str) -> tuple[Callable[..., Array], Callable[..., Array], int]:
    """LAPACK's factorization, what forms Q, and the work space that suits both."""
    form = "ungqr" if dtype.startswith("complex") else "orgqr"
    factor, build, ask = get_lapack_funcs(("geqrf", form, "geqrf_lwork"), dtype=np.dtype(dtype))
    return factor, build, int(ask(rows, columns)[0].real)


_NARROW = 4  # columns: NumPy copies so short rows entry by entry, but single columns in one loop


def _transpose(columns: Array, rows: Array) -> None:
    """Copy a matrix from columns to rows, or whatever `rows` has."""
    if columns.shape[1] > _NARROW:
        rows[...] = columns
        return
    for j in range(columns.shape[1]):
        rows[:, j] = columns[:, j]


def _upper(columns: int) -> Array:
    """True on and above the diagonal."""
    return np.triu(np.ones((columns, columns), bool))


def _overlap(kind: Kind, V: Array, out: Array) -> Callable[[int, int, int], str] | None:
    """Asks with addresses whether `out` overlaps V without being V; None without `out`."""
    if out is None:
        return None
    v, place = kind.view(V, "V"), kind.view(out, "out")
    return call.make_overlap(v, None, place, (v.shape, v.strides) == (place.shape, place.strides))
