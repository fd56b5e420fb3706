"""Where the matrices of a ragged batch are in its buffer, and of what size: tables on the host, on the device, or both.

What the host knows does not change any more: results and sorted lists that follow from it are made once and kept beside
it. Tables that exist only on the device are read there, by every call; the host fetches them, which waits for the
device, when it is asked for a shape.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..arrays.types import Array, Kind
from .batched.gemm_run import _upload

_PER_THREAD_STREAM = 2
NAMES = ("rows", "columns", "offsets")
ALIGNMENT = 32  # bytes: what GPUs read and write at a time; matrices that share such a sector cost 2 to 4 % (H200)


class Layout:
    """Rows, columns and offsets (in elements) of `count` matrices."""

    def __init__(
        self, host: tuple[Array, Array, Array] | None, device: tuple[Array, Array, Array] | None = None
    ) -> None:
        if host is not None:
            host = tuple(np.array(one, np.int64) for one in host)  # type: ignore[assignment]
            for one in host:
                one.flags.writeable = False
        self._host, self._device = host, device
        self.count = len((host or device or ((),))[0])
        self._uploaded: dict[Hashable, Any] = {}
        self._reach: tuple[int, int] | None = None
        self._pieces: tuple[list[tuple[int, int]], list[slice]] | None = None
        self.pairs: WeakKeyDictionary[Layout, Any] = WeakKeyDictionary()  # what follows from this one and another

    def __reduce__(self) -> tuple[object, ...]:
        return Layout, (self._host, self._device)

    @property
    def known(self) -> bool:
        """Whether the host has the tables."""
        return self._host is not None

    def host(self) -> tuple[Array, Array, Array]:
        """Rows, columns and offsets as NumPy arrays; those of a device are fetched once."""
        if self._host is None:
            assert self._device is not None
            self._host = tuple(_fetched(one) for one in self._device)
        return self._host

    def pieces(self) -> tuple[list[tuple[int, int]], list[slice]]:
        """Shapes of the matrices, and the slices of the buffer that they are; made once."""
        if self._pieces is None:
            rows, columns, offsets = (table.tolist() for table in self.host())
            shapes = list(zip(rows, columns, strict=True))
            self._pieces = shapes, [slice(at, at + m * n) for at, (m, n) in zip(offsets, shapes, strict=True)]
        return self._pieces

    def addresses(self, kind: Kind, like: Array, backend: Any, ordinal: int) -> tuple[int, ...]:
        """Of the three tables, where the backend's kernels read them."""
        if self._device is not None and backend.name == "cuda":
            return tuple(kind.address(one) for one in self._device)
        tables = self.host()
        if backend.name != "cuda":
            if "host" not in self._uploaded:  # asking NumPy costs as much as a small batch
                self._uploaded["host"] = tuple(int(one.ctypes.data) for one in tables)
            return self._uploaded["host"]  # type: ignore[no-any-return]
        stream = kind.stream_of(("cuda", ordinal))()
        key = (kind, ordinal, *stream_key(stream))  # work of other streams is not ordered with the copy
        if key not in self._uploaded:
            words = np.concatenate(tables)
            held = scratch(kind, like, words.nbytes)
            _upload(backend.driver, kind.address(held), words, stream)
            self._uploaded.setdefault(key, held)  # of two threads, the first one's stays
        first = kind.address(self._uploaded[key])
        return tuple(first + 8 * self.count * i for i in range(3))

    def part(self, index: slice) -> Layout:
        """Some of the matrices."""
        if self._host is not None:
            return Layout(tuple(one[index] for one in self._host))
        assert self._device is not None
        return Layout(None, tuple(_contiguous(one[index]) for one in self._device))

    def reach(self, elements: int) -> tuple[int, int]:
        """The first element that any matrix has, and one past the last; the whole buffer if only the device knows."""
        if self._host is None:
            return 0, elements
        if self._reach is None:  # once: calls must not look at every matrix
            rows, columns, offsets = self._host
            some = rows * columns > 0
            ends = (offsets + rows * columns)[some]
            self._reach = (int(offsets[some].min()), int(ends.max())) if some.any() else (0, 0)
        return self._reach

    def overlapping(self) -> tuple[int, int] | None:
        """Two matrices that have an element in common, if the host knows of any."""
        if self._host is None:
            return None
        rows, columns, offsets = self._host
        order = np.argsort(offsets, kind="stable")
        order = order[(rows * columns)[order] > 0]
        starts, ends = offsets[order], (offsets + rows * columns)[order]
        wrong = np.flatnonzero(ends[:-1] > starts[1:])
        return (int(order[wrong[0]]), int(order[wrong[0] + 1])) if len(wrong) else None


