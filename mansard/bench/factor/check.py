"""Are factorizations right? LAPACK's test ratios of a sample of matrices, and `info` and pivots of all.

A ratio is a residual, or how far columns are from orthonormal, over what n roundings explain: eps times n times the
norms of what was multiplied. LAPACK's own tests allow 30 of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plan.problem import REAL
from ..batched.operations import ragged_sizes
from ..cases import Case
from .entries import Parts
from .operations import RAGGED, REDUCTIONS, SPECTRAL, TWO_SIDED

_RATIO = 30.0
_SAMPLE = 1 << 19  # entries of A that are compared
_FEWER = 1 << 16  # of eigenvalue problems, which NumPy solves for comparison
_ENDS = 64  # up to this size the first and the last three matrices are among them, then one each
_RAGGED = 200  # matrices of a ragged batch that are compared
_SEED = 11
_SLACK = 1.01  # of entries of L, which pivoting keeps below one


def reference_for(case: Case, A: Any, B: Any) -> Any:
    """Make the reference that results of the case are compared with."""
    return RaggedReference(case, A, B) if case.form == RAGGED else FactorReference(case, A, B)


_DIMENSIONS = {"INFO": 0, **dict.fromkeys(("PIVOTS", "TAU", "W", "D", "E"), 1),
               **dict.fromkeys(("F", "Q", "X", "Z", "U", "VH"), 2)}  # fmt: skip


class FactorReference:
    """A sample of matrices and right-hand sides, in double precision."""

    def __init__(self, case: Case, A: Any, B: Any) -> None:
        self.case, self.xp = case, np if isinstance(A, np.ndarray) else _cupy()
        self.chosen = _chosen(case.K, case.M, _FEWER if case.operation in SPECTRAL else _SAMPLE)
        self.a = _wide(A[self.xp.asarray(self.chosen)])
        self.b = None if B is None else _wide(B[self.xp.asarray(self.chosen)])

    def prepare(self, out: Any, in_place: bool = False) -> None:
        """Fill a result with NaN, so that an entry that is not written is found anywhere."""
        if out is not None:
            out.fill(np.nan)

    def error(self, result: Parts) -> float:
        """The largest ratio over LAPACK's threshold; at most 1 is right."""
        arrays = dict(result.arrays)
        if "H" in arrays:
            arrays["F"] = arrays.pop("H").swapaxes(-1, -2)
        if "L" in arrays:
            arrays["F"] = self.xp.tril(arrays.pop("L"))
        if "PIVOTS_1" in arrays:
            arrays["PIVOTS"] = arrays.pop("PIVOTS_1") - 1
        if any(one.shape[:1] != (result.matrices,) for one in arrays.values()) or not self._plausible(arrays):
            return float("inf")
        inside = self.chosen < result.matrices
        at, kept = self.xp.asarray(self.chosen[inside]), self.xp.asarray(np.flatnonzero(inside))
        sample = {part: one[at] if part == "PIVOTS" else _wide(one[at]) for part, one in arrays.items()}
        b = None if self.b is None else self.b[kept]
        ratio = float(_ratios(self.xp, self.case, self.a[kept], b, sample).max()) / _RATIO
        return ratio if ratio == ratio else float("inf")

    def _plausible(self, arrays: dict[str, Any]) -> bool:
        """Whether all results have the right shape, finite entries, info zero, and pivots among the remaining rows."""
        n, single = self.case.M, _DIMENSIONS
        for part, one in arrays.items():
            shape = (n, 1) if part == "X" else (n,) * (0 if self.case.operation == "determinant" else single[part])
            shape = (n - 1,) if part == "E" else shape
            if tuple(one.shape[1:]) != shape:
                return False
            if part == "INFO" and bool((one != 0).any()):
                return False
            if part == "PIVOTS" and bool(((one < self.xp.arange(n)) | (one >= n)).any()):
                return False
            if part not in ("INFO", "PIVOTS") and not bool(abs(one.sum()) < np.inf):
                return False
        return True


