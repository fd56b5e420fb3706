"""Bases of powers as one recurrence, v_(k+1) = (alpha_k A + beta_k I) v_k + gamma_k v_(k-1); what is asked of them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def count(p: Any) -> int:
    """p as an integer, not negative."""
    try:
        number = operator.index(p)
    except TypeError:
        raise TypeError(f"p={p!r} is no integer: it counts products with A") from None
    if number < 0:
        raise ValueError(f"p={number} is negative: it counts products with A")
    return number


def coefficients(basis: Any, p: int) -> Any:
    """Rows (alpha, beta, gamma), float64 or complex128 [p][3]; v_1 has no v_(-1), so the first gamma is zero."""
    if isinstance(basis, str) and basis == "monomial":
        return np.repeat([[1.0, 0.0, 0.0]], p, axis=0)
    if not isinstance(basis, tuple | list) or not len(basis):
        raise ValueError(f"basis={basis!r}: {_KNOWN}")
    if isinstance(basis[0], str):
        if basis[0] == "newton" and len(basis) == 2:
            return _newton(np.atleast_1d(np.asarray(basis[1])), p)
        if basis[0] == "chebyshev" and len(basis) == 3:
            return _chebyshev(float(basis[1]), float(basis[2]), p)
        raise ValueError(f"basis={basis!r}: {_KNOWN}")
    if len(basis) != 3:
        raise ValueError(f"basis of {len(basis)} parts: {_KNOWN}")
    return _given(basis, p)


_KNOWN = "pass 'monomial', ('newton', shifts), ('chebyshev', low, high) or (alphas, betas, gammas)"


def _newton(shifts: Any, p: int) -> Any:
    """v_(k+1) = (A - shift_k I) v_k; a conjugate pair takes two real steps: (A - re)^2 + im^2."""
    if shifts.ndim != 1 or len(shifts) < p:
        raise ValueError(f"{shifts.size} shifts for p={p} steps: pass one for each")
    if not np.all(np.isfinite(shifts)):
        raise ValueError("shifts must be finite")
    rows, k = np.zeros((p, 3), np.complex128), 0
    rows[:, 0] = 1.0
    while k < p:
        shift = complex(shifts[k])
        paired = shift.imag != 0 and k + 1 < p and complex(shifts[k + 1]) == shift.conjugate()
        rows[k, 1] = -shift.real if paired else -shift
        if paired:
            rows[k + 1, 1:] = -shift.real, shift.imag**2
        k += 1 + paired
    return rows if rows.imag.any() else rows.real.copy()


def _chebyshev(low: float, high: float, p: int) -> Any:
    """Polynomials that stay within [-1, 1] on the interval."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"('chebyshev', {low}, {high}): the interval must be finite and not empty")
    rows = np.empty((p, 3))
    rows[:] = 4.0 / (high - low), -2.0 * (high + low) / (high - low), -1.0
    if p:
        rows[0] = 2.0 / (high - low), -(high + low) / (high - low), 0.0
    return rows


def _given(basis: Any, p: int) -> Any:
    parts = [np.asarray(part) for part in basis]
    for name, part in zip(("alphas", "betas", "gammas"), parts, strict=True):
        if part.ndim > 1 or (part.ndim == 1 and len(part) != p):
            raise ValueError(f"{name} has shape {part.shape} for p={p} steps: one for each, or one for all")
    dtype = np.result_type(np.float64, *parts)
    rows = np.empty((p, 3), np.complex128 if dtype.kind == "c" else np.float64)
    for column, part in enumerate(parts):
        rows[:, column] = part
    if p and parts[2].ndim == 0:
        rows[0, 2] = 0.0
    if p and rows[0, 2] != 0:
        raise ValueError(f"gammas[0] = {rows[0, 2]}: there is no vector before the first, so it must be zero")
    return rows


def wanted(output: Any, p: int) -> tuple[str, Any]:
    """What is returned: "all", "last", or "combination" with its weights [sets][p + 1]."""
    if isinstance(output, str) and output in ("all", "last"):
        return output, None
    if not isinstance(output, tuple | list) or len(output) != 2 or output[0] != "combination":
        raise ValueError(f"output={output!r} is not 'all', 'last' or ('combination', weights)")
    weights = np.asarray(output[1])
    if weights.ndim not in (1, 2) or weights.shape[-1] != p + 1 or not weights.size:
        raise ValueError(f"weights have shape {weights.shape}: {p + 1} for v_0 to v_{p}, or rows of so many")
    return "combination", weights
