"""Bounds of the spectrum of a matrix, from its rows, or from a few steps of Lanczos' method."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operations.sparse.storage import Csr
from ..matrices_grid import uniform
from .operator import rows_of
from .report import Report
from .space import WHOLE, Space, absolute_row_sums, has_rows, space_of

_LEAST_STEPS = 6  # of Lanczos' method: with fewer, residuals say little about the ends of a spectrum
_WORTH_A_STEP = 2.0  # products that a narrower interval would save at most
_MARGIN = 0.01  # of the interval, beyond what the residuals say


def probe(xp: Any, own: slice, dtype: Any, seed: int, space: Space = WHOLE) -> Any:
    """The entries `own` of a vector of norm one without structure."""
    count, real = own.stop - own.start, np.dtype(dtype).type(0).real.dtype
    vector = (2 * uniform(xp, count, seed, own.start) - 1).astype(real)
    if np.dtype(dtype).kind == "c":
        vector = vector + 1j * (2 * uniform(xp, count, seed + 1, own.start) - 1).astype(real)
    return vector / vector.dtype.type(space.norm(vector))


def is_hermitian(A: Any, xp: Any, run: Report) -> bool:
    """Whether A acts like its adjoint between two random vectors; two products instead of a transposition."""
    dtype, space = np.result_type(A.dtype, np.float32), space_of(A)
    u, v = (probe(xp, space.entries(A), dtype, seed, space) for seed in (11, 23))
    Au, Av = A @ u, A @ v
    run.products, run.passes = run.products + 2, run.passes + 2
    size = space.norm(Au) * space.norm(v) + space.norm(Av) * space.norm(u)
    return bool(abs(space.dot(u, Av) - space.dot(v, Au).conjugate()) <= 64 * np.finfo(dtype).eps * size)


def gershgorin(A: Any) -> tuple[float, float]:
    """An interval that holds the real parts of all eigenvalues, and their whole if A is Hermitian (CSR matrices)."""
    if not A.nnz:
        return 0.0, 0.0
    diagonal, space = A.diagonal(), space_of(A)
    radius = absolute_row_sums(A) - abs(diagonal)
    low, high = diagonal.real - radius, diagonal.real + radius
    lowest, highest = (float(low.min()), float(high.max())) if len(low) else (np.inf, -np.inf)
    return -space.largest(-lowest), space.largest(highest)


def interval(
    A: Any, bounds: Any, hermitian: bool | None, t: float, xp: Any, run: Report
) -> tuple[float, float] | None:  # fmt: skip
    """An interval that holds the eigenvalues of a Hermitian A, for a series of exp(t x) on it; None of others."""
    given = not isinstance(bounds, str)
    if not given and bounds not in ("auto", "gershgorin", "lanczos"):
        raise ValueError(f"bounds={bounds!r} is not 'auto', 'gershgorin', 'lanczos' or a pair of numbers")
    by_lanczos = bounds == "lanczos" or (bounds == "auto" and not is_enclosed(A)) if not given else False
    found: Any = None
    if by_lanczos:
        found = lanczos(A, xp, run, t=t, check=hermitian is None)
        hermitian = found is not None if hermitian is None else hermitian
    if not (is_hermitian(A, xp, run) if hermitian is None else hermitian):
        return None
    if found is None:
        found = tuple(map(float, bounds)) if given else gershgorin(rows_at_hand(A))
    low, high = found
    if not low <= high or not np.isfinite(high - low):
        raise ValueError(f"bounds ({low}, {high}) are no interval: has A entries that are not finite?")
    run.notes.append(f"eigenvalues within [{low:.6g}, {high:.6g}]")
    return low, high


def is_enclosed(A: Any) -> bool:
    """Whether the circles of the rows are at hand: of CSR matrices, ours included."""
    return has_rows(A) or isinstance(getattr(A, "storage", None), Csr)


def rows_at_hand(A: Any) -> Any:
    """A, or its rows where it is one of our matrices: those that are stored as CSR are not converted."""
    return A if has_rows(A) else rows_of(A)


def lanczos(
    A: Any, xp: Any, run: Report, steps: int = 24, t: float = np.inf, check: bool = False
) -> tuple[float, float] | None:  # fmt: skip
    """An interval that holds the eigenvalues of a Hermitian matrix, all but certainly: the largest and smallest of the
    Ritz values, each moved by its residual, and a little more.

    A step costs a product, and saves about t / 2 times what it takes from the interval: no more are made than earn
    theirs. With `check`, None if A v_2 does not meet v_1 as A v_1 meets v_2: A is not Hermitian.
    """
    n, space = A.shape[0], space_of(A)
    v = probe(xp, space.entries(A), np.result_type(A.dtype, np.float32), 5, space)
    before, beta = v * 0, 0.0
    alphas: list[float] = []
    betas: list[float] = []
    low = high = 0.0
    for step in range(min(steps, n)):
        w = A @ v
        run.products, run.passes = run.products + 1, run.passes + 1
        alpha = space.dot(v, w)
        if check and step < 2:
            size = abs(alpha) + beta + space.norm(w)
            wrong = abs(alpha.imag) + (abs(space.dot(before, w) - beta) if step else 0.0)
            if not wrong <= 64 * np.finfo(v.dtype).eps * size:
                return None
        alphas.append(alpha.real)
        w = w - v.dtype.type(alpha.real) * v - v.dtype.type(beta) * before
        beta = space.norm(w)
        betas.append(beta)
        low, high, inner = _enclosure(alphas, betas)
        if beta <= 1e-12 * (abs(alphas[-1]) + beta) or not np.isfinite(beta):
            break
        if step + 1 >= _LEAST_STEPS and t / 2 * (high - low - inner) <= _WORTH_A_STEP:
            break
        before, v = v, w / v.dtype.type(beta)
    margin = _MARGIN * (high - low)
    return low - margin, high + margin


def _enclosure(alphas: list[float], betas: list[float]) -> tuple[float, float, float]:
    """(low, high) of Ritz values moved by their residuals, and the width of the Ritz values alone."""
    T = np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1)
    if not np.isfinite(T).all() or not np.isfinite(betas[-1]):
        return -np.inf, np.inf, 0.0
    ritz, vectors = np.linalg.eigh(T)
    moved = betas[-1] * np.abs(vectors[-1])
    return float((ritz - moved).min()), float((ritz + moved).max()), float(ritz[-1] - ritz[0])
