"""Devices that kernels are written for, and geometries they are launched with. Facts only, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass

from .instantiate import Source


@dataclass(frozen=True)
class Device:
    """The facts about a device that decide which configurations are legal and how a grid is shaped."""

    backend: str
    name: str
    arch: str  # sm_90a, or the CPU's architecture
    multiprocessors: int  # or CPU cores
    shared_per_block: int = 0
    shared_per_multiprocessor: int = 0
    registers_per_multiprocessor: int = 0
    threads_per_multiprocessor: int = 0
    l2_bytes: int = 0
    vector_bytes: int = 0  # CPU SIMD width
    ordinal: int = 0

    @property
    def capability(self) -> int:
        """90 for sm_90a; 0 on a CPU."""
        digits = "".join(filter(str.isdigit, self.arch)) if self.arch.startswith("sm_") else ""
        return int(digits or 0)


@dataclass(frozen=True)
class Geometry:
    """How a kernel is launched for one problem, and the workspace it needs."""

    grid: tuple[int, int, int]
    block: int
    shared_bytes: int = 0
    cooperative: bool = False
    partial_bytes: int = 0  # scratch of any content
    sum_bytes: int = 0  # scratch that is zero before and after every launch


@dataclass(frozen=True)
class Kernel:
    """Everything a backend needs to run one problem with one configuration."""

    source: Source
    geometry: Geometry
    fixed: tuple[int, ...]  # the integers of `Arguments` that are known when planning