def packed(rows: Array, columns: Array, unit: int = 1) -> tuple[Layout, int]:
    """Matrices one after the other, each at a multiple of `unit` elements; and the elements they take together."""
    sizes = -(-rows * columns // unit) * unit
    ends = np.cumsum(sizes, dtype=np.int64)
    return Layout((rows, columns, ends - sizes)), int(ends[-1]) if len(ends) else 0


@lru_cache(maxsize=256)
def single(rows: int, columns: int) -> Layout:
    """One matrix, at the beginning."""
    return Layout(tuple(np.array([one], np.int64) for one in (rows, columns, 0)))  # type: ignore[arg-type]


def stream_key(stream: int) -> tuple[int, int]:
    """What tells streams apart."""
    return stream, threading.get_ident() if stream == _PER_THREAD_STREAM else 0


def scratch(kind: Kind, like: Array, size: int) -> Array:
    """So many bytes beside an array."""
    item = _itemsize(like)
    return kind.empty((1, max(1, -(-size // item))), _name(like), like)


def _itemsize(array: Array) -> int:
    return int(array.itemsize if hasattr(array, "itemsize") else array.element_size())


def _name(array: Array) -> str:
    return str(array.dtype).removeprefix("torch.")


def is_on_device(sizes: Sequence[int] | Array) -> bool:
    """Whether these sizes are an array on a GPU."""
    return hasattr(sizes, "__cuda_array_interface__") or bool(getattr(sizes, "is_cuda", False))


def _fetched(array: Array) -> Array:
    found = array if isinstance(array, np.ndarray) else array.get() if hasattr(array, "get") else array.cpu().numpy()
    return np.asarray(found, np.int64)


def of_sizes(rows: Sequence[int] | Array, columns: Sequence[int] | Array, offsets: Sequence[int] | Array) -> Layout:
    """From whatever a caller has: integers, sequences, arrays; those of a GPU stay there."""
    given = {name: one for name, one in zip(NAMES, (rows, columns, offsets), strict=True) if one is not None}
    if any(is_on_device(one) for one in given.values()):
        return _on_device(given)
    tables = {name: _integers(one, name) for name, one in given.items()}
    try:
        spread = np.broadcast_arrays(*tables.values())
    except ValueError:
        lengths = ", ".join(f"{name} has {len(one)}" for name, one in tables.items())
        raise ValueError(f"{lengths}: one entry per matrix is needed") from None
    for name, one in zip(tables, spread, strict=True):
        if (one < 0).any():
            i = int(np.argmax(one < 0))
            raise ValueError(f"{name}[{i}] is {one[i]}: it must not be negative")
    if offsets is None:
        return packed(spread[0], spread[1])[0]
    return Layout(tuple(spread))  # type: ignore[arg-type]


def _integers(sizes: Sequence[int] | Array, name: str) -> Array:
    array = np.asarray(sizes)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}: integers are needed")
    if array.ndim > 1:
        raise ValueError(f"{name} has shape {array.shape}: one entry per matrix is needed")
    return np.atleast_1d(array).astype(np.int64)


def _on_device(given: dict[str, Array]) -> Layout:
    first = next(one for one in given.values() if is_on_device(one))
    found = {}
    for name, one in given.items():
        if is_on_device(one):
            if len(one.shape) != 1 or len(one) != len(first):
                raise ValueError(f"{name} has shape {tuple(one.shape)}: one entry per matrix is needed")
            found[name] = one.long() if hasattr(one, "long") else one.astype("int64")
        elif np.ndim(one) == 0:
            found[name] = (first * 0 + int(one)) * 1
        else:
            raise TypeError(f"{name} is on the host and other sizes are on a GPU: put all of them in one place")
    if "offsets" not in found:
        sizes = found["rows"] * found["columns"]
        found["offsets"] = sizes.cumsum(0) - sizes
    return Layout(None, tuple(_contiguous(found[name]) for name in NAMES))


def _contiguous(array: Array) -> Array:
    return array.contiguous() if hasattr(array, "contiguous") else array if array.flags.c_contiguous else array.copy()
