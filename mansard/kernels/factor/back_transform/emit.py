"""Instantiation text and launch geometry of `back_transform`, for GPUs and their emulation."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source
from ....plan.problem import REAL, Problem
from ...common import sources
from . import spec, work
from .space import Config

_TYPES = {
    "V": "const Params::T*", "PHASE": "const Params::T*", "Z": "Params::T*", "RANGES": "const int*",
    "COUNT": "const int*", "W": "Params::Real*",
}  # fmt: skip
_POINTERS = tuple(Field(name, _TYPES.get(name, "const Params::Real*"), "pointer") for name in spec.POINTERS)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...] = ()) -> Kernel:
    """Everything a backend needs; there are no `strides`. Pointers are those of `spec.POINTERS`, in that order."""
    grid = (work.blocks(problem, config, device), 1, 1)
    geometry = Geometry(grid, work.threads(problem, config), work.shared_bytes(problem, config))
    return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH,))


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    constants = {
        "N": problem.N,
        "CAPACITY": problem.CAPACITY,
        "SIDE": problem.side,
        "SHARED_BYTES": work.shared_bytes(problem, config),
    }
    return sources.source(
        problem, config, target, work=work, folder="factor/back_transform", constants=constants,
        title=f"{problem.side}[{problem.N},{problem.N}], {problem.dtype}",
        arguments=(*_POINTERS, *WORKSPACE, *sources.integers(("BATCH",))),
        types={"Real": CPP_TYPES[REAL[problem.dtype]]},
    )  # fmt: skip
