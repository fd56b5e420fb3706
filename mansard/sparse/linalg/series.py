"""Series of the exponential: Chebyshev's coefficients on an interval, and steps of Taylor's."""

from __future__ import annotations

from math import ceil, lgamma, log
from typing import Any

import numpy as np
from scipy import special

_ROUNDOFF = 2.0**-53
_MOST_DEGREE = 48  # of a step of Taylor's series; beyond, its terms cancel


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
