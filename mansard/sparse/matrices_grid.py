"""Matrices whose rows are points of a grid: neighbours are offsets, and everything is index arithmetic on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

_SLAB = {"numpy": 1 << 22, "cupy": 1 << 26}  # entries formed at a time: what fits caches of a CPU, what fills a GPU


def csr(xp: Any, data: Any, indices: Any, indptr: Any, rows: int) -> Any:
    """A square CSR matrix of scipy.sparse, or of cupyx.scipy.sparse if `xp` is CuPy."""
    if xp.__name__ == "cupy":
        from cupyx.scipy import sparse as gpu_sparse

        A = gpu_sparse.csr_matrix((data, indices, indptr), shape=(rows, rows))
    else:
        from scipy import sparse

        A = sparse.csr_array((data, indices, indptr), shape=(rows, rows))
    A.has_sorted_indices = A.has_canonical_format = True
    return A


def index_type(rows: int, entries: int) -> Any:
    """int32 where row numbers and the number of entries fit."""
    return np.int32 if max(rows, entries) < 2**31 else np.int64


def uniform(xp: Any, count: int, seed: int, begin: int = 0) -> Any:
    """Numbers begin to begin + count of a sequence that is uniform in [0, 1): the same on every device (splitmix64)."""
    state = xp.arange(begin, begin + count, dtype=np.uint64)
    state += np.uint64((seed * 0x632BE59BD9B4E019 + 1) % 2**64)
    state *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def grid(
    shape: Sequence[int],
    offsets: Any,
    table: Any,
    *,
    kind: Callable[[list[Any]], Any] | None = None,
    present: Any = None,
    periodic: bool = False,
    diagonal: Any = None,
    dtype: Any = np.float64,
    xp: Any = np,
) -> Any:
    """The matrix of a grid of `shape`, whose first axis is adjacent in memory.

    `offsets` [K][axes] lead to neighbours; `table` [kinds][K] holds the values, `present` [kinds][K] says which of them
    exist at a point of that kind. `diagonal(begin, end)` gives values to add to those of the rows' own points.
    """
    offsets = np.atleast_2d(np.asarray(offsets, np.int64))
    shape = checked_shape(shape, 2 * int(abs(offsets).max()) + 1 if periodic else 1)
    strides = np.cumprod([1, *shape[:-1]])
    ascending = np.argsort(offsets @ strides, kind="stable")
    offsets = offsets[ascending]
    table = np.atleast_2d(np.asarray(table, dtype))[:, ascending]
    present = np.ones(table.shape, bool) if present is None else np.atleast_2d(present)[:, ascending]
    rows = prod(shape)
    slab = max(1, _SLAB[xp.__name__] // len(offsets))
    pieces = [
        _slab(xp, begin, min(begin + slab, rows), shape, offsets, table, present, kind, periodic, diagonal)
        for begin in range(0, rows, slab)
    ]
    return joined(xp, pieces, rows, table.dtype)


def checked_shape(shape: Sequence[int], least: int = 1) -> tuple[int, ...]:
    """The extents of a grid as integers; `least` is more than 1 for a periodic one, whose neighbours must differ."""
    shape = tuple(int(extent) for extent in shape)
    if not shape or min(shape) < 1:
        raise ValueError(f"shape {shape}: extents are at least 1")
    if min(shape) < least:
        raise ValueError(f"shape {shape}: this periodic grid has at least {least} points along every axis")
    return shape


def _slab(
    xp: Any, begin: int, end: int, shape: tuple[int, ...], offsets: Any, table: Any, present: Any,
    kind: Any, periodic: bool, diagonal: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Entries per row, columns and values of rows begin to end."""
    rows = xp.arange(begin, end, dtype=np.int64 if prod(shape) >= 2**30 else np.int32)
    places, rest = [], rows
    for extent in shape:
        places.append(rest % extent)
        rest = rest // extent
    if kind is None:
        valid = xp.ones((end - begin, len(offsets)), bool)
        values = xp.broadcast_to(xp.asarray(table[0]), valid.shape)
    else:
        kinds = kind(places)
        valid, values = xp.asarray(present)[kinds], xp.asarray(table)[kinds]
    columns = xp.empty(valid.shape, rows.dtype)
    strides = np.cumprod([1, *shape[:-1]]).tolist()
    for k, offset in enumerate(offsets.tolist()):
        columns[:, k] = rows + sum(step * stride for step, stride in zip(offset, strides, strict=True))
        for step, stride, extent, place in zip(offset, strides, shape, places, strict=True):
            if step and periodic:
                columns[:, k] += (((place + step) % extent) - (place + step)) * stride
            elif step:
                valid[:, k] &= (place + step >= 0) & (place + step < extent)
    if diagonal is not None:
        values = values + xp.where(columns == rows[:, None], diagonal(begin, end)[:, None], 0).astype(table.dtype)
    if periodic:
        order = xp.argsort(columns, axis=1)
        columns, values, valid = (xp.take_along_axis(array, order, axis=1) for array in (columns, values, valid))
    return valid.sum(axis=1), columns[valid], values[valid]


def joined(xp: Any, pieces: list[tuple[Any, Any, Any]], rows: int, dtype: Any) -> Any:
    """The matrix of consecutive rows given as (entries per row, columns, values)."""
    entries = sum(len(columns) for _, columns, _ in pieces)
    index = index_type(rows, entries)
    indptr = xp.zeros(rows + 1, index)
    indptr[1:] = xp.cumsum(xp.concatenate([counts for counts, _, _ in pieces]))
    indices, data = xp.empty(entries, index), xp.empty(entries, dtype)
    begin = 0
    pieces.reverse()
    while pieces:  # one after the other is freed
        _, columns, values = pieces.pop()
        end = begin + len(columns)
        indices[begin:end], data[begin:end] = columns, values
        begin = end
    return csr(xp, data, indices, indptr, rows)
