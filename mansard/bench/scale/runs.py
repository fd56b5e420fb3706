"""The operations whose scaling is measured, each on all ranks together and by every rank alone at the same time."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ... import cholesky_qr, distributed, gram, matmul, matrix_powers, sparse
from ...arrays.types import Array
from ...distributed.communicator import ROOM
from ...distributed.messages import HEADER
from ...operations.sparse.operand import bytes_of

WIDTH = 32  # columns of tall matrices: Gram matrices of 8 KiB
POWERS = 4
_WARM = 2  # calls before the first sample
_MOST = 200  # samples of an operation
_LEAST = 3


class Case(NamedTuple):
    """An operation on ranks, the same local work alone, and the messages that it takes."""

    name: str
    together: Callable[[], Any]
    alone: Callable[[], Any]
    gathers: int  # collective messages of HEADER + ROOM bytes
    halo: int  # bytes to each neighbour
    repeated: float  # share of local work that ghost zones repeat
    read: int  # bytes that the local work reads at least
    written: int  # bytes that it writes


def cases(comm: Any, rows: int, planes: int, side: int) -> list[Case]:
    """Tall matrices of `rows` rows on each rank, and a grid of side x side x planes points on each rank."""
    tall = np.random.default_rng(comm.rank).standard_normal((rows, WIDTH))
    V = distributed.Rows(tall, comm)
    M = distributed.matrix(slab(side, planes, comm.rank, comm.size), comm, local=True)
    own = sparse.matrices.stencil(7, (side, side, planes))
    x, y, z = np.ones(own.shape[0]), np.empty(own.shape[0]), np.empty(own.shape[0])
    A, P = sparse.matrix(own), matrix_powers(own, POWERS)
    Q = distributed.matrix_powers(M, POWERS, exchanges="one")
    C, out = np.eye(WIDTH), np.empty_like(tall)
    product = distributed.Rows(out, comm)
    plane = 8 * side * side
    ghost = 2 if 0 < comm.rank < comm.size - 1 else min(1, comm.size - 1)
    block, vector, stored = tall.nbytes, x.nbytes, bytes_of(A.storage)
    return [
        Case("gram", lambda: gram(V), lambda: gram(tall), 1, 0, 0.0, block, 0),
        Case("matmul", lambda: matmul(V, C, out=product), lambda: matmul(tall, C, out=out), 0, 0, 0.0, block, block),
        Case("cholesky_qr", lambda: cholesky_qr(V), lambda: cholesky_qr(tall), 2, 0, 0.0, 3 * block, 2 * block),
        Case("sparse product", lambda: M.product(x, y), lambda: A.product(x, z), 0, plane, 0.0,
             stored + vector, vector),
        Case(f"powers p={POWERS}", lambda: Q(x), lambda: P(x), 0, POWERS * plane, ghost * (POWERS - 1) / planes,
             POWERS * (stored + vector), POWERS * vector),
    ]  # fmt: skip


def slab(side: int, planes: int, rank: int, ranks: int) -> Any:
    """The rows of `rank` of a 7-point stencil on a grid of side x side x (planes ranks) points."""
    from scipy.sparse import csr_array

    below, above, plane = int(rank > 0), int(rank < ranks - 1), side * side
    rows = sparse.matrices.stencil(7, (side, side, planes + below + above))[below * plane : (below + planes) * plane]
    columns = rows.indices.astype(np.int64) + (rank * planes - below) * plane
    return csr_array((rows.data, columns, rows.indptr), shape=(planes * plane, ranks * planes * plane))


def measure(case: Case, comm: Any, limit: float) -> dict[str, Any]:
    """Seconds from the first rank's start to the last one's end: together and alone in turn, after a barrier each.

    Samples are taken for about `limit` seconds. Clocks of one node agree; of several, the slowest rank counts. Times
    are the best ones, `share` is the ratio of the medians.
    """
    ours = distributed.Communicator.of(comm)
    begin = perf_counter()
    for _ in range(_WARM):
        case.together(), case.alone()
    once = comm.allreduce((perf_counter() - begin) / _WARM) / comm.size
    calls = (case.together, case.alone)
    marks = np.empty((min(_MOST, max(_LEAST, int(limit / once))), 2, 3))  # start, end, seconds of waiting
    for sample, mark in enumerate(marks):
        for which in (0, 1) if sample % 2 else (1, 0):
            comm.Barrier()
            waited, begin = ours.waiting, perf_counter()
            calls[which]()
            mark[which] = begin, perf_counter(), ours.waiting - waited
    every = np.array(comm.allgather(marks))
    together, alone = _spans(every[:, :, 0], comm), _spans(every[:, :, 1], comm)
    best, kernel = int(together.argmin()), float(alone.min())
    waiting = float(every[:, best, 0, 2].mean())
    return {
        "operation": case.name, "seconds": float(together[best]), "kernel": kernel, "waiting": waiting,
        "share": float(np.median(alone) / np.median(together)),
        "message": max(0.0, float(together[best]) - waiting - kernel),
        "gathers": case.gathers, "halo": case.halo, "repeated": max(comm.allgather(case.repeated)),
        "read": case.read, "written": case.written,
        "samples": {"together": together.tolist(), "alone": alone.tolist()},
    }  # fmt: skip


def _spans(marks: Array, comm: Any) -> Array:
    """Seconds of each sample, of marks [rank, sample, (start, end, ...)]."""
    if len(set(comm.allgather(platform.node()))) == 1:
        return marks[:, :, 1].max(axis=0) - marks[:, :, 0].min(axis=0)
    return (marks[:, :, 1] - marks[:, :, 0]).max(axis=0)


# ---- the network ------------------------------------------------------------------------------------------------

_SIZES = (8, 1024, 8192, 65536, 262144, 1048576)  # bytes
_ROUNDS = 40
_PLANES = (32, 64, 128)  # sides of the planes that are exchanged: 8, 32 and 128 KiB
_EVICTED = 4 << 20  # numbers, 32 MiB: more than a core's caches


def network(comm: Any) -> dict[str, Any]:
    """Best seconds of a message from rank 0 to 1 by size, of a gather, and of an exchange with both neighbours; of one
    rank, what several of them would share.

    The exchange is the product of a slab of one plane: packing, messages, and the launch for rows at the boundary.
    """
    if comm.size == 1:
        return {"ranks": 1, "ping_pong": {}, "gather": 0.0, "exchange": {}, "machine": machine()}
    ours = distributed.Communicator.of(comm)
    pings = {size: _ping_pong(comm, np.zeros(size, np.uint8)) for size in _SIZES}
    room = np.zeros(ROOM, np.uint8)
    gather = _best(comm, lambda: ours.gather(room, "latency"))
    exchange = {}
    for side in _PLANES:
        M, x = distributed.matrix(slab(side, 1, comm.rank, comm.size), comm, local=True), np.ones(side * side)
        exchange[8 * side * side] = _best(comm, partial(M.product, x))
    found = {"ping_pong": pings, "gather": gather, "gather_bytes": HEADER + ROOM, "exchange": exchange}
    return {"ranks": comm.size} | found


def _ping_pong(comm: Any, message: Array) -> float:
    """Half of a round trip between ranks 0 and 1."""
    best = np.inf
    for _ in range(_ROUNDS):
        comm.Barrier()
        begin = perf_counter()
        if comm.rank == 0:
            comm.Send(message, 1)
            comm.Recv(message, 1)
        elif comm.rank == 1:
            comm.Recv(message, 0)
            comm.Send(message, 0)
        best = min(best, (perf_counter() - begin) / 2)
    return float(comm.bcast(best))


def _best(comm: Any, call: Callable[[], Any]) -> float:
    """Fewest seconds of the slowest rank, with caches as a kernel leaves them: full of other data."""
    times, others = [], np.zeros(_EVICTED)
    for _ in range(_ROUNDS):
        others += 1
        comm.Barrier()
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return float(np.array(comm.allgather(times)).max(axis=0).min())


# ---- the machine ------------------------------------------------------------------------------------------------

_STREAM = 8 << 20  # numbers that a core reads or copies: 64 MiB, more than its share of the caches
_STREAMS, _STREAMING = 7, 1.0  # samples at least, and seconds of them: the best one finds quiet cores


def machine() -> dict[str, Any]:
    """Cores, and bytes per second that one of them, and all of them, read and copy; no launcher may bind them."""
    cores = os.cpu_count() or 1
    return {"cores": cores, "read": [_rate(1, _dot, 8), _rate(cores, _dot, 8)],
            "copy": [_rate(1, np.copyto, 16), _rate(cores, np.copyto, 16)]}  # fmt: skip


def _dot(x: Array, y: Array) -> None:
    np.dot(y, y)


def _rate(threads: int, stream: Callable[[Array, Array], None], size: int) -> float:
    """Most bytes per second of so many threads that each run `stream` on arrays of their own, `size` bytes a number."""
    arrays = [(np.zeros(_STREAM), np.ones(_STREAM)) for _ in range(threads)]
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        taken, first = 0, perf_counter()
        while taken < _STREAMS or perf_counter() - first < _STREAMING:
            begin = perf_counter()
            list(pool.map(stream, *zip(*arrays, strict=True)))
            best, taken = min(best, perf_counter() - begin), taken + 1
    return threads * size * _STREAM / best
