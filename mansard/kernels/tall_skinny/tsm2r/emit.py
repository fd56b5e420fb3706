"""Instantiation text and launch geometry of `tsm2r`, for GPUs and their emulation."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Source
from ....plan.problem import Problem
from ...common import sources
from . import work
from .space import Config

_POINTERS = sources.matrices("A", "B", "C", written="C")
_INTEGERS = ("M", "K", "a_row", "a_col", "b_row", "b_col", "c_row", "c_col")


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C, rows then columns, in elements."""
    fixed = (problem.M, problem.K, *strides)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    constants: dict[str, Any] = {
        "N": problem.N,
        "LAYOUT_A": problem.layout_a,
        "CONJ_A": problem.conj_a,
        "CONJ_B": problem.conj_b,
    }
    if config.VARIANT != "steps":
        constants |= {"LAYOUT_B": problem.layout_b, "VECTOR": work.vector(problem)}
    constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    return sources.source(
        problem, config, target, work=work, folder="tall_skinny/tsm2r", constants=constants,
        title=f"C[M,{problem.N}] = A[M,K] B[K,{problem.N}], {problem.dtype}",
        arguments=(*_POINTERS, *WORKSPACE, *sources.integers(_INTEGERS), *SCALARS),
    )  # fmt: skip


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace: sums of rows that blocks share, a counter for each set of rows."""
    if config.VARIANT == "steps":
        panels = -(-problem.M // config.T1)
        shared = config.SPLIT > 1
        sums = config.SPLIT * problem.N * panels * config.T1 * problem.itemsize
        grid = (panels, config.SPLIT, 1)
    else:
        shape = work.tensor_shape(problem, config)
        blocks = work.blocks(problem, config, device.multiprocessors)
        panels = shape.panels
        shared = blocks > 1 or config.WARPS_K > 1
        sums = 2 * blocks * shape.partial_bytes
        grid = (blocks, 1, 1)
    return Geometry(
        grid=grid,
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
        partial_bytes=sums if shared else 0,
        sum_bytes=4 * panels if shared else 0,
    )
