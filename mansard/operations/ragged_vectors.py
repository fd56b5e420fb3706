"""`Vectors`: vectors of different lengths, one per matrix of a ragged batch, as parts of few arrays.

Pivots, tau and values of ten thousand matrices are ten thousand arrays, which CuPy takes 40 ms to make, and few callers
look at all of them. They are made when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np

from ..arrays.types import Array, Kind


class Places:
    """Where vectors are: the array, the first entry and the length of each. Made once for a layout."""

    def __init__(self, which: Array, first: Array, length: Array) -> None:
        self.which, self.first, self.length = (np.asarray(one, np.int64) for one in (which, first, length))
        ends = np.cumsum(self.length)
        self.total = int(ends[-1]) if len(ends) else 0
        # one after the other, in one array
        self.is_dense = not self.which.any() and bool((self.first == ends - self.length).all())
        self._slices: list[tuple[int, slice]] | None = None

    @classmethod
    def dense(cls, length: Array) -> Places:
        """Vectors that lie one after the other in one array."""
        return cls(np.zeros(len(length), np.int64), np.cumsum(length) - length, length)

    @classmethod
    def of_stacks(cls, members: Sequence[Array], widths: Sequence[int], length: Array) -> Places:
        """The first entries of rows of stacks: stack k has `widths[k]` entries per row, and a row for each of
        `members[k]`."""
        which, first = np.zeros(len(length), np.int64), np.zeros(len(length), np.int64)
        for k, (some, width) in enumerate(zip(members, widths, strict=True)):
            which[some], first[some] = k, np.arange(len(some)) * width
        return cls(which, first, length)

    def slices(self) -> list[tuple[int, slice]]:
        """The array and the part of it that each vector is."""
        if self._slices is None:
            tables = (one.tolist() for one in (self.which, self.first, self.length))
            self._slices = [(which, slice(at, at + size)) for which, at, size in zip(*tables, strict=True)]
        return self._slices

    def part(self, index: slice) -> Places:
        """Some of the vectors."""
        return Places(self.which[index], self.first[index], self.length[index])

    def indices(self, lengths: Sequence[int]) -> Array:
        """Places of all entries, vector after vector, among those of the arrays one after the other."""
        begins = np.cumsum([0, *lengths])[self.which] + self.first
        within = np.arange(self.total) - np.repeat(np.cumsum(self.length) - self.length, self.length)
        return np.repeat(begins, self.length) + within


class Vectors(Sequence[Array]):
    """Vectors of different lengths: a sequence of arrays, each a view that is made when it is asked for.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> w = ms.linalg.eigvalsh(ms.Ragged.from_list([np.diag([1.0, 2.0]), np.diag([3.0])]))
    >>> len(w), w[0], w.to_list()
    (2, array([1., 2.]), [array([1., 2.]), array([3.])])
    """

    def __init__(self, arrays: Sequence[Array], places: Places) -> None:
        self.arrays, self.places = tuple(arrays), places

    @classmethod
    def of(cls, kind: Kind, vectors: Sequence[Array], like: Array) -> Vectors:
        """Copies of NumPy arrays, at least one, in one array beside `like`."""
        places = Places.dense(np.array([len(one) for one in vectors], np.int64))
        return cls([kind.upload(np.concatenate(vectors), like)], places)

    def __len__(self) -> int:
        return len(self.places.length)

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Vectors: ...
    def __getitem__(self, index: int | slice) -> Array:
        """One vector, or some: views, nothing is copied."""
        if isinstance(index, slice):
            return Vectors(self.arrays, self.places.part(index))
        which, part = self.places.slices()[index]
        return self.arrays[which][part]

    def __iter__(self) -> Iterator[Array]:
        arrays = self.arrays
        return (arrays[which][part] for which, part in self.places.slices())

    def to_list(self) -> list[Array]:
        """All of them, as views."""
        return list(self)

    def joined(self, kind: Kind, indices: Callable[[], Array]) -> Array:
        """All entries in one array, vector after vector; `indices` gives `places.indices` on the arrays' device."""
        if self.places.is_dense and len(self.arrays) == 1:
            return self.arrays[0][: self.places.total]
        return kind.module.concatenate(self.arrays)[indices()]

    def __repr__(self) -> str:
        lengths = self.places.length
        span = f"{lengths.min()}..{lengths.max()} entries" if len(self) else "none"
        return f"Vectors({len(self)}, {span})"
