"""Instantiation text and launch geometry of `small_step`, for GPUs and their emulation."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import sources
from ..sketch import spec as sketch
from . import work
from .space import Config
from .spec import Rules, Status

_LEFT = (Field("state", "double*", "pointer"), Field("status", "mansard::u32*", "pointer"))
_POINTERS = (*sources.matrices("G", "S", "R", written="SR"), *_LEFT)
_OF_SKETCH = (*sources.matrices("Y", "G", "S", written="S"), *_LEFT)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...] = ()) -> Kernel:
    """Everything a backend needs; there are no `strides`."""
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config), ())


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    constants = {"N": problem.N, "SHARED_BYTES": work.shared_bytes(problem, config), "BLOCK": config.BLOCK}
    if problem.sketched:
        constants["ROWS"] = sketch.rows(problem.N)
    pointers = _OF_SKETCH if problem.sketched else _POINTERS
    return instantiate(
        title=f"small_step: G[{problem.N},{problem.N}], {problem.dtype}",
        header=f"kernels/tall_skinny/small_step/{config.header()}",
        function="small_step_pivots" if problem.sketched else "small_step",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | {status.name: status.value for status in Status},
        arguments=(*pointers, *WORKSPACE, *(Field(name, "double", "real") for name in Rules._fields)),
        bounds=(config.BLOCK, 1),
    )


def launch_geometry(problem: Problem, config: Config) -> Geometry:
    """One block."""
    return Geometry((1, 1, 1), config.BLOCK, work.shared_bytes(problem, config))
