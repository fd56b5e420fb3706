"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu, work
from .space import Block, Config, Lanes, Swaps, Tile

TRUSTED = True  # latencies decide, which the model does not see


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield from space_cpu.ranked(problem, device)
        return
    for rough in _rules(problem):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config


def _rules(problem: Problem) -> Iterator[Config]:
    if problem.want == "swap":
        yield from _swaps(problem)
        return
    if problem.want == "inverse":
        yield from _inverses(problem)
    yield from _lanes(problem)
    yield from _wide_lanes(problem)
    yield from _block(problem)


def _inverses(problem: Problem) -> Iterator[Config]:
    """Teams of lanes, as long as whole rows fit into them; tiles beyond, as square as registers allow."""
    size, dtype = int(problem.N), problem.dtype
    yield from _whole(problem, size)
    for least, most, warps, lanes in _TILES[dtype]:
        if least <= size <= most:
            yield Tile(warps, lanes)
    for most, lanes in _JORDAN[dtype]:
        if size <= most:
            shared = lanes == 32 and size > space.NARROW and dtype != "float32"
            yield Lanes(lanes, size > _UNROLLED[dtype], 1, VIA="shared" if shared else "lanes")


# rows and columns up to which teams of so many lanes do, of inverses (H200); up to which steps do not share their code
_JORDAN = {
    "float32": ((16, 4), (28, 8), (48, 16), (64, 32)),
    "float64": ((13, 4), (24, 8), (36, 16), (56, 32)),
    "complex64": ((12, 4), (24, 8), (38, 16), (58, 32)),
    "complex128": ((12, 4), (19, 8), (26, 16), (32, 32)),
}
_UNROLLED = {"float32": 10, "float64": 0, "complex64": 7, "complex128": 5}
# from where to where so many warps, with so many lanes along the columns
_TILES = {
    "float32": ((65, 80, 1, 2), (81, 112, 2, 4), (113, 128, 4, 4)),
    "float64": ((57, 63, 2, 4), (65, 80, 2, 4)),
    "complex64": ((39, 40, 1, 4), (41, 47, 1, 2), (59, 80, 2, 4), (81, 96, 4, 4), (97, 112, 4, 8), (113, 128, 8, 8)),
    "complex128": ((33, 40, 1, 4), (41, 52, 2, 4), (53, 56, 2, 8), (57, 64, 4, 4), (65, 80, 4, 8), (81, 112, 8, 8)),
}


def _whole(problem: Problem, size: int) -> Iterator[Lanes]:
    """A lane per matrix as long as selecting rows is cheap, two where each would ask for 32 bytes."""
    words = problem.itemsize // 4
    fewer = {"factor": 3, "inverse": 2 if words == 1 else 3}.get(problem.want, 0)
    if (size, words) == (2, 2) and problem.want != "logdet":
        yield Lanes(2, False, 4)
    if size <= {1: 10, 2: 8, 4: 6}[words] - fewer:
        yield Lanes(1, False, 8 if size <= 2 else 4)


def _lanes(problem: Problem) -> Iterator[Lanes]:
    """After that, teams whose lanes have a few rows."""
    size = max(problem.M, problem.N)
    if size > space.NARROW:
        return
    words = problem.itemsize // 4
    yield from _whole(problem, size)
    if (problem.dtype, problem.want) == ("float64", "factor") and size == 16:
        yield Lanes(16, False, 1)
    for most, lanes in _TEAMS_FOR.get((words, problem.want), _TEAMS[words]):
        if size <= most:
            rolled = size > 16 or (words == 4 and lanes < 16 and (size > 8 or problem.want == "factor"))
            rolled = rolled or (problem.want, size) in _ROLLED
            yield Lanes(lanes, rolled, 1)
    yield from (Lanes(lanes, True, 1) for lanes in (16, 32))


