"""The conjugate gradient method with SciPy's calling convention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .checks import check_operator
from .gmres import prepared
from .report import Report
from .space import space_of


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], object] | None = None,
    report: bool = False,
) -> tuple[Any, ...]:
    """Solve A x = b for a Hermitian positive definite A.

    Two reductions an iteration: p^H A p, then r^H M r and the residual's norm together.

    Parameters
    ----------
    A : square matrix with `@`: of scipy.sparse, cupyx.scipy.sparse, `ms.distributed`, dense, or a LinearOperator
    b : right-hand side, (n,) or (n, 1); of a distributed A the entries of this process
    x0, rtol, atol, maxiter, callback : as for scipy.sparse.linalg.cg: the residual is to be at most
        max(rtol * norm(b), atol), after at most `maxiter` (10 n) iterations; the callback gets x after each
    M : approximate inverse of A, Hermitian positive definite, with `@`
    report : return a Report as well

    Returns
    -------
    x, and 0 if it converged, else the number of iterations; with `report` also what was done

    >>> import numpy as np, scipy.sparse
    >>> x, info = cg(scipy.sparse.diags_array([1.0, 2.0, 4.0]), np.ones(3))
    >>> print(x.round(6), info)
    [1.   0.5  0.25] 0
    """
    if rtol < 0 or atol < 0:
        raise ValueError(f"rtol={rtol}, atol={atol}: tolerances are not negative")
    x, b = prepared(A, b, x0)
    check_operator(M, "M")
    space, run = space_of(A), Report("cg")
    goal = max(rtol * space.norm(b), atol)
    r = b if x0 is None else b - A @ x
    run.products = run.passes = int(x0 is not None)
    z, p, before = r, None, 1.0
    for _ in range(10 * int(A.shape[0]) if maxiter is None else maxiter):
        z = r if M is None else M @ r
        products = space.sum(np.array([complex(r.conj() @ z), complex(r.conj() @ r)]))
        rho, left = float(products[0].real), float(np.sqrt(products[1].real))
        run.residuals.append(left)
        if left <= goal or not np.isfinite(left) or rho == 0:
            break
        p = z.copy() if p is None else z + b.dtype.type(rho / before) * p
        q = A @ p
        curvature = space.dot(p, q).real
        if not curvature > 0:
            run.notes.append(f"p^H A p = {curvature:.1e}: A is not positive definite")
            break
        step = b.dtype.type(rho / curvature)
        x, r, before = x + step * p, r - step * q, rho
        run.iterations, run.products, run.passes = run.iterations + 1, run.products + 1, run.passes + 1
        if callback is not None:
            callback(x)
    else:
        run.residuals.append(space.norm(r))
    info = 0 if run.residuals[-1] <= goal else max(1, run.iterations)
    return (x, info, run) if report else (x, info)
