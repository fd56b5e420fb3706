"""When LAPACK does better on CPUs than a matrix per SIMD lane: few matrices leave lanes empty.

A group of matrices takes as long as a vector has operations, whether its lanes are filled or not: as long as LAPACK
takes for a few matrices of that order, whatever the width of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from .... import units
from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.vectors import words_of

# Matrices that LAPACK does in the time of a group: at no rows, and rows per one more. One core of a Xeon with AVX-512,
# NumPy with OpenBLAS; complex128: fitted to 12, 16, 32, 64 and 128 rows, 2026-11-20 (docs/families/two-sided.md).
_GROUP = {"eigh": (0.9, 38), "eigvalsh": (1.5, 160), "svd": (1.0, 28), "svdvals": (1.4, 48)}
_COMPLEX_GROUP = {"eigh": (0.3, 27), "eigvalsh": (0.85, 97), "svd": (0.6, 19), "svdvals": (0.55, 31)}
# times as many in single precision, real and complex, whose groups have twice the matrices: measured beside the above
_SINGLE_BY_DOUBLE, _SINGLE, _SINGLE_COMPLEX = 0.9, 1.2, 1.45
_IN_DOUBLE = 40  # rows up to which LAPACK is given matrices of single precision in double
_EACH, _PER_SQUARE = 2e-6, {"eigh": 15e-8, "eigvalsh": 6e-8, "svd": 21e-8, "svdvals": 9e-8}  # seconds of LAPACK
_SHARED = 1 << 22  # operations from which threads share the matrices among them
_ONE_CORE = 96  # rows up to which the BLAS below LAPACK leaves that to them


def lapack_seconds(problem: Problem, order: int) -> float:
    """Estimate the seconds that LAPACK takes for a matrix of so many rows, on one core."""
    return float(_EACH + _PER_SQUARE[problem.want] * order**2)


def lapack_reason(problem: Problem, orders: Sequence[int], device: Device, least: float = 0.0) -> str | None:
    """Why LAPACK answers for matrices of these orders, which descend; None: lanes are faster. `least`: seconds of
    LAPACK's work that a kernel is worth compiling for."""
    count = len(orders)
    alone = sum(lapack_seconds(problem, order) for order in orders)
    if alone < least:
        return f"about {units.duration(alone, 2)} of LAPACK's work: not worth the compilation of a kernel"
    lanes = max(16, device.vector_bytes) // words_of(problem)[1]
    leaders = orders[::lanes]  # of groups: the largest matrix sets the time
    by_lanes = sum(_group_seconds(problem, order) for order in leaders) / min(len(leaders), device.multiprocessors)
    shares = orders[0] <= _ONE_CORE and sum(order**3 for order in orders) >= _SHARED
    by_lapack = alone / (min(count, device.multiprocessors) if shares else 1)
    if by_lapack > by_lanes:
        return None
    return f"{count} of up to {orders[0]} rows, by {lanes} lanes at a time: LAPACK is done first"


def _group_seconds(problem: Problem, order: int) -> float:
    """Estimate the seconds for a group of matrices, one per lane."""
    first, rows = (_COMPLEX_GROUP if problem.is_complex else _GROUP)[problem.want]
    matrices = (first + order / rows) * _single(problem, order)
    return max(1.0, matrices) * lapack_seconds(problem, order)


def _single(problem: Problem, order: int) -> float:
    """How many times as many matrices LAPACK does in the time of a group in this precision as in double."""
    if problem.dtype not in ("float32", "complex64"):
        return 1.0
    if order <= _IN_DOUBLE:
        return _SINGLE_BY_DOUBLE
    return _SINGLE_COMPLEX if problem.is_complex else _SINGLE
