"""A sparse matrix whose rows live on ranks, and its products: messages travel while interior rows are multiplied."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ...arrays.types import Array
from ...operations.sparse.matrix import matrix as stored
from ..communicator import Communicator
from .halo import Halo, as_slice
from .space import RankSpace


class DistributedMatrix:
    """A sparse matrix by rows; `ms.distributed.matrix` makes it, on all ranks of a communicator.

    Rank r has rows offsets[r] to offsets[r + 1], and of a vector that the matrix is multiplied by the entries
    column_offsets[r] to column_offsets[r + 1]; these are the same for square matrices. `M @ x` takes and gives a rank's
    own part. `local` holds this rank's rows (scipy.sparse CSR, columns of the whole matrix). Row i is row
    permutation[i] of the matrix that was given; None where rows have not been reordered.
    """

    recurrence_plan: Callable[[int, Any, Any, Any], Any]  # (p, alphas, betas, gammas): powers for the solvers

    def __init__(
        self, comm: Communicator, local: Any, offsets: Array, column_offsets: Array, permutation: Array = None,
        origin: str = "",
    ) -> None:  # fmt: skip
        self.comm, self.local, self.offsets, self.column_offsets = comm, local, offsets, column_offsets
        self.permutation, self.origin = permutation, origin
        self.shape = (int(offsets[-1]), int(column_offsets[-1]))
        self.dtype = np.dtype(local.dtype)
        facts = comm.gather(np.array([local.nnz]), f"sparse matrix {self.shape} {self.dtype}")
        self.nnz, self.entries = int(facts.sum()), facts[:, 0]
        self.space = RankSpace(comm, offsets)

    @cached_property
    def split(self) -> Split:
        """The rows of this rank, divided by whether they read entries of other ranks."""
        return Split(self.comm, self.local, self.column_offsets)

    @cached_property
    def columns(self) -> Columns:
        """The transposed rows of this rank, divided by who has the entries that they contribute to."""
        return Columns(self.split, self.local, self.column_offsets, self.comm.rank)

    @property
    def T(self) -> View:
        return View(self, True, False)

    @property
    def H(self) -> View:
        return View(self, True, True)

    def __matmul__(self, x: Array) -> Array:
        return self.product(x)

    def product(self, x: Array, out: Array = None) -> Array:
        """A x for this rank's entries of x, (n,) or (n, k); its rows of the result, written to `out` if given."""
        with self.comm.call("matrix product"):
            self.check(x, self.column_offsets)
            return self.split.product(x, out)

    def step(self, x: Array, z: Array, out: Array, alpha: complex, beta: complex, gamma: complex) -> Array:
        """alpha A x + beta x + gamma z, a step of a recurrence; `out` is written."""
        with self.comm.call("matrix product"):
            return self.split.product(x, out, (alpha, beta, gamma), z)

    def part(self, x: Array) -> Array:
        """This rank's entries of a vector that every rank has whole, in the order of the matrix' rows."""
        first, last = int(self.offsets[self.comm.rank]), int(self.offsets[self.comm.rank + 1])
        if len(x) != self.shape[0]:
            raise ValueError(f"x has {len(x)} entries and the matrix {self.shape[0]} rows")
        return x[first:last].copy() if self.permutation is None else x[self.permutation[first:last]]

    def whole(self, x: Array) -> Array:
        """A vector of which every rank has its own part, on every rank, in the order of the matrix that was given."""
        gathered = self.comm.gather_rows(x, "whole vector")
        if self.permutation is None:
            return gathered
        found = np.empty_like(gathered)
        found[self.permutation] = gathered
        return found

    def diagonal(self) -> Array:
        """This rank's entries of the diagonal."""
        return self.local.diagonal(int(self.offsets[self.comm.rank]))

    def absolute_row_sums(self) -> Array:
        """Sums of abs(a_ij) along this rank's rows."""
        return np.asarray(abs(self.local).sum(axis=1)).ravel()

    def explain(self) -> str:
        """How rows are divided, and what an exchange sends."""
        halo, split = self.split.halo, self.split
        facts = np.array([len(self.split.boundary_rows), len(halo.wanted), len(halo.receives), sum(halo.sent.values())])
        every = self.comm.gather(facts, "explain")
        rows = np.diff(self.offsets)
        lines = [repr(self), f"rows of a rank: {rows.min()} to {rows.max()}, entries: {self.entries.min()} to "
                 f"{self.entries.max()} ({self.entries.max() * self.comm.size / max(1, self.nnz):.3f} of the mean)"]
        lines += [f"order: {self.origin}"] if self.origin else []
        lines.append(f"halo: at most {every[:, 1].max()} entries from {every[:, 2].max()} ranks; "
                     f"rows that read them: at most {every[:, 0].max()}, multiplied last")
        return "\n".join([*lines, f"interior rows of rank {self.comm.rank}: {split.interior!r}"])

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<DistributedMatrix {rows} x {columns} {self.dtype} with {self.nnz} entries on {self.comm.size} ranks>"

    def check(self, x: Array, offsets: Array) -> None:
        """Refuse what is not this rank's part of a vector."""
        own = int(offsets[self.comm.rank + 1] - offsets[self.comm.rank])
        if not isinstance(x, np.ndarray):
            raise TypeError(f"x is a {type(x).__name__}: pass this rank's entries as a NumPy array")
        if x.ndim not in (1, 2) or len(x) != own:
            raise ValueError(f"x has shape {x.shape}, and rank {self.comm.rank} has {own} entries of it")
        if not np.can_cast(self.dtype, x.dtype, "same_kind") or x.dtype.itemsize < self.dtype.itemsize:
            raise TypeError(f"x has dtype {x.dtype} and the matrix {self.dtype}: convert x")


