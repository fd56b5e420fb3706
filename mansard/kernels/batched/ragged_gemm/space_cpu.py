"""The CPU half of the space: tiles of C in registers, of constant sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common.configs import OnCpu


@dataclass(frozen=True)
class Simd(OnCpu):
    """A table of register tiles; lanes along the rows of C."""

    VARIANT: ClassVar[str] = "simd"
    TILE_M: int = 8  # the most rows of C per register tile
    TILE_N: int = 3  # and vectors of columns
    UNROLL: int = 2  # steps along K per turn of the inner loop
    WIDEST: int = 192  # products with more rows or columns are the array library's


def default(problem: Problem, device: Device) -> Simd:
    """As many sums as registers hold."""
    few = device.vector_bytes == 32  # 16 registers; others have 32
    if problem.is_complex:
        return Simd(3, 2, 2) if few else Simd(3, 4, 1)
    return Simd(6, 2, 2) if few else Simd(8, 3, 2)


def workspace_bytes(problem: Problem, c: Simd, device: Device) -> int:
    """For each thread a panel of B in rows."""
    return device.multiprocessors * c.WIDEST * c.TILE_N * max(16, device.vector_bytes)
