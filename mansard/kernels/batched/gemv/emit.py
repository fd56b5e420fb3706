"""Instantiation text and launch geometry of `gemv`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import batches
from . import shapes, space_cpu, work
from .space import Config
from .space_cpu import Simd
from .spec import canonical

_SIDES = "abc"


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, x and y, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *_canonical_strides(problem, strides))
    if isinstance(config, Simd):
        fixed += (device.multiprocessors,)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def _canonical_strides(problem: Problem, strides: tuple[int, ...]) -> tuple[int, ...]:
    """A matrix of one column has no step along its rows, one of one row none along its columns: both have one here."""
    canon = canonical(problem)
    if canon.layout_a == problem.layout_a:
        return strides
    return (strides[0], *canon.strides("a"), *strides[3:])


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    on_cpu = isinstance(config, Simd)
    bounds = None if isinstance(config, Simd) else (work.threads(problem, config), config.BLOCKS_PER_SM)
    return instantiate(
        title=f"gemv: y[{problem.M}] = A[{problem.M},{problem.K}] x[{problem.K}], {problem.dtype}, {config.VARIANT}",
        header=f"kernels/batched/gemv/{'kernel.hpp' if on_cpu else f'kernel_{config.VARIANT}.cuh'}",
        function=f"gemv_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=_constants(problem, config) | asdict(config),
        arguments=_arguments(problem, on_cpu),
        bounds=bounds,
        cooperative=False,
    )


def _arguments(problem: Problem, on_cpu: bool) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars."""
    pointers = []
    for side in _SIDES:
        many = not on_cpu and getattr(problem, f"stack_{side}") == "pointers"
        pointers.append(batches.pointer(side, written=side == "c", many=many))
    integers = ["BATCH", *(f"{side}_{what}" for side in _SIDES for what in ("matrix", "row", "col"))]
    integers += ["threads"] if on_cpu else []
    return (*pointers, *WORKSPACE, *batches.integers(integers), *SCALARS)


def _constants(problem: Problem, config: Any) -> dict[str, Any]:
    canon = canonical(problem)
    constants: dict[str, Any] = {"M": problem.M, "K": problem.K, "CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b}
    constants["ACCUMULATE"] = problem.accumulate
    if isinstance(config, Simd):
        stacks = batches.stacks(problem, _SIDES)
        units = {f"UNIT_{side.upper()}": getattr(canon, f"layout_{side}") == "col" for side in "bc"}
        return constants | {"ROW_MAJOR_A": canon.layout_a == "row"} | stacks | units
    constants |= {"LAYOUT_A": canon.layout_a, "ALIGNED": problem.aligned}
    constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    if config.VARIANT == "stream":
        return constants | {"VECTOR": shapes.adjacent(problem)}
    shape = shapes.lanes_shape(problem, config)
    for side, image in zip(_SIDES, (shape.a, shape.x, shape.y), strict=True):
        constants |= batches.image(side, image)
    return constants | {f"SHARED_{side.upper()}": getattr(problem, f"stack_{side}") == "shared" for side in "ab"}


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the batch."""
    if isinstance(config, Simd):
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, device.multiprocessors))
    return Geometry(
        grid=(work.blocks(problem, config, device), 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
    )