class Split:
    """Interior rows, which read entries of their own rank alone, and boundary rows.

    The interior matrix has all rows of the rank, boundary rows without entries, so that its product is written where
    it belongs. The boundary matrix reads a vector of those entries only that boundary rows read, in ascending order:
    entries of lower ranks, of this rank, of higher ranks. Every row is thereby summed as in the whole matrix.
    """

    def __init__(self, comm: Communicator, local: Any, offsets: Array) -> None:
        first, last = int(offsets[comm.rank]), int(offsets[comm.rank + 1])
        outside = (local.indices < first) | (local.indices >= last)
        rows = np.repeat(np.arange(local.shape[0]), np.diff(local.indptr))
        self.boundary_rows = np.unique(rows[outside])
        self.halo = Halo(comm, offsets, np.unique(local.indices[outside]).astype(np.int64))
        is_boundary = np.zeros(local.shape[0], bool)
        is_boundary[self.boundary_rows] = True
        self.interior = stored(_without_rows(local, is_boundary, rows, first, last - first))
        edge = local[self.boundary_rows]
        columns = np.unique(edge.indices).astype(np.int64)
        self.low, self.high = (int(place) for place in np.searchsorted(columns, (first, last)))
        edge = sparse.csr_array(
            (edge.data, np.searchsorted(columns, edge.indices).astype(np.int32), edge.indptr),
            shape=(len(self.boundary_rows), len(columns)),
        )
        self.boundary = stored(edge) if len(self.boundary_rows) else None
        self.rows, self.read = as_slice(self.boundary_rows), as_slice(columns[self.low : self.high] - first)
        self._vectors: dict[Any, tuple[Array, Array]] = {}

    def product(self, x: Array, out: Array = None, step: tuple[complex, ...] | None = None, z: Array = None) -> Array:
        """A x, or with a step (alpha, beta, gamma) alpha A x + beta x + gamma z, of this rank's rows."""
        flight = self.halo.start(x)
        if step is None:
            y = self.interior.product(x, out)
        else:
            y = self.interior.recurrence(x, z, out, *step)
        if self.boundary is None:
            flight.wait()
            return y
        vector, ghosts = self._room(x)
        vector[self.low : self.high] = x[self.read]
        self.halo.arrived(flight, ghosts)
        vector[: self.low], vector[self.high :] = ghosts[: self.low], ghosts[self.low :]
        edge = self.boundary @ vector
        if step is not None:
            edge = step[0] * edge + step[1] * x[self.rows]
            edge = edge if z is None or step[2] == 0 else edge + step[2] * z[self.rows]
        y[self.rows] = edge
        return y

    def _room(self, x: Array) -> tuple[Array, Array]:
        """Vectors for what boundary rows read, and for what arrives."""
        key = (x.dtype.str, x.shape[1:])
        if key not in self._vectors:
            sizes = len(self.halo.wanted) + self.high - self.low, len(self.halo.wanted)
            read, arrived = (np.empty((size, *x.shape[1:]), x.dtype) for size in sizes)
            self._vectors[key] = read, arrived
        return self._vectors[key]


