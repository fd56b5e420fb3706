"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.vectors import registers_of
from . import space
from .space import Config, Ring, Simd

_CHUNK_BYTES = 24 << 10  # of a chunk: several are on their way while one is read
_BLOCK_BYTES = 24 << 10  # of a block of rows on a CPU: half of the first cache


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """On GPUs chunks of about 24 KB and as many as there is room for; on CPUs as many sums as registers hold."""
    if device.backend == "cpu":
        yield _simd(problem, device)
        return
    row_bytes = problem.pitch_a * problem.itemsize
    for rows in dict.fromkeys((max(64, _CHUNK_BYTES // row_bytes // 64 * 64), 64)):
        for stages in (8, 7, 6, 5, 4, 3, 2):
            yield Ring(rows, stages)


def _simd(problem: Problem, device: Device) -> Simd:
    lanes = max(16, device.vector_bytes) // 8
    vectors = 16 // lanes
    columns = problem.N * (2 if problem.is_complex else 1)
    tile = configs.piece(columns, max(1, min(8, (registers_of(device) - vectors - 1) // vectors)))
    return Simd(lanes, tile, max(64, min(512, _BLOCK_BYTES // (8 * columns) // 64 * 64)))
