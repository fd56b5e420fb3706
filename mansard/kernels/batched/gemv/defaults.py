"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import up
from . import shapes, space, space_cpu
from .space import Config, Lanes, Stream
from .spec import canonical

# Bytes of a matrix up to which it goes through shared memory: below, a warp that reads it directly has too few bytes
# under way. Ragged lines (second) waste parts of every sector when read directly, up to what a block can hold.
_SMALL, _ODD = 9 << 10, 40 << 10


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    ragged = shapes.adjacent(problem) * problem.itemsize < 16 or space.best_use(problem) < 0.9
    size = problem.M * problem.K * problem.itemsize
    kinds = (_lanes, _stream) if size <= (_ODD if ragged else _SMALL) else (_stream, _lanes)
    for rough in (config for kind in kinds for config in kind(problem)):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config
    yield Stream(1, 32, 1, 1, 1, 1, 1, 1)


def _lanes(problem: Problem) -> Iterator[Lanes]:
    """Six kilobytes per warp, or a matrix; blocks that hold what all share stay, and fetch ahead."""
    stages = 2 if "shared" in (problem.stack_a, problem.stack_b) else 1
    for team in space.teams(problem):
        large = space.lanes_bytes(problem, team) > 12 << 10
        yield Lanes(*team, space.per_team(problem, team, 6144), stages, 2 if large else 4)
        yield Lanes(*team, 1, 1, 1)


def _stream(problem: Problem) -> Iterator[Stream]:
    """Sixteen loads per lane, or what a matrix has; lanes along a line as far as none is idle."""
    canon = canonical(problem)
    rows_first, vector = canon.layout_a != "col", shapes.adjacent(problem)
    length = (canon.K if rows_first else canon.M) // vector
    best = 0.9 * space.best_use(problem)
    inner = max(space.along(length), key=lambda lanes: (length / (up(length, lanes) * lanes) > best, lanes))
    outer, words = 32 // inner, vector * problem.itemsize // 4
    for loads in (min(32, 64 // words), 32 // words, 16 // words):
        if rows_first:
            unroll = _piece(up(length, inner), min(4, loads))
            yield Stream(outer, inner, _power(min(loads // unroll, up(canon.M, outer))), unroll, 1, 1, 4)
        else:
            lines = up(length, inner)
            unroll = _piece(up(canon.K, outer), max(1, loads // min(2, lines)))
            yield Stream(inner, outer, _power(min(loads // unroll, lines)), unroll, 1, 1, 4)
    for tile, unroll in product((2, 1), (2, 1)):
        yield Stream(*((1, 32) if rows_first else (32, 1)), tile, unroll, 1, 1, 4)


def _piece(total: int, limit: int) -> int:
    """The largest of the fewest balanced pieces of `total` that keep to the limit."""
    return up(total, up(total, limit))


def _power(count: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(1, count).bit_length() - 1)
