"""Batches over ranks: consecutive matrices on each rank, divided by work and not by count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import kinds
from ..arrays.types import Array, Matrices
from ..operations.ragged import Ragged
from .communicator import Communicator

_MOST_DIMENSIONS = 6  # of one gathered array, in a table of shapes


class Batch:
    """A rank's part of a batch: `local` holds the matrices `offsets[rank]` to `offsets[rank + 1]`.

    Made by `ms.distributed.batch` and by `map`. `local` is a stack, a list or a Ragged, as the batch was.
    """

    def __init__(self, local: Matrices, comm: Communicator, offsets: tuple[int, ...], like: Array) -> None:
        self.local, self.comm, self.offsets, self._like = local, comm, offsets, like

    def __len__(self) -> int:
        return self.offsets[-1]

    def __repr__(self) -> str:
        first, last = self.offsets[self.comm.rank : self.comm.rank + 2]
        return f"Batch(matrices {first}:{last} of {len(self)} on rank {self.comm.rank})"

    def map(self, function: Callable[..., Any], *others: Any, **options: Any) -> Any:
        """Call a function of batches on every rank's part: `A.map(ms.linalg.solve, B)`.

        Parameters
        ----------
        function : any that takes a batch first and returns one, or a tuple of them: `ms.linalg`, `ms.blas`, `ms.matmul`
        others : further arguments: a Batch divided in the same way, or what is the same for all matrices
        options : keyword arguments of the function

        Returns
        -------
        A Batch, or a tuple of them as the function returns it. Results stay on their ranks until `.gather()`. If the
        function fails on a rank, every rank raises.
        """
        name = getattr(function, "__name__", "function")
        with self.comm.call(name):
            for one in others:
                if isinstance(one, Batch) and one.offsets != self.offsets:
                    raise ValueError(f"an argument of {name} is divided differently: pass batch(..., like=) for it")
            found = function(self.local, *(one.local if isinstance(one, Batch) else one for one in others), **options)
        self.comm.agree(name)
        if isinstance(found, tuple):
            parts = [self._wrapped(one) for one in found]
            return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
        return self._wrapped(found)

    def _wrapped(self, found: Any) -> Any:
        return found if found is None else Batch(found, self.comm, self.offsets, self._like)

    def gather(self) -> Matrices:
        """The whole batch on every rank: a stack, a list or a Ragged."""
        if not isinstance(self.local, Ragged | list | tuple):
            kind = kinds.kind_of(self.local, "local")
            with self.comm.call("gather"):
                host = np.ascontiguousarray(kind.download(self.local))
            return kind.upload(self.comm.gather_rows(host, "gather"), self.local)
        found = self._gathered(list(self.local))
        return Ragged.from_list(found) if isinstance(self.local, Ragged) and found else found

    def _gathered(self, arrays: list[Array]) -> list[Array]:
        """Arrays of any shapes from all ranks: a table of shapes and dtypes, then all entries as bytes."""
        kind = kinds.kind_of(self._like, "local")
        with self.comm.call("gather"):
            host = [np.ascontiguousarray(kind.download(one)) for one in arrays]
            table = np.zeros((len(host), 2 + _MOST_DIMENSIONS), np.int64)
            for row, one in zip(table, host, strict=True):
                row[: 2 + one.ndim] = ord(one.dtype.char), one.ndim, *one.shape
            flat = [np.empty(0, np.uint8), *(one.reshape(-1).view(np.uint8) for one in host)]
        tables = self.comm.gather_rows(table, "gather, shapes")
        whole, at, found = self.comm.gather_rows(np.concatenate(flat), "gather, entries"), 0, []
        for code, dimensions, *shape in tables.tolist():
            dtype = np.dtype(chr(code))
            size = int(np.prod(shape[:dimensions])) * dtype.itemsize
            found.append(kind.upload(whole[at : at + size].view(dtype).reshape(shape[:dimensions]), self._like))
            at += size
        return found


def batch(
    matrices: Matrices, comm: Any = None, *, work: Sequence[float] | None = None, like: Batch | None = None
) -> Batch:
    """Divide a batch among ranks so that each has about the same work: every rank passes all of it and takes its part.

    Parameters
    ----------
    matrices : stack (count, ..., m, n), list of matrices, or Ragged; nothing is copied
    comm : a communicator of mpi4py; None: all ranks
    work : work of each matrix in any unit; None: m n min(m, n), as of a factorization
    like : a Batch whose division is taken over: for right-hand sides, say

    Cost: no messages and no copies; one sum over the sizes of the matrices.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> S = ms.distributed.batch(np.stack([np.eye(3)] * 10))
    >>> b = ms.distributed.batch(np.ones((10, 3, 1)), like=S)
    >>> S.map(ms.linalg.solve, b).gather().shape
    (10, 3, 1)
    """
    comm = like.comm if like is not None else Communicator.of(comm)
    with comm.call("batch"):
        count, costs = len(matrices), work_of(matrices) if work is None else np.asarray(work, float)
        if count < 1:
            raise ValueError("matrices is an empty batch: there is nothing to divide")
        if costs.shape != (count,) or not (costs >= 0).all():
            raise ValueError(f"work has shape {costs.shape}: {count} numbers that are not negative are needed")
        if like is not None and len(like) != count:
            raise ValueError(f"matrices has {count} matrices and like {len(like)}: both need the same number")
        offsets = divided(costs, comm.size) if like is None else like.offsets
    comm.agree(f"batch {count} {offsets[:8]} {hash(offsets)}")
    first, last = offsets[comm.rank : comm.rank + 2]
    return Batch(matrices[first:last], comm, offsets, matrices.buffer if isinstance(matrices, Ragged) else matrices[0])


def work_of(matrices: Matrices) -> np.ndarray[Any, Any]:
    """m n min(m, n) of each matrix; of a stack of stacks, of each first index."""
    if isinstance(matrices, Ragged):
        rows, columns, _ = matrices.layout.host()
    elif isinstance(matrices, list | tuple):
        rows, columns = np.array([(*one.shape, 1)[:2] for one in matrices]).T
    else:
        return np.ones(len(matrices))
    return np.asarray(rows * columns * np.minimum(rows, columns), float)


def divided(costs: np.ndarray[Any, Any], size: int) -> tuple[int, ...]:
    """First index of each rank, and the number of all: boundaries where the sum of costs is nearest to equal shares."""
    ends = np.concatenate([[0.0], np.cumsum(costs)])
    shares = ends[-1] * np.arange(1, size) / size
    after = np.searchsorted(ends, shares)
    nearer = np.where(shares - ends[np.maximum(after - 1, 0)] < ends[after] - shares, after - 1, after)
    return (0, *(int(one) for one in np.maximum.accumulate(nearer)), len(costs))
