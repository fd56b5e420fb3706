"""The small matrices of an orthogonalisation: n x n, on the host, in double precision whatever the block's dtype.
On GPUs the kernel of kernels/tall_skinny/small_step plans the usual steps by the same rules.

A block becomes orthonormal in steps, block <- block S, each planned from the Gram matrix of the block it starts from.
S is the inverse of the Cholesky factor R of that matrix, or of the shifted one. An explicit inverse is as good as
substitution only while |R^-1| |R| is small; where it is not, the step turns the block by R's left singular vectors,
S = R^-1 W = V / sigma for R = W sigma V^H, whose entries do not cancel.

Where the Gram matrix is too ill conditioned for that, R comes from a sketch of the block, a random combination of its
rows (kernels/tall_skinny/sketch): it does not square the condition, and leaves one below ten. Without a sketch, the
Gram matrix is shifted, which leaves more to do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs

from ...arrays.types import Array, Kind
from ...errors import RankDeficient
from ...kernels.tall_skinny.small_step.spec import Rules
from ...plan.problem import REAL

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}

NEAR = 0.5  # ||G - I|| of a block whose next step is the last: it multiplies the error of G by at most 1 / (1 - NEAR)
SAFE = 32  # u: smallest eigenvalue of G, scaled to a diagonal of ones, that the error of G leaves trustworthy
CANCELLATION = 1e3  # of |R^-1| |R|; the residual of a step is about an eighth of it, in units of u
AMPLIFIED = 32  # norm of G^-1 of a block that a sketch made well conditioned, below which its next step is the last
SHIFT = 4  # n u: begins above the error of G, and grows while the factorisation breaks down
DEPENDENT = 2  # sqrt(n + 8) u: a column of norm one with less beside those before it depends on them
WEAK = 256  # u: so does one with less than this that makes them singular, to (4 + sqrt(n)) / 2 u


# -> the sketch of a block, on the host; None where there is none
Sketch = Callable[[], Array]


class Step(NamedTuple):
    """One step: the next block is this block times `apply`, and times `factor` the next block is this one again."""

    apply: Array
    factor: Array
    last: bool  # the next block is orthonormal to working precision
    sketched: bool = False  # the next block is well conditioned: its step is the last


def unit_roundoff(dtype: str) -> float:
    return UNIT_ROUNDOFF[REAL[dtype]]


def least_norm(dtype: str) -> float:
    """Of columns whose squares do not underflow."""
    return float((np.finfo(REAL[dtype]).tiny / unit_roundoff(dtype)) ** 0.5)


def rules(dtype: str, count: int) -> Rules:
    """What a GPU plans the step by that follows `count` others."""
    return Rules(count, unit_roundoff(dtype), NEAR, SAFE, CANCELLATION, SHIFT, WEAK, least_norm(dtype))


def rules_of_sketch(dtype: str, columns: int) -> tuple[Rules, Rules, Rules]:
    """What a GPU plans the steps of a sketched block by: the first one, declined rather than shifted; the one from the
    sketch; and the one after that, which is the last unless the sketch has failed."""
    first, second = rules(dtype, 0), rules(dtype, 1)
    trusted = 1 / (AMPLIFIED * first.roundoff)
    return (
        first._replace(shift=np.inf),
        first._replace(weak=(columns + 8) ** 0.5),
        second._replace(near=np.inf, safe=trusted),
    )


def check_finite(G: Array, name: str) -> None:
    """A Gram matrix shows what a pass over the block would: entries that are not finite, by column."""
    if np.isfinite(G).all():
        return
    bad = ~np.isfinite(np.diag(G)) if not np.isfinite(np.diag(G)).all() else ~np.isfinite(G).all(axis=0)
    raise ValueError(
        f"column {int(np.argmax(bad))} of {name} has entries that are not finite, or whose squares overflow: "
        f"remove them, or scale {name} first"
    )


def check_sizes(norms: Array, dtype: str, name: str) -> None:
    """Refuse columns whose squares underflow: their Gram matrix means nothing. Zero columns are dependent ones."""
    small = (norms > 0) & (norms < least_norm(dtype))
    if small.any():
        column = int(np.argmax(small))
        raise ValueError(f"column {column} of {name} has norm {norms[column]:.1e}, whose square underflows: scale it")


def step(
    G: Array, u: float, shift: str, name: str = "V", sketch: Sketch | None = None, sketched: bool = False
) -> Step:  # fmt: skip
    """Plan a step from the Gram matrix, or from the `sketch` that is formed where the Gram matrix does not suffice.
    `sketched`: the step before was planned from one. Columns are scaled to norm one first: badly scaled ones are not
    ill conditioned. A zero column stays zero, in the block and in the factor."""
    norms = np.sqrt(np.maximum(G.diagonal().real, 0.0))
    alive = norms > 0
    scale = np.where(alive, norms, 1.0)
    H = np.divide(G, scale, order="C")
    H /= scale[:, None]
    kept = H.reshape(-1)  # the same memory
    kept[:: len(H) + 1] = 1.0
    beside = float(np.vdot(kept, kept).real) - len(H)  # squares beside the diagonal of ones
    last = beside <= NEAR**2 and shift != "always"
    factors, of_sketch = None if shift == "always" else _trusted(H, u), False
    if factors is not None:
        last = last or (sketched and bool(np.linalg.norm(factors[0] @ factors[0].conj().T) <= AMPLIFIED))
    elif shift == "never":
        column = weakest_column(H, SAFE * u)
        raise RankDeficient(
            f"column {column} of {name} is too close to the span of those before it for two steps of Cholesky QR: "
            "pass shift='auto'",
            column,
        )
    elif shift == "auto" and sketch is not None and alive.all():
        factors = _of_sketch(sketch(), scale, u)
        of_sketch = factors is not None
    inverse, factor = _turned(_shifted(H, u))[0] if factors is None else factors
    return Step((alive / scale)[:, None] * inverse, factor * norms, last, of_sketch)


def _trusted(H: Array, u: float) -> tuple[Array, Array] | None:
    """An inverse factor and the factor, triangular where that is accurate, turned where not; None where the error of H
    drowns its smallest eigenvalue."""
    R = _cholesky(H)
    if R is None:
        return None
    inverse = _function("trtri", R.dtype.char)(R)[0]
    trusted = SAFE * u * float(np.vdot(inverse, inverse).real) <= 1.0
    if trusted and (np.abs(inverse) @ np.abs(R)).sum(axis=0).max(initial=0.0) <= CANCELLATION:
        return inverse, R
    turned, least = _turned(R)
    return turned if least**2 >= SAFE * u else None


def _of_sketch(Y: Array, scale: Array, u: float) -> tuple[Array, Array] | None:
    """An inverse factor and the factor of a block with this sketch, its columns scaled; None without a sketch, or where
    columns may be dependent."""
    if Y is None or not np.isfinite(Y).all():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):  # of a singular one, which is not used
        turned, least = _turned(np.linalg.qr(Y / scale, mode="r"))
    return turned if least > noise(len(scale), u) else None


@lru_cache(maxsize=16)
def _function(name: str, letter: str) -> Callable[..., Array]:
    """LAPACK's routine, which takes longer to find than to factor a small matrix."""
    found: Callable[..., Array] = get_lapack_funcs((name,), dtype=np.dtype(letter))[0]
    return found


