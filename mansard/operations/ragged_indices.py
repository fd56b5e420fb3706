"""Index arrays of the entries of ragged batches: gathers and scatters by the array library, without a loop over
matrices. They are made once for a layout, and once uploaded for each stream of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

import numpy as np

from ..arrays.types import Array
from .factor.task import zeros
from .ragged import Ragged
from .ragged_layout import Layout, stream_key

_OF_LAYOUTS: WeakKeyDictionary[Layout, Indices] = WeakKeyDictionary()


class Indices:
    """Places of some entries in a buffer; which matrix, row and column each one is."""

    def __init__(self, place: Array, matrix: Array, row: Array, column: Array = None) -> None:
        self.place, self.matrix, self.row, self.column = place, matrix, row, column
        self._parts: dict[Hashable, Indices] = {}
        self._uploaded: dict[Hashable, Array] = {}

    @classmethod
    def of(cls, layout: Layout) -> Indices:
        """All entries, matrix after matrix, row after row."""
        if layout not in _OF_LAYOUTS:
            _OF_LAYOUTS[layout] = cls(*all_entries(*layout.host()))
        return _OF_LAYOUTS[layout]

    def part(self, key: Hashable, chosen: Callable[[Array, Array], Array]) -> Indices:
        """Entries that `chosen`, asked with rows and columns, says; `key` names them."""
        if key not in self._parts:
            which = chosen(self.row, self.column)
            self._parts[key] = Indices(*(one[which] for one in (self.place, self.matrix, self.row, self.column)))
        return self._parts[key]

    def mirrored(self, layout: Layout) -> Indices:
        """Entries (j, i) for entries (i, j) of square matrices, in their order."""
        if "mirrored" not in self._parts:
            beyond = (self.column - self.row) * (layout.host()[0][self.matrix] - 1)
            self._parts["mirrored"] = Indices(self.place + beyond, self.matrix, self.column, self.row)
        return self._parts["mirrored"]

    def beside(self, ragged: Ragged) -> Array:
        """The places as an array of the batch's library, on its device."""
        return self.place if ragged._kind.on_host_alone else self._beside(ragged, "places", lambda: self.place)

    def matrices_beside(self, ragged: Ragged) -> Array:
        """Which matrix each entry is of, as an array of the batch's library, on its device."""
        return self.matrix if ragged._kind.on_host_alone else self._beside(ragged, "matrices", lambda: self.matrix)

    def without(self, ragged: Ragged) -> Array:
        """A copy of the batch's buffer with zeros, whatever stood there, at these places."""
        kind, length = ragged._kind, len(ragged.buffer)
        others = self._beside(ragged, length, lambda: ~np.isin(np.arange(length), self.place))
        return kind.module.where(others, ragged.buffer, zeros(kind, (1,), ragged._view.dtype, ragged.buffer))

    def _beside(self, ragged: Ragged, what: Hashable, make: Callable[[], Array]) -> Array:
        """A table that the host makes once, uploaded once for each stream: others are not ordered with the copy."""
        kind, device = ragged._kind, ragged._view.device
        key = (what, kind, device, *stream_key(kind.stream_of(device)()))
        if key not in self._uploaded:
            self._uploaded[key] = kind.upload(np.ascontiguousarray(make()), ragged.buffer)
        return self._uploaded[key]


def copy_entries(to: Ragged, source: Ragged) -> None:
    """Copy all matrices to places of the same sizes."""
    to.buffer[Indices.of(to.layout).beside(to)] = source.buffer[Indices.of(source.layout).beside(to)]


def all_entries(rows: Array, columns: Array, offsets: Array) -> tuple[Array, Array, Array, Array]:
    """Place, matrix, row and column of every entry of matrices of these sizes."""
    sizes = rows * columns
    matrix = np.repeat(np.arange(len(rows)), sizes)
    within = np.arange(len(matrix)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    row, column = np.divmod(within, np.repeat(np.maximum(columns, 1), sizes))
    return np.repeat(offsets, sizes) + within, matrix, row, column
