"""Instantiation text and launch geometry of `trsm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import Problem
from ...common import batches
from . import space_cpu, triangles, work
from .triangles import OPERANDS
from .work_shapes import blocked_shape, lanes_shape, stream_shape
from .work_tensor import tensor_shape


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    if config.VARIANT == "blocked":
        block = blocked_shape(problem, config).a
        return {"FEED_A": block.feed, "PITCH_A": block.pitch}
    if config.VARIANT == "stream":
        return {"FEED_A": stream_shape(problem, config).feed}
    if config.VARIANT == "tensor":
        return {f"VECTOR_{name}": vector for name, vector in tensor_shape(problem, config).vectors.items()}
    return batches.images(lanes_shape(problem, config), OPERANDS) | batches.shared(problem, "ab")


launch_geometry = partial(batches.launch_geometry, work, space_cpu)
source = partial(triangles.source, work, _images, "A[{n},{n}] X[{n},{k}] = B, {dtype}")
kernel = partial(batches.kernel, work, source, launch_geometry)
