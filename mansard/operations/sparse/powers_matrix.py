"""The matrix as powers read it: rows in level order, stored as SELL, and what fitting must know of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...codegen.geometry import Device
from ...kernels.sparse.powers.fit import Pattern
from . import convert, reach, storage
from . import levels as leveling
from .levels import Levels
from .operand import Held
from .storage import Csr, Sell

_WINDOW = 256  # rows that are sorted by length where chunks would be padded
_PADDING = 1.1  # stored entries per entry from which they are


@dataclass(frozen=True)
class Ordered:
    """A square matrix in level order; row i is row permutation[i] of the caller's."""

    sell: Sell
    rows: Csr  # the pattern in this order
    levels: Levels | None  # None: nobody asked for them
    permutation: Any  # int32, None where rows stay where they are
    inverse: Any
    entries: Any  # where each entry was among the caller's; None where it is
    xp: Any
    device: tuple[str, int]
    _reach: dict[int, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return _ordered, (self.sell, self.rows, self.levels, self.permutation, self.inverse, self.entries)

    def reach(self, tile_rows: int) -> Any:
        """The highest tile that every tile of rows reads, int32."""
        if tile_rows not in self._reach:
            high = reach.tile_reach(self.rows.indptr, self.rows.indices, tile_rows)[1]
            own = self.xp.arange(len(high), dtype=high.dtype)
            self._reach[tile_rows] = self.xp.maximum(high, own).astype(self.xp.int32)
        return self._reach[tile_rows]

    def pattern(self) -> Pattern:
        starts = reach.host(self.sell.starts).astype(np.int64)
        width = float(reach.host(self.sell.widths).mean()) if self.sell.chunks else 0.0
        return Pattern(np.diff(starts) * storage.UNIT, width, lambda rows: reach.host(self.reach(rows)))

    def with_values(self, data: Any) -> Ordered:
        """The same pattern; `data` in the order of the caller's CSR matrix."""
        data = data if self.entries is None else data[self.entries]
        sell = storage.sell_with_values(self.sell, self.rows.indptr, data.astype(self.sell.values_dtype), self.xp)
        return replace(self, sell=sell)


def _ordered(sell: Sell, rows: Csr, levels: Levels | None, permutation: Any, inverse: Any, entries: Any) -> Ordered:
    """A matrix in level order as it was pickled, where its arrays are now."""
    sell = storage.realigned(sell)
    return Ordered(sell, rows, levels, permutation, inverse, entries, *convert.place_of(sell.buffer), {})


def read(A: Any) -> convert.Source:
    """A square matrix of any library, or of `ms.sparse`, as CSR."""
    if hasattr(A, "to_scipy") and hasattr(A, "storage"):
        A = A.to_scipy() if A.device[0] == "cpu" else A.to_cupy()
    source = convert.read(A)
    if source.rows.shape[0] != source.rows.shape[1]:
        raise ValueError(f"A has shape {source.rows.shape}: only square matrices have powers")
    return source


def kept(source: convert.Source, index: str | None, values: str | None, backend: str | None) -> Held:
    """The matrix as `ms.sparse.matrix` stores it, rows where they are: its products are those of `A @ x`."""
    from ...sparse.matrix import of_source  # which knows this package

    return of_source(source, index=index, values=values, backend=backend).held


def ordered(
    source: convert.Source, order: str, budget: float, index: str | None, values: str | None, device: Device
) -> Ordered:
    """The matrix in level order (`order` as for `ms.sparse.levels.levels`; "none": rows as they are, no levels)."""
    xp, rows = source.xp, source.rows
    none = order == "none" or rows.shape[0] == 0
    found = None if none else leveling.levels(rows, order=order, budget=budget)
    permutation = None if found is None or found.kept else xp.asarray(found.permutation)
    C = convert.chunk_rows(rows.values_dtype, device)
    permutation = _sorted(rows, permutation, C, xp)
    inverse, entries = None, None
    if permutation is not None:
        inverse = xp.empty_like(permutation)
        inverse[permutation] = xp.arange(permutation.size, dtype=permutation.dtype)
        rows, entries = _permuted(rows, permutation, inverse, xp)
    index = index or convert.chosen_index(rows, C, 1, source.device, xp)
    sell = storage.sell_from_csr(rows, C, 1, index, values, xp)
    return Ordered(sell, rows, found, permutation, inverse, entries, xp, source.device, {})


def _sorted(rows: Csr, permutation: Any, C: int, xp: Any) -> Any:
    """The same order, rows by length within windows, where that saves padding."""
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


def _stored(lengths: Any, C: int, xp: Any) -> int:
    """Entries with their padding."""
    chunks = -(-lengths.size // C)
    padded = xp.zeros(chunks * C, lengths.dtype)
    padded[: lengths.size] = lengths
    return int(padded.reshape(chunks, C).max(axis=1).sum(dtype=xp.int64)) * C


def _permuted(rows: Csr, permutation: Any, inverse: Any, xp: Any) -> tuple[Csr, Any]:
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
