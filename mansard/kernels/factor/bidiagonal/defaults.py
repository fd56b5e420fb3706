"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from ...common.configs import up
from ..two_sided import reductions
from ..two_sided.reductions import Block, Config, Lanes, words
from . import space, spec


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Two warps of teams, or a warp for so many rows, with as many blocks as fit."""
    if device.backend == "cpu" or spec.refusal(problem):
        return
    for rough in (*measured.configs(space, problem, device), *_rough(problem)):
        if config := space.resident(problem, rough, device):
            yield config


def _rough(problem: Problem) -> Iterator[Config]:
    if problem.N <= reductions.MOST_OF_LANES:
        yield Lanes(_lanes(problem), ROLL=4 if problem.N > 16 else 1)  # long code waits for instructions
        yield Lanes(32, WARPS=1, ROLL=4)
        return
    if not reductions.fits_registers(problem.dtype, problem.N):
        # small matrices wait at barriers: several blocks; of large ones the cache holds only one per multiprocessor
        yield from reductions.panels(8 if problem.N <= 160 else 16)
        return
    rows = {1: 32, 2: 16, 4: 8}[words(problem)] if problem.N > 64 else {1: 32, 2: 16, 4: 16}[words(problem)]
    yield Block(up(problem.N, rows))  # rows of a warp: their products take half as many registers as they do


def _lanes(problem: Problem) -> int:
    """Lanes per matrix: two columns each up to 16 rows, one beyond, where products of rows need registers, too."""
    if problem.N <= 4 or (words(problem) == 1 and problem.N <= 8):
        return 4
    lanes = 8 if problem.N <= 2 * 8 else 32
    return 2 * lanes if words(problem) > 2 and lanes < problem.N else lanes
