"""What is asked of powers, free of the matrix: the recurrence v_(k+1) = (alpha_k A + beta_k I) v_k + gamma_k v_(k-1),
the vectors that are wanted, and how the caller wants it done."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from ....arrays.types import Array
from ....errors import UnsupportedProblem
from ....kernels.sparse.powers import spec
from ....plan.problem import DTYPES, ITEMSIZE, Problem
from ..storage import Csr, Ell, Sell

LIMIT = 4.0  # seconds that a block of a persistent launch waits for others before it gives up


class Options(NamedTuple):
    """How powers are to be computed, as far as the caller or a finding says so."""

    execution: str | None = None
    threads: int | None = None
    graph: bool = True
    limit: float = LIMIT
    budget: float | None = None  # bytes of cache that level groups pass through


class Task:
    """A recurrence of p steps, the output that is asked for, and the number of vectors side by side."""

    def __init__(self, p: Any, basis: Any = "monomial", output: Any = "all", columns: int = 1) -> None:
        self.p, self.columns, self.dtype = count(p), columns, ""
        self.coefficients = coefficients(basis, self.p)
        self.output, self.weights = wanted(output, self.p)

    def settle_dtype(self, of_matrix: str, asked: str | None) -> None:
        """Settle the dtype of the vectors: complex where coefficients are."""
        given = (self.coefficients, self.weights)
        is_complex = any(part is not None and np.iscomplexobj(part) and bool(np.any(part.imag)) for part in given)
        dtype = asked or (str(np.result_type(of_matrix, np.complex64)) if is_complex else of_matrix)
        if dtype not in DTYPES:
            raise UnsupportedProblem(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}")
        if is_complex and not dtype.startswith("complex"):
            raise TypeError(f"coefficients are complex and vectors {dtype}: pass dtype='complex128' (or complex64)")
        if not np.can_cast(of_matrix, dtype, "same_kind") or ITEMSIZE[dtype] < ITEMSIZE[of_matrix]:
            raise TypeError(f"A has dtype {of_matrix}, wider than vectors of {dtype}: convert it first")
        self.dtype = dtype

    def packed(self) -> Array:
        """Coefficients and weights as kernels take them."""
        parts = [self.coefficients.ravel()] + ([] if self.weights is None else [self.weights.ravel()])
        flat = np.concatenate(parts)
        return (flat if self.dtype.startswith("complex") else flat.real).astype(self.dtype)

    def shape(self, rows: int) -> tuple[int, ...]:
        """Shape of the result, for a matrix of so many rows."""
        vector = (rows,) if self.columns == 1 else (rows, self.columns)
        if self.output == "all":
            return (self.p + 1, *vector)
        return vector if self.weights is None or self.weights.ndim == 1 else (len(self.weights), *vector)

    def problem(self, stored: Sell | Csr | Ell) -> Problem:
        """The problem of the kernels, for a square matrix in this storage."""
        return spec.problem(
            self.dtype, stored.shape[0], stored.nnz, self.p, values=stored.values_dtype, index=stored.index,
            C=getattr(stored, "C", 32), NVECS=self.columns, shifted=bool(np.any(self.coefficients[:, 1])),
            three_term=bool(np.any(self.coefficients[:, 2])), output=self.output,
            sets=1 if self.weights is None or self.weights.ndim == 1 else len(self.weights),
            ragged=getattr(stored, "lengths", None) is not None,
        )  # fmt: skip


def count(p: Any) -> int:
    """p as an integer, not negative."""
    try:
        number = operator.index(p)
    except TypeError:
        given = f"p={p!r}" if isinstance(p, float) else f"p is of type {type(p).__name__}, which"
        remedy = "it counts products with A, and a vector comes after it: matrix_powers(A, p)(x)"
        raise TypeError(f"{given} is no integer: {remedy}") from None
    if number < 0:
        raise ValueError(f"p={number} is negative: it counts products with A")
    return number


def coefficients(basis: Any, p: int) -> Array:
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


def _newton(shifts: Any, p: int) -> Array:
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


def _chebyshev(low: float, high: float, p: int) -> Array:
    """Polynomials that stay within [-1, 1] on the interval."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"('chebyshev', {low}, {high}): the interval must be finite and not empty")
    rows = np.empty((p, 3))
    rows[:] = 4.0 / (high - low), -2.0 * (high + low) / (high - low), -1.0
    if p:
        rows[0] = 2.0 / (high - low), -(high + low) / (high - low), 0.0
    return rows


def _given(basis: Any, p: int) -> Array:
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


def wanted(output: Any, p: int) -> tuple[str, Array]:
    """What is wanted: "all", "last", or "combination" with its weights [sets][p + 1]."""
    if isinstance(output, str) and output in ("all", "last"):
        return output, None
    if not isinstance(output, tuple | list) or len(output) != 2 or output[0] != "combination":
        raise ValueError(f"output={output!r} is not 'all', 'last' or ('combination', weights)")
    weights = np.asarray(output[1])
    if weights.ndim not in (1, 2) or weights.shape[-1] != p + 1 or not weights.size:
        raise ValueError(f"weights have shape {weights.shape}: {p + 1} for v_0 to v_{p}, or rows of so many")
    return "combination", weights
