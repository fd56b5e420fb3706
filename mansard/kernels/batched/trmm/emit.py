"""Instantiation text and launch geometry of `trmm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import Problem
from ...common import batches
from ..trsm import triangles
from ..trsm.triangles import OPERANDS
from . import space_cpu, work
from .work_shapes import block_shape, lanes_shape


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    if config.VARIANT == "lanes":
        return batches.images(lanes_shape(problem, config), OPERANDS) | batches.shared(problem, "ab")
    shape = block_shape(problem, config)
    windows = {f"{what}_{name}": getattr(getattr(shape, name.lower()), what.lower())
               for name in "AB" for what in ("FEED", "PITCH")}  # fmt: skip
    return windows | {"ADJACENT": shape.adjacent}


launch_geometry = partial(batches.launch_geometry, work, space_cpu)
source = partial(triangles.source, work, _images, "X[{n},{k}] = A[{n},{n}] B, {dtype}")
kernel = partial(batches.kernel, work, source, launch_geometry)
