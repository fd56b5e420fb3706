"""exp(t A) b, planned once for many vectors: a Chebyshev series where A is Hermitian, else Taylor's in steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...operations.sparse.matrix import Matrix
from ...operations.sparse.storage import array_module
from ...plan.problem import DTYPES
from . import spectrum
from .callers import for_callers
from .checks import check_operator, check_vector
from .operator import rows_of, sample
from .powers import Plan, Recurrence, chebyshev
from .powers import powers as repeated
from .report import Report
from .series import chebyshev_terms, taylor_steps
from .space import absolute_row_sums, space_of
from .updates import add_scaled

TERMS = 8  # powers at a time
_LOOK = 8  # products after which the size of a term is looked at


class Propagator:
    """exp(t A) as a function of vectors: P(b) is exp(t A) b.

    The interval of the spectrum, the terms of the series and the plans of its powers are made once, and serve every
    vector: a time step, say, that is taken again and again.

    Parameters
    ----------
    A, t, tol, bounds, hermitian, s, powers, callback : as for `expm_multiply`

    Attributes
    ----------
    interval : (low, high) that encloses the eigenvalues of a Hermitian A; None of others
    report : a Report of the planning and of all applications so far

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> P = ms.sparse.linalg.Propagator(scipy.sparse.diags_array([0.0, 1.0, 2.0]), -1.0)
    >>> print(P(np.ones(3)).round(6), P(P(np.ones(3))).round(6))
    [1.       0.367879 0.135335] [1.       0.135335 0.018316]
    """

    @for_callers((), ("A",))
    def __init__(
        self,
        A: Any,
        t: complex = 1.0,
        *,
        tol: float | None = None,
        bounds: Any = "auto",
        hermitian: bool | None = None,
        s: int = TERMS,
        powers: Plan | None = None,
        callback: Callable[[int, float], object] | None = None,
    ) -> None:
        check_square(A, s)
        self.report, self.A, self.tol, self._s, self._powers = Report("expm_multiply"), A, tol, s, powers
        self._callback = callback
        self.t: Any = complex(t) if complex(t).imag else complex(t).real
        self.interval: tuple[float, float] | None = None
        self._norm: tuple[complex, float] | None = None  # of A less the mean of its diagonal, for Taylor's series
        self._terms: dict[str, list[Any]] = {}  # by dtype
        self._plans: dict[Any, Any] = {}  # by dtype and powers at a time
        if self.t != 0 and A.shape[0]:
            xp = array_module(sample(A))
            self.interval = spectrum.interval(A, bounds, hermitian, abs(self.t), xp, self.report)
            self._narrow = isinstance(bounds, str) and bounds == "auto" and not spectrum.is_enclosed(A)

    @for_callers(("b",))
    def __call__(self, b: Any) -> Any:
        """exp(t A) b for b of shape (n,) or (n, columns)."""
        space = space_of(self.A)
        with space.together():
            dtype = checked_dtype(self.A, b, self.t)
        space.agree("dtype and columns", (dtype.name, b.shape[1:]))
        b = b.astype(dtype, order="C")
        if self.t == 0 or not self.A.shape[0]:
            return b
        tol = float(np.finfo(dtype).eps) / 2 if self.tol is None else self.tol
        if self.interval is None:
            return self._by_taylor(b, tol)
        try:
            return self._by_chebyshev(b, tol)
        except _Outside:
            if not self._narrow:
                raise
        low, high = self.interval  # a few steps of Lanczos' method saw too little: twice the interval, and again
        self.interval, self._narrow = (low - (high - low) / 2, high + (high - low) / 2), False
        self.report.notes.append(f"terms grew: eigenvalues within [{self.interval[0]:.6g}, {self.interval[1]:.6g}]")
        self._terms, self._plans = {}, {}
        return self._by_chebyshev(b, tol)

    def _count(self, products: int, passes: int) -> None:
        self.report.iterations += products
        self.report.products += products
        self.report.passes += passes

    def _by_chebyshev(self, b: Any, tol: float) -> Any:
        assert self.interval is not None
        low, high = self.interval
        if high - low <= 1e-14 * max(abs(low), abs(high), 1e-300):
            low, high = low - 1.0, high + 1.0  # a multiple of the identity
        terms = self._terms.setdefault(b.dtype.name, chebyshev_terms(self.t, low, high, tol))
        self.report.method = f"Chebyshev series of degree {len(terms) - 1}"
        limit = 2.0 * space_of(self.A).size(b) * self.A.shape[0] ** 0.5 + float(np.finfo(b.dtype).tiny)
        if isinstance(self.A, Matrix) and self._powers is None:
            return self._term_by_term(b, terms, low, high, limit)
        return self._in_blocks(b, terms, low, high, limit)

    def _term_by_term(self, b: Any, terms: list[Any], low: float, high: float, limit: float) -> Any:
        """The three-term recurrence in the product's own pass: z becomes the next term."""
        A, middle, half = self.A, (low + high) / 2, (high - low) / 2
        total = terms[0] * b
        z, x = b, A.recurrence(b, alpha=1 / half, beta=-middle / half)
        add_scaled(total, terms[1], x)
        for k in range(2, len(terms)):
            out = z if k > 2 else None  # the first z is b, which is the caller's
            z, x = x, A.recurrence(x, z, out, alpha=2 / half, beta=-2 * middle / half, gamma=-1.0)
            add_scaled(total, terms[k], x)
            if k % _LOOK == 0:
                self._check_size(x, terms[k], limit, k)
        if (len(terms) - 1) % _LOOK:
            self._check_size(x, terms[-1], limit, len(terms) - 1)
        self._count(len(terms) - 1, len(terms) - 1)
        return total

    def _in_blocks(self, b: Any, terms: list[Any], low: float, high: float, limit: float) -> Any:
        """Some powers at a time, as `powers` computes them."""
        xp = array_module(b)
        total = terms[0] * b
        at, V = 0, b[None]  # V[j] is term at + j - (len(V) - 1)
        while at < len(terms) - 1:
            # T_(at + j) = 2 T_j T_at - T_(at - j): a block continues from its last vector and the block before it
            count = min(self._s, len(terms) - 1 - at) if at == 0 else min(self._s, len(terms) - 1 - at, len(V) - 1)
            plan = self._planned(count, b.dtype.name, chebyshev(count, low, high))
            W = plan(V[-1])
            if at:
                for j in range(1, count + 1):
                    W[j] *= 2
                    W[j] -= V[-1 - j]
            self._count(count, getattr(plan, "passes", count))
            total += xp.tensordot(xp.asarray(terms[at + 1 : at + count + 1], W.dtype), W[1:], axes=1)
            self._check_size(W[count], terms[at + count], limit, at + count)
            at, V = at + count, W
        return total

    def _check_size(self, x: Any, term: Any, limit: float, products: int) -> None:
        """Polynomials that are at most 1 on the interval do not make vectors longer."""
        largest = space_of(self.A).size(x)
        self._tell(products, largest * abs(term))
        if not largest <= limit:
            assert self.interval is not None
            low, high = self.interval
            raise _Outside(f"terms grow: eigenvalues lie outside [{low:.6g}, {high:.6g}], or b is not finite")

    def _tell(self, products: int, size: float) -> None:
        """Report the size of the last term after so many products of an application."""
        self.report.residuals.append(size)
        if self._callback is not None:
            self._callback(products, size)

    def _planned(self, count: int, dtype: str, recurrence: Recurrence) -> Any:
        if (dtype, count) not in self._plans:
            self._plans[dtype, count] = (self._powers or repeated)(self.A, count, *recurrence)
        return self._plans[dtype, count]

    def _by_taylor(self, b: Any, tol: float) -> Any:
        space, t = space_of(self.A), self.t
        shift, size = self._shift_and_norm()
        shift = shift if b.dtype.kind == "c" else shift.real
        steps, degree = taylor_steps(abs(t) * size, tol)
        self.report.method = f"Taylor's series of degree {degree} in {steps} steps"
        alphas = [t / steps / (k + 1) for k in range(degree)]
        recurrence = Recurrence(alphas, [-alpha * shift for alpha in alphas], [0.0] * degree)
        plan = self._planned(degree, b.dtype.name, recurrence)
        for step in range(steps):
            V = plan(b)
            b = V.sum(axis=0) * b.dtype.type(np.exp(t * shift / steps))
            self._tell((step + 1) * degree, space.size(V[-1]))
            self._count(degree, getattr(plan, "passes", degree))
        return b

    def _shift_and_norm(self) -> tuple[complex, float]:
        """The mean of the diagonal, and the largest sum of moduli in a row of A less that."""
        if self._norm is None:
            A, space = rows_of(self.A), space_of(self.A)
            if A is None:
                raise TypeError("A is not Hermitian, and its norm cannot be told: pass a matrix with rows")
            diagonal = A.diagonal()
            shift = space.sum(diagonal.sum()) / A.shape[0]  # takes the trace away: the norm of the rest is smaller
            rows = absolute_row_sums(A) + abs(diagonal - shift) - abs(diagonal)
            self._norm = complex(shift), space.largest(float(rows.max()) if rows.size else 0.0)
        return self._norm


class _Outside(ValueError):
    """Terms of a series grow."""


def check_square(A: Any, s: int) -> None:
    """Refuse what is no square matrix."""
    check_operator(A, "A")
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"A has shape {tuple(A.shape)}: exp(t A) is not defined")
    if s < 1:
        raise ValueError(f"s={s}: at least one power at a time")


def checked_dtype(A: Any, b: Any, t: Any) -> Any:
    """What is computed in, after a look at the shape of b."""
    check_vector(b, "b")
    own = space_of(A).entries(A)
    if b.ndim not in (1, 2) or b.shape[0] != own.stop - own.start:
        raise ValueError(f"A has shape {tuple(A.shape)}, b {b.shape}: exp(t A) b is not defined")
    dtype = np.result_type(A.dtype, b.dtype, np.complex64 if complex(t).imag else np.float32)
    return dtype if dtype.name in DTYPES else np.result_type(dtype, np.float64)
