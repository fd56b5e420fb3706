"""The roofline: work over measured ceilings gives the time no kernel can beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Work:
    """What a problem must move through memory and compute at the least."""

    read: int
    written: int
    flops: int
    dtype: str

    @property
    def bytes(self) -> int:
        return self.read + self.written


class Ceilings(Protocol):
    """Measured limits of a device, in bytes and flops per second."""

    @property
    def read_bandwidth(self) -> float: ...

    @property
    def copy_bandwidth(self) -> float: ...

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
