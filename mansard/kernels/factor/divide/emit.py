"""Instantiation text and launch geometry of `divide`, for GPUs and their emulation."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import sources
from . import spec, work
from .space import Config

_TYPES = {"W": "Params::T*", "Z": "Params::T*", "INFO": "int*"}
_POINTERS = tuple(Field(name, _TYPES.get(name, "const Params::T*"), "pointer") for name in spec.POINTERS)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...] = ()) -> Kernel:
    """Everything a backend needs; there are no `strides`. Pointers are those of `spec.POINTERS`, in that order."""
    grid = (work.blocks(problem, config, device), 1, 1)
    geometry = Geometry(grid, work.threads(problem, config), work.shared_bytes(problem, config))
    return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH,))


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    constants = {
        "N": problem.N,
        "FORM": problem.form,
        "ASCENDING": problem.want == "shifts" or problem.form == "tridiagonal",
        "SHARED_BYTES": work.shared_bytes(problem, config),
    }
    return sources.source(
        problem, config, target, work=work, folder="factor/divide", constants=constants,
        title=f"{problem.form}[{problem.N},{problem.N}], {problem.want}, {problem.dtype}",
        arguments=(*_POINTERS, *WORKSPACE, *sources.integers(("BATCH",))),
    )  # fmt: skip
