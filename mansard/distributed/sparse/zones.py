"""Ghost zones of depth p: rows of other ranks that p products with this rank's rows depend on.

Layer 1 are the entries that own rows read and other ranks have, layer k + 1 those that rows of layer k read. With rows
of layers 1 to p - 1 and entries of x of layers 1 to p, a rank computes its part of A x .. A^p x after one exchange.
Rows of layer k are right up to power p - k only; what follows there is not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...arrays.types import Array
from .halo import Halo
from .matrix import DistributedMatrix
from .parcels import fetch_rows


class Zone:
    """This rank's rows with their ghost layers, as one square matrix: rows of lower ranks, own rows, rows of higher
    ranks, all ascending. The outermost layer has no entries.

    Layers are fetched until a rank has `most` times the entries of the largest rank; the zone is not complete then."""

    def __init__(self, matrix: DistributedMatrix, depth: int, most: float) -> None:
        comm, offsets = matrix.comm, matrix.offsets
        first, last = int(offsets[comm.rank]), int(offsets[comm.rank + 1])
        layers, blocks = [np.arange(first, last)], [matrix.local]
        known = layers[0]
        for layer in range(depth):
            new = np.setdiff1d(np.unique(blocks[-1].indices).astype(np.int64), known, assume_unique=True)
            layers.append(new)
            known = np.union1d(known, new)
            if layer < depth - 1:
                blocks.append(fetch_rows(comm, matrix.local, offsets, new))
                entries = comm.gather(np.array([sum(block.nnz for block in blocks)]), "ghost layer").max()
                if entries > most * max(1, int(matrix.entries.max())):
                    break
        self.is_complete = len(layers) == depth + 1
        self.rows = known
        self.low, self.high = (int(place) for place in np.searchsorted(known, (first, last)))
        self.layers = [len(layer) for layer in layers[1:]]
        self.repeated = sum(self.layers[: depth - 1])  # rows of other ranks that are multiplied here too
        self.repeated_entries = sum(int(block.nnz) for block in blocks[1:])
        self.halo = Halo(comm, offsets, np.concatenate((known[: self.low], known[self.high :])))
        self._layers, self._blocks = layers[: len(blocks)], blocks

    def extended(self) -> Any:
        """The square matrix (CSR), columns by place in `rows`."""
        numbers, stack = np.concatenate(self._layers), sparse.vstack(self._blocks, format="csr")
        lengths = np.zeros(len(self.rows), np.int64)
        place = np.searchsorted(self.rows, numbers)
        lengths[place] = np.diff(stack.indptr)
        rows = stack[np.argsort(numbers, kind="stable")]
        columns = np.searchsorted(self.rows, rows.indices).astype(np.int32)
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        size = (len(self.rows), len(self.rows))
        return sparse.csr_array((rows.data, columns, indptr), shape=size)

    def fill(self, x: Array, into: Array) -> None:
        """Own and ghost entries of a vector, in place; own ones are copied while messages travel."""
        flight = self.halo.start(x)
        into[self.low : self.high] = x
        ghosts = np.empty((len(self.halo.wanted), *x.shape[1:]), x.dtype)
        self.halo.arrived(flight, ghosts)
        into[: self.low], into[self.high :] = ghosts[: self.low], ghosts[self.low :]
