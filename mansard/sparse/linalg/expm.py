"""exp(t A) b without exp(t A): a Chebyshev series where A is Hermitian, else Taylor's in steps."""

from __future__ import annotations

from math import ceil, lgamma, log
from typing import Any

import numpy as np
from scipy import special

from ...operations.sparse.storage import array_module
from ...plan.problem import DTYPES
from . import spectrum
from .checks import check_operator, check_vector
from .powers import Plan, Recurrence, chebyshev
from .powers import powers as repeated
from .report import Report
from .space import absolute_row_sums, has_rows, space_of

_TERMS = 8  # powers at a time
_ROUNDOFF = 2.0**-53
_MOST_DEGREE = 48  # of a step of Taylor's series; beyond, its terms cancel


def expm_multiply(
    A: Any,
    b: Any,
    t: complex = 1.0,
    *,
    tol: float | None = None,
    bounds: Any = "auto",
    hermitian: bool | None = None,
    s: int = _TERMS,
    powers: Plan | None = None,
    report: bool = False,
) -> Any:
    """exp(t A) b.

    Hermitian A with any t: time propagation (t = -1j * time), diffusion (t > 0, A negative semidefinite). The Chebyshev
    series of exp on the interval of A's eigenvalues needs little more than abs(t) times half its length products, fewer
    where exp decays. Other A: Taylor's series, in steps.

    Parameters
    ----------
    A : square matrix with `@`: of scipy.sparse or cupyx.scipy.sparse; if Hermitian, also a LinearOperator
    b : (n,) or (n, columns)
    t : real or complex
    tol : error wanted, relative to norm(b) times the largest of abs(exp(t x)) on the interval (A Hermitian) or to the
        result's norm; the unit roundoff unless given
    bounds : "gershgorin", "lanczos", or (low, high) that enclose the eigenvalues of a Hermitian A. "auto" takes the
        rows' circles where A has rows, else Lanczos
    hermitian : found out by two products unless given
    s : powers at a time
    powers : powers(A, p, alphas, betas, gammas) makes what computes p products at a time (powers.py)
    report : return (result, Report)
    """
    space = space_of(A)
    with space.together():
        dtype = _checked_dtype(A, b, t, s)
    space.agree("dtype, columns, t and tol", (dtype.name, b.shape[1:], complex(t), tol))
    xp, run = array_module(b), Report("expm_multiply")
    b, t = b.astype(dtype), complex(t) if complex(t).imag else complex(t).real
    tol = float(np.finfo(dtype).eps) / 2 if tol is None else tol
    if t == 0 or not A.shape[0]:
        x = b
    elif spectrum.is_hermitian(A, xp, run) if hermitian is None else hermitian:
        x = _by_chebyshev(A, b, t, tol, _interval(A, bounds, xp, run), s, run, powers or repeated)
    else:
        x = _by_taylor(A, b, t, tol, run, powers or repeated)
    return (x, run) if report else x


def _checked_dtype(A: Any, b: Any, t: complex, s: int) -> Any:
    """What is computed in, after a look at the shapes."""
    check_operator(A, "A")
    check_vector(b, "b")
    own = space_of(A).entries(A)
    if len(A.shape) != 2 or A.shape[0] != A.shape[1] or b.ndim not in (1, 2) or b.shape[0] != own.stop - own.start:
        raise ValueError(f"A has shape {tuple(A.shape)}, b {b.shape}: exp(t A) b is not defined")
    if s < 1:
        raise ValueError(f"s={s}: at least one power at a time")
    dtype = np.result_type(A.dtype, b.dtype, np.complex64 if complex(t).imag else np.float32)
    return dtype if dtype.name in DTYPES else np.result_type(dtype, np.float64)


def _interval(A: Any, bounds: Any, xp: Any, run: Report) -> tuple[float, float]:
    if not isinstance(bounds, str):
        low, high = map(float, bounds)
    elif bounds == "lanczos" or (bounds == "auto" and not has_rows(A)):
        low, high = spectrum.lanczos(A, xp, run)
    elif bounds in ("auto", "gershgorin"):
        low, high = spectrum.gershgorin(A)
    else:
        raise ValueError(f"bounds={bounds!r} is not 'auto', 'gershgorin', 'lanczos' or a pair of numbers")
    if not low <= high or not np.isfinite(high - low):
        raise ValueError(f"bounds ({low}, {high}) are no interval: has A entries that are not finite?")
    run.notes.append(f"eigenvalues within [{low:.6g}, {high:.6g}]")
    return low, high