class RaggedReference:
    """Some matrices of a ragged batch, the first and the last included, each by itself. Results hold NaN before the
    call."""

    def __init__(self, case: Case, A: Any, B: Any) -> None:
        drawn = np.random.default_rng(_SEED).integers(0, case.K, _RAGGED)
        self.case, self.sizes = case, ragged_sizes(case.M, case.K)
        self.systems = {
            at: (_wide(_host(A[at])), None if B is None else _wide(_host(B[at])))
            for at in map(int, sorted({0, case.K - 1, *drawn}))
        }

    def prepare(self, out: Any, in_place: bool = False) -> None:
        if out is not None:
            out.buffer.fill(np.nan)

    def error(self, result: Parts) -> float:
        """Return the largest residual in units of its bound. Results may also be arrays whose matrices are padded."""
        part = "X" if self.case.operation == "solve" else "F"
        found, worst = result.arrays[part], 0.0
        info = result.arrays.get("INFO")
        if len(found) != self.case.K or (info is not None and bool((info != 0).any())):
            return float("inf")
        for at, (a, b) in self.systems.items():
            n = int(self.sizes[at])
            one = _wide(_host(found[at]))[:n, : 1 if part == "X" else n]
            ratio = float(_ratios(np, self.case, a[None], None if b is None else b[None], {part: one[None]}).max())
            worst = max(worst, ratio / _RATIO if ratio == ratio else float("inf"))
        return worst


def _ratios(xp: Any, case: Case, a: Any, b: Any, found: dict[str, Any]) -> Any:
    """LAPACK's test ratio for every matrix of the sample."""
    unit = a.shape[-1] * float(np.finfo(REAL[case.dtype]).eps)
    if case.operation == "cholesky":
        return _cholesky(xp, a, found["F"], unit)
    if case.operation == "lu":
        return _lu(xp, a, found["F"], found["PIVOTS"], unit)
    if case.operation in ("qr", "qrq"):
        Q = found["Q"] if "Q" in found else _from_reflectors(xp, found["F"], found["TAU"])
        R = xp.triu(found["F"])
        below = _norm(found["F"] - R) if "Q" in found else 0.0
        orthonormal = _norm(Q.conj().swapaxes(-1, -2) @ Q - xp.eye(Q.shape[-1])) / unit
        return xp.maximum(orthonormal, (_norm(a - Q @ R) + below) / (unit * _norm(a)))
    if case.operation in REDUCTIONS:
        return _reduced(xp, case, a, found, unit)
    if case.operation in TWO_SIDED:
        return _spectral(xp, case, a, found, unit)
    if case.operation == "solve":
        return _norm(b - a @ found["X"]) / (unit * _norm(a) * _norm(found["X"]))
    if case.operation == "inverse":
        return _norm(xp.eye(a.shape[-1]) - a @ found["F"]) / (unit * _norm(a) * _norm(found["F"]))
    host = _host(a)
    exact, inverse = np.linalg.det(host), np.linalg.inv(host)
    room = abs(exact) * np.linalg.norm(inverse, axis=(1, 2)) * np.linalg.norm(host, axis=(1, 2))
    return abs(_host(found["F"]) - exact) / (unit * room)


def _spectral(xp: Any, case: Case, a: Any, found: dict[str, Any], unit: float) -> Any:
    """Residual and orthogonality of vectors; of values alone, their distance from NumPy's over eps times the norm."""
    a = _hermitian(xp, a) if case.operation in ("eigh", "eigvalsh") else a
    W = found["W"]
    if case.operation in ("eigvalsh", "svdvals"):
        exact = _exact_values(_host(a), case.operation)
        return abs(W - xp.asarray(exact)).max(-1) / (unit * abs(xp.asarray(exact)).max(-1))
    left, right = (found["Z"], found["Z"].conj().swapaxes(-1, -2)) if "Z" in found else (found["U"], found["VH"])
    eye = xp.eye(a.shape[-1])
    ratios = [_norm(a - (left * W[:, None, :]) @ right) / (unit * _norm(a))]
    ratios += [_norm(one.conj().swapaxes(-1, -2) @ one - eye) / unit for one in (left, right)]
    return xp.stack(ratios).max(0)


