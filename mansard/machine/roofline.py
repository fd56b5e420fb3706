"""The roofline: work over measured ceilings gives the time no kernel can beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class Work:
    """Least bytes that a problem must move through memory, and least flops."""

    read: int
    written: int
    flops: int
    dtype: str
    spared: int = 0  # bytes among these that a kernel may leave alone, such as the other half of a symmetric matrix

    @property
    def bytes(self) -> int:
        return self.read + self.written


class Ceilings(Protocol):
    """Measured limits of a device, in bytes and flops per second."""

    @property
    def read_bandwidth(self) -> float: ...

    @property
    def copy_bandwidth(self) -> float: ...

    @property
    def cache_bandwidth(self) -> tuple[tuple[int, float], ...]: ...

    def flop_rate(self, dtype: str) -> float: ...


@dataclass(frozen=True)
class Bound:
    """The least time, and which limit sets it."""

    seconds: float
    limit: str  # memory | arithmetic
    parts: Mapping[str, float]


def bandwidth(work: Work, ceilings: Ceilings) -> float:
    """Read bandwidth for read-mostly work, copy bandwidth where reads and writes balance, in between in proportion."""
    if not work.bytes:
        return ceilings.read_bandwidth
    mixed = min(1.0, 2 * work.written / work.bytes)
    return ceilings.read_bandwidth + mixed * (ceilings.copy_bandwidth - ceilings.read_bandwidth)


def time_bound(work: Work, ceilings: Ceilings) -> Bound:
    """The roofline's limit for `work` on a device with these ceilings."""
    parts = {
        "memory": work.bytes / bandwidth(work, ceilings),
        "arithmetic": work.flops / ceilings.flop_rate(work.dtype),
    }
    limit = max(parts, key=lambda name: parts[name])
    return Bound(parts[limit], limit, parts)


# --- Results above the limit -------------------------------------------------------------------------------

TOLERANCE = 1.05  # a result this many times faster than the limit needs an explanation
_THREE_OF_FOUR = 0.75  # real products per complex one, if three are formed instead of four


class Excess(NamedTuple):
    """A result above 105 % of the limit."""

    percent: float
    reason: str
    is_doubtful: bool  # nothing explains it: the ceilings were measured on a busy machine, or the result is wrong

    def __str__(self) -> str:
        return f"{self.percent:.0f} % of the limit: {self.reason}"


def excess(work: Work, ceilings: Ceilings, seconds: float) -> Excess | None:
    """Explain a result that is faster than the limit; None if it is within 105 % of it.

    The limit counts what every kernel moves through memory and computes by the usual formulas. Caches, triangles of
    which only one is read, and complex products made of three real ones make some results faster, by known factors.
    """
    bound = time_bound(work, ceilings)
    if not seconds > 0 or bound.seconds <= TOLERANCE * seconds:
        return None
    percent, least = 100 * bound.seconds / seconds, TOLERANCE * seconds
    rate = bandwidth(work, ceilings)
    written = rate if 2 * work.written <= work.bytes else max(rate, ceilings.read_bandwidth)
    # a cache counts if it still serves half as much
    cached = max((speed for size, speed in ceilings.cache_bandwidth if 2 * size >= work.bytes), default=0.0)
    computed = bound.parts["arithmetic"] * (_THREE_OF_FOUR if work.dtype.startswith("complex") else 1.0)
    moved = work.bytes - work.spared
    if max(moved / max(written, cached), computed) > least:
        reason = "impossible, so the ceilings were measured on a busy machine, or this result is wrong"
        return Excess(percent, reason, True)
    if bound.parts["memory"] <= least:
        reason = "three real products make a complex one"
    elif moved / rate <= least:
        reason = "half of each matrix is not read"
    elif moved / written <= least:
        reason = "results are written faster than a copy is made"
    else:
        reason = "the operands fit a cache"
    return Excess(percent, reason, False)
