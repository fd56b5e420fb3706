"""s-step GMRES with SciPy's calling convention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays.types import Array, SparseMatrix
from ...operations.sparse.storage import array_module, host
from .callers import for_callers
from .checks import check_operator, check_vector
from .krylov import Basis, LeastSquares
from .operator import applied, dtype_of, stored
from .powers import Plan, change_of_basis, leja, monomial, newton, planning_is_cheap
from .powers import powers as repeated
from .report import Report
from .space import space_of

_DRIFT = 10.0  # a true residual so many times the one the recurrence promises halves the step


@for_callers(("b", "x0"), ("A", "M"), "callback")
def gmres(
    A: SparseMatrix,
    b: Array,
    x0: Array = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Array = None,
    callback: Callable[[Any], object] | None = None,
    callback_type: str | None = None,
    s: int = 5,
    basis: str = "newton",
    powers: Plan | None = None,
    report: bool = False,
) -> tuple[Array, ...]:
    """Solve A x = b by s-step GMRES: s products with A, then one block orthogonalization.

    The shifts of the Newton basis are Ritz values: those of one extra product at first, then of the first block, then
    of the first cycle. Where a plan for new shifts takes time (distributed matrices, blocked powers, `powers`), the
    first cycle takes single steps instead. s is halved when the residual turns out larger than the basis predicted,
    which means that rounding has spoilt the basis.

    Parameters
    ----------
    A : square matrix with `@`: of scipy.sparse, cupyx.scipy.sparse, dense, or a LinearOperator
    b : right-hand side, (n,) or (n, 1); its dtype and that of A give the dtype of the computation
    x0, rtol, atol, restart, maxiter, callback, callback_type : as for scipy.sparse.linalg.gmres: the residual is to be
        at most max(rtol * norm(b), atol); `restart` (20) vectors a cycle, at most `maxiter` (10 n) cycles; the callback
        gets the residual's norm over that of b at every iteration ("pr_norm", "legacy"), or x after every cycle ("x")
    M : approximate inverse of A: a matrix, a LinearOperator, or a function x -> M x. It is applied from the right:
        residuals are those of A x = b
    s : products at a time; 1 is standard GMRES
    basis : "newton" or "monomial"
    powers : a function powers(A, p, alphas, betas, gammas) that plans p products; None: `ms.matrix_powers`
    report : return a Report as well

    Returns
    -------
    x, and 0 if it converged, else the number of iterations; with `report` also a Report.

    Cost: iteration j of a cycle takes 2 nnz flops for the product and at least 4 j n for the orthogonalization,
    which moves j basis vectors twice; memory is that of restart + 1 vectors or more. The s products of a block move
    A fewer than s times where powers are blocked.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> x, info = ms.sparse.linalg.gmres(scipy.sparse.diags_array([1.0, 2.0, 4.0]), np.ones(3))
    >>> print(x.round(6), info)
    [1.   0.5  0.25] 0
    """
    _check_options(s, basis, callback_type, rtol, atol)
    x, b = prepared(A, b, x0)
    M, space, n = applied(M, "M"), space_of(A), int(A.shape[0])
    restart = min(20 if restart is None else restart, n)
    cycles = 10 * n if maxiter is None else maxiter
    run = Report(f"gmres, s = {s}, {basis} basis" if s > 1 else "gmres")
    norm_b = space.norm(b)
    if norm_b == 0:
        return (b, 0, run) if report else (b, 0)
    goal = max(rtol * norm_b, atol)
    if powers is None and not isinstance(b, np.ndarray):  # on CPUs, large matrices are blocked as they are
        A = stored(A, small_on_gpus=M is None)
    solver = _Solver(A, b, M, goal, restart, s, basis, run)
    solver.powers, solver.learns = powers or repeated, powers is None and s > 1 and planning_is_cheap(solver.operator)
    solver.told = (lambda residual: callback(residual / norm_b)) if callback and callback_type != "x" else None
    x, left = solver.solve(x, cycles, callback if callback_type == "x" else None)
    info = 0 if left <= goal else max(1, run.iterations)
    return (x, info, run) if report else (x, info)


class _Solver:
    """State that the cycles of one call share."""

    told: Callable[[float], object] | None = None  # about every iteration
    powers: Plan = staticmethod(repeated)
    learns = False  # shifts within the first cycle

    def __init__(self, A: Any, b: Any, M: Any, goal: float, restart: int, s: int, basis: str, run: Report) -> None:
        self.A, self.b, self.M, self.goal, self.restart, self.run = A, b, M, goal, restart, run
        self.space = space_of(A)
        self.operator = A if M is None else _Product(A, M)
        self.most, self.basis = min(s, restart), basis
        self.step, self.spread = 1, 0.0  # of the first cycle, unless it learns
        self.shifts: Any = None
        self._plans: dict[int, tuple[Any, Any]] = {}

    def solve(self, x: Any, cycles: int, told: Any) -> tuple[Any, float]:
        """(x, norm of its residual)."""
        residual = self._residual(x)
        left = self.space.norm(residual)
        for cycle in range(cycles):
            if left <= self.goal or not np.isfinite(left):
                break
            promised, krylov, change = self._cycle(residual, left)
            x = x + (change if self.M is None else self.M(change))
            residual, before = self._residual(x), left
            left = self.space.norm(residual)
            if told is not None:
                told(x)
            if cycle == 0:
                self._learn(krylov)
            if (cycle or self.learns) and not self._settled(cycle, left, promised, before):
                break
        self.run.residuals.append(left)
        return x, left

    def _learn(self, krylov: Basis) -> None:
        """Take shifts from the basis so far, and from here on as many products at a time as asked for."""
        self.shifts, self.step, self.spread = _ritz_values(krylov), self.most, 0.0
        if self.learns:
            self._plans.clear()

    def _look(self, q: Any) -> None:
        """Take the one Ritz value of a vector as the shift, and what the product has beside it as a scale."""
        v = self.operator @ q
        self.run.products, self.run.passes = self.run.products + 1, self.run.passes + 1
        value, square = host(array_module(q).stack((q.conj() @ v, v.conj() @ v)))
        self.spread = float(np.sqrt(max(square.real - abs(value) ** 2, 0.0)))
        if np.isfinite(square):
            self.shifts, self.step = np.array([value]), self.most

    def _settled(self, cycle: int, left: float, promised: float, before: float) -> bool:
        """Whether to go on, with fewer products at a time where rounding spoilt the basis."""
        if left <= _DRIFT * max(promised, self.goal) and left < before:
            return True
        if self.step == 1:
            if left < before:
                return True
            self.run.notes.append(f"cycle {cycle} left the residual at {left:.1e}: no further")
            return False
        self.step = max(1, self.step // 2)
        self.run.notes.append(f"cycle {cycle}: residual {left:.1e}, promised {promised:.1e}: s is now {self.step}")
        return True

    def _cycle(self, residual: Any, beta: float) -> tuple[float, Basis, Any]:
        """(the residual's norm as the least squares have it, the basis, what to add to x or M^-1 x)."""
        krylov = Basis(residual / beta, self.restart, self.space)
        system = LeastSquares(beta, self.restart, krylov.H.dtype)
        promised, is_first = beta, self.shifts is None
        if is_first and self.learns:
            self._look(krylov.Q[0])
        while krylov.columns < self.restart and promised > self.goal:
            begin, count = krylov.columns, min(self.step, self.restart - krylov.columns)
            plan, B = self._planned(count, krylov.H.dtype)
            added = krylov.extend(plan(krylov.Q[begin]), B)
            self.run.products += count
            self.run.passes += getattr(plan, "passes", count)
            for column in range(begin, begin + added):
                promised = system.add(krylov.H[: column + 2, column])
                self._note(promised)
                if promised <= self.goal:
                    break
            if added < count or not np.isfinite(promised):
                break
            if self.learns and is_first and begin == 0:
                self._learn(krylov)
        y = system.solution()
        return promised, krylov, krylov.module.asarray(y) @ krylov.Q[: len(y)]

    def _planned(self, count: int, dtype: Any) -> tuple[Any, Any]:
        """A plan for so many products, and its change of basis. Shifts do not change once they are known."""
        if count not in self._plans:
            recurrence = _recurrence(self.basis, self.shifts, count, dtype, self.spread)
            self._plans[count] = self.powers(self.operator, count, *recurrence), change_of_basis(recurrence)
        return self._plans[count]

    def _note(self, promised: float) -> None:
        self.run.iterations += 1
        self.run.residuals.append(promised)
        if self.told is not None:
            self.told(promised)

    def _residual(self, x: Any) -> Any:
        if self.space.size(x) == 0:
            return self.b
        self.run.products += 1
        self.run.passes += 1
        return self.b - self.A @ x


def _recurrence(basis: str, shifts: Any, count: int, dtype: Any, spread: float) -> Any:
    """Scaled by the largest Ritz value, so that vectors neither grow nor vanish."""
    if shifts is None or count == 1:
        return monomial(count)
    scale = max(float(np.abs(shifts).max()), np.finfo(dtype).tiny)
    if basis == "monomial":
        return monomial(count, scale)
    real = dtype.kind != "c"
    chosen = leja(shifts, count, real)
    away = [abs(complex(other) - chosen[0]) for other in np.asarray(shifts)]
    return newton(chosen, max(max(away) / 2, spread, 1e-3 * scale), real)


def _ritz_values(krylov: Basis) -> Any:
    k = krylov.columns
    values = np.linalg.eigvals(krylov.H[:k, :k])
    return values[np.isfinite(values)] if np.isfinite(values).any() else None


def prepared(A: Any, b: Any, x0: Any, several: bool = False) -> tuple[Any, Any]:
    """x and b, copied, as vectors of what is computed in; with `several` also vectors side by side."""
    with space_of(A).together():
        dtype = _checked_dtype(A, b, x0, several)
    space_of(A).agree("dtype and right-hand sides", (dtype.name, b.shape[1:]))
    shape = b.shape if several and b.ndim == 2 and b.shape[1] > 1 else (-1,)
    b = b.reshape(shape).astype(dtype, order="C")
    return array_module(b).zeros_like(b) if x0 is None else x0.reshape(shape).astype(dtype, order="C"), b


def _checked_dtype(A: Any, b: Any, x0: Any, several: bool) -> Any:
    """What is computed in, after a look at the shapes."""
    check_operator(A, "A")
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"A has shape {tuple(A.shape)}: a square matrix is needed")
    own = space_of(A).entries(A)
    n = own.stop - own.start
    for name, vector in (("b", b), ("x0", x0)):
        if vector is None:
            continue
        check_vector(vector, name)
        columns = vector.shape[1:] if several and vector.ndim == 2 and vector.shape[1] else (1,)
        if vector.shape not in ((n,), (n, *columns)):
            raise ValueError(f"{name} has shape {vector.shape}, A {tuple(A.shape)}: they do not match")
    if x0 is not None and x0.size != b.size:
        raise ValueError(f"x0 has shape {x0.shape} and b {b.shape}: both need the same")
    return dtype_of(A, b, x0)


class _Product:
    """A M."""

    def __init__(self, A: Any, M: Any) -> None:
        self._A, self._M, self.shape = A, M, A.shape

    def __matmul__(self, x: Any) -> Any:
        return self._A @ self._M(x)


def _check_options(s: int, basis: str, callback_type: str | None, rtol: float, atol: float) -> None:
    if s < 1:
        raise ValueError(f"s={s}: at least one product at a time")
    if basis not in ("newton", "monomial"):
        raise ValueError(f"basis={basis!r} is not one of 'newton', 'monomial'")
    if callback_type not in (None, "legacy", "pr_norm", "x"):
        raise ValueError(f"callback_type={callback_type!r} is not one of 'x', 'pr_norm', 'legacy'")
    if rtol < 0 or atol < 0:
        raise ValueError(f"rtol={rtol}, atol={atol}: tolerances are not negative")