def _without_rows(local: Any, dropped: Array, rows: Array, first: int, columns: int) -> Any:
    """The matrix with these rows empty, and columns counted from `first`."""
    kept = ~dropped[rows]
    lengths = np.where(dropped, 0, np.diff(local.indptr))
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    index = np.int32 if columns < 1 << 31 else np.int64
    indices = (local.indices[kept] - first).astype(index)
    return sparse.csr_array((local.data[kept], indices, indptr), shape=(local.shape[0], columns))


class Columns:
    """The columns of this rank's rows: those of its own entries, and those whose sums belong to other ranks."""

    def __init__(self, split: Split, local: Any, offsets: Array, rank: int) -> None:
        first, last = int(offsets[rank]), int(offsets[rank + 1])
        self.halo, self.rows = split.halo, split.rows
        self.own = stored(sparse.csr_array(local[:, first:last].T))
        edge = local[split.boundary_rows][:, self.halo.wanted]
        self.others = stored(sparse.csr_array(edge.T)) if len(self.halo.wanted) else None

    def product(self, x: Array) -> Array:
        """A^T x: contributions to entries of other ranks are sent back and added there, in the order of ranks."""
        sent = np.empty((0, *x.shape[1:]), x.dtype)
        if self.others is not None:
            sent = self.others @ np.ascontiguousarray(x[self.rows])
        flight = self.halo.back(sent)
        y: Array = self.own @ x
        self.halo.added(flight, y)
        return y


class View:
    """A^T, A^H or the conjugate of a distributed matrix A; vectors are divided by its offsets and column offsets."""

    def __init__(self, matrix: DistributedMatrix, transposed: bool, conj: bool) -> None:
        self._matrix, self._transposed, self._conj = matrix, transposed, conj
        self.comm, self.dtype = matrix.comm, matrix.dtype
        order = slice(None, None, -1 if transposed else 1)
        self.shape = matrix.shape[order]
        self.offsets, self.column_offsets = (matrix.offsets, matrix.column_offsets)[order]

    @property
    def T(self) -> DistributedMatrix | View:
        return self._turned(self._conj)

    @property
    def H(self) -> DistributedMatrix | View:
        return self._turned(not self._conj)

    def _turned(self, conj: bool) -> DistributedMatrix | View:
        plain = self._transposed and not conj
        return self._matrix if plain else View(self._matrix, not self._transposed, conj)

    def __matmul__(self, x: Array) -> Array:
        matrix = self._matrix
        with matrix.comm.call("product with the transposed matrix"):
            matrix.check(x, self.column_offsets)
            conj = self._conj and matrix.dtype.kind == "c"
            x = x.conj() if conj else x
            y: Array = matrix.columns.product(x) if self._transposed else matrix.split.product(x)
            return y.conj() if conj else y
