"""exp(t A) b without exp(t A): a Chebyshev series where A is Hermitian, else Taylor's in steps."""

from __future__ import annotations

from typing import Any

from .callers import for_callers
from .powers import Plan
from .propagator import TERMS, Propagator, check_square, checked_dtype
from .space import space_of


@for_callers(("b",), ("A",))
def expm_multiply(
    A: Any,
    b: Any,
    t: complex = 1.0,
    *,
    tol: float | None = None,
    bounds: Any = "auto",
    hermitian: bool | None = None,
    s: int = TERMS,
    powers: Plan | None = None,
    report: bool = False,
) -> Any:
    """exp(t A) b.

    Hermitian A with any t: time propagation (t = -1j * time), diffusion (t > 0, A negative semidefinite). The Chebyshev
    series of exp on the interval of A's eigenvalues needs little more than abs(t) times half its length products, fewer
    where exp decays. Other A: Taylor's series, in steps.

    Parameters
    ----------
    A : square matrix with `@`: `ms.sparse.matrix`, of scipy.sparse or cupyx.scipy.sparse, `ms.distributed`; if
        Hermitian, also a LinearOperator
    b : (n,) or (n, columns)
    t : real or complex
    tol : error wanted, relative to norm(b) times the largest of abs(exp(t x)) on the interval (A Hermitian) or to the
        result's norm; the unit roundoff unless given
    bounds : "gershgorin", "lanczos", or (low, high) that enclose the eigenvalues of a Hermitian A. "auto" takes the
        rows' circles where A has rows at hand, else a few steps of Lanczos' method
    hermitian : found out by products unless given
    s : powers at a time
    powers : powers(A, p, alphas, betas, gammas) makes what computes p products at a time (powers.py)
    report : return (result, Report)

    `Propagator` plans the same once for many b.
    """
    space = space_of(A)
    with space.together():
        check_square(A, s)
        checked_dtype(A, b, t)
    space.agree("t and tol", (complex(t), tol))
    made = Propagator(A, t, tol=tol, bounds=bounds, hermitian=hermitian, s=s, powers=powers)
    x = made(b)
    return (x, made.report) if report else x
