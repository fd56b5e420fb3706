"""The form of messages between ranks, and how a rank waits for one.

Every collective message has the same shape, a header and a payload of the same length on all ranks, so that ranks which
disagree, or one that failed, still take part in it: after each message every rank knows of every other whether it asked
for the same and whether it failed.

    header | status | bytes needed | facts: "gram float64 (32, 32) ..." |    payload, or the text of an error

A payload longer than the agreed room is continued in a second message, and the room grows: later ones are one message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

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
        self.comm, self.facts, self.finish, self._array = comm, facts, finish, array
        self._room, self._request = comm.room, None
        if comm.size == 1:
            comm.raw  # noqa: B018  # raises if it was freed
            return
        self._sent = np.zeros(HEADER + self._room, np.uint8)
        self._received = np.empty((comm.size, HEADER + self._room), np.uint8)
        flat = array.reshape(-1).view(np.uint8)
        inside = min(flat.size, self._room)
        self._sent[:16].view(np.int64)[:] = status, flat.size
        text = facts.encode()[:FACTS]
        self._sent[16 : 16 + len(text)] = np.frombuffer(text, np.uint8)
        self._sent[HEADER : HEADER + inside] = flat[:inside]
        self._request = comm.raw.Iallgather(self._sent, self._received)
        comm.messages.update({"gather": 1, "bytes": self._sent.nbytes})
        if status == GOOD:
            comm.flight.append(self)

    def wait(self) -> Any:
        """The arrays of all ranks, (size, *shape), or what `finish` makes of them. Raises on every rank, or on none."""
        stack = self._array[None] if self.comm.size == 1 else self._complete()
        return stack.copy() if self.finish is None else self.finish(stack)

    def receive(self) -> None:
        """Wait until all ranks have sent theirs."""
        begin = perf_counter()
        if self._request is not None:
            until(self._request.Test)
            self._request = None
        self.comm.waiting += perf_counter() - begin

    def _complete(self) -> np.ndarray[Any, Any]:
        comm = self.comm
        comm.settle()
        self.receive()
        comm.flight.remove(self)
        head = self._received[:, :16].copy().view(np.int64)
        self._check(head)
        needed = int(head[:, 1].max())
        payload = self._received[:, HEADER : HEADER + needed]
        if needed > self._room:
            payload = self._continued(payload, needed)
        comm.resize(needed)
        found: np.ndarray[Any, Any] = payload.view(self._array.dtype).reshape(comm.size, *self._array.shape)
        return found

    def _check(self, head: np.ndarray[Any, Any]) -> None:
        """Raise if a rank failed, or if ranks disagree."""
        failed = np.flatnonzero(head[:, 0] != GOOD)
        if failed.size:
            rank = int(failed[0])
            text = self._received[rank, HEADER : HEADER + int(head[rank, 1])].tobytes().decode(errors="replace")
            self.comm.failures += 1
            raise RankError(f"rank {rank}: {text}", rank)
        facts = self._received[:, 16:HEADER]
        differs = np.flatnonzero((facts != facts[0]).any(axis=1))
        if differs.size:
            rank = int(differs[0])
            first, other = (facts[one].tobytes().rstrip(b"\0").decode(errors="replace") for one in (0, rank))
            raise RanksDiffer(f"rank {rank} calls {other!r} and rank 0 {first!r}: all must ask for the same", rank)

    def _continued(self, begun: np.ndarray[Any, Any], needed: int) -> np.ndarray[Any, Any]:
        """Gather what did not fit; lengths agree by now."""
        comm, rest = self.comm, needed - self._room
        whole = np.empty((comm.size, needed), np.uint8)
        whole[:, : self._room] = begun
        flat = self._array.reshape(-1).view(np.uint8)
        for at in range(0, rest, PIECE // comm.size):
            count = min(PIECE // comm.size, rest - at)
            more = np.empty((comm.size, count), np.uint8)
            comm.raw.Allgather(flat[self._room + at : self._room + at + count], more)
            whole[:, self._room + at : self._room + at + count] = more
            comm.messages.update({"continued": 1, "bytes": count})
        return whole


class Exchange:
    """Messages from rank to rank under way. The arrays stay alive until they are complete."""

    def __init__(self, comm: Ranks, requests: list[Any], arrays: Any) -> None:
        self._comm, self._requests, self._arrays = comm, requests, arrays

    def wait(self) -> None:
        """Wait until everything has arrived, and until the arrays that were sent may be written to again."""
        begin, requests = perf_counter(), self._requests
        until(lambda: mpi().Request.Testall(requests), lambda: self._comm.heed(requests))
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


def pieces(array: Array) -> Iterator[Array]:
    """A contiguous array as flat views of at most PIECE bytes each."""
    flat = array.reshape(-1)
    step = max(1, PIECE // array.dtype.itemsize)
    for at in range(0, flat.size, step):
        yield flat[at : at + step]
