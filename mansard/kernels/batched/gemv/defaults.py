"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from ...common.configs import piece, power_below, up
from . import shapes, space, space_cpu
from .space import Config, Lanes, Stream
from .spec import canonical

# Bytes of a matrix up to which it goes through shared memory. A warp that reads it directly has 32 lanes with 16 loads
# of 16 bytes under way: smaller matrices do not fill them.
_SMALL_BYTES = 32 * 16 * 16
# The same for ragged lines, of which direct loads waste parts of every 32-byte sector: what a warp may stage.
_RAGGED_BYTES = space.STAGE_BYTES


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    ragged = shapes.adjacent(problem) * problem.itemsize < 16 or space.best_use(problem) < 0.9
    name, most = ("RAGGED_BYTES", _RAGGED_BYTES) if ragged else ("SMALL_BYTES", _SMALL_BYTES)
    small = problem.M * problem.K * problem.itemsize <= measured.number("gemv", device, name, most)
    kinds = (_lanes, _stream) if small else (_stream, _lanes)
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
            unroll = piece(up(length, inner), min(4, loads))
            yield Stream(outer, inner, power_below(min(loads // unroll, up(canon.M, outer))), unroll, 1, 1, 4)
        else:
            lines = up(length, inner)
            unroll = piece(up(canon.K, outer), max(1, loads // min(2, lines)))
            yield Stream(inner, outer, power_below(min(loads // unroll, lines)), unroll, 1, 1, 4)
    for tile, unroll in product((2, 1), (2, 1)):
        yield Stream(*((1, 32) if rows_first else (32, 1)), tile, unroll, 1, 1, 4)
