"""Places that callers give for results: checks, overlaps with what is read, and copies where kernels cannot write."""

from __future__ import annotations

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from .. import run as call
from .. import stacks
from ..stacks import Operand
from .kernel import KernelRun
from .task import MATRICES, Found, Sizes, Task


def checked(kind: Kind, task: Task, sizes: Sizes, a: Operand, outs: Found) -> dict[str, Operand]:
    """Where parts go, checked; flat parts are not described."""
    found = {}
    for part, one in outs.items():
        if part not in MATRICES:
            continue
        core, place = sizes.shape(task, part), stacks.operand_of(kind, one, "out")
        wanted = (*a.shape, *core)
        if (*place.shape, place.rows, place.columns) != wanted:
            raise ValueError(f"out has shape {(*place.shape, place.rows, place.columns)}, the result {wanted}")
        for view in stacks.described(kind, one, "out"):
            call.check_out(view, view.shape)
            if view.dtype != a.view.dtype:
                raise TypeError(f"out has dtype {view.dtype}, the result {a.view.dtype}")
        arrays.same_device([("a", a.view), ("out", place.view)])
        found[part] = place
    return found


def overlaps(kind: Kind, A: Array, B: Array, outs: Found) -> bool:
    """Whether a place shares memory with A or B, other than F being A itself."""
    for part in MATRICES:
        for name, one in (("A", A), ("B", B)):
            if part in outs and one is not None:
                in_place = (part, name) == ("F", "A")
                if not (in_place and outs[part] is one) and not _apart(kind, one, outs[part], in_place):
                    return True
    return False


def _apart(kind: Kind, one: Array, place: Array, in_place: bool) -> bool:
    if stacks.is_list(one) or stacks.is_list(place):
        views, targets = stacks.described(kind, one, "a"), stacks.described(kind, place, "out")
        if in_place and len(views) == len(targets) and all(map(_same, views, targets)):
            return True
        ends = np.array([arrays.extent(view, _item(view)) for view in views])
        starts = np.array([arrays.extent(view, _item(view)) for view in targets])
        return bool((ends[:, 0].min() >= starts[:, 1].max()) or (starts[:, 0].min() >= ends[:, 1].max()))
    view, target = kind.view(one, "a"), kind.view(place, "out")
    (first, last), (low, high) = arrays.extent(view, _item(view)), arrays.extent(target, _item(target))
    return first >= high or low >= last or (in_place and _same(view, target))


def _same(one: View, other: View) -> bool:
    return (one.address, one.shape, one.strides, one.conjugated) == (
        other.address, other.shape, other.strides, other.conjugated,
    )  # fmt: skip


def _item(view: View) -> int:
    return int(np.dtype(view.dtype).itemsize)


def deliver(found: Found, outs: Found) -> Found:
    """The parts, copied to the places that were given."""
    for part, place in outs.items():
        if place is not found[part]:
            many = stacks.is_list(place)
            for target, value in zip(place, found[part], strict=True) if many else ((place, found[part]),):
                target[...] = value
    return found | outs


def indirect(run: KernelRun, A: Array, B: Array, outs: Found) -> Found:
    flat = {part: one for part, one in outs.items() if part not in MATRICES}
    return deliver(run(A, B, flat), outs)
