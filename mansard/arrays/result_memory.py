"""Memory of large results in NumPy arrays, used again once a result is gone.

The system gives and takes memory of this size in pages, and fills every new one with zeros: that takes as long as
writing the result twice more. An array from here is like any other but that it does not own its memory (`base`).
"""

from __future__ import annotations

import os
from math import prod
from threading import Lock
from typing import Any

import numpy as np

SMALLEST = 4 << 20  # bytes of a result; less comes from the heap of the C library, whose pages stay
_LARGEST = 256 << 20  # bytes of a result, and of all memory that waits to be used again
_SLACK = 1.25  # times as large as asked for may a piece be
_LINE = 64  # bytes of a line of the cache, on which arrays begin


class Pool:
    """Pieces of memory that no array uses."""

    def __init__(self) -> None:
        self._idle: list[Any] = []  # arrays of bytes, the one that was given back last at the end
        self._lock = Lock()

    def array(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of any content; its memory comes back with the last reference to it or to a part of it."""
        size = prod(shape) * dtype.itemsize
        if not SMALLEST <= size <= _LARGEST:
            return np.empty(shape, dtype)
        piece = self._taken(size)
        return np.asarray(_Lease(self, np.empty(size + _LINE, np.uint8) if piece is None else piece, shape, dtype))

    def _taken(self, size: int) -> Any:
        with self._lock:
            for i in range(len(self._idle) - 1, -1, -1):
                if size + _LINE <= self._idle[i].nbytes <= _SLACK * size + _LINE:
                    return self._idle.pop(i)
        return None

    def given_back(self, piece: Any) -> None:
        """Keep a piece, and drop the oldest ones beyond the limit."""
        if not self._lock.acquire(blocking=False):  # a collection of garbage, inside of `_taken`
            return
        try:
            self._idle.append(piece)
            while sum(one.nbytes for one in self._idle) > _LARGEST + _LINE:
                self._idle.pop(0)
        finally:
            self._lock.release()

    def idle_bytes(self) -> int:
        """Bytes that wait to be used again."""
        return sum(one.nbytes for one in self._idle)

    def begin_anew(self) -> None:
        """In a forked child, where another thread may have held the lock."""
        self._lock, self._idle = Lock(), []


class _Lease:
    """Memory of an array, which NumPy holds as its base."""

    __slots__ = ("__array_interface__", "_piece", "_pool")

    def __init__(self, pool: Pool, piece: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self._pool, self._piece = pool, piece
        address = -(-piece.ctypes.data // _LINE) * _LINE
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3}

    def __del__(self) -> None:
        self._pool.given_back(self._piece)


POOL = Pool()
os.register_at_fork(after_in_child=POOL.begin_anew)
