"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from ..two_sided import reductions
from ..two_sided.reductions import Block, Config, Lanes, slices, words
from . import space, spec


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Two warps with as many blocks as fit; the fewest lanes, or warps, whose registers hold their share."""
    if device.backend == "cpu" or spec.refusal(problem):
        return
    for rough in (*measured.configs(space, problem, device), *_rough(problem)):
        if config := space.resident(problem, rough, device):
            yield config


def _rough(problem: Problem) -> Iterator[Config]:
    if problem.N <= reductions.MOST_OF_LANES:
        long = problem.is_complex and problem.N > 16  # code of steps that share none would take long to compile
        yield Lanes(_lanes(problem), ROLL=4 if long else 1)
        yield Lanes(32, WARPS=1, ROLL=4)
        return
    if not reductions.fits_registers(problem.dtype, problem.N):
        # small matrices wait at barriers: several blocks; of large ones the cache holds only one per multiprocessor
        yield from reductions.panels(4 if problem.N <= 160 else 8 if problem.N <= 256 else 16)
        return
    most = _MOST_HELD if problem.N <= 3 * 32 else _MOST_OF_FOUR
    yield from (Block(warps) for warps in (2, 3, 4, 6, 8, 12, 16) if _held(problem, warps) <= most)


def _lanes(problem: Problem) -> int:
    """Lanes per matrix: two columns each, so that a broadcast serves two products; one where an entry takes four
    registers, or where there are few columns."""
    if problem.N <= 4 or (words(problem) == 1 and problem.N <= 8):
        return 4
    lanes = 8 if problem.N <= 2 * 8 else 16
    return 2 * lanes if words(problem) > 2 and lanes < problem.N else lanes


def _held(problem: Problem, warps: int) -> int:
    """Registers of a thread's share of the matrix."""
    return words(problem) * slices(problem, Block(warps)).held


_MOST_HELD = 192  # registers of a share of up to three columns: the vectors of a step take some 60 more, of 255
_MOST_OF_FOUR = 128  # registers of a share of four columns, whose vectors and addresses take more
