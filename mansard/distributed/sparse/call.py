"""`ms.distributed.matrix`: from SciPy's matrices, from each rank's rows, or from a Matrix Market file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse

from ...arrays.types import Array
from ...operations.sparse import convert
from ...plan.problem import DTYPES
from ...sparse.io_parts import read_part
from ..communicator import Communicator
from ..messages import mpi
from .matrix import DistributedMatrix
from .order import divided, reordered
from .parcels import assemble
from .powers import Planned


def matrix(
    A: Any, comm: Any = None, *, local: bool = False, offsets: Any = None, reorder: str | None = None
) -> DistributedMatrix:  # fmt: skip
    """A sparse matrix whose rows are divided among the ranks of a communicator. All ranks call it.

    Parameters
    ----------
    A : scipy.sparse matrix, the same on every rank; with `local` the rows of this rank, which follow those of lower
        ranks; or the name of a Matrix Market file, of which every rank reads a share of the bytes
    comm : communicator of mpi4py (COMM_WORLD unless given)
    offsets : first row of each rank, and the number of rows. Unless given, ranks get about as many entries each, and
        with `local` the rows that they brought
    reorder : None keeps the order of rows. "partition" (METIS, through pymetis) has few entries between ranks, "levels"
        takes breadth-first levels, "auto" the first that is installed. The whole pattern is gathered on each rank for
        this. `M.permutation` says where rows went; `M.part(x)` and `M.whole(y)` translate vectors

    Returns
    -------
    DistributedMatrix: `M @ x`, `M.T @ y` and `M.H @ y` take and give a rank's own part of a vector (n,) or of vectors
    side by side (n, k). `ms.sparse.linalg.gmres`, `cg` and `expm_multiply` take it, and `ms.distributed.matrix_powers`.

    Cost: every rank stores its rows once; a product takes 2 nnz / ranks flops and sends the entries of x that other
    ranks' rows read. `reorder` gathers the pattern on every rank.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> A = ms.distributed.matrix(ms.sparse.matrices.band(100, 3))
    >>> y = A @ A.part(np.ones(100))  # this rank's rows of the product
    >>> A.whole(y).sum() == 2
    np.True_
    """
    comm = Communicator.of(comm)
    with comm.call("matrix"):
        if isinstance(A, str | os.PathLike):
            entries, shape = _from_file(comm, os.fspath(A))
            return _placed(comm, entries, shape, _given(offsets, shape, comm), reorder, f"read from {os.fspath(A)}")
        if local:
            rows, shape, own = _brought(comm, A)
            asked = _given(offsets, shape, comm)
            if reorder is None and (asked is None or np.array_equal(asked, own)):
                return _made(comm, rows, own, _columns(own, shape), origin="rows as ranks brought them")
            return _placed(comm, _counted_on(rows, int(own[comm.rank]), shape), shape, asked, reorder, "")
        whole = _checked(A)
        comm.agree(f"matrix {whole.shape} {whole.dtype} with {whole.nnz} entries")
        return _divided(comm, whole, _given(offsets, whole.shape, comm), reorder)


def _made(*arguments: Any, **options: Any) -> DistributedMatrix:
    """A matrix that knows how solvers compute its powers."""
    made = DistributedMatrix(*arguments, **options)
    made.recurrence_plan = lambda p, *recurrence: Planned(made, p, recurrence)
    return made


def _checked(A: Any) -> Any:
    """CSR with sorted rows, without duplicates, in a dtype that kernels know."""
    rows = convert.read(A.tocsr() if hasattr(A, "tocsr") else A).rows
    return sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)


def _given(offsets: Any, shape: tuple[int, int], comm: Communicator) -> Array:
    """Offsets of the caller, checked; None if there are none."""
    if offsets is None:
        return None
    found = np.asarray(offsets, np.int64)
    if found.shape != (comm.size + 1,) or found[0] or found[-1] != shape[0] or (np.diff(found) < 0).any():
        raise ValueError(f"offsets must rise from 0 to {shape[0]} in {comm.size + 1} places: {found}")
    return found


def _columns(offsets: Array, shape: tuple[int, int]) -> Array:
    """First entry of each rank of a vector to multiply by: that of its rows, or even parts if A is not square."""
    ranks = len(offsets) - 1
    return offsets if shape[0] == shape[1] else shape[1] * np.arange(ranks + 1, dtype=np.int64) // ranks


def _divided(comm: Communicator, whole: Any, offsets: Array, reorder: str | None) -> DistributedMatrix:
    """Make a distributed matrix of one that every rank holds: each rank takes its rows."""
    permutation, origin = None, "rows as given"
    if reorder is not None:
        permutation, found, origin = reordered(whole, comm.size, reorder)
        offsets = found if offsets is None else offsets
    elif offsets is None:
        offsets = divided(np.diff(whole.indptr), comm.size)
    first, last = int(offsets[comm.rank]), int(offsets[comm.rank + 1])
    rows = whole[first:last] if permutation is None else whole[permutation[first:last]]
    if permutation is not None:
        place = np.empty(len(permutation), rows.indices.dtype)
        place[permutation] = np.arange(len(place), dtype=place.dtype)
        rows = sparse.csr_array((rows.data, place[rows.indices], rows.indptr), shape=rows.shape)
        rows.sort_indices()
    return _made(comm, rows, offsets, _columns(offsets, whole.shape), permutation, origin)


def _brought(comm: Communicator, A: Any) -> tuple[Any, tuple[int, int], Array]:
    """This rank's rows, the shape of the whole matrix, and the offsets of the rows as ranks brought them."""
    rows = _checked(A)
    counts = comm.gather(np.array([rows.shape[0]]), f"matrix by rows, {rows.shape[1]} columns, {rows.dtype}")
    own = np.concatenate(([0], np.cumsum(counts[:, 0]))).astype(np.int64)
    return rows, (int(own[-1]), rows.shape[1]), own


