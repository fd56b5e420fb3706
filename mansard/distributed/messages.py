"""The form of messages between ranks, and how a rank waits for one.

Every collective message has the same shape, a header and a payload of the same length on all ranks, so that ranks which
disagree, or one that failed, still take part in it: after each message every rank knows of every other whether it asked
for the same and whether it failed.

    header | status | bytes needed | facts: "gram float64 (32, 32) ..." |    payload, or the text of an error

A payload longer than the agreed room is continued in a second message, and the room grows: later ones are one message.
Ranks that agree send the same header, so one comparison with its own tells a rank that all is well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from time import perf_counter
from typing import Any, NoReturn

import numpy as np

from ..arrays.types import Array
from ..errors import BackendUnavailable, RankError, RanksDiffer

HEADER = 512  # bytes: status, bytes needed, facts
FACTS = HEADER - 16  # bytes of facts; longer texts are compared as far as they go
PIECE = 1 << 30  # bytes per message; counts of MPI before version 4 end at 2^31
SPIN = 2e-4  # seconds that a rank polls for a message before it offers its core to others: ranks may be more than cores
PATIENCE = 0.05  # seconds that a rank waits for messages from other ranks before it looks whether one has failed
GOOD, FAILED = 0, 1
Ranks = Any  # a Communicator, which imports this module


def mpi() -> Any:
    """The module mpi4py.MPI; an error says how to install it."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the package, or the MPI library that it loads
        raise BackendUnavailable(f"several processes need mpi4py ({error}): pip install 'mansard[mpi]'") from None
    return MPI