def _cholesky(H: Array) -> Array:
    """The upper factor, or None. By LAPACK itself: the device waits, and NumPy's cover takes longer than it."""
    factor, info = _function("potrf", H.dtype.char)(H)
    return factor if info == 0 else None


def _shifted(H: Array, u: float) -> Array:
    shift = SHIFT * len(H) * u
    while (R := _cholesky(H + shift * np.eye(len(H)))) is None:
        shift *= 4  # a shift of n would do for any matrix with entries to one
    return R


def _turned(R: Array) -> tuple[tuple[Array, Array], float]:
    """(V / sigma, sigma V^H) for R = W sigma V^H, and the smallest sigma."""
    _, sigma, right = np.linalg.svd(R)
    right = 1.5 * right - 0.5 * (right @ right.conj().T) @ right  # LAPACK leaves it several u from unitary
    return (right.conj().T / sigma, sigma[:, None] * right), float(sigma[-1])


def weakest_column(H: Array, limit: float) -> int:
    """The first column whose pivot in a Cholesky factorisation is below the limit, or else the one with the least."""
    H, pivots = H.copy(), []
    for j in range(len(H)):
        pivots.append(H[j, j].real)
        if pivots[j] < limit:
            return j
        H[j + 1 :, j + 1 :] -= np.outer(H[j + 1 :, j], H[j, j + 1 :]) / pivots[j]
    return int(np.argmin(pivots))


