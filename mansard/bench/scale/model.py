"""Time of an operation on R ranks from the time of its kernels and of its messages (after LogGP).

A message of b bytes takes L + G b: latency and gap per byte of a ping-pong. A gather sends every rank's b bytes to all,
with recursive doubling in log2 R steps: o + ceil(log2 R) L + (R - 1) b G, where o is what Python and the checks of a
message take. An exchange with neighbours takes its measured time on any number of ranks. Products hide it behind
interior rows; nothing is subtracted for that, since the processor packs and unpacks messages itself. Rows of ghost
zones add their share to the kernels.
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


def predicted(row: dict[str, Any], network: Network, ranks: int, size: int, kernel: float | None = None) -> float:
    """Seconds of an operation on so many ranks; `size` are the bytes of a gather."""
    if ranks == 1:
        return float(row["kernel"] if kernel is None else kernel)
    work = (row["kernel"] if kernel is None else kernel) * (1 + row["repeated"])
    halo = network.halo(row["halo"]) if row["halo"] else 0.0
    return float(work + row["gathers"] * network.gather(ranks, size) + halo)
