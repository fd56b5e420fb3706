"""`Rows`: a tall matrix whose blocks of rows live on the ranks of a communicator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import kinds
from ..arrays.types import Array, Kind
from ..plan.problem import DTYPES
from .communicator import Communicator


class Rows:
    """A tall matrix by rows: each rank has a block of consecutive rows, in rank order.

    `ms.gram`, `ms.matmul`, `ms.matmul_gram`, `ms.project`, `ms.cholesky_qr`, `ms.orthogonalize` and `ms.linalg.qr` take
    it under their own names, on all ranks together. Tall results are Rows again; small ones are plain arrays with the
    same bits on every rank.

    Parameters
    ----------
    local : (k, N) array of this rank's rows: NumPy, CuPy or PyTorch, not copied. k may differ between ranks, and be 0
    comm : a communicator of mpi4py; None: all ranks
    blocks : rows per block. Sums are then formed block by block in the order of the rows, so that their bits do not
        depend on the number of ranks; every rank's first row must be a multiple of it

    Attributes
    ----------
    local, comm, blocks : as given, `comm` as a `Communicator`
    shape : of the whole matrix
    dtype : of the array library
    offsets : first row of each rank, and the number of all rows at the end

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> from mpi4py import MPI
    >>> V = ms.distributed.Rows(np.ones((3, 2)), MPI.COMM_WORLD)
    >>> V.shape == (3 * V.comm.size, 2)
    True
    >>> ms.gram(V) / V.comm.size
    array([[3., 3.],
           [3., 3.]])
    """

    def __init__(self, local: Array, comm: Any = None, *, blocks: int | None = None) -> None:
        comm = Communicator.of(comm)
        with comm.call("Rows"):
            kind, dtype, (rows, columns) = _described(local)
        facts = f"Rows of {kind.name} {dtype}, {columns} columns, blocks={blocks}"
        counts = comm.gather(np.array([rows], np.int64), facts)[:, 0]
        comm.reserve()
        offsets = tuple(int(one) for one in (0, *np.cumsum(counts)))
        _check_blocks(blocks, offsets)
        self._begin(local, comm, offsets, blocks)

    def _begin(self, local: Array, comm: Communicator, offsets: tuple[int, ...], blocks: int | None) -> None:
        self.local, self.comm, self.offsets, self.blocks = local, comm, offsets, blocks

    def like(self, local: Array) -> Rows:
        """Rows on the same ranks with other columns; sends nothing."""
        made = Rows.__new__(Rows)
        made._begin(local, self.comm, self.offsets, self.blocks)
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all ranks, and columns."""
        return self.offsets[-1], int(self.local.shape[1])

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def dtype(self) -> Any:
        """The dtype of the local rows."""
        return self.local.dtype

    def __len__(self) -> int:
        return self.offsets[-1]

    def __repr__(self) -> str:
        first, last = self.offsets[self.comm.rank : self.comm.rank + 2]
        return f"Rows(shape={self.shape}, dtype={self.dtype}, rows {first}:{last} on rank {self.comm.rank})"

    def parts(self) -> Iterator[slice]:
        """Local rows of each block: all of them without `blocks`, and none in a block that does not count."""
        rows = self.local.shape[0]
        step = self.blocks or max(rows, 1)
        yield from (slice(at, min(at + step, rows)) for at in range(0, max(rows, 1), step))

    def counts(self) -> list[int]:
        """Blocks of each rank that count in sums."""
        sizes = np.diff(self.offsets)
        return [1] * len(sizes) if self.blocks is None else [-(-int(one) // self.blocks) for one in sizes]

    # ---- from and to one memory ----------------------------------------------------------------------------

    @classmethod
    def from_global(cls, A: Array, comm: Any = None, *, root: int | None = None, blocks: int | None = None) -> Rows:
        """Divide a matrix evenly: every rank passes all of it and takes a view of its rows.

        With `root`, that rank alone passes the matrix (the others None) and sends the others their rows; it is a NumPy
        array then. With `blocks`, blocks stay whole.
        """
        comm = Communicator.of(comm)
        if root is None:
            with comm.call("Rows.from_global"):
                _, _, (rows, _) = _described(A)
            first, last = even(rows, comm.size, blocks)[comm.rank : comm.rank + 2]
            return cls(A[first:last], comm, blocks=blocks)
        with comm.call("Rows.from_global"):
            if not 0 <= root < comm.size:
                raise ValueError(f"root={root} is no rank: there are {comm.size}")
            if comm.rank == root and not isinstance(A, np.ndarray):
                raise TypeError(f"A is a {type(A).__name__} on the root: pass a NumPy array")
            kind = np.zeros(3, np.int64)
            if comm.rank == root:
                kind[:] = *_described(A)[2], DTYPES.index(A.dtype.name)
        told = comm.gather(kind, f"from_global, root={root}, blocks={blocks}")[root]
        comm.reserve()
        rows, columns, code = (int(one) for one in told)
        start = [0] * (root + 1) + [rows] * (comm.size - root)  # all rows are on the root
        local = A if comm.rank == root else np.empty((0, columns), DTYPES[code])
        whole = cls.__new__(cls)
        whole._begin(np.ascontiguousarray(local), comm, tuple(start), None)
        return whole._moved(even(rows, comm.size, blocks), blocks)

    def to_global(self) -> Array:
        """All rows, on every rank, as an array of the local rows' library on their device."""
        kind = kinds.kind_of(self.local, "local")
        with self.comm.call("to_global"):
            host = np.ascontiguousarray(kind.download(self.local))
        return kind.upload(self.comm.gather_rows(host, "to_global"), self.local)

    def redistribute(self, offsets: Sequence[int] | None = None, *, blocks: int | None = None) -> Rows:
        """Divide rows anew: evenly, or by `offsets`, the first row of each rank and their number at the end."""
        comm, blocks = self.comm, blocks or self.blocks
        with comm.call("redistribute"):
            wanted = even(self.shape[0], comm.size, blocks) if offsets is None else tuple(int(one) for one in offsets)
            steps = np.diff(wanted)
            if len(wanted) != comm.size + 1 or wanted[0] or wanted[-1] != self.shape[0] or (steps < 0).any():
                raise ValueError(
                    f"offsets={wanted}: the first rows of {comm.size} ranks in order and {self.shape[0]} are needed"
                )
            _check_blocks(blocks, wanted)
        comm.agree(f"redistribute {wanted[:8]} {hash(wanted)} {blocks}")
        return self._moved(wanted, blocks)

    def _moved(self, wanted: tuple[int, ...], blocks: int | None) -> Rows:
        """Send every rank the rows between its two offsets; all ranks pass the same ones."""
        comm, rank = self.comm, self.comm.rank
        kind = kinds.kind_of(self.local, "local")
        with comm.call("redistribute"):
            mine = np.ascontiguousarray(kind.download(self.local))
            moved = np.empty((wanted[rank + 1] - wanted[rank], mine.shape[1]), mine.dtype)
        comm.agree("memory for other rows")
        sends = {other: mine[at] for other in range(comm.size) if (at := _overlap(self.offsets, rank, wanted, other))}
        places = {other: moved[at] for other in range(comm.size) if (at := _overlap(wanted, rank, self.offsets, other))}
        if rank in sends:
            places.pop(rank)[...] = sends.pop(rank)
        comm.exchange(sends, places).wait()
        made = Rows.__new__(Rows)
        made._begin(kind.upload(moved, self.local), comm, wanted, blocks)
        return made

    def explain(self) -> str:
        """Where the rows are and how small results travel."""
        blocks = f"{self.blocks} rows per block" if self.blocks else "one block per rank"
        sizes = np.diff(self.offsets)
        return f"{self.shape[0]} x {self.shape[1]}, {sizes.min()} to {sizes.max()} rows per rank, {blocks}\n" + (
            self.comm.explain()
        )


def _overlap(have: tuple[int, ...], rank: int, wanted: tuple[int, ...], other: int) -> slice | None:
    """Rows of `rank` in one division, counted from its first, that `other` has in another; None if there are none."""
    first, last = max(have[rank], wanted[other]), min(have[rank + 1], wanted[other + 1])
    return slice(first - have[rank], last - have[rank]) if first < last else None


def even(rows: int, size: int, blocks: int | None = None) -> tuple[int, ...]:
    """Offsets of an even division among ranks; the first ranks have one row, or block, more."""
    unit = blocks or 1
    units = -(-rows // unit)
    return tuple(min(rows, unit * (rank * (units // size) + min(rank, units % size))) for rank in range(size + 1))


def _described(local: Array) -> tuple[Kind, str, tuple[int, int]]:
    """Array library, dtype and shape of a rank's rows."""
    kind = kinds.kind_of(local, "local")
    if kind.immutable:
        raise TypeError(f"local is a {kind.name} array: pass a NumPy, CuPy or PyTorch array")
    view = kind.view(local, "local")
    if len(view.shape) != 2:
        raise ValueError(f"local has shape {view.shape}: a matrix (two dimensions) is needed")
    if view.dtype not in DTYPES:
        raise TypeError(f"local has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first")
    return kind, view.dtype, (int(view.shape[0]), int(view.shape[1]))


def _check_blocks(blocks: int | None, offsets: tuple[int, ...]) -> None:
    if blocks is None:
        return
    if blocks < 1:
        raise ValueError(f"blocks={blocks}: at least one row per block is needed")
    bad = [rank for rank, first in enumerate(offsets[:-1]) if first % blocks and first < offsets[-1]]
    if bad:
        raise ValueError(
            f"blocks={blocks}: row {offsets[bad[0]]}, the first of rank {bad[0]}, is no multiple of it: "
            "use Rows.from_global or redistribute"
        )
