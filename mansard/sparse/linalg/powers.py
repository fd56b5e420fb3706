"""Where the solvers get their powers from: one recurrence for every basis,

    v_0 = x,  v_(k+1) = (alpha_k A + beta_k) v_k + gamma_k v_(k-1),

and what the bases mean: `coefficients` of a basis, and the matrix B with A [v_0 .. v_(p-1)] = [v_0 .. v_p] B.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...operations.sparse.matrix import Matrix
from ...operations.sparse.storage import array_module


class Recurrence(NamedTuple):
    """Coefficients alpha_k, beta_k, gamma_k of k = 0 to p - 1; gamma_0 is zero."""

    alphas: Sequence[Any]
    betas: Sequence[Any]
    gammas: Sequence[Any]


class Powers(Protocol):
    """A plan of p powers: all of [v_0 .. v_p] as one array (p + 1, ...). It may say in `passes` how often a call passes
    over A; p times if not."""

    def __call__(self, x: Any) -> Any: ...


class Plan(Protocol):
    """What makes such plans, given a matrix, p, alphas, betas and gammas."""

    def __call__(
        self, A: Any, p: int, alphas: Sequence[Any], betas: Sequence[Any], gammas: Sequence[Any], /
    ) -> Powers: ...


class _Repeated:
    """One product after the other, with anything that has `@`."""

    def __init__(self, A: Any, p: int, recurrence: Recurrence) -> None:
        self._A, self._recurrence, self.passes = A, recurrence, p

    def __call__(self, x: Any) -> Any:
        first = self._A @ x
        V = array_module(first).empty((len(self._recurrence.alphas) + 1, *x.shape), first.dtype)
        V[0] = x
        for k, (alpha, beta, gamma) in enumerate(zip(*self._recurrence, strict=True)):
            product = first if k == 0 else self._A @ V[k]
            V[k + 1] = alpha * product
            if beta:
                V[k + 1] += beta * V[k]
            if gamma:
                V[k + 1] += gamma * V[k - 1]
        return V


class _Stepped:
    """One product after the other by `ms.sparse.matrix`, whose product makes a step of the recurrence in its pass."""

    def __init__(self, A: Matrix, p: int, recurrence: Recurrence) -> None:
        self._A, self._recurrence, self.passes = A, recurrence, p

    def __call__(self, x: Any) -> Any:
        dtype = np.result_type(self._A.dtype, x.dtype, *(np.asarray(part).dtype for part in self._recurrence))
        V = array_module(x).empty((len(self._recurrence.alphas) + 1, *x.shape), dtype)
        V[0] = x
        for k, (alpha, beta, gamma) in enumerate(zip(*self._recurrence, strict=True)):
            z = V[k - 1] if k and gamma else None
            self._A.recurrence(V[k], z, V[k + 1], alpha=alpha, beta=beta, gamma=gamma if k else 0.0)
        return V


class _Blocked:
    """`ms.matrix_powers`, planned when it is known what the vectors are."""

    def __init__(self, A: Any, p: int, recurrence: Recurrence) -> None:
        self._A, self._p, self._recurrence, self.passes = A, p, recurrence, p
        self._plans: dict[Any, Any] = {}

    def __call__(self, x: Any) -> Any:
        from ...operations.sparse.powers.call import matrix_powers

        numbers = [np.asarray(part).dtype for part in self._recurrence]
        dtype = np.result_type(str(self._A.dtype), str(x.dtype), *numbers)
        key = dtype.name, 1 if x.ndim == 1 else int(x.shape[1])
        if key not in self._plans:
            self._plans[key] = matrix_powers(
                self._A, self._p, basis=tuple(self._recurrence), dtype=dtype.name, columns=key[1]
            )
        plan = self._plans[key]
        if plan.choice.execution != "plain":
            self.passes = max(1, len(plan.choice.passes))
        vector = x.astype(dtype) if x.ndim == 1 or key[1] > 1 else x[:, 0].astype(dtype)
        found = plan(vector)
        return found if vector.ndim == x.ndim else found[..., None]


def powers(A: Any, p: int, alphas: Sequence[Any], betas: Sequence[Any], gammas: Sequence[Any]) -> Powers:
    """A plan for the recurrence. The one place that decides how powers are computed."""
    if not p == len(alphas) == len(betas) == len(gammas) or p < 1 or gammas[0]:
        raise ValueError(f"p={p} powers take as many alphas, betas and gammas, and no v_(-1)")
    if hasattr(A, "recurrence_plan"):  # a matrix whose rows live in several processes
        plan: Powers = A.recurrence_plan(p, alphas, betas, gammas)
        return plan
    recurrence = Recurrence(alphas, betas, gammas)
    if isinstance(A, Matrix):
        return _Stepped(A, p, recurrence)
    return _Blocked(A, p, recurrence) if p > 1 and _is_blocked(A) else _Repeated(A, p, recurrence)


def planning_is_cheap(A: Any) -> bool:
    """Whether `powers` makes a plan for another recurrence in no time: without a schedule, and without messages."""
    return isinstance(A, Matrix) or not (hasattr(A, "recurrence_plan") or _is_blocked(A))


_LARGE = 1 << 17  # rows from which blocking can pay, and compiling for it


def _is_blocked(A: Any) -> bool:
    return hasattr(A, "indptr") and A.shape[0] >= _LARGE


def monomial(p: int, scale: float = 1.0) -> Recurrence:
    """v_k = (A / scale)^k x."""
    return Recurrence([1 / scale] * p, [0.0] * p, [0.0] * p)


def chebyshev(p: int, low: float, high: float) -> Recurrence:
    """v_k = T_k(A) x, shifted and scaled such that [low, high] becomes [-1, 1]."""
    middle, half = (high + low) / 2, (high - low) / 2
    alphas = [(1 if k == 0 else 2) / half for k in range(p)]
    return Recurrence(alphas, [-alpha * middle for alpha in alphas], [0.0] + [-1.0] * (p - 1))


def newton(shifts: Sequence[complex], scale: float = 1.0, real: bool = False) -> Recurrence:
    """v_(k+1) = (A - shift_k) v_k / scale. With `real`, conjugate pairs (adjacent, the one above the axis first) cost
    no complex number: (A - a - ib)(A - a + ib) = (A - a)^2 + b^2."""
    alphas, betas, gammas = [1 / scale] * len(shifts), [], []
    for k, shift in enumerate(shifts):
        closes = real and shift.imag < 0
        if closes and not (k and shifts[k - 1] == np.conj(shift)):
            raise ValueError(f"shift {shift} does not follow its conjugate")
        betas.append(-(shift.real if real else shift) / scale)
        gammas.append((shift.imag / scale) ** 2 if closes else 0.0)
    return Recurrence(alphas, betas, gammas)


def change_of_basis(recurrence: Recurrence) -> Any:
    """B, (p + 1, p), with A [v_0 .. v_(p-1)] = [v_0 .. v_p] B."""
    p = len(recurrence.alphas)
    kind = complex if any(np.iscomplexobj(part) for part in recurrence) else float
    B = np.zeros((p + 1, p), kind)
    for k, (alpha, beta, gamma) in enumerate(zip(*recurrence, strict=True)):
        B[k + 1, k], B[k, k] = 1 / alpha, -beta / alpha
        if gamma:
            B[k - 1, k] = -gamma / alpha
    return B


def leja(values: Any, count: int, real: bool) -> list[complex]:
    """`count` of the values, each as far from those before it as can be (product of distances); repeated in that order
    where there are too few. With `real`, conjugates follow one another, the one above the axis first."""
    left = [complex(value) for value in np.asarray(values)]
    if real:
        left = [value if abs(value.imag) > 1e-12 * abs(value) else complex(value.real) for value in left]
        left = [value for value in left if value.imag >= 0]
    found: list[complex] = []
    apart = np.zeros(len(left))  # logarithms: products of distances overflow
    value = max(left, key=abs)
    while left:
        index = left.index(value)
        left.pop(index)
        apart = np.delete(apart, index)
        for one in [value, value.conjugate()] if real and value.imag else [value]:
            found.append(one)
            with np.errstate(divide="ignore"):
                apart = apart + np.log(np.abs(np.array(left) - one))
        if left:
            value = left[int(np.argmax(apart))]
    return _filled(found, count, real)


def _filled(found: list[complex], count: int, real: bool) -> list[complex]:
    """`found` again and again up to `count`; a pair that does not fit gives its real part instead."""
    shifts = [found[k % len(found)] for k in range(count)]
    if real and shifts and shifts[-1].imag > 0:
        shifts[-1] = complex(shifts[-1].real)
    return shifts
