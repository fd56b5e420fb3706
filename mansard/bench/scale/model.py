"""Time of an operation on R ranks, from the time of its kernels on one rank, the machine's ceilings and its messages.

Kernels. Ranks of one machine share its cores and its memory. On one rank memory takes a share m = bytes / (b t) of a
kernel's time t, where b is what one core reads or copies per second. When a = min(R, cores) ranks run at once, they
need a b and get B, what all cores get together. With more ranks than cores they also take turns:

    T = t ((1 - m) + m max(1, a b / B)) max(1, R / cores)

Messages (after LogGP). A message of n bytes takes L + G n: latency and gap per byte of a ping-pong. A gather sends
every rank's n bytes to all, with recursive doubling in log2 R steps: o + ceil(log2 R) L + (R - 1) n G, where o is what
Python and the checks of a message take. An exchange with neighbours takes its measured time on any number of ranks.
Products hide it behind interior rows; nothing is subtracted for that, since the processor packs and unpacks messages
itself. Rows of ghost zones add their share to the kernels.
"""

from __future__ import annotations

from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np


class Network(NamedTuple):
    """Latency (s), gap (s per byte), overhead of a gather (s), and of an exchange with neighbours (s, s per byte)."""

    latency: float
    gap: float
    overhead: float
    exchange: float
    exchange_gap: float

    def gather(self, ranks: int, size: int) -> float:
        """Seconds of a gather of `size` bytes of each rank."""
        return self.overhead + ceil(log2(ranks)) * self.latency + (ranks - 1) * size * self.gap if ranks > 1 else 0.0

    def halo(self, size: int) -> float:
        """Seconds of an exchange of `size` bytes with each neighbour."""
        return self.exchange + self.exchange_gap * size


class Shared(NamedTuple):
    """Cores and memory bandwidths that the ranks of one machine share: bytes per second of one core and of all."""

    cores: int
    read: tuple[float, float]
    copy: tuple[float, float]

    def slowed(self, seconds: float, read: float, written: float, ranks: int) -> float:
        """Seconds of kernels that take `seconds` on one rank, when `ranks` ranks run them at the same time."""
        one, every = self.copy if written else self.read
        memory = min(1.0, (read + written) / (one * seconds))
        wanted = min(ranks, self.cores) * one
        slower = max(1.0, wanted / max(one, every))  # less by all cores than by one is noise of the measurement
        return seconds * (1 - memory + memory * slower) * max(1.0, ranks / self.cores)


def shared_of(measured: dict[str, Any]) -> Shared | None:
    """The machine as the run on one rank measured it; None where there is no such run."""
    found = measured.get("machine")
    return Shared(int(found["cores"]), tuple(found["read"]), tuple(found["copy"])) if found else None


def fitted(measured: dict[str, Any]) -> Network:
    """The network of a run; nothing costs anything on one rank."""
    if measured["ranks"] == 1:
        return Network(0.0, 0.0, 0.0, 0.0, 0.0)
    latency, gap = _line(measured["ping_pong"])
    steps, others = ceil(log2(measured["ranks"])), measured["ranks"] - 1
    spent = steps * latency + others * measured["gather_bytes"] * gap
    return Network(latency, gap, max(0.0, measured["gather"] - spent), *_line(measured["exchange"]))


def _line(times: dict[Any, float]) -> tuple[float, float]:
    """Seconds of an empty message, and per byte: relative errors are least."""
    sizes = np.array([float(size) for size in times])
    seconds = np.array(list(times.values()))
    weighted = np.stack([1 / seconds, sizes / seconds], axis=1)
    start, slope = np.linalg.lstsq(weighted, np.ones(len(sizes)), rcond=None)[0]
    return max(float(start), float(seconds.min()) / 2), max(float(slope), 0.0)


def predicted(row: dict[str, Any], one: dict[str, Any], shared: Shared, network: Network, ranks: int,
              size: int, beside: int | None = None) -> float:  # fmt: skip
    """Seconds of an operation on so many ranks, `beside` of them on one machine (None: all).

    `row` has what is known without measuring: gathers, bytes of a halo, share of rows that ghost zones repeat. `one` is
    the operation as one rank measured it, and `size` are the bytes of a gather.
    """
    parts = ranks if row["scaling"] == "strong" else 1
    read, written = one["read"] / parts, one["written"] / parts
    work = shared.slowed(one["kernel"] / parts, read, written, ranks if beside is None else beside)
    if ranks == 1:
        return work
    halo = network.halo(row["halo"]) if row["halo"] else 0.0
    return float(work * (1 + row["repeated"]) + row["gathers"] * network.gather(ranks, size) + halo)
