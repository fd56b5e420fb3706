"""A matrix in the orders that powers may read it in: by level, stored as SELL, or as products store it."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from .....arrays.types import Array, SparseMatrix
from .....backends.select import select
from .....codegen.geometry import Device
from .....kernels.sparse.powers.fit import Pattern
from .....machine import caches
from ... import chunked, convert, matrix, storage
from ...operand import Held
from ...storage import Csr, Sell, host
from . import levels as leveling
from . import reach
from .reach import Levels

_LEVEL = 8 << 20  # bytes of a level that a GPU's second cache has room for, some at once
_WINDOW = 256  # rows that are sorted by length where chunks would be padded
_PADDING = 1.1  # stored entries per entry from which they are


class Ordered:
    """A square matrix in level order; row i is row permutation[i] of the caller's.

    Its layout is known from the start, and a plan is chosen by it; entries are stored when something is to read them.
    """

    def __init__(
        self, layout: Sell, rows: Csr, levels: Levels | None, permutation: Array, inverse: Array, entries: Array
    ) -> None:
        self.layout = layout  # with its entries once they are stored
        self.rows = rows  # the matrix in this order
        self.levels = levels  # None: nobody asked for them
        self.permutation, self.inverse = permutation, inverse  # int32, None where rows stay where they are
        self._entries = entries  # where each entry was among the caller's; None where it is
        self.xp, self.device = convert.place_of(layout.starts)
        self._reach: dict[int, Array] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (self.sell, self.rows, self.levels, self.permutation, self.inverse, self._entries)

    @property
    def sell(self) -> Sell:
        """The matrix as kernels read it."""
        if self.layout.buffer is None:
            self.layout = chunked.filled(self.layout, self.rows, self.xp)
        return self.layout

    def reach(self, tile_rows: int) -> Array:
        """The highest tile that every tile of rows reads, int32."""
        if tile_rows not in self._reach:
            high = reach.tile_reach(self.rows.indptr, self.rows.indices, tile_rows)[1]
            own = self.xp.arange(len(high), dtype=high.dtype)
            self._reach[tile_rows] = self.xp.maximum(high, own).astype(self.xp.int32)
        return self._reach[tile_rows]

    def pattern(self) -> Pattern:
        """The facts of the matrix that a persistent launch is fitted to."""
        starts = host(self.layout.starts).astype(np.int64)
        width = float(host(self.layout.widths).mean()) if self.layout.chunks else 0.0
        return Pattern(np.diff(starts) * storage.UNIT, width, lambda rows: host(self.reach(rows)))

    def with_values(self, data: Array) -> Ordered:
        """Powers of a matrix with this pattern and other values: `data` in the order of the caller's CSR matrix."""
        data = data if self._entries is None else data[self._entries]
        sell = chunked.sell_with_values(self.sell, self.rows.indptr, data.astype(self.sell.values_dtype), self.xp)
        made = Ordered(sell, self.rows, self.levels, self.permutation, self.inverse, self._entries)
        made._reach = self._reach
        return made


def _unpickled(
    sell: Sell, rows: Csr, levels: Levels | None, permutation: Array, inverse: Array, entries: Array
) -> Ordered:
    """A matrix in level order as it was pickled, where its arrays are now."""
    return Ordered(storage.realigned(sell), rows, levels, permutation, inverse, entries)


