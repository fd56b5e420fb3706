"""Instantiation text and launch geometry of `gram`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Source
from ....plan.problem import Problem
from ...common import sources, team
from . import space_cpu, work, work_columns
from .space import Config
from .space_entries import Entries

_POINTERS = sources.matrices("A", "B", "C", written="C")
_STRIDES = ("K", "a_row", "a_col", "b_row", "b_col", "c_row", "c_col")


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C, rows then columns, in elements."""
    fixed = (problem.K, *strides)
    if config.TARGET == "cpu":
        fixed += space_cpu.parts(problem), team.size(work.work(problem), device)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    constants = {"M": problem.M, "N": problem.N, "CONJ": problem.conj, "SAME": problem.same}
    if config.TARGET == "cpu":
        constants |= dict(zip(("ROW_MAJOR_A", "ROW_MAJOR_B"), space_cpu.rows_major(problem), strict=True))
    else:
        constants |= {"LAYOUT_A": problem.layout_a, "LAYOUT_B": problem.layout_b}
        if config.VARIANT in ("ring", "thirds", "group"):
            constants |= {"PITCH_A": problem.pitch_a, "PITCH_B": problem.pitch_b}
        if config.VARIANT == "columns":
            constants |= dict(zip(("SKEW_A", "SKEW_B"), work_columns.skews(problem), strict=True))
        if config.VARIANT == "entries":  # every column lands on a line
            constants |= {"SKEW_A": False, "SKEW_B": False, "FEED": Entries.FEED}
        constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    power = "H" if problem.conj else "T"
    return sources.source(
        problem, config, target, work=work, folder="tall_skinny/gram", constants=constants,
        title=f"C[{problem.M},{problem.N}] = A[K,{problem.M}]^{power} B[K,{problem.N}], {problem.dtype}",
        arguments=(*_POINTERS, *WORKSPACE, *sources.integers(_STRIDES, config, ("parts", "threads")), *SCALARS),
        cooperative=config.TARGET == "cuda" and config.REDUCE == "sliced",
    )  # fmt: skip


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the problem's K."""
    wide = 16 if problem.is_complex else 8
    if config.TARGET == "cpu":
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device.multiprocessors))
    most = device.multiprocessors * config.BLOCKS_PER_SM
    blocks, tiles, entries = (
        max(1, min(most, -(-problem.K // _rows_per_block(problem, config)))),
        1,
        problem.M * problem.N,
    )
    if config.VARIANT == "fragment":
        words, width_m, width_n = work.real_widths(problem, config.FOLD)
        block_m, block_n = 8 * config.TILE_M * config.WARPS_M, 8 * config.TILE_N * config.WARPS_N
        tiles = -(-width_m // block_m) * -(-width_n // block_n)
        entries = min(block_m // words, problem.M) * min(block_n // words, problem.N)
        blocks = max(1, min(blocks, -(-most // tiles)))
        if config.REDUCE == "sliced":  # all tiles' blocks wait for each other and must be resident together
            blocks = max(1, min(blocks, most // tiles))
    return Geometry(
        grid=(blocks, tiles, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
        cooperative=config.REDUCE == "sliced",
        partial_bytes=blocks * tiles * entries * wide,
        sum_bytes=tiles * entries * wide if config.REDUCE in ("atomic", "block") else 0,
    )


def _rows_per_block(problem: Problem, config: Any) -> int:
    """Rows that keep every warp of a block busy once."""
    if config.VARIANT == "tiled":
        per_row = -(-problem.M // config.TILE_M) * -(-problem.N // config.TILE_N)
        return int(config.BLOCK // per_row * config.UNROLL)
    if config.VARIANT == "fragment":
        return int(config.WARPS_K * 4 * config.DEPTH * config.FOLD)
    return int(config.GROUPS * config.ROWS * (config.FOLD if config.VARIANT == "ring" else 1))
