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

# Matrices that LAPACK does in the time of a group: at no rows, and rows per one more (float64, one core with AVX-512).
_GROUP = {"eigh": (0.9, 38), "eigvalsh": (1.5, 160), "svd": (1.0, 28), "svdvals": (1.4, 48)}
_SINGLE = 1.2  # times as many in single precision, in which LAPACK is faster, too
_COMPLEX = 1.7  # times as many of complex matrices: real rotations, but products of four
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
    first, rows = _GROUP[problem.want]
    factor = _COMPLEX if problem.is_complex else 1.0
    factor *= _SINGLE if problem.dtype in ("float32", "complex64") else 1.0
    return (first + order / rows) * factor * lapack_seconds(problem, order)
