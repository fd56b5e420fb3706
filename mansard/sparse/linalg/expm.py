"""exp(t A) b without exp(t A): a Chebyshev series where A is Hermitian, else Taylor's in steps."""

from __future__ import annotations

from collections.abc import Callable

from ...arrays.types import Array, SparseMatrix
from .callers import for_callers
from .powers import Plan
from .propagator import TERMS, Propagator, check_square, checked_dtype
from .space import space_of


@for_callers(("b",), ("A",))
def expm_multiply(
    A: SparseMatrix,
    b: Array,
    t: complex = 1.0,
    *,
    tol: float | None = None,
    bounds: str | tuple[float, float] = "auto",
    hermitian: bool | None = None,
    s: int = TERMS,
    powers: Plan | None = None,
    callback: Callable[[int, float], object] | None = None,
    report: bool = False,
) -> Array:
    """exp(t A) b for a sparse A, by products with A alone.

    Hermitian A, any t: time propagation (t = -1j * time), diffusion (t > 0, A negative semidefinite). The Chebyshev
    series of exp on an interval that holds A's eigenvalues takes a little more than abs(t) times half the interval's
    length in products, fewer where exp decays. Other A: Taylor's series, in several steps.

    Parameters
    ----------
    A : square matrix with `@`: `ms.sparse.matrix`, of scipy.sparse or cupyx.scipy.sparse, `ms.distributed`; if
        Hermitian, also a LinearOperator
    b : (n,) or (n, columns)
    t : real or complex
    tol : error wanted, relative to norm(b) times the largest of abs(exp(t x)) on the interval (A Hermitian) or to the
        result's norm; the unit roundoff unless given
    bounds : "gershgorin", "lanczos", or (low, high) that enclose the eigenvalues of a Hermitian A. "auto" takes
        Gershgorin's circles where A has rows, else a few steps of Lanczos' method
    hermitian : whether A is; tested by products unless given
    s : products with A that are computed together
    powers : a function powers(A, p, alphas, betas, gammas) that plans p products; None: `ms.matrix_powers`
    callback : callback(products, size) after every few terms: products of this application so far, and the norm of the
        last term
    report : return (result, Report)

    A series takes no preconditioner: it solves no system.

    `Propagator` makes the interval, the series and the plans once for many b.

    Returns
    -------
    An array like b; with `report` also a Report.

    Cost: 2 nnz + 6 n flops per product and column; a Hermitian A takes a little more than abs(t) (high - low) / 2
    products. With s > 1 A is moved fewer times than it is multiplied.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> ms.sparse.linalg.expm_multiply(scipy.sparse.diags_array([0.0, 1.0, 2.0]), np.ones(3), t=-1.0).round(6)
    array([1.      , 0.367879, 0.135335])
    """
    space = space_of(A)
    with space.together():
        check_square(A, s)
        checked_dtype(A, b, t)
    space.agree("t and tol", (complex(t), tol))
    made = Propagator(A, t, tol=tol, bounds=bounds, hermitian=hermitian, s=s, powers=powers, callback=callback)
    x = made(b)
    return (x, made.report) if report else x
