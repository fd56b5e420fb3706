"""Stacks times one matrix for all, C_i = A_i B, as one tall product: the rows of all A_i follow each other in memory.

A kernel for a tall matrix reads B once per block of threads, one for a batch once per product. On CPUs, where B stays
in the first cache either way, kernels for batches are as fast.
"""

from __future__ import annotations

from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.select import select
from ...plan.plan import Plan
from ...plan.route import Kernel
from ...plan.tall_skinny_rules import family_for
from .pair import Pair
from .tsmm_call import plan_pair


def plan_folded(kind: Kind, A: Array, B: Array, out: Array, a: View, b: View) -> Plan | None:
    """The plan of one tall product; None where operands or `out` cannot be folded, the product would not be tall, or a
    kernel for tall matrices does not answer."""
    c = None if out is None else kind.view(out, "out")
    shape = (*a.shape[:-1], b.shape[-1])
    if len(b.shape) != 2 or len(a.shape) < 3 or a.shape[-1] != b.shape[0] or (c is not None and c.shape != shape):
        return None
    tall, place = folded(a), None if c is None else folded(c)
    if tall is None or (c is not None and place is None) or (place is not None and place.address == tall.address):
        return None
    (rows, inner), columns = tall.shape, b.shape[1]
    if family_for(a.dtype, rows, inner, columns, 0, select(a.device, None).device) != "tsmm":
        return None
    views = {"A": tall, "B": b} | ({} if place is None else {"out": place})
    plan = plan_pair(Pair(A, B, out, kind, views), None, True, shape)
    return plan if isinstance(plan.choice.route, Kernel) else None


def folded(view: View) -> View | None:
    """A stack as one matrix of all its rows; None where these do not follow each other at equal distances."""
    *lead, columns = view.shape
    *steps, column = view.strides
    rows, distance = 1, 0
    for size, step in zip(reversed(lead), reversed(steps), strict=True):
        if size == 1:
            continue
        if rows > 1 and step != rows * distance:
            return None
        if rows == 1:
            distance = step
        rows *= size
    return view._replace(shape=(rows, columns), strides=(distance or columns, column)) if rows > 1 else None
