"""Instantiation text and launch geometry of `sweeps`, for GPUs and their emulation."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import sources
from . import spec, work
from .space import Thread

_WRITTEN = ("W", "LEFT", "RIGHT")
_POINTERS = tuple(
    Field(name, "int*", "pointer")
    if name in ("RANGES", "COUNT", "INFO")
    else Field(name, f"{'' if name in _WRITTEN else 'const '}Params::T*", "pointer")
    for name in spec.POINTERS
)


def kernel(problem: Problem, config: Thread, device: Device, strides: tuple[int, ...] = ()) -> Kernel:
    """Everything a backend needs; there are no `strides`. Pointers are those of `spec.POINTERS`, in that order."""
    geometry = Geometry(
        (work.blocks(problem, config, device), 1, 1), config.THREADS, work.shared_bytes(problem, config)
    )
    return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH,))


def source(problem: Problem, config: Thread, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    constants = {
        "N": problem.N,
        "CAPACITY": problem.CAPACITY,
        "FORM": problem.form,
        "WANT": problem.want,
        "SORTED": problem.sorted,
        "MATRICES": work.matrices(problem, config),
        "SHARED_BYTES": work.shared_bytes(problem, config),
    }
    return sources.source(
        problem, config, target, work=work, folder="factor/sweeps", constants=constants,
        title=f"{problem.form}[{problem.N},{problem.N}], {problem.want}, {problem.dtype}",
        arguments=(*_POINTERS, *WORKSPACE, *sources.integers(("BATCH",))),
    )  # fmt: skip
