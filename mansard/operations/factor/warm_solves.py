"""Systems with factors that are there already, on CPUs: what later calls on arrays of the same signatures do.

The checks of `systems.py` take ten times as long as the solution of a few small systems. What is left of them here is
what they come down to: rows in their order, two triangles in the place of the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...arrays.types import Array, Kind
from ...backends.base import Launch
from ...backends.select import select
from ...errors import LaunchError
from ...kernels.common.batches import POINTERS
from .. import stacks
from ..batched.triangular_call import Triangle
from ..batched.triangular_call import solve as solve_triangle
from ..warm import Run
from . import by_factors
from .plan import SWAP, planned
from .swaps import BEYOND, order_of, permuted

_READ = {"A": 0, "F": 1, "PIVOTS": 2}  # operands of an exchange, which moves rows of A to F; the others are absent
_UNIT_LOWER, _UPPER = Triangle("left", "lower", "N", True), Triangle("left", "upper", "N")
_CHOLESKY = {
    True: (Triangle("left", "lower", "N"), Triangle("left", "lower", "C")),
    False: (Triangle("left", "upper", "C"), Triangle("left", "upper", "N")),
}


def _suits(kind: Kind, backend: str | None, factors: Array, B: Array, *more: Array) -> bool:
    """Whether operands are stacks in the CPU's memory that need neither broadcasting nor conversion."""
    given = (factors, B, *more)
    if any(one is not None and (stacks.is_list(one) or kind.view(one, "a").device[0] != "cpu") for one in given):
        return False
    if select(kind.view(factors, "a").device, backend).name == "emulated":
        return False
    return (
        tuple(factors.shape[:-2]) == tuple(B.shape[:-2]) and 0 not in B.shape and 0 not in factors.shape
        and kind.view(factors, "a").dtype == kind.view(B, "b").dtype
    )  # fmt: skip


def lu_solve(kind: Kind, F: Array, pivots: Array, B: Array, out: Array, backend: str | None) -> Run | None:
    """`systems.lu_solve` of A X = B for later calls on arrays like these, which were checked; None: for none."""
    if not _suits(kind, backend, F, B, pivots, out):
        return None
    if by_factors.answers(kind, F, B, backend):
        return lambda F, pivots, B, out=None: by_factors.lu_solve(F, pivots, B, 0, out)
    permute = _exchange(kind, pivots, B, backend)

    def run(F: Array, pivots: Array, B: Array, out: Array = None) -> Array:
        X = permute(pivots, B)
        solve_triangle(F, X, X, 1.0, backend, _UNIT_LOWER)
        solve_triangle(F, X, X, 1.0, backend, _UPPER)
        return X if out is None else _assigned(out, X)

    return run


def cholesky_solve(kind: Kind, C: Array, lower: bool, B: Array, out: Array, backend: str | None) -> Run | None:
    """`systems.cholesky_solve` for later calls on arrays like these, which were checked; None: for none."""
    if not _suits(kind, backend, C, B, out):
        return None
    if by_factors.answers(kind, C, B, backend):
        return lambda C, B, out=None: by_factors.cholesky_solve(C, lower, B, out)
    first, second = _CHOLESKY[lower]

    def run(C: Array, B: Array, out: Array = None) -> Array:
        X = solve_triangle(C, B, out, 1.0, backend, first)
        return solve_triangle(C, X, X, 1.0, backend, second)

    return run


def _exchange(kind: Kind, pivots: Array, B: Array, backend: str | None) -> Callable[[Array, Array], Array]:
    """(pivots, B) -> a copy of B with its rows in their order: by a kernel where one is worth compiling."""
    shape, dtype, piv = tuple(B.shape), kind.view(B, "b").dtype, kind.view(pivots, "piv")
    in_order = piv.strides == tuple(prod(piv.shape[i + 1 :]) for i in range(len(piv.shape)))
    if piv.dtype == "int32" and in_order and select(piv.device, backend).name == "cpu":
        X = kind.allocate(shape, dtype, B)
        plan = planned(SWAP, kind, B, None, {"F": X, "PIVOTS": pivots}, backend, True)
        run = plan.kernel
        if run is not None and plan.run is run and not (run.addressed or any(run.copies.values())):
            return _by_kernel(kind, kind.allocator(shape, dtype, dtype), run.launch)
    return lambda pivots, B: permuted(kind, order_of(kind, pivots, shape[-2]), B)


def _by_kernel(kind: Kind, make: Callable[[Array], Array], launch: Launch) -> Callable[[Array, Array], Array]:
    address, places = kind.address, [_READ.get(name, 3) for name in POINTERS["lu"]]

    def exchange(pivots: Array, B: Array) -> Array:
        X = make(B)
        at = (address(B), address(X), address(pivots), 0)
        try:
            launch(tuple([at[place] for place in places]), (), 0)
        except LaunchError as error:
            raise ValueError(BEYOND) from error
        return X

    return exchange


def _assigned(out: Array, X: Array) -> Array:
    out[...] = X
    return out
