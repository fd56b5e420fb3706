"""Instantiation text and launch geometry of `tsmm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Source
from ....plan.problem import Problem
from ...common import sources, team
from . import space_cpu, work
from .space import Config

_POINTERS = sources.matrices("A", "C", "W", written="W")
_STRIDES = ("K", "a_row", "a_col", "c_row", "c_col", "w_row", "w_col")


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, C and W, rows then columns, in elements."""
    fixed = (problem.K, *strides, *((1, team.size(work.work(problem), device)) if config.TARGET == "cpu" else ()))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    constants: dict[str, Any] = {"M": problem.M, "N": problem.N, "CONJ": problem.conj}
    if config.TARGET == "cpu":
        constants |= {"ROW_MAJOR_A": problem.layout_a == "row", "ROW_MAJOR_W": problem.layout_w == "row"}
    else:
        if config.VARIANT == "ring":
            constants |= {"PITCH_A": problem.pitch_a, "DIRECT": problem.pitch_w != problem.N}
        elif config.VARIANT == "columns":
            pass  # columns start anywhere, and W lies as its strides say
        elif config.VARIANT == "fragment":
            constants |= {"PITCH_A": problem.pitch_a, "PITCH_W": problem.pitch_w, "ALIGNED": problem.aligned}
        else:
            constants |= {"LAYOUT_A": problem.layout_a, "LAYOUT_W": problem.layout_w, "IN_PLACE": problem.in_place}
        constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    return sources.source(
        problem, config, target, work=work, folder="tall_skinny/tsmm", constants=constants,
        title=f"W[K,{problem.N}] = A[K,{problem.M}] C[{problem.M},{problem.N}], {problem.dtype}",
        arguments=(*_POINTERS, *WORKSPACE, *sources.integers(_STRIDES, config, ("parts", "threads")), *SCALARS),
    )  # fmt: skip


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the problem's K."""
    if config.TARGET == "cpu":
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device.multiprocessors))
    most = (1 << 30) if config.VARIANT == "fragment" else device.multiprocessors * config.BLOCKS_PER_SM
    rows = work.rows_of_block(config)
    return Geometry(
        grid=(max(1, min(most, -(-problem.K // rows))), 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
    )