def _hermitian(xp: Any, a: Any) -> Any:
    """The Hermitian matrices whose lower triangles are given."""
    half, real = xp.tril(a, -1), a * xp.eye(a.shape[-1])
    return half + half.conj().swapaxes(-1, -2) + real.real


def _reduced(xp: Any, case: Case, a: Any, found: dict[str, Any], unit: float) -> Any:
    """Distance of the condensed matrix's values from those of A, by NumPy, over eps times the norm."""
    values = "eigvalsh" if case.operation == "tridiagonalize" else "svdvals"
    host = _host(_hermitian(xp, a) if values == "eigvalsh" else a)
    D, E = (_host(found[part]) for part in ("D", "E"))
    condensed, every = np.zeros((*D.shape, D.shape[-1]), D.dtype), np.arange(D.shape[-1])
    condensed[:, every, every], condensed[:, every[1:], every[:-1]] = D, E
    if values == "svdvals":
        condensed = condensed.swapaxes(-1, -2)
    exact, own = (_exact_values(one, values) for one in (host, condensed))
    return xp.asarray(abs(own - exact).max(-1) / (unit * abs(exact).max(-1)))


def _exact_values(host: Any, operation: str) -> Any:
    return np.linalg.eigvalsh(host) if operation == "eigvalsh" else np.linalg.svd(host, compute_uv=False)


def _cholesky(xp: Any, a: Any, F: Any, unit: float) -> Any:
    """Above the factor there may be zeros, or what was there before; its diagonal is positive."""
    L = xp.tril(F)
    above, before = F - L, a - xp.tril(a)
    left = xp.minimum(_norm(above), _norm(above - before))
    bad = (L.diagonal(0, -2, -1).real <= 0).any(-1)
    return xp.where(bad, np.inf, (_norm(a - L @ L.conj().swapaxes(-1, -2)) + left) / (unit * _norm(a)))


def _lu(xp: Any, a: Any, F: Any, pivots: Any, unit: float) -> Any:
    """With the rows of A in their new order. Multipliers beyond one betray another choice of pivots; LAPACK compares
    complex numbers by |re| + |im|."""
    n = a.shape[-1]
    L, U, every = xp.tril(F, -1) + xp.eye(n), xp.triu(F), xp.arange(len(a))
    a = a.copy()
    for k in range(n):
        chosen = pivots[:, k]
        moved, kept = a[every, chosen], a[:, k].copy()
        a[every, chosen] = kept
        a[:, k] = moved
    most = 2**0.5 if a.dtype.kind == "c" else 1.0
    bad = (abs(L) > most * _SLACK).any((-2, -1))
    return xp.where(bad, np.inf, _norm(a - L @ U) / (unit * _norm(a)))


def _from_reflectors(xp: Any, F: Any, tau: Any) -> Any:
    """Q = H_1 H_2 ..., each I - tau v v^H with v below the diagonal of F and one on it."""
    n = F.shape[-1]
    Q = xp.zeros_like(F) + xp.eye(n)
    for k in reversed(range(n)):
        v = F[:, k:, k].copy()
        v[:, 0] = 1
        corner = Q[:, k:, k:]
        corner -= (tau[:, k, None] * v)[:, :, None] * (v.conj()[:, None, :] @ corner)
    return Q


def _norm(X: Any) -> Any:
    """The largest sum of a column's magnitudes, of every matrix."""
    return abs(X).sum(-2).max(-1)


def _chosen(count: int, n: int, sample: int) -> Any:
    """Numbers of the matrices that are compared: all, or some, first and last included."""
    most, ends = max(1, sample // (n * n)), 3 if n <= _ENDS else 1
    if most >= count:
        return np.arange(count)
    drawn = np.random.default_rng(_SEED).integers(0, count, most)
    return np.unique(np.concatenate([drawn, np.arange(min(ends, count)), count - 1 - np.arange(min(ends, count))]))


def _wide(array: Any) -> Any:
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def _host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def _cupy() -> Any:
    import cupy

    return cupy
