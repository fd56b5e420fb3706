"""What CPU kernels of all families ask about vectors: words of an element, registers, and whether lanes fit."""

from __future__ import annotations

from ...codegen.geometry import Device
from ...plan.problem import Problem


def words_of(problem: Problem) -> tuple[int, int]:
    """Real words per element, bytes per real word."""
    words = 2 if problem.is_complex else 1
    return words, problem.itemsize // words


def registers_of(device: Device) -> int:
    """Vector registers; 32-byte vectors have half as many as the others."""
    return 16 if device.vector_bytes == 32 else 32


def bad_lanes(lanes: int, real: int, device: Device, least: int = 2) -> str | None:
    """Why a vector of so many lanes of `real` bytes cannot be had, or None if it can."""
    if lanes < least or lanes & (lanes - 1) or lanes * real > max(device.vector_bytes, 16):
        return f"LANES={lanes} is no power of two that fits {device.vector_bytes}-byte vectors"
    return None