def _counted_on(rows: Any, first: int, shape: tuple[int, int]) -> Any:
    """COO with rows of the whole matrix."""
    entries = rows.tocoo()
    i, j = entries.coords
    return sparse.coo_array((entries.data, (i.astype(np.int64) + first, j)), shape=shape)


def _from_file(comm: Communicator, path: str) -> tuple[Any, tuple[int, int]]:
    """Entries that this rank has read, in a dtype that all ranks share."""
    part = read_part(path, comm.rank, comm.size)
    found = part.entries
    facts = np.array([part.lines, part.promised, "ifc".find(found.dtype.kind) if found.nnz else 0])
    every = comm.gather(facts, f"file {path}: {found.shape}")
    if every[:, 0].sum() != every[0, 1] and every[:, 1].any():
        raise ValueError(f"{path}: its header promises {every[0, 1]} entries, and it has {every[:, 0].sum()}")
    dtype = "complex128" if every[:, 2].max() == 2 else "float64"
    assert dtype in DTYPES
    return found.astype(dtype), found.shape


def _placed(
    comm: Communicator, entries: Any, shape: tuple[int, int], offsets: Array, reorder: str | None, origin: str
) -> DistributedMatrix:  # fmt: skip
    """Make a distributed matrix of entries scattered over ranks: each entry goes to the rank that has its row."""
    permutation = None
    if reorder is not None:
        lines = np.stack(entries.coords, axis=1).astype(np.int64)
        i, j = comm.gather_rows(lines, "pattern").T
        pattern = sparse.csr_array((np.ones(len(i)), (i, j)), shape=shape)
        permutation, found, origin = reordered(pattern, comm.size, reorder)
        offsets = found if offsets is None else offsets
        place = np.empty(len(permutation), np.int64)
        place[permutation] = np.arange(len(place))
        i, j = (place[each] for each in entries.coords)
        entries = sparse.coo_array((entries.data, (i, j)), shape=shape)
    if offsets is None:
        lengths = np.bincount(entries.coords[0], minlength=shape[0]).astype(np.int64)
        comm.agree("entries by row")  # a rank that failed would not take part in what follows
        comm.raw.Allreduce(mpi().IN_PLACE, lengths)  # integers: their sums have no order
        offsets = divided(lengths, comm.size)
    rows = assemble(comm, entries, offsets)
    rows.sum_duplicates()
    return _made(comm, rows, offsets, _columns(offsets, shape), permutation, origin)
