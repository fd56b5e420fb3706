"""Instantiation text and launch geometry of `lu`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import batches
from . import shapes, space_cpu, spec, work
from .space import Config
from .space_cpu import Rowwise, Simd, Small


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, F, B and X, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides)
    if isinstance(config, Simd | Rowwise | Small):
        fixed += (device.multiprocessors,)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    on_cpu = isinstance(config, Simd | Rowwise | Small)
    constants = _constants(problem, on_cpu) | (
        batches.stacks(problem, spec.SHAPES) if on_cpu else _images(problem, config)
    )
    bounds = (
        None if isinstance(config, Simd | Rowwise | Small) else (work.threads(problem, config), config.BLOCKS_PER_SM)
    )
    suffix = "hpp" if on_cpu else "cuh"
    return instantiate(
        title=f"lu: A[{problem.M},{problem.N}], {problem.want}, {problem.dtype}, {config.VARIANT}",
        header=f"kernels/factor/lu/{'kernel.hpp' if isinstance(config, Simd) else f'kernel_{config.VARIANT}.{suffix}'}",
        function=f"lu_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=_arguments(problem, on_cpu),
        bounds=bounds,
    )


def _arguments(problem: Problem, on_cpu: bool) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides."""
    steps = "const int*" if problem.want == "swap" else "int*"
    pointers = {"PIVOTS": Field("PIVOTS", steps, "pointer"), "INFO": Field("INFO", "int*", "pointer")}
    for name in spec.SHAPES:
        many = not on_cpu and getattr(problem, f"stack_{name}") == "pointers" and spec.present(problem, name)
        pointers[name.upper()] = batches.pointer(name, written=name in "fx", many=many)
    integers = ["BATCH", *(f"{name}_{what}" for name in spec.SHAPES for what in ("matrix", "row", "col"))]
    integers += ["threads"] if on_cpu else []
    return (
        *(pointers[name] for name in ("A", "F", "PIVOTS", "B", "X", "INFO")),
        *WORKSPACE,
        *batches.integers(integers),
    )


def _constants(problem: Problem, on_cpu: bool) -> dict[str, Any]:
    sizes: dict[str, Any] = {"M": problem.M, "N": problem.N, "NRHS": problem.NRHS}
    layouts = {}
    for name in spec.SHAPES:
        layout = getattr(problem, f"layout_{name}") if on_cpu else shapes.layout(problem, name)
        layouts[f"LAYOUT_{name.upper()}"] = layout
    return sizes | {"WANT": problem.want, "PIVOT": problem.pivot} | layouts


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    constants = {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
    if config.VARIANT == "swaps":
        return constants
    shape = shapes.shape(problem, config)
    for name in spec.SHAPES:
        image = getattr(shape, name)
        constants |= batches.image(name, image)
    return constants


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the batch."""
    return batches.launch_geometry(work, space_cpu, problem, config, device)