class Orders:
    """A square matrix of any library, or of `ms.sparse`, in each order that a plan asks for, made once."""

    def __init__(
        self, A: SparseMatrix, backend: str | None = None, index: str | None = None, values: str | None = None
    ) -> None:
        if isinstance(A, matrix.Matrix):
            A = A.to_scipy() if A.device[0] == "cpu" else A.to_cupy()
        self.source = convert.read(A)
        shape = self.source.rows.shape
        if shape[0] != shape[1]:
            raise ValueError(f"A has shape {shape}: only square matrices have powers")
        self.backend = select(self.source.device, backend)
        self._asked, self._index, self._values = backend, index, values
        self._by_level: dict[str, Ordered] = {}
        self._held: Held | None = None

    def by_level(self, order: str) -> Ordered:
        """The matrix in level order (`order` as for `ms.sparse.levels.levels`; "none": rows as they are, no levels)."""
        if order not in self._by_level:
            device = self.backend.device
            self._by_level[order] = in_level_order(self.source, order, self._index, self._values, device)
        return self._by_level[order]

    def held(self) -> Held:
        """The matrix as `ms.sparse.matrix` stores it, rows where they are: its products are those of `A @ x`."""
        if self._held is None:
            made = matrix.of_source(self.source, index=self._index, values=self._values, backend=self._asked)
            self._held = made.held
        return self._held


def level_budget(device: Device) -> int:
    """Bytes of a level that need not be narrower: some of them at once pass through a cache."""
    return min(_LEVEL, 2 * caches.cache_bytes()[0]) if device.backend == "cpu" else _LEVEL


def in_level_order(
    source: convert.Source, order: str, index: str | None, values: str | None, device: Device
) -> Ordered:  # fmt: skip
    """The matrix with its rows by level, and by length within windows where that saves padding; not yet stored."""
    xp, rows = source.xp, source.rows
    none = order == "none" or rows.shape[0] == 0
    found = None if none else leveling.levels(rows, order=order, budget=level_budget(device))
    permutation = None if found is None or found.kept else xp.asarray(found.permutation)
    C = convert.chunk_rows(rows.values_dtype, device)
    permutation = _sorted(rows, permutation, C, xp)
    inverse, entries = None, None
    if permutation is not None:
        inverse = xp.empty_like(permutation)
        inverse[permutation] = xp.arange(permutation.size, dtype=permutation.dtype)
        rows, entries = _permuted(rows, permutation, inverse, xp)
    index = index or convert.chosen_index(rows, C, 1, source.device, xp)
    layout = chunked.sell_layout(rows, C, 1, index, values, xp)
    return Ordered(layout, rows, found, permutation, inverse, entries)


def _sorted(rows: Csr, permutation: Array, C: int, xp: ModuleType) -> Array:
    """Level order, with rows sorted by length inside windows where that saves padding."""
    if rows.nnz == 0:
        return permutation
    lengths = xp.diff(rows.indptr)
    lengths = lengths if permutation is None else lengths[permutation]
    if _stored(lengths, C, xp) <= _PADDING * rows.nnz:
        return permutation
    window = xp.arange(lengths.size, dtype=xp.int64) // _WINDOW
    longest = int(lengths.max())
    order = xp.argsort(window * (longest + 1) + (longest - lengths), kind="stable").astype(xp.int32)
    return order if permutation is None else permutation[order]


def _stored(lengths: Array, C: int, xp: ModuleType) -> int:
    """Entries with their padding."""
    chunks = -(-lengths.size // C)
    padded = xp.zeros(chunks * C, lengths.dtype)
    padded[: lengths.size] = lengths
    return int(padded.reshape(chunks, C).max(axis=1).sum(dtype=xp.int64)) * C


def _permuted(rows: Csr, permutation: Array, inverse: Array, xp: ModuleType) -> tuple[Csr, Array]:
    """P A P^T, entries of a row in the order they had, and where each of them was."""
    lengths = xp.diff(rows.indptr)[permutation]
    indptr = xp.zeros(lengths.size + 1, xp.int64)
    indptr[1:] = xp.cumsum(lengths, dtype=xp.int64)
    entry = xp.arange(rows.nnz, dtype=xp.int64)
    row = xp.searchsorted(indptr, entry, side="right") - 1
    entry += rows.indptr[permutation][row] - indptr[row]
    narrow = xp.int32 if rows.nnz < 1 << 31 else xp.int64
    fresh = Csr(rows.shape, indptr.astype(narrow), inverse[rows.indices[entry]], rows.data[entry])
    return fresh, entry.astype(narrow)
