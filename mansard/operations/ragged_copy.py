"""Copies between ragged batches and padded stacks on GPUs: one launch gathers, or scatters, matrices of all sizes.

What is copied from where is a table that the host makes once for its layouts; it is uploaded once for each stream.
"""

from __future__ import annotations

from collections.abc import Hashable
from ctypes import c_void_p
from typing import Any, NamedTuple

import numpy as np

from ..arrays.types import Array, Kind
from ..backends.base import Backend, Launch
from ..errors import LaunchError
from ..kernels.factor.ragged_factor import defaults, emit, spec, work
from .batched.gemm_run import _upload
from .ragged_layout import scratch, stream_key

_PIECE = 1024  # entries that a warp copies: 32 in each of its lanes, four of them under way
NO_ONES = -(1 << 30)  # `ones` that no row minus column is


def is_capturing(backend: Backend, stream: int) -> bool:
    """Whether launches become part of a graph, which needs the memory they use for as long as it lives."""
    driver: Any = getattr(backend, "driver", None)
    return backend.name == "cuda" and bool(driver.capture_id(c_void_p(stream)))


def refuse_capture(backend: Backend, stream: int) -> None:
    """LaunchError where tables would have to be uploaded while a graph is captured."""
    if is_capturing(backend, stream):
        raise LaunchError("a graph cannot hold the sizes of a ragged batch: call it once before the capture")


class Block(NamedTuple):
    """Where matrices are read, and the dense blocks that are written: one number per matrix, or one for all."""

    source: Array  # first entries of the matrices
    target: Array  # first entries of the blocks
    rows: Array  # of the matrices
    columns: Array
    height: Array  # rows of the blocks
    width: Array  # columns of the blocks
    row_step: Array  # entries from row to row of a matrix
    column_step: Array
    ones: Array = NO_ONES  # row minus column of ones outside the matrix


def pieces(block: Block) -> Array:
    """The table that the kernel reads, with a line for each `_PIECE` entries (CopyItem in kernel_copy.cuh)."""
    count = len(block.source)
    source, target, rows, columns, height, width, row_step, column_step, ones = (
        np.broadcast_to(np.asarray(one, np.int64), (count,)) for one in block
    )
    entries = height * width
    lines = -(-entries // _PIECE)
    which = np.repeat(np.arange(count), lines)
    first = (np.arange(len(which)) - np.repeat(np.cumsum(lines) - lines, lines)) * _PIECE
    table = np.empty((len(which), work.COPY_WORDS), np.int64)
    table[:, 0], table[:, 1] = source[which], target[which]
    halves = table.view(np.int32)[:, 4:]
    for i, one in enumerate((row_step, column_step, rows, columns, width, ones)):
        halves[:, i] = one[which]
    halves[:, 6], halves[:, 7] = first, np.minimum(first + _PIECE, entries[which])
    return table


class Copies:
    """Launches of the copy kernel for blocks that are added one after the other; they share a table."""

    def __init__(self, kind: Kind, backend: Backend, dtype: str) -> None:
        self.kind, self.backend, self.dtype = kind, backend, dtype
        self._tables: list[Array] = []
        self._length = 0  # words
        self._words: Array = None
        self._uploaded: dict[Hashable, Array] = {}

    def add(self, block: Block) -> Copy:
        """A launch for these blocks; all of them are added before the first call."""
        table = pieces(block)
        launch = None
        if len(table):
            problem = spec.problem(self.dtype, len(table), method="copy")
            config = defaults.default(problem, self.backend.device)
            assert config is not None
            launch = self.backend.prepare(emit.kernel(problem, config, self.backend.device, ()))
        return Copy(launch, self.add_items(table))

    def add_items(self, items: Array) -> int:
        """Add the items (int64) of another kernel to the table; where they begin in it, in bytes."""
        begin = 8 * self._length
        self._tables.append(np.ascontiguousarray(items).reshape(-1))
        self._length += self._tables[-1].size
        return begin

    def table(self, like: Array, stream: int) -> int:
        """Address of the table where kernels read it: other streams are not ordered with an upload."""
        if self._words is None:
            self._words = np.ascontiguousarray(np.concatenate(self._tables))
            self._tables = []
        if self.backend.name != "cuda" or not self._length:
            return int(self._words.ctypes.data)
        key = stream_key(stream)
        held = self._uploaded.get(key)
        if held is None:
            refuse_capture(self.backend, stream)
            made = scratch(self.kind, like, self._words.nbytes)
            _upload(self.backend.driver, self.kind.address(made), self._words, stream)  # type: ignore[attr-defined]
            held = self._uploaded.setdefault(key, made)  # of two threads, the first one's stays
        return int(self.kind.address(held))


class Copy(NamedTuple):
    """One launch: the kernel (None: there is nothing to copy), and where its lines begin in the table."""

    launch: Launch | None
    first: int

    def __call__(self, source: int, target: int, table: int, stream: int) -> None:
        if self.launch is not None:
            self.launch((source, target, table + self.first), (), stream)
