"""Is a contender's result right, at full size? One reference per case, compared with every contender entry by entry.

`testing.gram_error` bounds any data by the worst case, which for 2^24 rows of floats admits every result. The
benchmark's operands are independent and centred, so much less is allowed here: partial sums of n products grow like
sqrt(n) rms, each of n additions rounds one of them, and the roundings add up like a random walk.
"""

from __future__ import annotations

from math import isnan, sqrt
from typing import Any

import numpy as np

from ..families.gram import spec
from ..plan.problem import REAL
from ..testing import gamma

_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
_SLICE = 1 << 25  # elements of an operand converted at a time
_CONFIDENCE = 10.0  # standard deviations of the walk of roundings
_REACH = 3.0  # how far partial sums may stray, in standard deviations


def reference_for(operation: str, A: Any, B: Any) -> Reference | SmallReference:
    """What results of the operation are compared with."""
    return SmallReference(A, B) if operation == "tsmm" else Reference(A, B)


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
        ratio = abs(C - self.exact) / self.bound
        worst = float(ratio.max()) if ratio.size else 0.0
        return float("inf") if isnan(worst) else worst


class SmallReference:
    """A C in double precision, compared slice by slice: the bound of M products, worst case, for every entry."""

    def __init__(self, A: Any, C: Any) -> None:
        self.A, self.C, self.dtype = A, C, A.dtype.name

    def error(self, W: Any) -> float:
        """The largest error of any entry in units of its bound; at most 1 is right."""
        A, C = self.A, self.C
        if W.shape != (A.shape[0], C.shape[1]):
            return float("inf")
        wide = "complex128" if self.dtype.startswith("complex") else "float64"
        relative = 2 * gamma(self.dtype, A.shape[1])
        small, magnitudes, worst = C.astype(wide), abs(C).astype("float64"), 0.0
        step = max(1, _SLICE // max(W.shape[1], A.shape[1]))
        for start in range(0, A.shape[0], step):
            a = A[start : start + step].astype(wide)
            bound = relative * (abs(a) @ magnitudes) + np.finfo(REAL[self.dtype]).tiny
            ratio = float((abs(W[start : start + step] - a @ small) / bound).max())
            worst = max(worst, float("inf") if isnan(ratio) else ratio)
        return worst


def _product(A: Any, B: Any) -> Any:
    """The reference in slices: converting gigabytes at once would need as many more."""
    wide = "complex128" if A.dtype.name.startswith("complex") else "float64"
    step = max(1, _SLICE // max(A.shape[1], B.shape[1]))
    total: Any = 0
    for start in range(0, A.shape[0], step):
        total = total + spec.reference(*(X[start : start + step].astype(wide, copy=False) for X in (A, B)))
    return total


def _squares(X: Any) -> Any:
    return abs(X).astype("float64", copy=False) ** 2
