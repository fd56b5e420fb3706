"""Are the results of a batch right? A sample of matrices entry by entry, the first and the last in more digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plan.problem import REAL
from ...testing import gamma
from ..cases import Case
from .operations import ragged_sizes

_SAMPLE = 1 << 21  # entries of the largest operand that are compared
_SEED = 11
_RAGGED = 400  # matrices of a ragged batch that are compared


def reference_for(case: Case, A: Any, B: Any) -> Any:
    """Make the reference that results of the case are compared with."""
    if case.operation == "gemv":
        return VectorReference(A.swapaxes(1, 2) if case.form == "T" else A, B)
    if case.operation == "ragged":
        return RaggedReference(case, A, B)
    return BatchReference(A, B, case.accumulate) if case.operation == "gemm" else SolveReference(A, B, case.form)


class BatchReference:
    """A B (+ C) of a sample of matrices in double precision, and for every entry the bound of a sum of products.

    The first and the last matrix, where kernels leave their path, are computed in extended precision instead and have
    half the room. Results are filled before the call: with NaN, so that an entry that is not written is found anywhere,
    or, where the product is added, with integers that differ from neighbour to neighbour.
    """

    def __init__(self, A: Any, B: Any, accumulate: bool = False) -> None:
        self.dtype, self.accumulate = A.dtype.name, accumulate
        self.shape = (A.shape[0], A.shape[1], B.shape[2])
        xp = np if isinstance(A, np.ndarray) else _cupy()
        self.chosen = xp.asarray(_chosen(self.shape[0], max(A[0].size, B[0].size, self.shape[1] * self.shape[2])))
        a, b = A[self.chosen], B[self.chosen]
        self.relative = gamma(self.dtype, A.shape[2] + accumulate)
        self.exact, self.room = self._expected(a, b, "float64", self.chosen)
        self.corners = [(at, *self._corner(A, B, at)) for at in sorted({0, self.shape[0] - 1})] if len(A) else []

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
        """Initial content of the results that a product is added to: integers from -6 to 10."""
        xp = np if isinstance(matrices, np.ndarray) else _cupy()
        _, rows, columns = self.shape
        inside = (3 * xp.arange(rows)[:, None] + xp.arange(columns)) % 13 - 6
        return inside + (matrices % 5)[:, None, None]

    def prepare(self, out: Any, in_place: bool = False) -> None:
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


class VectorReference:
    """Reference for A x, as products with matrices of one column."""

    def __init__(self, A: Any, x: Any) -> None:
        self.products = BatchReference(A, x[:, :, None])

    def prepare(self, out: Any, in_place: bool = False) -> None:
        out.fill(np.nan)

    def error(self, y: Any) -> float:
        """The largest error of any entry in units of its bound; at most 1 is right."""
        return self.products.error(y[:, :, None]) if y.ndim == 2 else float("inf")


class SolveReference:
    """The residual of X in A X = B, entry by entry: substitution, in any order, solves a system whose A is another one
    by gamma |A| at most, so that |B - A X| <= gamma |A| |X|. The triangle that does not count is left out here, and
    whoever reads it is found. The first and the last system are looked at in extended precision and have half the room.
    """

    def __init__(self, A: Any, B: Any, form: str) -> None:
        self.A, self.B, self.form, self.dtype = A, B, form, A.dtype.name
        xp = np if isinstance(A, np.ndarray) else _cupy()
        self.xp, self.chosen = xp, xp.asarray(_chosen(len(A), max(A[0].size, B[0].size)))
        self.corners = sorted({0, len(A) - 1}) if len(A) else []
        self.kept = self._system(self.chosen, "float64")

    def _system(self, matrices: Any, real: str) -> tuple[Any, Any]:
        """Triangles and right-hand sides of some systems, in this precision; vectors are matrices of one column."""
        wide = np.result_type(real, np.complex64) if self.dtype.startswith("complex") else real
        A, B = self.A[matrices], self.B[matrices]
        if real == "longdouble":
            A, B = _host(A), _host(B)
        triangle = np.triu if "U" in self.form else np.tril
        xp = np if isinstance(A, np.ndarray) else self.xp
        kept = xp.asarray(triangle(np.ones(A.shape[1:], bool)))
        return xp.where(kept, A, 0).astype(wide), B.reshape(*B.shape[:2], -1).astype(wide)

    def prepare(self, out: Any, in_place: bool = False) -> None:
        """NaN, or the right-hand sides where a contender solves in their place."""
        out[...] = self.B if in_place else np.nan

    def error(self, X: Any) -> float:
        """The largest residual in units of its bound; at most 1 is right."""
        if X.shape != self.B.shape or not bool(abs(X.sum()) < np.inf):
            return float("inf")
        if not X.size:
            return 0.0
        worst = [self._residual(*self.kept, X[self.chosen]) / 2]
        for at in self.corners:
            one = slice(at, at + 1)
            worst.append(self._residual(*self._system(one, "longdouble"), _host(X[one])))
        return max(worst)

    def _residual(self, A: Any, B: Any, X: Any) -> float:
        X = X.reshape(*X.shape[:2], -1).astype(A.dtype)
        bound = gamma(self.dtype, A.shape[-1]) * (abs(A) @ abs(X)) + np.finfo(REAL[self.dtype]).tiny
        return float((abs(B - A @ X) / bound).max())


class RaggedReference:
    """Products of some matrices of a ragged batch, first and last included, with the bound of a sum of products.
    Results hold NaN before the call, also between matrices: as many must be left as there are elements between them."""

    def __init__(self, case: Case, A: Any, B: Any) -> None:
        sizes = ragged_sizes(case.M, case.K)
        drawn = np.random.default_rng(_SEED).integers(0, case.K, _RAGGED)
        self.case, self.written = case, int((sizes * (sizes if case.N > 1 else 1)).sum())
        self.expected = {at: self._product(A[at], B[at]) for at in map(int, {0, case.K - 1, *drawn})}

    def _product(self, a: Any, b: Any) -> tuple[Any, Any]:
        a, b = (_host(one).astype(np.result_type(one.dtype, "float64")) for one in (a, b))
        room = 2 * gamma(self.case.dtype, a.shape[1]) * (abs(a) @ abs(b))
        return a @ b, room + np.finfo(REAL[self.case.dtype]).tiny

    def prepare(self, out: Any, in_place: bool = False) -> None:
        out.buffer.fill(np.nan)

    def error(self, C: Any) -> float:
        """The largest error of any entry in units of its bound; at most 1 is right. Results may also be arrays, or
        one, whose matrices are as large or larger."""
        if len(C) != self.case.K or (hasattr(C, "buffer") and self._holes(C.buffer) != C.buffer.size - self.written):
            return float("inf")
        worst = 0.0
        for at, (exact, room) in self.expected.items():
            rows, columns = exact.shape
            found = float((abs(_host(C[at])[:rows, :columns] - exact) / room).max())
            worst = max(worst, float("inf") if np.isnan(found) else found)
        return worst

    def _holes(self, buffer: Any) -> int:
        xp = np if isinstance(buffer, np.ndarray) else _cupy()
        return int(xp.isnan(buffer).sum())


def _chosen(count: int, entries: int) -> Any:
    """Numbers of the matrices that are compared: all, or some."""
    most = max(1, _SAMPLE // max(1, entries))
    if most >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(_SEED).integers(0, count, most))


def _host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def _cupy() -> Any:
    import cupy

    return cupy
