"""Instantiation text and launch geometry of `ragged_gemm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import sources
from ...common.configs import up
from . import space_cpu, work
from .space import ROW, Config, Lanes, Sort, Stream, Tiles, Vectors, Whole

MOST_SORTERS = 264  # blocks that sort
_TABLES = tuple(
    Field(f"{side}_{what}", "const long long*", "pointer") for side in "abc" for what in ("rows", "columns", "offsets")
)
_LIST = (Field("items", "mansard::Item*", "pointer"), Field("starts", "long long*", "pointer"))
_OPERANDS = sources.matrices("A", "B", "C", written="C")


def kernel(problem: Problem, config: Config, device: Device, fixed: tuple[int, ...] = ()) -> Kernel:
    """Everything a backend needs. `fixed`: whether A and B advance from product to product (for the sort and on CPUs),
    then (on CPUs) the number of multiplications, which says how many threads are worth their while."""
    integers: tuple[int, ...] = ()
    if isinstance(config, Sort):
        integers = (problem.BATCH, *fixed[:2])
    elif config.TARGET == "cpu":
        integers = (problem.BATCH, *fixed, device.multiprocessors)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), integers)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    return sources.source(
        problem, config, target, work=work, folder="batched/ragged_gemm", title=problem.dtype, function="ragged",
        constants=_constants(problem, config), arguments=_arguments(config),
    )  # fmt: skip


def _constants(problem: Problem, config: Config) -> dict[str, Any]:
    constants: dict[str, Any] = {"TRANS_A": problem.trans_a, "TRANS_B": problem.trans_b}
    if isinstance(config, Sort):
        return constants
    constants |= {"CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b, "ACCUMULATE": problem.accumulate}
    if config.TARGET == "cpu":
        return constants
    if isinstance(config, Stream):
        constants["SWAPPED"] = config.CLASS == ROW
    if isinstance(config, Lanes | Whole | Vectors):
        constants["WIDTH"] = work.widest(config.CLASS)
    return constants | {"SHARED_BYTES": work.shared_bytes(problem, config)}


def _arguments(config: Config) -> tuple[Field, ...]:
    steps = sources.integers(("BATCH", "a_step", "b_step"), config, ("products", "threads"))
    if isinstance(config, Sort):
        return (*_TABLES, *_LIST, Field("counts", "long long*", "pointer"), *WORKSPACE, *steps, *SCALARS)
    if config.TARGET == "cpu":
        return (*_OPERANDS, *_TABLES, *WORKSPACE, *steps, *SCALARS)
    return (*_OPERANDS, *_LIST, *WORKSPACE, *SCALARS)


def launch_geometry(problem: Problem, config: Config, device: Device) -> Geometry:
    """Grid, block and shared memory: as many blocks as are resident where they stay, and no more than there is work."""
    if config.TARGET == "cpu":
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device))
    if isinstance(config, Sort):
        return Geometry((sorters(problem.BATCH, config), 1, 1), config.THREADS)
    resident = device.multiprocessors * config.BLOCKS_PER_SM
    each = config.EACH if isinstance(config, Whole | Vectors) else 0
    if isinstance(config, Tiles | Stream):
        needed = problem.BATCH * config.SLOTS
    else:
        needed = up(problem.BATCH, work.teams(config) * max(1, each))
    return Geometry(
        grid=(max(1, needed if each else min(resident, needed)), 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
    )


def sorters(batch: int, config: Sort) -> int:
    """Blocks of both launches of the sort."""
    return max(1, min(MOST_SORTERS, up(batch, config.THREADS)))
