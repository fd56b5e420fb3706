"""Configurations of `persistent` fitted to a matrix: tiles, lag, retention and slots follow from how far rows reach.

A step is a tile per block. A tile of power k waits for those it reads of power k - 1, so a power follows the one before
it LAG steps later, where LAG is at least what the tiles reach ahead. Shared memory holds a tile for all powers of its
group: (length - 1) LAG + 1 of them, and some that are on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import measured
from ...common.configs import up
from . import space, spec, work
from .defaults import unroll_for
from .space import Persistent

_TILE_BYTES = 10 << 10  # bytes of a tile: large enough for bulk copies, small enough for many slots
_SPARE, _EASE = 3, 5  # tiles on their way: at least, and so that copies are seldom waited for
_SLACK = 3  # steps beyond what dependencies ask for: a task takes two, and others see it half a step later
_MOST_SLACK = 8  # steps beyond them at the most: each costs a slot per power, which then holds no copy under way
_CACHE_PERCENT = 50  # of L2 that tiles between two groups of powers may take: vectors and results pass through it too
_MOST_TOGETHER = 5  # powers of a launch: each takes slots for as many tiles as it lags behind the one before
_WARPS = {14: 124, 10: 168}  # warps that compute -> registers: of sixteen warps each has 128, of twelve 168
_WATCHED = 16  # tiles at the end of what one reads whose counters a warp asks for at once
_ENTRIES = 28  # entries of rows that are under way in a lane: each needs an address at first
_REGISTERS = (56, 48, 40, 28, 16, 8)  # registers for entries of vectors that are under way, the most first


@dataclass(frozen=True)
class Pattern:
    """What fitting must know of a matrix."""

    chunk_bytes: Any  # of each chunk
    width: float  # entries of a row, typically
    reach: Callable[[int], Any]  # rows per tile -> highest tile that each tile reads

    @property
    def matrix_bytes(self) -> int:
        return int(self.chunk_bytes.sum())


def tile_of(pattern: Pattern) -> int:
    """Chunks per tile."""
    mean = pattern.matrix_bytes / max(1, len(pattern.chunk_bytes))
    return max(count for count in (1, 2, 4, 8) if count == 1 or count * mean <= 1.1 * _TILE_BYTES)


def ahead(reach: Any, blocks: int) -> int:
    """Steps that the farthest tile reads ahead."""
    own = np.arange(len(reach)) // blocks
    return max(1, int((reach // blocks - own).max(initial=1)))


def far(reach: Any, config: Persistent, device: Device) -> int:
    """Tiles that the farthest one reads ahead, as far as a power may look: no farther than the lag."""
    most = config.LAG * work.blocks(config, device, len(reach))
    return min(most, int((reach - np.arange(len(reach))).max(initial=0)))


def passes(problem: Problem, pattern: Pattern, device: Device) -> tuple[list[Persistent], str]:
    """Configurations of as few launches as the matrix allows, together all powers; none, and why, where none serves."""
    reason = ""
    for count in range(up(problem.P, _MOST_TOGETHER), max(problem.P, 2)):
        found = []
        for powers in {problem.P // count, up(problem.P, count)}:
            config, reason = single(problem.replace(P=powers), pattern, device)
            found.append((powers, config))
        configs = dict(found)
        if all(configs.values()):
            parts = [problem.P // count + (i < problem.P % count) for i in range(count)]
            return [configs[powers] for powers in parts if configs[powers] is not None], ""
    return [], reason or "one power is one product"


def single(problem: Problem, pattern: Pattern, device: Device) -> tuple[Persistent | None, str]:
    """The configuration of one launch, None and why where dependencies reach too far."""
    tile = tile_of(pattern)
    reach = pattern.reach(spec.CHUNK * tile)
    blocks = max(1, min(device.multiprocessors, len(reach)))
    far = ahead(reach, blocks)
    base = _base(problem, pattern, tile, device, _REGISTERS[0])
    watched = 2 * max(0, int((reach - np.arange(len(reach))).max(initial=0))) + 1  # before and behind, alike
    base = replace(base, WINDOW=min(_WATCHED, watched))
    for lengths in _groupings(problem.P):
        lag = _lag(base, lengths, far, blocks, device)
        if lag:
            return _legal(problem, pattern, device, replace(base, LAG=lag, RETAIN="|".join(map(str, lengths))))
    megabytes = far * blocks * base.SLOT_BYTES / 1e6
    return None, f"rows reach {far} steps, {megabytes:.3g} MB of the matrix, ahead: too far for {problem.P} powers"


def _legal(
    problem: Problem, pattern: Pattern, device: Device, config: Persistent
) -> tuple[Persistent | None, str]:  # fmt: skip
    """The same with as many entries under way as there are registers for."""
    reason: str | None = ""
    for registers in _REGISTERS:
        other = _base(problem, pattern, config.TILE, device, registers)
        config = replace(config, ABREAST=other.ABREAST, UNROLL=other.UNROLL, WARPS=other.WARPS)
        reason = space.illegal(problem, config, device)
        if reason is None:
            return config, ""
    return None, str(reason)


def _base(problem: Problem, pattern: Pattern, tile: int, device: Device, registers: int) -> Persistent:
    """Everything but lag and retention."""
    words = problem.itemsize // 4 * problem.NVECS
    most = max(1, min(_ENTRIES, registers // words))
    unroll = unroll_for(pattern.width, most)
    abreast = max(count for count in (1, 2, 4, 8) if count == 1 or (count * unroll <= most and tile % count == 0))
    sizes = _tile_bytes(pattern, tile)
    room = _slot_bytes(sizes)
    config = Persistent(tile, abreast, unroll, SLOT_BYTES=room, DIRECT=bool((sizes > room).any()))
    wanted = work.registers(problem, config)
    warps = next((count for count, most in _WARPS.items() if wanted <= most), min(_WARPS))
    return space.resident(replace(config, WARPS=warps, RETAIN=str(problem.P)), problem, device)


def _tile_bytes(pattern: Pattern, tile: int) -> Any:
    return np.add.reduceat(pattern.chunk_bytes, np.arange(0, len(pattern.chunk_bytes), tile))


def _slot_bytes(sizes: Any) -> int:
    """Room for nearly all tiles: those that are much larger than most do not decide for all."""
    most = int(sizes.max(initial=128))
    usual = int(np.quantile(sizes, 0.98)) if len(sizes) else 128
    return max(128, up(most if most <= 1.25 * usual else usual, 128) * 128)


def _groupings(powers: int) -> Iterator[tuple[int, ...]]:
    """Powers in one group, in two, ...; the last group is the long one: the second cache keeps tiles briefly."""
    for count in range(1, powers + 1):
        yield (*(1 for _ in range(count - 1)), powers - count + 1)


def _lag(base: Persistent, lengths: tuple[int, ...], far: int, blocks: int, device: Device) -> int:
    """The largest lag that leaves room for copies, or the least that serves; 0 if none does."""
    best, least = 0, far + _SLACK
    share = measured.number("powers", device, "CACHE_PERCENT", _CACHE_PERCENT)
    for lag in range(least, far + _MOST_SLACK + 1):
        spare = base.SLOTS - sum((length - 1) * lag + 1 for length in lengths)
        between = (len(lengths) - 1) * lag * blocks * base.SLOT_BYTES
        enough = spare >= max(_EASE if best else _SPARE, len(lengths))
        if enough and 100 * between <= share * device.l2_bytes:
            best = lag
    return best


def changed(problem: Problem, config: Persistent, device: Device, values: dict[str, Any]) -> Persistent:
    """The same with some parameters pinned; slots as many as fit unless they are pinned too."""
    other = replace(config, **values)
    if "SLOTS" not in values:
        other = space.resident(other, problem.replace(P=sum(work.retained(other.RETAIN))), device)
    return other