class Gathering:
    """A gather under way. Buffers stay alive until it is complete."""

    def __init__(
        self, comm: Ranks, facts: str, array: np.ndarray[Any, Any], finish: Callable[..., Any] | None,
        status: int = GOOD,
    ) -> None:  # fmt: skip
        self.comm, self.finish, self._array = comm, finish, array
        self._found: np.ndarray[Any, Any] | None = None
        self._error: RankError | RanksDiffer | None = None
        raw = comm.raw  # raises if it was freed
        comm.agree_on_room()
        self._room, self._request = comm.room, None
        if comm.size == 1:
            return
        self._width = HEADER + self._room
        self._header = header(facts, array.dtype, array.shape, status)
        payload = array.tobytes() if array.nbytes <= self._room else _flat(array)[: self._room].tobytes()
        self._sent = b"".join((self._header, payload, bytes(self._room - len(payload))))
        self._received = bytearray(comm.size * self._width)
        self._request = raw.Iallgather(self._sent, self._received)
        comm.messages["gather"] += 1
        comm.messages["bytes"] += self._width
        if status == GOOD:
            comm.flight.append(self)

    @property
    def needed(self) -> int:
        """Bytes of the payload."""
        return int(self._array.nbytes)

    def wait(self) -> Any:
        """The arrays of all ranks, (size, *shape), or what `finish` makes of them. Raises on every rank, or on none."""
        self.complete()
        if self._error is not None:
            raise self._error
        stack = self._array[None] if self._found is None else self._found
        return stack.copy() if self.finish is None else self.finish(stack)

    def complete(self) -> None:
        """Receive and check this message after all that began before it; what is wrong with one its `wait` says."""
        comm = self.comm
        while self in comm.flight:
            oldest = comm.flight[0]
            comm.settle()
            oldest.receive()
            comm.flight.pop(0)
            try:
                oldest._found = oldest._checked()
            except (RankError, RanksDiffer) as error:
                oldest._error = error

    def receive(self) -> None:
        """Wait until all ranks have sent theirs."""
        begin = perf_counter()
        if self._request is not None:
            until(self._request.Test)
            self._request = None
        self.comm.waiting += perf_counter() - begin

    def _checked(self) -> np.ndarray[Any, Any]:
        comm, array = self.comm, self._array
        if not all(self._received.startswith(self._header, rank * self._width) for rank in range(comm.size)):
            self._refuse()
        comm.resize(array.nbytes)
        if array.nbytes > self._room:
            whole: np.ndarray[Any, Any] = self._continued().view(array.dtype)
            return whole.reshape(comm.size, *array.shape)
        strides = (self._width, *array.strides)
        return np.ndarray((comm.size, *array.shape), array.dtype, self._received, HEADER, strides)

    def _refuse(self) -> NoReturn:
        """Raise what the headers say: a rank failed, or ranks disagree."""
        received = np.frombuffer(self._received, np.uint8).reshape(self.comm.size, -1)
        head = received[:, :16].copy().view(np.int64)
        failed = np.flatnonzero(head[:, 0] != GOOD)
        if failed.size:
            rank = int(failed[0])
            text = received[rank, HEADER : HEADER + int(head[rank, 1])].tobytes().decode(errors="replace")
            self.comm.failures += 1
            raise RankError(f"rank {rank}: {text}", rank)
        headers = received[:, :HEADER]
        rank = int(np.flatnonzero((headers != headers[0]).any(axis=1))[0])
        first, other = (headers[one, 16:].tobytes().rstrip(b"\0").decode(errors="replace") for one in (0, rank))
        raise RanksDiffer(f"rank {rank} calls {other!r} and rank 0 {first!r}: all must ask for the same", rank)

    def _continued(self) -> np.ndarray[Any, Any]:
        """Gather what did not fit, (size, bytes); lengths agree by now."""
        comm, room, flat = self.comm, self._room, _flat(self._array)
        whole = np.empty((comm.size, flat.size), np.uint8)
        whole[:, :room] = np.frombuffer(self._received, np.uint8).reshape(comm.size, -1)[:, HEADER:]
        for at in range(room, flat.size, PIECE // comm.size):
            count = min(PIECE // comm.size, flat.size - at)
            more = np.empty((comm.size, count), np.uint8)
            comm.raw.Allgather(flat[at : at + count], more)
            whole[:, at : at + count] = more
            comm.messages.update({"continued": 1, "bytes": count})
        return whole


@lru_cache(maxsize=256)
def header(facts: str, dtype: np.dtype[Any], shape: tuple[int, ...], status: int) -> bytes:
    """The header of a message with an array of this dtype and shape."""
    text = (f"{facts}: {dtype.name} {shape}" if status == GOOD else facts).encode()[:FACTS]
    return np.array((status, prod(shape) * dtype.itemsize), np.int64).tobytes() + text.ljust(FACTS, b"\0")


def _flat(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


class Exchange:
    """Messages from rank to rank under way. The arrays stay alive until they are complete."""

    def __init__(self, comm: Ranks, requests: list[Any], arrays: Any) -> None:
        self._comm, self._requests, self._arrays = comm, requests, arrays

    def wait(self) -> None:
        """Wait until everything has arrived, and until the arrays that were sent may be written to again."""
        begin, requests = perf_counter(), self._requests
        if requests:
            until(partial(requests[0].Testall, requests), lambda: self._comm.heed(requests))
        self._requests, self._arrays = [], None
        self._comm.waiting += perf_counter() - begin


def until(is_done: Callable[[], bool], look: Callable[[], None] | None = None) -> None:
    """Poll until a message is complete; `look` for failures of other ranks now and then."""
    begin = perf_counter()
    while not is_done():
        spent = perf_counter() - begin
        if spent > SPIN:
            os.sched_yield()
        if look is not None and spent > PATIENCE:
            look()


def in_rank_order(stack: Array) -> Array:
    """Sum of the arrays in a stack, from the first to the last."""
    total = stack[0].copy()
    for one in stack[1:]:
        total += one
    return total


def pieces(array: Array) -> Sequence[Array]:
    """A contiguous array as flat views of at most PIECE bytes each."""
    flat = array.reshape(-1)
    if 0 < flat.nbytes <= PIECE:
        return (flat,)
    step = max(1, PIECE // array.dtype.itemsize)
    return [flat[at : at + step] for at in range(0, flat.size, step)]
