"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu
from .space import Config, Ring

_CHUNK_BYTES = 24 << 10  # of a chunk: several are on their way while one is read
_CHUNK_ROWS = 192  # at least: a chunk costs the block a barrier, whatever its width


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """On GPUs chunks of 24 KB or 192 rows and as many as there is room for; on CPUs as many sums as registers hold."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    row_bytes = max(1, problem.pitch_a) * problem.itemsize  # no pitch: a layout that `illegal` refuses
    for rows in dict.fromkeys((max(_CHUNK_ROWS, _CHUNK_BYTES // row_bytes // 64 * 64), 64)):
        for stages in (8, 7, 6, 5, 4, 3, 2):
            yield Ring(rows, stages)

