"""Are the products of a batch right? A sample of matrices entry by entry, the first and the last in more digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..plan.problem import REAL
from ..testing import gamma

_SAMPLE = 1 << 21  # entries of the largest operand that are compared
_SEED = 11


class BatchReference:
    """A B (+ C) of a sample of matrices in double precision, and for every entry the bound of a sum of products.

    The first and the last matrix, where kernels leave their path, are computed in extended precision instead and have
    half the room. Results are filled before the call: with NaN, so that an entry that nobody writes is found anywhere,
    or, where the product is added, with integers that differ from neighbour to neighbour.
    """

    def __init__(self, A: Any, B: Any, accumulate: bool = False) -> None:
        self.dtype, self.accumulate = A.dtype.name, accumulate
        self.shape = (A.shape[0], A.shape[1], B.shape[2])
        xp = np if isinstance(A, np.ndarray) else _cupy()
        count = max(1, _SAMPLE // max(A[0].size, B[0].size, self.shape[1] * self.shape[2]))
        chosen = range(self.shape[0]) if count >= self.shape[0] else self._choose(count)
        self.chosen = xp.asarray(np.fromiter(chosen, np.int64))
        a, b = A[self.chosen], B[self.chosen]
        self.relative = gamma(self.dtype, A.shape[2] + accumulate)
        self.exact, self.room = self._expected(a, b, "float64", self.chosen)
        self.corners = [(at, *self._corner(A, B, at)) for at in sorted({0, self.shape[0] - 1})] if len(A) else []

    def _choose(self, count: int) -> Any:
        return np.sort(np.random.default_rng(_SEED).integers(0, self.shape[0], count))

    def _expected(self, a: Any, b: Any, real: str, matrices: Any) -> tuple[Any, Any]:
        """The products of some matrices in this precision, and the magnitudes their errors are relative to."""
        wide = np.result_type(real, np.complex64) if self.dtype.startswith("complex") else real
        exact, room = a.astype(wide) @ b.astype(wide), abs(a).astype("float64") @ abs(b).astype("float64")
        if self.accumulate:
            start = self._start(matrices)
            exact, room = exact + start, room + abs(start)
        return exact, self.relative * room + np.finfo(REAL[self.dtype]).tiny

    def _corner(self, A: Any, B: Any, at: int) -> tuple[Any, Any]:
        a, b = (_host(X[at : at + 1]) for X in (A, B))
        return self._expected(a, b, "longdouble", np.array([at]))

    def _start(self, matrices: Any) -> Any:
        """What these results hold at first: integers from -6 to 10."""
        xp = np if isinstance(matrices, np.ndarray) else _cupy()
        _, rows, columns = self.shape
        inside = (3 * xp.arange(rows)[:, None] + xp.arange(columns)) % 13 - 6
        return inside + (matrices % 5)[:, None, None]

    def prepare(self, out: Any) -> None:
        """Fill the memory that a contender's result goes to."""
        if not self.accumulate:
            out.fill(np.nan)
            return
        xp = np if isinstance(out, np.ndarray) else _cupy()
        inside = self._start(xp.arange(5)).astype(self.dtype)
        for first in range(5):
            out[first::5] = inside[first]

    def error(self, C: Any) -> float:
        """The largest error of any entry in units of its bound; at most 1 is right."""
        if C.shape != self.shape or not bool(abs(C.sum()) < np.inf):
            return float("inf")
        worst = [float((abs(C[self.chosen] - self.exact) / (2 * self.room)).max())] if C.size else []
        for at, exact, room in self.corners if C.size else ():
            worst.append(float((abs(_host(C[at : at + 1]) - exact) / room).max()))
        return max(worst, default=0.0)


def _host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def _cupy() -> Any:
    import cupy

    return cupy