def _by_chebyshev(
    A: Any, b: Any, t: Any, tol: float, interval: tuple[float, float], s: int, run: Report, powers: Plan
) -> Any:
    low, high = interval
    if high - low <= 1e-14 * max(abs(low), abs(high), 1e-300):
        low, high = low - 1.0, high + 1.0  # a multiple of the identity
    terms = chebyshev_terms(t, low, high, tol)
    run.method = f"Chebyshev series of degree {len(terms) - 1}"
    run.iterations = len(terms) - 1
    space = space_of(A)
    limit = 2.0 * space.size(b) * A.shape[0] ** 0.5 + float(np.finfo(b.dtype).tiny)
    total = terms[0] * b
    plans: dict[int, Any] = {}
    at, V = 0, b[None]  # V[j] is term at + j - (len(V) - 1)
    while at < len(terms) - 1:
        # T_(at + j) = 2 T_j T_at - T_(at - j): a block continues from its last vector and the block before it
        count = min(s, len(terms) - 1 - at) if at == 0 else min(s, len(terms) - 1 - at, len(V) - 1)
        if count not in plans:
            plans[count] = powers(A, count, *chebyshev(count, low, high))
        W = plans[count](V[-1])
        if at:
            for j in range(1, count + 1):
                W[j] = 2 * W[j] - V[-1 - j]
        run.products += count
        run.passes += getattr(plans[count], "passes", count)
        for j in range(1, count + 1):
            total += terms[at + j] * W[j]
        largest = space.size(W)
        run.residuals.append(largest * abs(terms[at + count]))
        if not largest <= limit:
            raise ValueError(f"terms grow: eigenvalues lie outside [{low:.6g}, {high:.6g}], or b is not finite")
        at, V = at + count, W
    return total


def chebyshev_terms(t: Any, low: float, high: float, tol: float) -> list[Any]:
    """Coefficients of exp(t x) in Chebyshev polynomials of [low, high], cut where the rest is below `tol` of
    its largest value there."""
    middle, half = (low + high) / 2, (high - low) / 2
    growth = max((t * low).real, (t * high).real)
    size = abs(t) * half
    degree = int(size + 12 * size ** (1 / 3) + 40)  # beyond it, terms are below roundoff
    # I_k(z) exp(-abs(z.real)): roundoff is relative to each term, as it is not in sums over samples of exp
    terms: Any = 2 * special.ive(np.arange(degree + 1), complex(t * half)) * np.exp(1j * (t * middle).imag)
    terms[0] /= 2
    # they fall faster than any power: the first that is left out is about the error
    last = int(np.flatnonzero(np.abs(terms) > max(tol, _ROUNDOFF) / 4).max(initial=1))
    terms = (terms if np.iscomplexobj(t) else terms.real) * np.exp(growth)
    return [complex(term) if np.iscomplexobj(t) else float(term) for term in terms[: last + 1]]


def _by_taylor(A: Any, b: Any, t: Any, tol: float, run: Report, powers: Plan) -> Any:
    if not has_rows(A):
        raise TypeError("A is not Hermitian, and its norm cannot be told: pass a matrix with rows, not an operator")
    diagonal, space = A.diagonal(), space_of(A)
    shift = space.sum(diagonal.sum()) / A.shape[0]  # takes the trace away: the norm of the rest is smaller
    shift = complex(shift) if b.dtype.kind == "c" else float(shift.real)
    rows = absolute_row_sums(A) + abs(diagonal - shift) - abs(diagonal)
    size = abs(t) * space.largest(float(rows.max()) if rows.size else 0.0)
    steps, degree = taylor_steps(size, tol)
    run.method = f"Taylor's series of degree {degree} in {steps} steps"
    alphas = [t / steps / (k + 1) for k in range(degree)]
    plan = powers(A, degree, *Recurrence(alphas, [-alpha * shift for alpha in alphas], [0.0] * degree))
    for _ in range(steps):
        V = plan(b)
        b = V.sum(axis=0) * b.dtype.type(np.exp(t * shift / steps))
        run.residuals.append(space.size(V[-1]))
        run.products += degree
        run.passes += getattr(plan, "passes", degree)
        run.iterations += degree
    return b


def taylor_steps(size: float, tol: float) -> tuple[int, int]:
    """(steps, degree) of the fewest products with x^(d + 1) / (d + 1)! <= tol / steps, x = size / steps."""
    best = (1, 1)
    for degree in range(1, _MOST_DEGREE + 1):
        steps = max(1, ceil(size / degree))
        while steps * degree < _MOST_DEGREE * (size + 8) + 8:
            x = max(size / steps, 1e-300)
            if (degree + 1) * log(x) - lgamma(degree + 2) <= log(max(tol, 1e-17) / steps):
                break
            steps += max(1, steps // 8)
        else:
            continue
        if best == (1, 1) or steps * degree < best[0] * best[1]:
            best = (steps, degree)
    return best
