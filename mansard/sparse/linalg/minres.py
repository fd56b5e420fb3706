"""The minimal residual method for Hermitian systems, with SciPy's calling convention."""

from __future__ import annotations

from collections.abc import Callable
from math import hypot, sqrt
from typing import Any

import numpy as np

from ...arrays.types import Array, SparseMatrix
from ...operations.sparse.krylov import Passes
from ...operations.sparse.storage import array_module
from .callers import for_callers
from .gmres import prepared
from .operator import applied, stored
from .queued import SINGULAR, minres_steps, passes_for
from .report import Report
from .space import space_of
from .spectrum import is_hermitian
from .updates import add_scaled, scale_and_add


@for_callers(("b", "x0"), ("A", "M"), "callback")
def minres(
    A: SparseMatrix,
    b: Array,
    x0: Array = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Array = None,
    callback: Callable[[Any], object] | None = None,
    show: bool = False,
    check: bool = False,
    atol: float = 0.0,
    report: bool = False,
) -> tuple[Array, ...]:
    """Solve (A - shift I) x = b for a Hermitian A, which may be indefinite.

    One product with A and two reductions an iteration. Residuals fall in every one, which those of `cg` need not.

    Parameters
    ----------
    A : square matrix with `@`: `ms.sparse.matrix`, of scipy.sparse, cupyx.scipy.sparse, `ms.distributed`, dense, or a
        LinearOperator. A large sparse matrix of SciPy's or CuPy's is copied once, for products by our kernels
    b : right-hand side, (n,) or (n, 1); of a distributed A the entries of this process
    x0, shift, maxiter, callback : as for scipy.sparse.linalg.minres: at most `maxiter` (5 n) iterations; the callback
        gets x after each, which the next one overwrites
    rtol, atol : the residual is to be at most max(rtol * norm(b), atol), as for `cg`. SciPy's stops at rtol times
        norm(A) norm(x), which may be far more
    M : approximate inverse of A - shift I, Hermitian positive definite: a matrix, a LinearOperator, or a function
    show : print the report
    check : raise ValueError if A is not Hermitian, or M; two products each
    report : return a Report as well

    Returns
    -------
    x, and 0 if it converged, else the number of iterations; with `report` also a Report. Of a singular system
    without a solution, x has the smallest residual, and the report says so.

    Cost: an iteration takes 2 nnz + 16 n flops (complex numbers: 8 nnz + 32 n), and moves A once and 15 vectors of
    n entries where kernels fuse the updates.

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> x, info = ms.sparse.linalg.minres(scipy.sparse.diags_array([1.0, -2.0, 4.0]), np.ones(3))
    >>> print(x.round(6), info)
    [ 1.   -0.5   0.25] 0
    """
    if rtol < 0 or atol < 0:
        raise ValueError(f"rtol={rtol}, atol={atol}: tolerances are not negative")
    if complex(shift).imag:
        raise ValueError(f"shift={shift} is not real: A - shift I would not be Hermitian")
    x, b = prepared(A, b, x0)
    M, space, run = applied(M, "M"), space_of(A), Report("minres")
    if check and not is_hermitian(A, array_module(b), run):
        raise ValueError("A is not Hermitian: use gmres")
    goal = max(rtol * space.norm(b), atol)
    solver = _Iterations(stored(A, small_on_gpus=M is None), M, float(complex(shift).real), space, goal, run)
    solver.passes = passes_for(solver.A, b, "minres") if M is None else None
    left = solver.solve(x, b, x0 is not None, 5 * int(A.shape[0]) if maxiter is None else maxiter, callback)
    run.residuals.append(left)
    if show:
        print(run)
    info = 0 if left <= goal else max(1, run.iterations)
    return (x, info, run) if report else (x, info)