def _wide_lanes(problem: Problem) -> Iterator[Lanes]:
    """Squares beyond a warp's 32 rows, as long as two or three rows fit into a lane: blocks of threads pad them."""
    size, dtype, want = int(problem.N), problem.dtype, problem.want
    if size <= space.NARROW or size != problem.M:
        return
    if size <= _SIXTEEN[dtype].get(want, 0):
        yield Lanes(16, True, 1)
    if dtype == "float32" and 48 < size < 64:
        yield Lanes(32, True, 1)
    if want == "solve" and ((dtype == "float64" and 40 < size <= 44) or (dtype == "complex64" and size == 41)):
        yield Lanes(32, True, 1)


# smaller ones whose steps share code with profit (H200, float64)
_ROLLED = {("factor", 11), ("factor", 15)}
# rows and columns up to which teams of so many lanes do, by the registers of an entry, and where what is wanted matters
_TEAMS = {1: ((12, 4), (28, 8), (32, 16)), 2: ((12, 4), (24, 8), (32, 16)), 4: ((12, 4), (16, 16), (32, 32))}
_TEAMS_FOR = {
    (1, "factor"): ((12, 4), (16, 8), (20, 4), (29, 8), (32, 16)),
    (1, "solve"): ((12, 4), (16, 8), (20, 4), (29, 8), (32, 16)),
    (4, "solve"): ((12, 4), (26, 16), (32, 32)),
}
# the same of teams of 16 lanes, beyond a warp's 32 rows
_SIXTEEN = {
    "float32": {"factor": 48, "solve": 48, "determinant": 48, "logdet": 48},
    "float64": {"factor": 34, "solve": 35},
    "complex64": {"factor": 36, "solve": 36},
    "complex128": {},
}


def _block(problem: Problem) -> Iterator[Block]:
    """More warps for larger matrices; tall ones are factored by all of them, with two to four rows per thread, in wide
    panels where tensor cores update the rest and there is much of it."""
    unit = "mma" if problem.dtype == "float64" else "fma"
    if problem.M > 128:
        warps = 4
        while unit == "fma" and warps < 16 and 64 * warps < problem.M:
            warps *= 2
        wide = problem.N > 32 or problem.M > 256
        yield from (Block(width, warps, "block", unit) for width in ((8, 4) if unit == "fma" else (16, 8)[not wide :]))
        yield Block(8, 8, "block", unit)
    size = max(problem.M, problem.N)
    width = 16 if unit == "mma" and size > 63 and size % 16 == 0 else 8  # a panel that hangs over costs as much
    warps = next(count for most, count in _WARPS[problem.dtype] if size <= most)
    if 2 * problem.N <= problem.M:
        warps = min(warps, 4 if problem.dtype == "complex128" else 2)
    if problem.is_complex and size <= 64:
        width, warps = _narrow(problem, size, warps)
    elif problem.dtype == "complex128":  # as wide as registers allow
        width = 4
    yield from (Block(blk, warps, "warp", unit) for blk in (width, 8))
    yield from (Block(4, n, "warp", "fma") for n in (warps, 2))
    yield Block(4, 16, "block", "fma")


def _narrow(problem: Problem, size: int, warps: int) -> tuple[int, int]:
    """Columns of a panel of complex numbers, and warps: four where much of the last panel of eight would hang over."""
    if problem.dtype == "complex128":
        return 4 if -size % 8 >= 4 else 8, warps
    much = size % 8 in (1, 4)
    return (4, 1 if size <= 42 else 2) if much and size < 56 else (8, warps)


# rows and columns up to which so many warps do (H200)
_WARPS = {
    "float32": ((48, 1), (96, 2), (1 << 30, 4)),
    "float64": ((48, 1), (68, 2), (96, 3), (1 << 30, 4)),
    "complex64": ((48, 1), (96, 2), (1 << 30, 4)),
    "complex128": ((40, 1), (64, 2), (96, 4), (1 << 30, 8)),
}


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
