"""Inner products of the vectors that solvers work on: whole vectors, or vectors whose parts live in several processes.

A matrix that is spread over processes has a `space` of its own (`mansard.distributed`); others get `WHOLE`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np


class Space:
    """Reductions over vectors that are whole: what is computed from the entries at hand is the result."""

    # (V, Q) -> (new, R, C, dependent) with V = C^T Q + R^T new for rows; None: `krylov.orthonormalised`
    orthonormalised: Callable[[Any, Any], tuple[Any, Any, Any, Any]] | None = None

    def entries(self, A: Any) -> slice:
        """Rows of A whose entries of a vector are at hand."""
        return slice(0, int(A.shape[0]))

    def sum(self, partial: Any) -> Any:
        """The sum of everybody's `partial`: an array, or a scalar of one."""
        return partial

    def largest(self, value: float) -> float:
        """The largest of everybody's `value`; NaN if one is."""
        return value

    def together(self) -> AbstractContextManager[None]:
        """A block that raises in every process if it raises in one."""
        return nullcontext()

    def agree(self, name: str, value: object) -> None:
        """Raise everywhere unless every process has the same `value`."""

    def dot(self, x: Any, y: Any) -> complex:
        """x^H y."""
        return complex(self.sum(x.conj() @ y))

    def norm(self, x: Any) -> float:
        """Euclidean norm."""
        return float(np.sqrt(float(self.sum((x.conj() @ x).real))))

    def size(self, x: Any) -> float:
        """Largest modulus of an entry, 0 of none."""
        return self.largest(float(abs(x).max()) if x.size else 0.0)


WHOLE = Space()


def space_of(A: Any) -> Space:
    """The space of the vectors that A takes and gives."""
    found = getattr(A, "space", WHOLE)
    return found if isinstance(found, Space) else WHOLE


def absolute_row_sums(A: Any) -> Any:
    """Sums of abs(a_ij) along the rows at hand."""
    if hasattr(A, "absolute_row_sums"):
        return A.absolute_row_sums()
    sums = abs(A).sum(axis=1).ravel()
    return sums.A1 if hasattr(sums, "A1") else sums


def has_rows(A: Any) -> bool:
    """Whether entries can be read: CSR matrices, and those that sum their rows themselves."""
    return hasattr(A, "indptr") or hasattr(A, "absolute_row_sums")