def noise(n: int, u: float) -> float:
    """Singular values of n columns of norm one that rounding errors explain: up to u + 0.3 u sqrt(n) was seen."""
    return float((4 + n**0.5) / 2 * u)


def without_noise(G: Array, factor: Array, norms: Array, least: float) -> Array:
    """G without the columns of the block that contribute less than that to every column of V, relative to its norm.
    What rounding leaves of dependent columns may be dependent again, step after step, and no factor of V needs it."""
    parts = np.sqrt(np.diag(G).real) * (np.abs(factor) / np.where(norms > 0, norms, 1.0)).max(axis=1)
    kept = parts > least
    return np.where(kept[:, None] & kept, G, 0.0)


def triangularised(factor: Array, norms: Array, width: int, u: float) -> tuple[Array | None, Array, Array]:
    """(Z, R, dependent) with factor = Z R: Z has orthonormal columns, R is upper triangular with a positive diagonal.
    Columns that depend on those before them are marked; they have a zero column in Z and a zero row in R. `width` is
    the number of columns that took part, those of a basis beside V too. Z is None where no step turned the block: the
    identity."""
    n = len(norms)
    dependent = np.zeros(n, bool)
    if (factor.diagonal().real > WEAK * u * norms).all() and not np.tril(factor, -1).any():
        return None, factor, dependent
    scale = np.where(norms > 0, norms, 1.0)
    unit = factor / scale
    while True:
        kept = np.flatnonzero(~dependent)
        Z, R = _triangular(unit[:, kept])
        first = _first_dependent(unit[:, kept], np.diag(R).real, width, u)
        if first is None:
            break
        dependent[kept[first]] = True  # those after it may owe their weakness to it
    whole, rows = np.zeros_like(factor), np.zeros_like(factor)
    whole[:, kept], rows[kept] = Z, Z.conj().T @ unit
    rows[np.ix_(kept, kept)] = R
    return whole, np.triu(rows) * scale, dependent


def _first_dependent(unit: Array, diagonal: Array, width: int, u: float) -> int | None:
    """The first column without a part of its own. Rounding errors of earlier columns may appear enlarged in the
    diagonal, hence the second look; a small singular value alone can be the fault of columns before."""
    for column in np.flatnonzero(diagonal <= WEAK * u):
        if diagonal[column] <= DEPENDENT * (width + 8) ** 0.5 * u:
            return int(column)
        if np.linalg.svd(unit[:, : column + 1], compute_uv=False)[-1] <= noise(width, u):
            return int(column)
    return None


def _triangular(matrix: Array) -> tuple[Array, Array]:
    """QR of a small matrix, with a diagonal that is not negative."""
    Z, R = np.linalg.qr(matrix)
    diagonal = np.diag(R)
    size = np.abs(diagonal)
    phase = np.where(size > 0, diagonal, 1.0) / np.where(size > 0, size, 1.0)
    R = phase.conj()[:, None] * R
    np.fill_diagonal(R, size)
    return Z * phase, R


def to_host(kind: Kind, array: Array, dtype: str) -> Array:
    """A small array as a NumPy array in double precision; waits for the device."""
    return np.asarray(kind.download(array), "complex128" if dtype.startswith("complex") else "float64")
