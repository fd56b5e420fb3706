"""Rules of thumb: what to use before anything was measured. Those of `persistent` need a matrix: `fit.py`."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu
from .space import Config, Groups

TRUSTED = True  # the model knows neither levels nor caches


_UNDER_WAY = 28  # entries of a row that a lane has under way: each takes a value, a column and an entry of x
_WIDE_REGISTERS = 48  # registers for the entries of x, where several vectors or 16-byte numbers take more than two each


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    width = problem.NNZ / max(1, problem.ROWS)
    words = problem.itemsize // 4 * problem.NVECS
    for unroll in (unroll_for(width, _UNDER_WAY if words <= 2 else _WIDE_REGISTERS // words), 4, 2, 1):
        yield Groups(256, unroll, "streaming")


def unroll_for(width: float, most: int) -> int:
    """Entries at a time: the row in as few equal parts as the registers allow."""
    entries = max(1, -(-round(width * 100) // 100))
    parts = -(-entries // max(1, most))
    return int(-(-entries // parts))
