"""Halo exchange: every rank gets the entries of a vector that its rows read and other ranks have."""

from __future__ import annotations

import zlib
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...arrays.types import Array
from ..communicator import Communicator
from ..messages import Exchange, mpi
from .parcels import deliver, split

_HEAD = 8  # bytes before a message's entries: a checksum of dtype and columns, by which ranks that differ are found


def as_slice(indices: Array) -> Any:
    """Consecutive indices as a slice, which NumPy reads without a copy; other indices as they are."""
    count = len(indices)
    if not count:
        return slice(0, 0)
    first = int(indices[0])
    return slice(first, first + count) if int(indices[-1]) - first == count - 1 else indices


class Halo:
    """Which entries of a vector this rank sends to whom, and which it receives: `wanted`, by ascending number."""

    def __init__(self, comm: Communicator, offsets: Array, wanted: Array) -> None:
        self.comm, self.wanted = comm, wanted
        asked = deliver(comm, split(offsets, wanted), "halo")
        first = int(offsets[comm.rank])
        self.sends = {q: as_slice(one - first) for q, one in enumerate(asked) if len(one)}
        self.sent = {q: len(one) for q, one in enumerate(asked) if len(one)}
        ends = [int(np.searchsorted(wanted, first)) for first in offsets]
        self.receives = {q: slice(a, b) for q, (a, b) in enumerate(pairwise(ends)) if b > a}
        self._buffers: dict[Any, Buffers] = {}

    def start(self, x: Array) -> Flight:
        """Begin the exchange for a vector (n,) or vectors side by side (n, k); `wait(into)` completes it."""
        buffers = self._of(x)
        for q, places in self.sends.items():
            buffers.own.entries[q][...] = x[places]
        return Flight(self.comm, self.comm.exchange(buffers.own.messages, buffers.theirs.messages), buffers.theirs, x)

    def back(self, contributions: Array) -> Flight:
        """Begin to send contributions to the wanted entries back to the ranks that have them."""
        own, theirs = self._of(contributions)
        for q, places in self.receives.items():
            theirs.entries[q][...] = contributions[places]
        return Flight(self.comm, self.comm.exchange(theirs.messages, own.messages), own, contributions)

    def arrived(self, flight: Flight, into: Array) -> None:
        """Write the wanted entries to `into`, in their order."""
        for q, entries in flight.wait().items():
            into[self.receives[q]] = entries

    def added(self, flight: Flight, into: Array) -> None:
        """Add what other ranks sent back to the entries that they belong to, in the order of ranks."""
        for q, entries in sorted(flight.wait().items()):
            into[self.sends[q]] += entries

    def _of(self, x: Array) -> Buffers:
        """Buffers for vectors of this kind, allocated with the first of them."""
        key = (x.dtype, x.shape[1:])
        found = self._buffers.get(key)
        if found is None:
            wanted = {q: part.stop - part.start for q, part in self.receives.items()}
            found = self._buffers[key] = Buffers(Side.allocate(self.sent, x), Side.allocate(wanted, x))
        return found


class Side(NamedTuple):
    """Messages by rank, a head and entries each, and views of their entries in the shape of the vectors."""

    head: bytes
    messages: dict[int, Array]
    entries: dict[int, Array]

    @classmethod
    def allocate(cls, counts: dict[int, int], like: Array) -> Side:
        """Messages of so many entries to or from each rank."""
        head = zlib.crc32(f"{like.dtype.str} {like.shape[1:]}".encode()).to_bytes(_HEAD, "little")
        size = like.dtype.itemsize * prod(like.shape[1:])
        messages = {q: np.empty(_HEAD + count * size, np.uint8) for q, count in counts.items()}
        for one in messages.values():
            one[:_HEAD] = np.frombuffer(head, np.uint8)
        entries = {
            q: messages[q][_HEAD:].view(like.dtype).reshape(count, *like.shape[1:]) for q, count in counts.items()
        }
        return cls(head, messages, entries)


class Buffers(NamedTuple):
    """Messages with entries that this rank has and others want, and with those that it wants of them."""

    own: Side
    theirs: Side


class Flight:
    """An exchange under way."""

    def __init__(self, comm: Communicator, exchange: Exchange, received: Side, like: Array) -> None:
        self._comm, self._exchange, self._received, self._like = comm, exchange, received, like

    def wait(self) -> dict[int, Array]:
        """Entries by sender, in buffers of the halo. Raises where a sender's vector is of another kind."""
        head, messages, entries = self._received
        try:
            self._exchange.wait()
        except mpi().Exception as error:  # a message is longer than its buffer
            raise TypeError(f"{self._mismatch()} another rank: convert one ({error})") from error
        for q, message in messages.items():
            if message[:_HEAD].tobytes() != head:
                raise TypeError(f"{self._mismatch()} rank {q}: convert one")
        return entries

    def _mismatch(self) -> str:
        kind = f"{self._like.dtype} with {'x'.join(map(str, self._like.shape[1:])) or 'one'} column(s)"
        return f"x is {kind} on rank {self._comm.rank} and of another kind on"
