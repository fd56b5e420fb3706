"""References of tall products and orthogonal passes: the answer in double precision, and how far a result may be off.

`testing.gram_error` bounds any data by the worst case, which for 2^24 rows of floats admits every result. The
benchmark's operands are independent and centred, so much less is allowed here: partial sums of n products grow like
sqrt(n) rms, each of n additions rounds one of them, and the roundings add up like a random walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, sqrt
from typing import Any

import numpy as np

from ..kernels.tall_skinny.gram import spec
from ..plan.problem import REAL
from ..testing import gamma

_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
_SLICE = 1 << 25  # elements of an operand converted at a time
_CONFIDENCE = 10.0  # standard deviations of the walk of roundings
_RESIDUAL = 1000.0  # roundings of V - Q R: docs/families/orthogonal.md
_REACH = 3.0  # how far partial sums may stray, in standard deviations


class Reference:
    """A^H B in double precision, and how far each entry of a result may be from it."""

    def __init__(self, A: Any, B: Any) -> None:
        B = A if B is None else B
        self.dtype = A.dtype.name
        self.exact = _product(A, B)
        rows = A.shape[0]
        stride = 16 if rows > 1 << 16 else 1  # squares of every sixteenth row tell the rms well enough
        squares = _squares(A[::stride]).T @ _squares(B[::stride]) / max(1, -(-rows // stride))
        terms = rows * (4 if self.dtype.startswith("complex") else 1) + 4
        u = _ROUNDOFF[REAL[self.dtype]]
        reach = _REACH * sqrt(terms) * squares**0.5 + abs(self.exact)
        self.bound = _CONFIDENCE * sqrt(terms) * u * reach + np.finfo(REAL[self.dtype]).tiny

    def error(self, C: Any) -> float:
        """The largest error of any entry in units of its bound; at most 1 is right."""
        if C.shape != self.exact.shape:
            return float("inf")
        return _largest(abs(C - self.exact) / self.bound)


class SmallReference:
    """A B in double precision, compared slice by slice: the bound of a sum of products for every entry."""

    def __init__(self, A: Any, B: Any) -> None:
        self.A, self.B, self.shape = A, B, (A.shape[0], B.shape[1])
        few = self.shape[0] * self.shape[1] <= _SLICE // 8
        self._kept = list(self._expected()) if few else None  # large ones are computed for each contender

    def _expected(self) -> Iterator[tuple[slice, Any, Any]]:
        """The product and what is allowed around it, slice by slice."""
        A, B, dtype = self.A, self.B, self.A.dtype.name
        relative, wide = 2 * gamma(dtype, A.shape[1]), _wide(dtype)
        factor, magnitudes = B.astype(wide), abs(B).astype("float64")
        for part in _slices(A.shape[0], max(self.shape[1], A.shape[1])):
            a = A[part].astype(wide)
            yield part, a @ factor, relative * (abs(a) @ magnitudes) + np.finfo(REAL[dtype]).tiny

    def error(self, C: Any) -> float:
        """The largest error of any entry in units of its bound; at most 1 is right."""
        if C.shape != self.shape:
            return float("inf")
        expected = self._expected() if self._kept is None else self._kept
        return max((_largest(abs(C[part] - exact) / bound) for part, exact, bound in expected), default=0.0)


class FusedReference:
    """Reference for W = V S, and for W^H W of the W that came out."""

    def __init__(self, V: Any, S: Any) -> None:
        self.product = SmallReference(V, S)

    def error(self, results: tuple[Any, Any]) -> float:
        W, G = results
        return max(self.product.error(W), Reference(W, None).error(G))


class ProjectedReference:
    """W - V (V^H W), whose coefficients are as uncertain as A^H B, and the Gram matrix of what came out."""

    def __init__(self, V: Any, W: Any) -> None:
        self.V, self.W, self.inner = V, W, Reference(V, W)

    def error(self, results: tuple[Any, Any]) -> float:
        (rest, G), V, W, C = results, self.V, self.W, self.inner.exact
        if rest.shape != W.shape:
            return float("inf")
        relative, worst, magnitudes = 2 * gamma(self.inner.dtype, V.shape[1] + 1), 0.0, abs(C)
        for part in _slices(V.shape[0], max(V.shape[1], W.shape[1])):
            v, w = (X[part].astype(C.dtype) for X in (V, W))
            bound = relative * (abs(v) @ magnitudes + abs(w)) + abs(v) @ self.inner.bound
            worst = max(worst, _largest(abs(rest[part] - (w - v @ C)) / bound))
        return max(worst, Reference(rest, None).error(G))


class QrReference:
    """max |Q^H Q - I| below N 1e-14 (as much looser in single precision as its roundoff), and V - Q R small, column by
    column."""

    def __init__(self, V: Any) -> None:
        self.V, self.u = V, _ROUNDOFF[REAL[V.dtype.name]]
        self.found: dict[str, float] = {}  # of the result that was looked at last

    def error(self, results: tuple[Any, ...]) -> float:
        (Q, R), V, columns = results[:2], self.V, self.V.shape[1]
        if Q.shape != V.shape or R.shape != (columns, columns):
            return float("inf")
        allowed = columns * 1e-14 * self.u / _ROUNDOFF["float64"]
        R, left, norms = R.astype(_wide(V.dtype.name)), 0.0, 0.0
        for part in _slices(V.shape[0], columns):
            v = V[part].astype(R.dtype)
            left = left + _squares(v - Q[part].astype(R.dtype) @ R).sum(axis=0)
            norms = norms + _squares(v).sum(axis=0)
        self.found = {"departure": _departure(Q), "residual": _largest((left / norms) ** 0.5)}
        return float(max(self.found["departure"] / allowed, self.found["residual"] / (_RESIDUAL * self.u)))


def _departure(Q: Any) -> float:
    """max |Q^H Q - I|."""
    G = _product(Q, Q)
    G.reshape(-1)[:: len(G) + 1] -= 1
    return _largest(abs(G))


def _slices(rows: int, columns: int) -> Iterator[slice]:
    """Parts of the rows: converting gigabytes at once would need as many more."""
    step = max(1, _SLICE // columns)
    return (slice(start, start + step) for start in range(0, rows, step))


def _largest(ratios: Any) -> float:
    worst = float(ratios.max()) if ratios.size else 0.0
    return float("inf") if isnan(worst) else worst


def _wide(dtype: str) -> str:
    return "complex128" if dtype.startswith("complex") else "float64"


def _product(A: Any, B: Any) -> Any:
    """A^H B in double precision."""
    wide, total = _wide(A.dtype.name), 0
    for part in _slices(A.shape[0], max(A.shape[1], B.shape[1])):
        total = total + spec.reference(*(X[part].astype(wide, copy=False) for X in (A, B)))
    return total


def _squares(X: Any) -> Any:
    return abs(X).astype("float64", copy=False) ** 2
