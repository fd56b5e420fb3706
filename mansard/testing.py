"""Operands and error bounds for tests, the tuner and the benchmark: data in, verdict out.

Exact first: small integers make every sum exact in any order, so results must be equal. Random data is compared
element by element with a bound derived from the error analysis, never by a sum of differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .kernels.tall_skinny import tsmm
from .kernels.tall_skinny.gram import spec
from .plan.problem import ITEMSIZE, REAL, Problem

_UNIT_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}


def array_module(backend_name: str) -> Any:
    """NumPy for CPU backends, CuPy for GPUs."""
    if backend_name != "cuda":
        return np
    import cupy

    return cupy


def random_matrix(xp: Any, rows: int, columns: int, dtype: str, seed: int, integers: bool = False) -> Any:
    """A (rows, columns) matrix of normal numbers, or of integers in [-3, 3]."""
    rng = xp.random.default_rng(seed)
    real = REAL[dtype]

    def draw() -> Any:
        if integers:
            return rng.integers(-3, 4, size=(rows, columns)).astype(real)
        return rng.standard_normal((rows, columns), dtype=real)

    if dtype == real:
        return draw()
    result = xp.empty((rows, columns), dtype)
    result.real, result.imag = draw(), draw()
    return result


def laid_out(matrix: Any, layout: str, pitch: int, aligned: bool = True) -> Any:
    """A copy of `matrix` as a view with the given layout and pitch; unaligned ones start one real word off."""
    xp = _module_of(matrix)
    rows, columns = matrix.shape
    if layout == "any":
        wide = xp.empty((2 * rows, 3 * columns), matrix.dtype)
        view = wide[::2, ::3]
    else:
        lines, length = (rows, columns) if layout == "row" else (columns, rows)
        offset = 0 if aligned else 1
        flat = xp.empty(max(1, lines) * max(pitch, length) + 2 * offset, matrix.dtype)
        flat.fill(np.nan)
        if not aligned and ITEMSIZE[matrix.dtype.name] == 16 and xp is np:  # CuPy itself needs whole elements
            words = flat.view(flat.real.dtype)
            flat = words[1 : 1 + 2 * (len(flat) - 1)].view(matrix.dtype)
            offset = 0
        body = flat[offset : offset + max(1, lines) * max(pitch, length)].reshape(max(1, lines), max(pitch, length))
        view = body[:lines, :length] if layout == "row" else body[:lines, :length].T
    view[...] = matrix
    return view


def _module_of(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return np
    import cupy

    return cupy


def operands(problem: Problem, backend_name: str, seed: int = 0, integers: bool = False) -> tuple[Any, Any]:
    """A and B as the problem describes them (the same array twice if it says so)."""
    xp = array_module(backend_name)
    A = random_matrix(xp, problem.K, problem.M, problem.dtype, seed, integers)
    if not (problem.layout_a == "row" and problem.pitch_a == problem.M and problem.aligned):
        A = laid_out(A, problem.layout_a, problem.pitch_a, problem.aligned)
    if problem.same:
        return A, A
    B = random_matrix(xp, problem.K, problem.N, problem.dtype, seed + 1, integers)
    if not (problem.layout_b == "row" and problem.pitch_b == problem.N and problem.aligned):
        B = laid_out(B, problem.layout_b, problem.pitch_b, problem.aligned)
    return A, B


def tsmm_operands(problem: Problem, backend_name: str, seed: int = 0, integers: bool = False) -> tuple[Any, Any]:
    """A as the problem describes it, and a small C."""
    xp = array_module(backend_name)
    A = random_matrix(xp, problem.K, problem.M, problem.dtype, seed, integers)
    if not (problem.layout_a == "row" and problem.pitch_a == problem.M and problem.aligned):
        A = laid_out(A, problem.layout_a, problem.pitch_a, problem.aligned)
    return A, random_matrix(xp, problem.M, problem.N, problem.dtype, seed + 1, integers)


def gamma(dtype: str, products: int) -> float:
    """The error of a sum of so many products, relative to the sum of their magnitudes. For n terms and unit roundoff u:
    n u / (1 - n u), which holds for every order of summation, or, for long sums where that means little, 10 sqrt(n) u,
    which random data do not reach."""
    terms = products * (4 if dtype.startswith("complex") else 1) + 4
    u = _UNIT_ROUNDOFF[REAL[dtype]]
    return float(min(10 * terms**0.5 * u, terms * u / (1 - terms * u) if terms * u < 0.1 else 1.0))


def gram_error(C: Any, A: Any, B: Any, conj: bool = True) -> float:
    """The largest error of any entry, in units of its bound; at most 1 is right.

    The bound is 2 gamma |A|^T |B| with `gamma`; the reference is computed in higher precision where there is one.
    """
    xp = _module_of(C)
    dtype = C.dtype.name
    relative = gamma(dtype, A.shape[0])
    wide = "complex128" if dtype.startswith("complex") else "float64"
    exact = spec.reference(A.astype(wide), B.astype(wide), conj=conj)
    scale = xp.abs(A).astype("float64").T @ xp.abs(B).astype("float64")
    error = xp.abs(C - exact)
    if not bool(xp.all(xp.isfinite(error))):
        return float("inf")
    tiny = np.finfo(REAL[dtype]).tiny
    return float(xp.max(error / (2 * relative * scale + tiny))) if error.size else 0.0


def tsmm_error(W: Any, A: Any, C: Any, conj: bool = False) -> float:
    """Largest error of A C in units of its bound, 2 gamma |A| |C|."""
    xp = _module_of(W)
    dtype = W.dtype.name
    wide = "complex128" if dtype.startswith("complex") else "float64"
    exact = tsmm.spec.reference(A.astype(wide), C.astype(wide), conj=conj)
    scale = xp.abs(A).astype("float64") @ xp.abs(C).astype("float64")
    error = xp.abs(W - exact)
    if not bool(xp.all(xp.isfinite(error))):
        return float("inf")
    tiny = np.finfo(REAL[dtype]).tiny
    return float(xp.max(error / (2 * gamma(dtype, A.shape[1]) * scale + tiny))) if error.size else 0.0
