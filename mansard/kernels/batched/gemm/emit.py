"""Instantiation text and launch geometry of `gemm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import batches, images
from . import space_cpu, work
from .space import Config
from .space_cpu import Simd
from .work_lanes import lanes_shape
from .work_panels import adjacent, panel_shape

_SIDES = "abc"


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides)
    if isinstance(config, Simd):
        fixed += (1, device.multiprocessors)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    on_cpu = isinstance(config, Simd)
    constants = _cpu_constants(problem) if on_cpu else _gpu_constants(problem, config)
    bounds = None if isinstance(config, Simd) else (work.threads(problem, config), config.BLOCKS_PER_SM)
    return instantiate(
        title=f"gemm: C[{problem.M},{problem.N}] = A[{problem.M},{problem.K}] B[{problem.K},{problem.N}], "
        f"{problem.dtype}, {config.VARIANT}",
        header=f"kernels/batched/gemm/{'kernel.hpp' if on_cpu else f'kernel_{config.VARIANT}.cuh'}",
        function=f"gemm_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=_arguments(problem, on_cpu),
        bounds=bounds,
        cooperative=False,
    )


def _arguments(problem: Problem, on_cpu: bool) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars. On GPUs a column-major C is that of the transposed product: then
    what comes first is called B, and rows are called columns."""
    names, row, column = "abc", "row", "col"
    if not on_cpu and images.is_turned(problem):
        names, row, column = "bac", "col", "row"
    pointers = []
    for side, name in zip(_SIDES, names, strict=True):
        many = not on_cpu and getattr(problem, f"stack_{side}") == "pointers"
        pointers.append(batches.pointer(name, written=side == "c", many=many))
    integers = ["BATCH", *(f"{name}_{what}" for name in names for what in ("matrix", row, column))]
    integers += ["parts", "threads"] if on_cpu else []
    return (*pointers, *WORKSPACE, *batches.integers(integers), *SCALARS)


def _cpu_constants(problem: Problem) -> dict[str, Any]:
    sides = {f"ROW_MAJOR_{side.upper()}": getattr(problem, f"layout_{side}") == "row" for side in _SIDES}
    stacks = batches.stacks(problem, _SIDES)
    return _sizes(problem) | sides | stacks


def _sizes(problem: Problem) -> dict[str, Any]:
    constants: dict[str, Any] = {"M": problem.M, "N": problem.N, "K": problem.K}
    return constants | {"CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b, "ACCUMULATE": problem.accumulate}


def _gpu_constants(problem: Problem, config: Any) -> dict[str, Any]:
    problem = images.oriented(problem)
    constants = _sizes(problem) | {"LAYOUT_A": problem.layout_a, "LAYOUT_B": problem.layout_b}
    constants |= {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
    if config.VARIANT == "readonly":
        return constants
    shape: Any = lanes_shape(problem, config) if config.VARIANT == "lanes" else panel_shape(problem, config)
    for side in _SIDES:
        image = getattr(shape, side)
        constants |= batches.image(side, image)
    if config.VARIANT == "lanes":
        return constants | {f"SHARED_{side.upper()}": getattr(problem, f"stack_{side}") == "shared" for side in "ab"}
    return constants | {"SLACK": shape.slack, "ADJACENT": adjacent(problem)}


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the batch."""
    return batches.launch_geometry(work, space_cpu, problem, config, device)
