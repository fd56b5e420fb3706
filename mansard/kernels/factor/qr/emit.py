"""Instantiation text and launch geometry of `qr`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import batches
from . import shapes, space_cpu, spec, work
from .space import Config
from .space_cpu import Simd


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, F, Q, B, X, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides)
    if isinstance(config, Simd):
        fixed += (device.multiprocessors,)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    on_cpu = isinstance(config, Simd)
    constants = _constants(problem) | (batches.stacks(problem, spec.OPERANDS) if on_cpu else _images(problem, config))
    bounds = None if isinstance(config, Simd) else (work.threads(problem, config), config.BLOCKS_PER_SM)
    return instantiate(
        title=f"qr: A[{problem.M},{problem.N}], {problem.want}, {problem.dtype}, {config.VARIANT}",
        header=f"kernels/factor/qr/{'kernel.hpp' if on_cpu else f'kernel_{config.VARIANT}.cuh'}",
        function=f"qr_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=_arguments(problem, on_cpu),
        bounds=bounds,
    )


def _arguments(problem: Problem, on_cpu: bool) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides."""
    pointers = {"TAU": Field("TAU", "Params::T*", "pointer")}
    for name in spec.OPERANDS:
        many = not on_cpu and getattr(problem, f"stack_{name}") == "pointers" and any(spec.shape(problem, name))
        pointers[name.upper()] = batches.pointer(name, written=name not in "ab", many=many)
    integers = ["BATCH", *(f"{name}_{what}" for name in spec.OPERANDS for what in ("matrix", "row", "col"))]
    integers += ["threads"] if on_cpu else []
    return (
        *(pointers[name] for name in ("A", "F", "TAU", "Q", "B", "X")),
        *WORKSPACE,
        *batches.integers(integers),
    )


def _constants(problem: Problem) -> dict[str, Any]:
    sizes: dict[str, Any] = {"M": problem.M, "N": problem.N, "NRHS": problem.NRHS, "WANT": problem.want}
    return sizes | {f"LAYOUT_{name.upper()}": getattr(problem, f"layout_{name}") for name in spec.OPERANDS}


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    if config.VARIANT == "tensor":
        return {"SHARED_BYTES": work.shared_bytes(problem, config)}
    shape = shapes.shape(problem, config)
    return {
        "ALIGNED": problem.aligned,
        "FEED_A": shape.a.feed,
        "PITCH_A": shape.a.pitch,
        "MATRIX_A": shape.a.matrix,
        "TWIN": shape.twin,
        "FEED_F": shape.feed_f,
        "SHARED_BYTES": shape.shared_bytes,
    }


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the batch."""
    return batches.launch_geometry(work, space_cpu, problem, config, device)
