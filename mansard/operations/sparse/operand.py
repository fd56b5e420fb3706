"""A stored matrix as kernels take it: addresses in the order of `families.spmv.emit.POINTERS`, up to X."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from ...arrays.types import Array, SparseMatrix
from ...plan.problem import Options
from ..plans import PLANS
from .chunked import csr_from_sell, sell_with_values
from .convert import library, place_of
from .storage import Csr, Ell, Sell, csr_from_ell, ell_from_csr, realigned

Storage = Csr | Ell | Sell


def pointers(storage: Storage, address: Callable[[Array], int], splits: Array = None) -> tuple[int, ...]:
    """Addresses of what the storage has, 0 for what it lacks."""
    if isinstance(storage, Sell):
        arrays = (
            storage.buffer, None, storage.starts, storage.widths, storage.lengths, storage.common, storage.permutation,
        )  # fmt: skip
    elif isinstance(storage, Ell):
        arrays = (storage.values, storage.columns, None, None, storage.lengths, None, None)
    else:
        arrays = (storage.data, storage.indices, storage.indptr, splits, None, None, None)
    return tuple(0 if array is None else address(array) for array in arrays)


def traits(storage: Storage) -> Options:
    """What a problem of spmv's says about the matrix."""
    common = {"values": storage.values_dtype, "index": storage.index}
    if isinstance(storage, Sell):
        ragged, permuted = storage.lengths is not None, storage.permutation is not None
        return common | {"format": "sell", "C": storage.C, "ragged": ragged, "permuted": permuted}
    if isinstance(storage, Ell):
        return common | {"format": "ell", "ragged": storage.lengths is not None}
    return common | {"format": "csr", "wide": str(storage.indptr.dtype) == "int64"}


def layout(storage: Storage) -> tuple[int, int]:
    """ELLPACK's pitch and width."""
    return (storage.pitch, storage.width) if isinstance(storage, Ell) else (0, 0)


def _entries(storage: Storage) -> Array:
    """The array that holds the values."""
    if isinstance(storage, Sell):
        return storage.buffer
    return storage.values if isinstance(storage, Ell) else storage.data


def bytes_of(storage: Storage) -> int:
    """Of the entries, with their padding and columns."""
    if isinstance(storage, Sell):
        return int(storage.buffer.size)
    if isinstance(storage, Ell):
        return int(storage.values.nbytes + storage.columns.nbytes)
    return int(storage.data.nbytes + storage.indices.nbytes + storage.indptr.nbytes)


def described(storage: Storage) -> str:
    """How large it is, and in what format."""
    format, padding = "csr", 1.0
    if isinstance(storage, Sell):
        format, padding = f"sell-{storage.C}", float(storage.widths.sum()) * storage.C / max(1, storage.nnz)
    elif isinstance(storage, Ell):
        format, padding = "ell", storage.width * storage.shape[0] / max(1, storage.nnz)
    return f"{bytes_of(storage) / 1e6:.4g} MB as {format}, {padding:.3g} entries per entry"


def merge_splits(storage: Csr, items: int, xp: ModuleType = np) -> Array:
    """The rows at which pieces of `items` begin, int32 [pieces + 1]: entries and ends of rows are counted, an end after
    the entries of its row."""
    rows, total = storage.shape[0], storage.shape[0] + storage.nnz
    ends = storage.indptr[1:].astype(xp.int64) + xp.arange(rows)
    begins = xp.minimum(xp.arange(max(1, -(-total // items)) + 1, dtype=xp.int64) * items, total)
    return xp.searchsorted(ends, begins, side="left").astype(xp.int32)


class Held:
    """A stored matrix with what plans need to know of it; it never changes."""

    def __init__(
        self, storage: Storage, xp: ModuleType, device: tuple[str, int], skewed: bool, threads: int | None
    ) -> None:
        self.storage, self.xp, self.device, self.skewed, self.threads = storage, xp, device, skewed, threads
        self.traits = traits(storage) | {"skewed": skewed}
        self.plans = PLANS.owned()  # of products, by vectors: they hold the matrix
        self._splits: dict[int, Array] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return _held, (self.storage, self.skewed, self.threads)

    def pointers(self, items: int | None) -> tuple[int, ...]:
        """Addresses; `items` are those of a block of `merge`."""
        return pointers(self.storage, self._address, None if items is None else self._split(items))

    def rows(self) -> Csr:
        """The matrix as CSR, in the precision it is stored in."""
        if isinstance(self.storage, Sell):
            return csr_from_sell(self.storage, self.xp)
        return csr_from_ell(self.storage, self.xp) if isinstance(self.storage, Ell) else self.storage

    def with_values(self, data: Array) -> Held:
        """The same pattern; `data` in the order of CSR."""
        stored, xp, data = self.storage, self.xp, data.astype(self.storage.values_dtype)
        fresh: Storage
        if isinstance(stored, Csr):
            fresh = Csr(stored.shape, stored.indptr, stored.indices, data)
        else:
            rows = self.rows()
            if isinstance(stored, Ell):
                fresh = ell_from_csr(Csr(stored.shape, rows.indptr, rows.indices, data), stored.index, xp=xp)
            else:
                fresh = sell_with_values(stored, rows.indptr, data, xp)
        return Held(fresh, xp, self.device, self.skewed, self.threads)

    def library(self) -> SparseMatrix:
        """The same as a matrix of SciPy's or CuPy's."""
        rows = self.rows()
        return library(self.xp).csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)

    def _split(self, items: int) -> Array:
        if items not in self._splits:
            assert isinstance(self.storage, Csr)
            # plans keep addresses: of two threads' splits, the first stay
            self._splits.setdefault(items, merge_splits(self.storage, items, self.xp))
        return self._splits[items]

    def _address(self, array: Array) -> int:
        return int(array.ctypes.data if self.xp is np else array.data.ptr)


def _held(storage: Storage, skewed: bool, threads: int | None) -> Held:
    """A stored matrix as it was pickled, where its arrays are now."""
    storage = realigned(storage)
    return Held(storage, *place_of(_entries(storage)), skewed, threads)
