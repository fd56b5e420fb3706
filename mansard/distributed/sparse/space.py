"""Inner products of vectors whose parts live on ranks, for the solvers: sums in rank order, a message each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ...arrays.types import Array
from ...sparse.linalg.space import Space
from ..communicator import Communicator


class RankSpace(Space):
    """Vectors by `offsets`: the same bits on every rank and in every run, to rounding on any number of ranks."""

    def __init__(self, comm: Communicator, offsets: Array) -> None:
        self._comm, self._offsets = comm, offsets
        self.orthonormalised = self._by_tsqr

    def entries(self, A: Any) -> slice:
        rank = self._comm.rank
        return slice(int(self._offsets[rank]), int(self._offsets[rank + 1]))

    def sum(self, partial: Any) -> Any:
        partial = np.asarray(partial)
        return self._comm.sum(partial, "solver: sum").reshape(partial.shape)[()]

    def largest(self, value: float) -> float:
        return float(np.max(self._comm.gather(np.array([value]), "solver: largest")))

    def together(self) -> AbstractContextManager[None]:
        return self._comm.call("solver")

    def agree(self, name: str, value: object) -> None:
        self._comm.agree(f"solver, {name}: {value}")

    def _by_tsqr(self, V: Array, Q: Array) -> tuple[Array, Array, Array, Array]:
        """Two projections, then QR of every rank's rows and of the stacked triangles: three messages for s vectors.

        Signs are those of a positive diagonal, so that they do not depend on the number of ranks.
        """
        tall, s = V.T, len(V)
        first = self.sum((Q @ tall.conj()).conj())
        rest = tall - Q.T @ first
        second = self.sum((Q @ rest.conj()).conj())
        rest = rest - Q.T @ second
        local, triangle = np.linalg.qr(_padded(rest, s))
        stack = self._comm.gather(triangle, "solver: triangles")
        inner, R = np.linalg.qr(stack.reshape(-1, s))
        phases = np.where(np.diagonal(R) == 0, 1, np.sign(np.diagonal(R)) if R.dtype.kind != "c" else _phase(R))
        inner, R = inner * phases, R * phases.conj()[:, None]
        new = (local @ inner[self._comm.rank * s : (self._comm.rank + 1) * s])[: tall.shape[0]].T
        C = first + second
        sizes = np.sqrt((np.abs(C) ** 2).sum(axis=0) + (np.abs(R) ** 2).sum(axis=0))
        dependent = np.abs(np.diagonal(R)) <= 32 * np.finfo(R.dtype).eps * sizes
        new[dependent] = 0
        R[dependent, dependent] = 0
        return new, R, C, dependent


def _padded(block: Array, least: int) -> Array:
    """The block with rows of zeros below, where it has fewer rows than columns: triangles of all ranks are alike."""
    if len(block) >= least:
        return block
    return np.concatenate((block, np.zeros((least - len(block), block.shape[1]), block.dtype)))


def _phase(R: Array) -> Array:
    """Diagonal entries over their moduli."""
    diagonal = np.diagonal(R)
    return diagonal / np.where(diagonal == 0, 1, np.abs(diagonal))
