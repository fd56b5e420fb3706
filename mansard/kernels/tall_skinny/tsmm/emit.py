"""Instantiation text and launch geometry of `tsmm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from . import space_cpu, work
from .space import Config
from .space_cpu import Simd

_POINTERS = (
    Field("A", "const Params::T*", "pointer"),
    Field("C", "const Params::T*", "pointer"),
    Field("W", "Params::T*", "pointer"),
)
_STRIDES = ("K", "a_row", "a_col", "c_row", "c_col", "w_row", "w_col")


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, C and W, rows then columns, in elements."""
    fixed = (problem.K, *strides)
    if isinstance(config, Simd):
        fixed += (1, device.multiprocessors)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    constants: dict[str, Any] = {"M": problem.M, "N": problem.N, "CONJ": problem.conj}
    integers: tuple[str, ...] = _STRIDES
    if isinstance(config, Simd):
        integers += ("parts", "threads")
        bounds, header = None, "kernels/tall_skinny/tsmm/kernel.hpp"
        constants |= {"ROW_MAJOR_A": problem.layout_a == "row", "ROW_MAJOR_W": problem.layout_w == "row"}
    else:
        if config.VARIANT == "ring":
            constants |= {"PITCH_A": problem.pitch_a, "DIRECT": problem.pitch_w != problem.N}
        elif config.VARIANT == "fragment":
            constants |= {"PITCH_A": problem.pitch_a, "PITCH_W": problem.pitch_w, "ALIGNED": problem.aligned}
        else:
            constants |= {"LAYOUT_A": problem.layout_a, "LAYOUT_W": problem.layout_w, "IN_PLACE": problem.in_place}
        constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
        bounds = (work.threads(problem, config), config.BLOCKS_PER_SM)
        header = f"kernels/tall_skinny/tsmm/kernel_{config.VARIANT}.cuh"
    return instantiate(
        title=f"tsmm: W[K,{problem.N}] = A[K,{problem.M}] C[{problem.M},{problem.N}], "
        f"{problem.dtype}, {config.VARIANT}",
        header=header,
        function=f"tsmm_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=(*_POINTERS, *WORKSPACE, *(Field(name, "long long", "integer") for name in integers), *SCALARS),
        bounds=bounds,
        cooperative=False,
    )


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the problem's K."""
    if isinstance(config, Simd):
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device.multiprocessors))
    most = (1 << 30) if config.VARIANT == "fragment" else device.multiprocessors * config.BLOCKS_PER_SM
    rows = work.rows_of_block(config)
    return Geometry(
        grid=(max(1, min(most, -(-problem.K // rows))), 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
    )
