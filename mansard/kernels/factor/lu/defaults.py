"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space, space_cpu, work
from .space import Block, Config, Lanes, Swaps, Tile

TRUSTED = True  # rules come before the model: latencies decide, which it does not see


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield from space_cpu.ranked(problem, device)
        return
    for rough in _rules(problem, device):
        config = space.resident(problem, rough, device)
        if config is not None:
            beside = 0 if isinstance(config, Swaps) else work.share(problem, config) + _BESIDE_ROWS
            yield configs.with_spare_registers(work, problem, config, device, beside)


_BESIDE_ROWS = 48  # registers of a lane beside its rows: addresses, a pivot row in transit, counters


def _rules(problem: Problem, device: Device) -> Iterator[Config]:
    """A lane per matrix while that is cheap, what sweeps on this device found, then what registers have room for."""
    if problem.want == "swap":
        yield from _swaps(problem)
        return
    if problem.want == "inverse" or max(problem.M, problem.N) <= space.NARROW:
        yield from _single_lane(problem)
    yield from measured.configs(space, problem, device)
    yield from _lanes(problem)
    yield from _tiles(problem)
    yield from _blocks(problem)


# Rows of a matrix that one lane holds, by the registers of an entry: choosing a pivot row takes a selection per entry
# and row, N^3 in all, so that beyond about 128 registers a team of lanes is faster. Factors and inverses write as much
# as they read, and hold less.
_SINGLE_LANE = {1: 10, 2: 8, 4: 6}  # rows, by 32-bit registers per entry
_FEWER_ROWS = 3  # rows less for factors and inverses


def _single_lane(problem: Problem) -> Iterator[Lanes]:
    """A lane per matrix where selecting rows is cheap; two where the matrix of one lane is a sector of 32 bytes."""
    size, words = max(problem.M, problem.N), problem.itemsize // 4
    fewer = _FEWER_ROWS if problem.want in ("factor", "inverse") else 0
    if problem.want == "inverse" and words == 1:
        fewer -= 1
    if (size, words) == (2, 2) and problem.want != "logdet":
        yield Lanes(2, False, 4)
    if size <= _SINGLE_LANE[words] - fewer:
        yield Lanes(1, False, 8 if size <= 2 else 4)


_ROOM = 128  # registers for the rows of a lane: with some 40 others three warps fit into a quarter of a multiprocessor
_LONGEST_CODE = 16  # rows up to which every step has code of its own; more of it does not fit into instruction caches


def _lanes(problem: Problem) -> Iterator[Lanes]:
    """The fewest lanes whose registers hold their rows: fewer lanes idle in the last steps and share a pivot row."""
    size = max(problem.M, problem.N)
    if size > space.NARROW:
        return
    for lanes in (4, 8, 16, 32):
        if work.share(problem, Lanes(lanes)) <= _ROOM:
            yield Lanes(lanes, size > _LONGEST_CODE, 1)
    yield from (Lanes(lanes, True, 1) for lanes in (16, 32))
    yield Lanes(32, True, 1, VIA="shared")  # without a pivot row in registers


_MOST_TILES = 128  # rows of an inverse in registers: eight warps hold no more of complex128 numbers


def _tiles(problem: Problem) -> Iterator[Tile]:
    """Larger inverses in the registers of as few warps as hold them."""
    if problem.want != "inverse" or problem.N > _MOST_TILES:
        return
    for warps, lanes in ((1, 4), (2, 4), (4, 4), (4, 8), (8, 8)):
        if work.share(problem, Tile(warps, lanes)) <= _ROOM:
            yield Tile(warps, lanes)


_WARP_ROWS = 48  # rows or columns per warp: more warps would wait for the one that factors the panel
_TALL = 128  # rows beyond which one warp has more than four rows of a panel per lane


def _blocks(problem: Problem) -> Iterator[Block]:
    """More warps for larger matrices; tall ones are factored by all of them, with two to four rows per thread, in wide
    panels where tensor cores update the rest and there is much of it."""
    unit = "mma" if problem.dtype == "float64" else "fma"
    if problem.M > _TALL:
        warps = 4
        while unit == "fma" and warps < 16 and 64 * warps < problem.M:
            warps *= 2
        wide = problem.N > 32 or problem.M > 256
        yield from (Block(width, warps, "block", unit) for width in ((8, 4) if unit == "fma" else (16, 8)[not wide :]))
        yield Block(8, 8, "block", unit)
    size = max(problem.M, problem.N)
    width = 16 if unit == "mma" and size > 63 and size % 16 == 0 else 8  # a panel that hangs over costs as much
    if problem.dtype == "complex128":  # as wide as registers allow
        width = 4
    warps = 1 if size <= _WARP_ROWS else 2 if size <= 2 * _WARP_ROWS else 4
    if 2 * problem.N <= problem.M:  # little is left to update
        warps = min(warps, 2)
    yield from (Block(blk, warps, "warp", unit) for blk in (width, 8))
    yield from (Block(4, n, "warp", "fma") for n in (warps, 2))
    yield Block(4, 16, "block", "fma")


def _swaps(problem: Problem) -> Iterator[Swaps]:
    """Sixteen 8-byte entries per thread and eight warps, so that several blocks fit; a block takes all columns where
    there are blocks enough."""
    moved, most = work.moved_rows(problem), 128 // problem.itemsize
    for columns in (128 // problem.itemsize, 8, 4, 2, 1):
        warps = max(2, configs.up(moved * columns, 32 * most))
        if warps > (8 if columns > 8 else 16):
            continue
        turns = configs.up(problem.N, columns)
        while turns > 1 and problem.BATCH * configs.up(problem.N, columns * turns) < _BUSY:
            turns = configs.up(turns, 2)
        yield Swaps(columns, warps, turns)
    yield Swaps(1, 16)


_BUSY = 1024  # blocks of threads that keep a device busy
