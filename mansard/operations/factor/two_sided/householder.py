"""Reductions to real tridiagonal and bidiagonal form by reflections, a column at a time for all matrices of a stack.

    A = Q T Q^H,  Q = H_0 H_1 ... H_{n-2},   H_k = I - tau v v^H with v_0 = 1

as LAPACK's sytrd, hetrd and gebrd; in complex arithmetic tau is chosen so that T (or B) is real. It is made of the
array library's products, and answers on GPUs where no kernel does; CPUs have LAPACK (`reductions.py`).
"""

from __future__ import annotations

import numpy as np

from ....arrays.types import Array, Kind
from ....plan.problem import REAL
from ..task import Found, copied, identity, zeros
from .task import Task, adjoint


def answer(kind: Kind, task: Task, A: Array) -> Found:
    """The parts of a reduction of the square matrices of a stack (..., n, n); no size is zero."""
    work, scale = _scaled(kind, _hermitian(kind, A, task.upper) if task.is_hermitian else copied(kind, A))
    found = (_tridiagonal if task.is_hermitian else _bidiagonal)(kind, task, work)
    return {part: one / scale if part in ("D", "E") else one for part, one in found.items()}


def _hermitian(kind: Kind, A: Array, upper: bool) -> Array:
    """Both triangles from one of them; the imaginary part of the diagonal does not count."""
    module = kind.module
    half = (module.triu if upper else module.tril)(A)
    both = half + adjoint(kind, half)
    return both - 0.5 * both * identity(kind, tuple(A.shape), kind.view(A, "a").dtype, A)


def _scaled(kind: Kind, A: Array) -> tuple[Array, Array]:
    """A times the power of two that brings its largest entry to [0.5, 1), and that power: squares neither overflow nor
    vanish beside the others."""
    module = kind.module
    largest = module.amax(module.abs(A), (-2, -1))
    usable = module.isfinite(largest) & (largest > 0)
    exponent = module.frexp(module.where(usable, largest, 0 * largest + 1))[1]
    exponent = module.where(usable, exponent, 0 * exponent)
    first = module.ldexp(module.ones_like(largest), -(exponent // 2))  # in two steps: 2^1074 is not a number
    second = module.ldexp(module.ones_like(largest), -(exponent - exponent // 2))
    return A * first[..., None, None] * second[..., None, None], (first * second)[..., None]


def _reflector(kind: Kind, x: Array) -> tuple[Array, Array, Array]:
    """v and tau with (I - tau v v^H)^H x = beta e_0, and beta, which is real."""
    module = kind.module
    size = module.amax(module.abs(x), -1)  # by which x is divided: squares of what rounding left would underflow
    vanishes = size < float(np.finfo(REAL[kind.view(x, "a").dtype]).tiny)  # beside entries near one
    size = module.where(vanishes, module.ones_like(size), size)
    x = module.where(vanishes[..., None], 0 * x, x / size[..., None])
    alpha, rest = x[..., 0], x[..., 1:]
    real = alpha.real
    squares = (module.abs(rest) ** 2).sum(-1)
    imaginary = 0 * real if alpha.dtype == real.dtype else alpha.imag
    is_plain = (squares == 0) & (imaginary == 0)
    norm = module.sqrt(real**2 + imaginary**2 + squares)
    beta = module.where(is_plain, real, -module.copysign(norm, real))
    one = module.ones_like(beta)
    tau = module.where(is_plain, 0 * alpha, (beta - alpha) / module.where(is_plain, one, beta))
    v = x
    v[..., 1:] = rest / module.where(is_plain, 0 * alpha + 1, alpha - beta)[..., None]
    v[..., 0] = 1
    return v, tau, beta * size


def _from_left(kind: Kind, A: Array, v: Array, tau: Array) -> None:
    """A becomes H^H A."""
    products = kind.matmul(kind.conj(v)[..., None, :], A)
    A -= v[..., :, None] * (kind.conj(tau)[..., None, None] * products)


def _from_right(kind: Kind, A: Array, v: Array, tau: Array) -> None:
    """A becomes A H."""
    products = kind.matmul(A, v[..., :, None])
    A -= (products * tau[..., None, None]) * kind.conj(v)[..., None, :]


def _parts(kind: Kind, A: Array) -> tuple[Array, Array, Array, int]:
    dtype, order = kind.view(A, "a").dtype, A.shape[-1]
    real = REAL[dtype]
    Q = identity(kind, tuple(A.shape), dtype, A)
    D, E = (zeros(kind, (*A.shape[:-2], length), real, A) for length in (order, order - 1))
    return Q, D, E, order


def _tridiagonal(kind: Kind, task: Task, A: Array) -> Found:
    Q, D, E, order = _parts(kind, A)
    with np.errstate(all="ignore"):
        for k in range(order - 1):
            v, tau, E[..., k] = _reflector(kind, A[..., k + 1 :, k])
            D[..., k] = A[..., k, k].real
            _from_left(kind, A[..., k + 1 :, k + 1 :], v, tau)
            _from_right(kind, A[..., k + 1 :, k + 1 :], v, tau)
            if "Q" in task.parts:
                _from_right(kind, Q[..., k + 1 :], v, tau)
    D[..., -1] = A[..., -1, -1].real
    return {"Q": Q, "D": D, "E": E} if "Q" in task.parts else {"D": D, "E": E}


def _bidiagonal(kind: Kind, task: Task, A: Array) -> Found:
    U, D, E, order = _parts(kind, A)
    V, wanted = copied(kind, U), "U" in task.parts
    with np.errstate(all="ignore"):
        for k in range(order):
            v, tau, D[..., k] = _reflector(kind, A[..., k:, k])
            _from_left(kind, A[..., k:, k + 1 :], v, tau)
            if wanted:
                _from_right(kind, U[..., k:], v, tau)
            if k + 1 < order:
                v, tau, E[..., k] = _reflector(kind, kind.conj(A[..., k, k + 1 :]))
                _from_right(kind, A[..., k:, k + 1 :], v, tau)
                if wanted:
                    _from_right(kind, V[..., k + 1 :], v, tau)
    return {"U": U, "D": D, "E": E, "VH": adjoint(kind, V)} if wanted else {"D": D, "E": E}
