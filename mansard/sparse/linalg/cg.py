"""The conjugate gradient method with SciPy's calling convention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays.types import Array, SparseMatrix
from .callers import for_callers
from .gmres import prepared
from .operator import applied, stored
from .queued import Queued, passes_for, weights_of
from .report import Report
from .space import space_of
from .updates import add_scaled, column_dots


@for_callers(("b", "x0"), ("A", "M"), "callback")
def cg(
    A: SparseMatrix,
    b: Array,
    x0: Array = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Array = None,
    callback: Callable[[Any], object] | None = None,
    report: bool = False,
) -> tuple[Array, ...]:
    """Solve A x = b for a Hermitian positive definite A.

    One product with A and two reductions an iteration: p^H A p, then r^H M r and the residual's norm together.

    Parameters
    ----------
    A : square matrix with `@`: `ms.sparse.matrix`, of scipy.sparse, cupyx.scipy.sparse, `ms.distributed`, dense, or a
        LinearOperator. A large sparse matrix of SciPy's or CuPy's is copied once, for products by our kernels
    b : right-hand side, (n,) or (n, 1); or several side by side, (n, k), which share the passes over A. Of a
        distributed A the entries of this process
    x0, rtol, atol, maxiter, callback : as for scipy.sparse.linalg.cg: the residual is to be at most
        max(rtol * norm(b), atol), after at most `maxiter` (10 n) iterations; the callback gets x after each, which the
        next one overwrites
    M : approximate inverse of A, Hermitian positive definite: a matrix, a LinearOperator, or a function r -> M r
    report : return a Report as well

    Returns
    -------
    x, and 0 if it converged, else the number of iterations; with `report` also a Report

    Cost: an iteration takes 2 nnz + 10 n flops (complex numbers: 8 nnz + 20 n), and moves A once and 10 vectors of
    n entries where kernels fuse the updates.

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> x, info = ms.sparse.linalg.cg(scipy.sparse.diags_array([1.0, 2.0, 4.0]), np.ones(3))
    >>> print(x.round(6), info)
    [1.   0.5  0.25] 0
    """
    if rtol < 0 or atol < 0:
        raise ValueError(f"rtol={rtol}, atol={atol}: tolerances are not negative")
    x, b = prepared(A, b, x0, several=True)
    run = Report("cg")
    sizes = np.sqrt(space_of(A).sum(column_dots(b, b)).real)
    goal = np.maximum(rtol * sizes, atol)
    solver = _solver(A, b, M, goal, run)
    if not sizes.all():  # x = 0 solves A x = 0, which no tolerance relative to b is
        x[..., np.flatnonzero(sizes == 0) if b.ndim == 2 else slice(None)] = 0
    steps = 10 * int(A.shape[0]) if maxiter is None else maxiter
    left = solver.solve(x, b, x0 is not None, steps, callback)
    info = 0 if (left <= goal).all() else max(1, run.iterations)
    return (x, info, run) if report else (x, info)


def _solver(A: Any, b: Any, M: Any, goal: Any, run: Report) -> _Iterations | Queued:
    """Fused passes where kernels have them: one right-hand side, no preconditioner or a diagonal one."""
    A, space = stored(A, b.size // max(1, len(b)), b.ndim == 1), space_of(A)
    weights = weights_of(M, b)
    passes = passes_for(A, b, "cg") if M is None or weights is not None else None
    if passes is None:
        return _Iterations(A, applied(M, "M"), space, goal, run)
    return Queued(passes, A, weights, float(goal[0]), run)


class _Iterations:
    """The recurrence, for one right-hand side or several that share the products with A."""

    def __init__(self, A: Any, M: Any, space: Any, goal: Any, run: Report) -> None:
        self.A, self.M, self.space, self.goal, self.run = A, M, space, goal, run

    def solve(self, x: Any, r: Any, started: bool, steps: int, callback: Any) -> Any:
        """Update x and the residual r in place until every column has reached its goal; norms of the residuals."""
        if started:
            r -= self._product(x)
        # p of the textbook is rho / first times this p: three updates of the form y += a x are all that is left
        p, first, left = None, None, self.goal + np.inf
        least = (0.01 * float(np.finfo(r.dtype).eps)) ** 2  # of rho: what is below is rounding of the first residual
        for _ in range(steps):
            z = r if self.M is None else self.M(r)
            rho, left = self._norms(r, z)
            active = (left > self.goal) & (rho > (0 if first is None else least * first))
            if not active.any() or not np.isfinite(left).all():
                return left
            first = np.where(active, rho, 1) if first is None else first
            weight = np.divide(first, rho, out=np.zeros_like(rho), where=active)
            p = z.copy() if p is None else add_scaled(p, _scalars(weight), z)
            q = self._product(p)
            curvature = self.space.sum(column_dots(p, q)).real
            if not (curvature[active] > 0).all():
                found = (curvature / np.where(active, weight, 1) ** 2)[active].min()
                self.run.notes.append(f"p^H A p = {found:.1e}: A is not positive definite")
                return left
            step = np.divide(first, curvature, out=np.zeros_like(rho), where=active)
            add_scaled(x, _scalars(step), p)
            add_scaled(r, _scalars(-step), q)
            self.run.iterations += 1
            if callback is not None:
                callback(x)
        return self._norms(r, r)[1]

    def _product(self, x: Any) -> Any:
        self.run.products += 1 if x.ndim == 1 else x.shape[1]
        self.run.passes += 1
        return self.A @ x

    def _norms(self, r: Any, z: Any) -> tuple[Any, Any]:
        """r^H z and the norm of r of every column, in one reduction; the largest residual is reported."""
        rho = column_dots(r, z)
        products = self.space.sum(np.stack((rho, rho if z is r else column_dots(r, r))))
        left = np.sqrt(products[1].real)
        self.run.residuals.append(float(left.max()))
        return products[0].real, left


def _scalars(values: Any) -> Any:
    """A number of one column, an array of several."""
    return values if len(values) > 1 else float(values[0])
