"""Instantiation text and launch geometry of `sketch`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import WORKSPACE, Source
from ....plan.problem import Problem
from ...common import sources, team
from . import space_cpu, spec, work
from .space import Config

_INTEGERS = ("K", "a_row", "a_col", "seed")


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, rows then columns, and the seed of the signs."""
    more = (space_cpu.parts(problem), team.size(work.work(problem), device)) if config.TARGET == "cpu" else ()
    fixed = (problem.K, *strides, *more)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    on_cpu = config.TARGET == "cpu"
    constants: dict[str, Any] = {"N": problem.N}
    if on_cpu:
        constants["SIGNS"] = spec.signs(problem.N)
    else:
        constants |= {"M": problem.N, "FOLD": 1, "CONJ": True, "PITCH_A": problem.pitch_a}
        constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    pointers = sources.matrices("A", "Y", written="Y") if on_cpu else sources.matrices("A", "Y", "G", written="YG")
    return sources.source(
        problem, config, target, work=work, folder="tall_skinny/sketch", constants=constants,
        title=f"Y[{spec.rows(problem.N)},{problem.N}] = S A[K,{problem.N}], {problem.dtype}",
        arguments=(*pointers, *WORKSPACE, *sources.integers(_INTEGERS, config, ("parts", "threads"))),
        cooperative=getattr(config, "REDUCE", None) == "sliced",
    )  # fmt: skip


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the problem's K."""
    if config.TARGET == "cpu":
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device.multiprocessors))
    blocks = max(1, min(device.multiprocessors * config.BLOCKS_PER_SM, -(-problem.K // config.ROWS)))
    return Geometry(
        grid=(blocks, 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
        cooperative=config.REDUCE == "sliced",
        partial_bytes=blocks * work.partial_entries(problem) * (16 if problem.is_complex else 8),
    )
