"""Are sparse products and powers right? Every element, against the array library's own product in double precision.

A row sum of n products has an error of at most gamma(n + 1) times the sum of their magnitudes, however it is added up;
ours and the reference's own add. Powers inherit the error of the one before through |A|. Those that are computed by
other orders of rows than plain ones must besides equal these bit by bit: every row is summed up in one order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plan.problem import REAL
from ..cases import Case
from .entries import Result

_UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}


def reference_for(case: Case, given: Any, x: Any) -> Any:
    """Make the reference that results of the case are compared with."""
    return PowersReference(case, given, x) if case.operation == "powers" else ProductReference(case, given, x)


class ProductReference:
    """A x, and how far each element may be from it."""

    def __init__(self, case: Case, given: Any, x: Any) -> None:
        self.case, self.xp = case, given.xp
        A, wide = _wide(given.csr), _wide_array(x)
        self.exact = A @ wide
        unit = _UNIT[REAL[case.dtype]]
        self.bound = _allowed(given, unit, x.ndim) * (abs(A) @ abs(wide))

    def prepare(self, out: Any, in_place: bool = False) -> None:
        """Fill a result with NaN, so that an entry that is not written is found."""
        if out is not None:
            out.fill(np.nan)

    def error(self, result: Result) -> float:
        """The largest error over what is allowed; at most 1 is right."""
        return _worst(self.xp, result.array, self.exact, self.bound)


class PowersReference(ProductReference):
    """v_0 .. v_p with their bounds, and the bits of plain products one after the other."""

    def __init__(self, case: Case, given: Any, x: Any) -> None:
        self.case, self.xp = case, given.xp
        A, share = _wide(given.csr), _allowed(given, _UNIT[REAL[case.dtype]], 1)
        magnitudes = abs(A)
        exact, off = [_wide_array(x)], [given.xp.zeros(x.shape[0])]
        for _ in range(case.inner):
            following = A @ exact[-1]
            off.append(magnitudes @ off[-1] + share * (magnitudes @ (abs(exact[-1]) + off[-1])))
            exact.append(following)
        self.exact, self.bound = given.xp.stack(exact), given.xp.stack(off)
        # one group of all rows, whose sums run from a row's first entry to its last
        self.bits = _bits(given.powers(case.inner, "groups", "none")(x))

    def error(self, result: Result) -> float:
        """Largest error in units of its bound; infinite where powers and products differ in a bit."""
        found = _worst(self.xp, result.array, self.exact, self.bound)
        if not result.own_bits or found > 1:
            return found
        return found if bool((_bits(result.array) == self.bits).all()) else float("inf")


def _bits(array: Any) -> Any:
    return array.view(np.int32)


def _wide(A: Any) -> Any:
    return A.astype(np.complex128 if A.dtype.kind == "c" else np.float64)


def _wide_array(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _allowed(given: Any, unit: float, axes: int) -> Any:
    """Relative error allowed per row: roundings of both sums, four times as many for complex numbers."""
    lengths = given.xp.diff(given.csr.indptr).astype(np.float64) + 2
    share = 2 * unit * lengths * (4 if given.csr.dtype.kind == "c" else 1)
    return share if axes == 1 else share[:, None]


def _worst(xp: Any, found: Any, exact: Any, bound: Any) -> float:
    if found.shape != exact.shape:
        return float("inf")
    off = abs(_wide_array(found) - exact)
    ratio = xp.where(off <= bound, off / xp.maximum(bound, np.finfo(np.float64).tiny), 2 + off)
    worst = float(ratio.max()) if ratio.size else 0.0
    return worst if worst == worst else float("inf")
