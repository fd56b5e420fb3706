"""Arguments and constants of kernels for batches: pointers, strides, stacks and images of their operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...codegen.geometry import Device, Geometry, Kernel
from ...codegen.instantiate import Field, Source
from ...plan.problem import Problem
from . import sources
from .sources import ON_CPU, CpuSpace, Resources

# What kernels of factorizations are given, in this order; null where a problem has no such operand.
POINTERS = {
    "cholesky": ("A", "F", "B", "X", "INFO"),
    "lu": ("A", "F", "PIVOTS", "B", "X", "INFO"),
    "qr": ("A", "F", "TAU", "Q", "B", "X"),
    "systems": ("A", "PIVOTS", "B", "X", "SQUARES", "INFO"),
}


def pointer(
    problem: Problem, config: Any, operand: str, *, written: bool, present: bool = True, name: str = ""
) -> Field:  # fmt: skip
    """Pointer to the matrices of an operand, or (on GPUs, if its stack says so) to an array of their addresses."""
    entry = "Params::T" if written else "const Params::T"
    many = config.TARGET != ON_CPU and present and getattr(problem, f"stack_{operand}") == "pointers"
    return Field((name or operand).upper(), f"{entry}* const*" if many else f"{entry}*", "pointer")


def steps(name: str, turned: bool = False) -> tuple[str, str, str]:
    """Names of an operand's strides: of matrices, rows and columns; where it is turned, columns are called rows."""
    return (f"{name}_matrix", *((f"{name}_col", f"{name}_row") if turned else (f"{name}_row", f"{name}_col")))


def stacks(problem: Problem, operands: Iterable[str]) -> dict[str, Any]:
    """Constants that say how the matrices of each operand follow each other."""
    return {f"STACK_{name.upper()}": getattr(problem, f"stack_{name}") for name in operands}


def shared(problem: Problem, operands: Iterable[str]) -> dict[str, Any]:
    """Constants that say whether one matrix of an operand serves all products."""
    return {f"SHARED_{name.upper()}": getattr(problem, f"stack_{name}") == "shared" for name in operands}


def images(shape: Any, operands: Iterable[str]) -> dict[str, Any]:
    """Constants of the operands' images in shared memory (gemm's image.cuh), which `shape` has by their names."""
    return {key: value for name in operands for key, value in image(name, getattr(shape, name)).items()}


def image(name: str, shape: Any) -> dict[str, Any]:
    """Constants of one operand's image in shared memory."""
    return {f"{what}_{name.upper()}": getattr(shape, what.lower()) for what in ("FEED", "PITCH", "MATRIX")}


def launch_geometry(
    work: Resources, space_cpu: CpuSpace, problem: Problem, config: Any, device: Device
) -> Geometry:  # fmt: skip
    """Grid, block, shared memory and workspace for the batch."""
    if config.TARGET == ON_CPU:
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device.multiprocessors))
    return Geometry(
        grid=(work.blocks(problem, config, device), 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
    )


def kernel(
    work: Any,
    source: Callable[[Problem, Any, str], Source],
    geometry: Callable[[Problem, Any, Device], Geometry],
    problem: Problem,
    config: Any,
    device: Device,
    strides: tuple[int, ...],
) -> Kernel:
    """Everything a backend needs; `strides` are those of the operands, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides, *sources.threads(config, device, work.work(problem)))
    return Kernel(source(problem, config, device.backend), geometry(problem, config, device), fixed)
