"""Arrays of different lengths from every rank to every other: what set-up needs, once per matrix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ...arrays.types import Array
from ..communicator import Communicator


def deliver(comm: Communicator, parcels: Sequence[Array], facts: str) -> list[Array]:
    """parcels[q] of every rank, one-dimensional, on rank q: a list by sender. Dtypes agree, lengths need not."""
    dtype = np.asarray(parcels[0]).dtype
    counts = comm.gather(np.array([len(parcel) for parcel in parcels]), f"{facts}, {dtype}")[:, comm.rank]
    found = [np.empty(int(count), dtype) for count in counts]
    found[comm.rank] = np.array(parcels[comm.rank])
    sends = {q: np.ascontiguousarray(one) for q, one in enumerate(parcels) if len(one) and q != comm.rank}
    comm.exchange(sends, {q: one for q, one in enumerate(found) if len(one) and q != comm.rank}).wait()
    return found


def owners(offsets: Array, indices: Array) -> Array:
    """Rank that has each of these rows, where rank r has offsets[r] to offsets[r + 1]."""
    return np.searchsorted(offsets, indices, side="right") - 1


def split(offsets: Array, indices: Array) -> list[Array]:
    """Ascending `indices` by the rank that has them."""
    return np.split(indices, np.searchsorted(indices, offsets[1:-1]))


def assemble(comm: Communicator, entries: Any, offsets: Array) -> Any:
    """Rows of this rank, CSR with columns of the whole matrix, of entries (COO) that any rank may hold.

    Entries given twice are summed in the order of ranks, within a rank in the order given.
    """
    shape, (i, j) = entries.shape, entries.coords
    who = owners(offsets, i)
    order = np.argsort(who, kind="stable")
    ends = np.searchsorted(who[order], np.arange(comm.size + 1))
    parts = []
    for values, name in ((i.astype(np.int64), "rows"), (j.astype(np.int64), "columns"), (entries.data, "values")):
        sorted_values = values[order]
        parcels = [sorted_values[a:b] for a, b in pairwise(ends.tolist())]
        parts.append(np.concatenate(deliver(comm, parcels, f"entries by row: {name}")))
    first, last = int(offsets[comm.rank]), int(offsets[comm.rank + 1])
    place = (parts[0] - first, parts[1])
    return sparse.csr_array(sparse.coo_array((parts[2], place), shape=(last - first, shape[1])))


def fetch_rows(comm: Communicator, local: Any, offsets: Array, wanted: Array) -> Any:
    """The rows `wanted` (ascending numbers of the whole matrix) of a matrix of which every rank has its own rows."""
    asked = deliver(comm, split(offsets, wanted), "rows that are wanted")
    parts = [local[one - int(offsets[comm.rank])] for one in asked]
    lengths = deliver(comm, [np.diff(part.indptr).astype(np.int64) for part in parts], "rows: lengths")
    columns = deliver(comm, [part.indices.astype(np.int64) for part in parts], "rows: columns")
    values = deliver(comm, [part.data for part in parts], "rows: values")
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    return sparse.csr_array((np.concatenate(values), np.concatenate(columns), indptr), (len(wanted), local.shape[1]))
