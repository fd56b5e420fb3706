"""Halo exchange: every rank gets the entries of a vector that its rows read and other ranks have."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Any

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
        self._rooms: dict[Any, tuple[dict[int, Array], dict[int, Array]]] = {}

    def start(self, x: Array) -> Flight:
        """Begin the exchange for a vector (n,) or vectors side by side (n, k); `wait(into)` completes it."""
        sends, receives = self._room(x)
        for q, places in self.sends.items():
            _body(sends[q], x)[...] = x[places].reshape(-1)
        return Flight(self.comm, self.comm.exchange(sends, receives), receives, x)

    def back(self, contributions: Array) -> Flight:
        """Begin to send contributions to the wanted entries back to the ranks that have them."""
        receives, sends = self._room(contributions)
        for q, places in self.receives.items():
            _body(sends[q], contributions)[...] = contributions[places].reshape(-1)
        return Flight(self.comm, self.comm.exchange(sends, receives), receives, contributions)

    def arrived(self, flight: Flight, into: Array) -> None:
        """Write the wanted entries to `into`, in their order."""
        for q, message in flight.wait().items():
            into[self.receives[q]] = message.reshape(-1, *into.shape[1:])

    def added(self, flight: Flight, into: Array) -> None:
        """Add what other ranks sent back to the entries that they belong to, in the order of ranks."""
        for q, message in sorted(flight.wait().items()):
            into[self.sends[q]] += message.reshape(-1, *into.shape[1:])

    def _room(self, x: Array) -> tuple[dict[int, Array], dict[int, Array]]:
        """Buffers to send from and to receive in, one of each per neighbour, kept for vectors of this kind."""
        columns = int(np.prod(x.shape[1:], dtype=np.int64))
        key = (x.dtype.str, x.shape[1:])
        if key not in self._rooms:
            counts = self.sent, {q: part.stop - part.start for q, part in self.receives.items()}
            rooms = tuple(
                {q: np.empty(_HEAD + count * columns * x.dtype.itemsize, np.uint8) for q, count in each.items()}
                for each in counts
            )
            for room in (*rooms[0].values(), *rooms[1].values()):
                room[:_HEAD] = _mark(x)
            self._rooms[key] = rooms[0], rooms[1]
        return self._rooms[key]


class Flight:
    """An exchange under way."""

    def __init__(self, comm: Communicator, exchange: Exchange, receives: dict[int, Array], like: Array) -> None:
        self._comm, self._exchange, self._receives, self._like = comm, exchange, receives, like

    def wait(self) -> dict[int, Array]:
        """Entries by sender, flat. Raises where a sender's vector is of another kind."""
        kind = f"{self._like.dtype} with {'x'.join(map(str, self._like.shape[1:])) or 'one'} column(s)"
        text = f"x is {kind} on rank {self._comm.rank} and of another kind on"
        try:
            self._exchange.wait()
        except mpi().Exception as error:  # a message is longer than its buffer
            raise TypeError(f"{text} another rank: convert one ({error})") from error
        for q, room in self._receives.items():
            if not np.array_equal(room[:_HEAD], _mark(self._like)):
                raise TypeError(f"{text} rank {q}: convert one")
        return {q: _body(room, self._like) for q, room in self._receives.items()}


def _mark(like: Array) -> Array:
    """The head of messages with entries of such a vector."""
    text = f"{like.dtype.str} {like.shape[1:]}".encode()
    return np.frombuffer(zlib.crc32(text).to_bytes(_HEAD, "little"), np.uint8)


def _body(room: Array, like: Array) -> Array:
    """The entries of a message, as a flat array of the dtype of `like`."""
    return room[_HEAD:].view(like.dtype)
