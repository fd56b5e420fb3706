"""Messages between ranks: sums in rank order, halo exchanges, agreement, and errors that reach every rank.

A thin layer over mpi4py, which is imported with the first communicator; `messages.py` says what a message holds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..arrays.types import Array
from ..errors import RankError, RanksDiffer
from .messages import FACTS, FAILED, Exchange, Gathering, in_rank_order, mpi, pieces

ROOM = 8192  # bytes of payload in the first message: a Gram matrix of 32 columns in float64
MOST_ROOM = 1 << 18  # bytes, a Gram matrix of 181 columns in float64; longer payloads are always continued
LEAST_ROOM = 512  # bytes: inner products and time steps; no text of an error is longer
QUIET = 32  # messages in a row that fill a quarter of the room at most, after which it shrinks to the longest of them
_TAG, _FAILURE = 3131, 3130
_EPOCHS = 4096  # tags of messages from rank to rank: another one after every failure


class Communicator:
    """The ranks of an MPI communicator, and the messages that Mansard's operations send among them.

    `Communicator.of(comm)` returns the one object of an mpi4py communicator (None: all ranks). It talks over a
    duplicate, so that its messages never meet those of the caller, and is freed with the original.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self.rank, self.size = int(comm.rank), int(comm.size)
        self.messages: Counter[str] = Counter()  # by kind: "gather", "continued", "halo", "bytes" sent
        self.waiting = 0.0  # seconds spent waiting for messages
        self.room, self.least_room = ROOM, LEAST_ROOM  # bytes
        self._quiet = self._longest = 0  # messages in a row that need little of the room; bytes that the longest needed
        self.transport: Any = None  # of device arrays, chosen with the first one
        self.flight: list[Gathering] = []  # messages under way, oldest first
        self._owed: list[Gathering] = []  # reports of failures, for which nobody waited
        self.failures = 0  # that this rank knows of; the same on all ranks once they have raised
        self._notes: list[tuple[Any, Any]] = []  # messages that tell of failures, and those that a failure left over
        if self.size > 1:
            _abort_on_uncaught_exceptions()

    @classmethod
    def of(cls, comm: Any = None) -> Communicator:
        """The communicator of an mpi4py communicator, made at first use on all of its ranks; None: COMM_WORLD."""
        if isinstance(comm, Communicator):
            comm.raw  # noqa: B018  # raises if it was freed
            return comm
        MPI = mpi()
        comm = MPI.COMM_WORLD if comm is None else comm
        if not isinstance(comm, MPI.Intracomm):
            raise TypeError(f"comm is a {type(comm).__name__}: pass a communicator of mpi4py, such as MPI.COMM_WORLD")
        if comm == MPI.COMM_NULL:
            raise ValueError("comm was freed, or has no place for this rank: pass a communicator that this rank is in")
        if not _KEYVAL:
            _KEYVAL.append(MPI.Comm.Create_keyval(delete_fn=lambda comm, key, one: one.free()))
        found: Communicator | None = comm.Get_attr(_KEYVAL[0])
        if found is None:
            found = cls(comm)
            comm.Set_attr(_KEYVAL[0], found)
        return found

    @property
    def raw(self) -> Any:
        """The duplicate over which messages travel, as an mpi4py communicator."""
        if self._comm is None:
            raise ValueError("comm was freed while arrays were still distributed over it: free it after its last use")
        return self._comm

    def free(self) -> None:
        """Free the duplicate; called when the caller's communicator is freed, on all ranks."""
        if self._comm is not None:
            self._comm.Free()
            self._comm = None

    def __reduce__(self) -> Any:
        raise TypeError("communicators cannot be pickled: pass Rows.to_global() to other processes")

    def __repr__(self) -> str:
        return f"Communicator(rank={self.rank}, size={self.size}{', freed' * (self._comm is None)})"

    def explain(self) -> str:
        """How arrays travel between these ranks, and why that way was chosen."""
        library = mpi().Get_library_version().partition("\n")[0].strip()
        way, why = self.transport[:2] if self.transport else ("chosen with the first of them", "none was sent yet")
        return f"{self.size} rank{'s' * (self.size > 1)}, {library}\nhost arrays: MPI\ndevice arrays: {way} ({why})"

    # ---- collective messages -----------------------------------------------------------------------------

    def start(self, array: np.ndarray[Any, Any], facts: str, finish: Callable[..., Any] | None = None) -> Gathering:
        """Begin to gather one array of the same shape and dtype from every rank; `.wait()` returns `finish(stack)`.

        All ranks pass the same `facts`, a text that names the call and its options: dtype and shape are added.
        """
        return Gathering(self, facts, np.ascontiguousarray(array), finish)

    def gather(self, array: np.ndarray[Any, Any], facts: str) -> np.ndarray[Any, Any]:
        """Arrays of all ranks, (size, *shape), in rank order, on every rank."""
        found: np.ndarray[Any, Any] = self.start(array, facts).wait()
        return found

    def sum(self, array: np.ndarray[Any, Any], facts: str) -> np.ndarray[Any, Any]:
        """Sum over ranks in rank order: the same bits on every rank and in every run."""
        found: np.ndarray[Any, Any] = self.start_sum(array, facts).wait()
        return found

    def start_sum(self, array: np.ndarray[Any, Any], facts: str) -> Gathering:
        """Begin a sum over ranks; `.wait()` returns it. Other work may be done meanwhile."""
        return self.start(array, facts, in_rank_order)

    def agree(self, facts: str) -> None:
        """Raise RanksDiffer on every rank unless all of them pass the same text."""
        self.gather(np.empty(0, np.uint8), facts)

    def gather_rows(self, block: np.ndarray[Any, Any], facts: str) -> np.ndarray[Any, Any]:
        """Blocks of rows of all ranks, one below the other, on every rank. Ranks may have different numbers of rows."""
        block = np.ascontiguousarray(block)
        counts = self.gather(np.array([len(block)]), f"{facts}, rows of {block.dtype.name} {block.shape[1:]}")
        ends = np.cumsum(counts)
        with self.call(facts):
            whole = np.empty((int(ends[-1]), *block.shape[1:]), block.dtype)
        self.agree(f"{facts}, memory")  # nobody broadcasts to a rank without it
        whole[ends[self.rank] - len(block) : ends[self.rank]] = block
        for root, end in enumerate(ends):
            for piece in pieces(whole[int(end - counts[root, 0]) : int(end)]):
                self.raw.Bcast(piece, root)
                self.messages.update({"continued": 1, "bytes": piece.nbytes * (root == self.rank)})
        return whole

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Make a failure of this rank inside the block one of every rank.

        Its own error is raised here at once; the other ranks raise RankError in the message that they wait for, or in
        their next one. Errors that a message brought are known to all ranks already.
        """
        try:
            yield
        except (RankError, RanksDiffer):
            raise
        except Exception as error:
            self._report(f"{name} raised {type(error).__name__}: {error}")
            raise

    def _report(self, text: str) -> None:
        """Send the text of an error in place of the message that other ranks expect, without waiting for them."""
        if self._comm is None or self.size == 1:
            return
        for message in list(self.flight):
            message.complete()
        note = np.frombuffer(f"{self.failures} {text}".encode()[:FACTS], np.uint8)
        others = (rank for rank in range(self.size) if rank != self.rank)
        self._notes += [(note, self.raw.Isend(note, rank, _FAILURE)) for rank in others]
        self._owe(text)

    def _owe(self, text: str) -> None:
        """Take part in the message that reports a failure."""
        self.failures += 1
        self._owed.append(Gathering(self, "", np.frombuffer(text.encode()[: self.room], np.uint8), None, FAILED))

    def heed(self, requests: list[Any]) -> None:
        """Raise RankError if another rank has failed while this one waits for messages from rank to rank."""
        MPI, status, note = mpi(), mpi().Status(), np.empty(FACTS, np.uint8)
        while self.raw.Iprobe(MPI.ANY_SOURCE, _FAILURE, status):
            self.raw.Recv(note, status.Get_source(), _FAILURE)
            known, _, text = note[: status.Get_count()].tobytes().decode(errors="replace").partition(" ")
            if int(known) == self.failures:  # lower: raised before, in a collective message
                self._notes += [(None, request) for request in requests]
                self._owe(text)
                raise RankError(f"rank {status.Get_source()}: {text}", status.Get_source())

    def settle(self) -> None:
        """Complete old reports of failures: all ranks have sent the message that they stand for."""
        while self._owed:
            self._owed.pop(0).receive()

    def resize(self, needed: int) -> None:
        """Adapt the room for payloads to what the longest one of a message took; all ranks see the same lengths."""
        if 4 * needed <= self.room and self.room > self.least_room:
            self._quiet, self._longest = self._quiet + 1, max(self._longest, needed)
            if self._quiet < QUIET:
                return
        elif needed <= self.room:
            self._quiet = self._longest = 0
            return
        longest, self._quiet, self._longest = max(self._longest, needed), 0, 0
        self.room = min(MOST_ROOM, max(self.least_room, 1 << (longest - 1).bit_length()))

    def agree_on_room(self) -> None:
        """Complete the messages under way if one may change the room.

        The next message then has the same length on a rank that reports a failure in its place, and on those that have
        not waited for the others yet.
        """
        if any(one.needed > self.room for one in self.flight) or self._quiet + len(self.flight) >= QUIET:
            for one in list(self.flight):
                one.complete()

    def reserve(self) -> None:
        """Have room for Gram matrices from now on. All ranks do so after the same message, so that rooms agree."""
        self.least_room, self.room = ROOM, max(self.room, ROOM)

    # ---- messages from rank to rank ------------------------------------------------------------------------

    def exchange(self, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> Exchange:
        """Begin to send arrays to ranks and to receive others in place; `.wait()` completes both.

        Arrays are contiguous NumPy arrays, or device arrays if the MPI library takes those. Lengths were agreed upon
        before; messages of two ranks arrive in the order in which they were sent. Tags count failures, so that what was
        sent before one is not received after it.
        """
        raw, tag, count = self.raw, _TAG + self.failures % _EPOCHS, self.messages
        requests = [raw.Irecv(piece, rank, tag) for rank, array in receives.items() for piece in pieces(array)]
        for rank, array in sends.items():
            for piece in pieces(array):
                requests.append(raw.Isend(piece, rank, tag))
                count["halo"] += 1
                count["bytes"] += piece.nbytes
        return Exchange(self, requests, (sends, receives))


_KEYVAL: list[int] = []  # the attribute of mpi4py's communicators that holds ours
_HOOKED: list[bool] = []


def _abort_on_uncaught_exceptions() -> None:
    """Let an uncaught exception end all ranks: its rank would otherwise wait for the others in MPI's finalization."""
    if _HOOKED:
        return
    _HOOKED.append(True)
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        from mpi4py.run import set_abort_status

        before(kind, error, trace)
        set_abort_status(error)

    sys.excepthook = hook