class _Iterations:
    """Lanczos' recurrence and the QR factorization of its tridiagonal matrix, a column an iteration."""

    def __init__(self, A: Any, M: Any, shift: float, space: Any, goal: float, run: Report) -> None:
        self.A, self.M, self.shift, self.space, self.goal, self.run = A, M, shift, space, goal, run
        self.passes: Passes | None = None  # fused passes of the iteration

    def solve(self, x: Any, b: Any, started: bool, steps: int, callback: Any) -> float:
        """Update x in place; the norm of its residual. Where rounding made it larger than promised, start again."""
        left = np.inf
        while True:
            r = b - self._product(x) if started else b.copy()
            before, started = left, True
            left = float(self.space.norm(r))
            if left <= self.goal or not np.isfinite(left) or self.run.iterations >= steps or left > before / 2:
                return left
            if not self._iterated(x, r, left, steps, callback):
                return float(self.space.norm(b - self._product(x)))

    def _iterated(self, x: Any, r: Any, left: float, steps: int, callback: Any) -> bool:
        """`_run`, by fused passes where kernels have them."""
        if self.passes is None:
            return self._run(x, r, left, steps, callback)
        return minres_steps(self.passes, self.A, x, r, self.shift, left, self.goal, steps, self.run, callback)

    def _product(self, x: Any) -> Any:
        self.run.products, self.run.passes = self.run.products + 1, self.run.passes + 1
        found = self.A @ x
        return add_scaled(found, -self.shift, x) if self.shift else found

    def _normalised(self, v: Any) -> tuple[Any, Any, float]:
        """(v / beta, M v / beta, beta) with beta^2 = v^H M v; v is overwritten."""
        z = v if self.M is None else self.M(v)
        square = self.space.dot(v, z).real
        if square < 0:
            raise ValueError(f"v^H M v = {square:.1e}: M is not positive definite")
        beta = sqrt(square)
        if beta:
            z = v if self.M is None else z * z.dtype.type(1 / beta)  # before v, whose memory M may have returned
            v *= v.dtype.type(1 / beta)
        return v, z, beta

    def _run(self, x: Any, r: Any, left: float, steps: int, callback: Any) -> bool:
        """Iterate until the recurrence promises the goal; whether to look at the true residual and go on."""
        tracked = None if self.M is None else r.copy()  # the residual: its norm is not that which is minimised
        v, z, beta = self._normalised(r)
        eta, c, c_before, s, s_before, size = beta, 1.0, 1.0, 0.0, 0.0, 0.0
        v_before, w, w_before = v * 0, v * 0, v * 0
        n, n_before = 1.0, 1.0  # what w and w_before are to be divided by
        beta_now = 0.0
        while self.run.iterations < steps:
            u = self._product(z)
            if beta_now:
                add_scaled(u, -beta_now, v_before)
            alpha = self.space.dot(z, u).real
            add_scaled(u, -alpha, v)
            v_before, (v, next_z, beta_next) = v, self._normalised(u)
            size = max(size, sqrt(alpha**2 + beta_now**2 + beta_next**2))
            # the new column (beta_now, alpha, beta_next) under the two rotations before it, and its own
            epsilon, delta = s_before * beta_now, s * alpha + c_before * c * beta_now
            gamma = c * alpha - c_before * s * beta_now
            if hypot(gamma, c * beta_next) <= np.finfo(x.dtype).eps ** 0.75 * size:
                self.run.notes.append(SINGULAR)
                return False
            length = hypot(gamma, beta_next)
            c_before, c, s_before, s = c, gamma / length, s, beta_next / length
            scale_and_add(w_before, -epsilon / n_before, z)
            add_scaled(w_before, -delta / n, w)
            w, w_before, n, n_before = w_before, w, length, n
            add_scaled(x, c * eta / length, w)
            eta, z, beta_now = -s * eta, next_z, beta_next
            left = abs(eta)
            if tracked is not None:  # r = s^2 r + c eta v
                scale_and_add(tracked, s * s, v * v.dtype.type(c * eta))
                left = self.space.norm(tracked)
            self.run.iterations += 1
            self.run.residuals.append(left)
            if callback is not None:
                callback(x)
            if left <= self.goal or beta_next <= np.finfo(x.dtype).eps * size or not np.isfinite(left):
                return True
        return True
