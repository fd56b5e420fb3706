"""What families of batches share when they write a kernel: how stacks appear in `Arguments` and `Params`, and the
geometry of a launch."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from ...codegen.geometry import Device, Geometry
from ...codegen.instantiate import Field
from ...plan.problem import Problem

# What kernels of factorizations are given, in this order; null where a problem has no such operand.
POINTERS = {
    "cholesky": ("A", "F", "B", "X", "INFO"),
    "lu": ("A", "F", "PIVOTS", "B", "X", "INFO"),
    "qr": ("A", "F", "TAU", "Q", "B", "X"),
}


def pointer(name: str, *, written: bool, many: bool) -> Field:
    """To the matrices of an operand, or (`many`) to an array of their addresses."""
    entry = "Params::T" if written else "const Params::T"
    return Field(name.upper(), f"{entry}* const*" if many else f"{entry}*", "pointer")


def integers(names: Iterable[str]) -> tuple[Field, ...]:
    return tuple(Field(name, "long long", "integer") for name in names)


def stacks(problem: Problem, operands: Iterable[str]) -> dict[str, Any]:
    """Constants that say how the matrices of each operand follow each other."""
    return {f"STACK_{name.upper()}": getattr(problem, f"stack_{name}") for name in operands}


def image(name: str, shape: Any) -> dict[str, Any]:
    """Constants of an operand's image in shared memory (gemm's image.cuh)."""
    return {f"{what}_{name.upper()}": getattr(shape, what.lower()) for what in ("FEED", "PITCH", "MATRIX")}


def launch_geometry(work: ModuleType, space_cpu: ModuleType, problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the batch."""
    if device.backend == "cpu":
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device.multiprocessors))
    return Geometry(
        grid=(work.blocks(problem, config, device), 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
    )
