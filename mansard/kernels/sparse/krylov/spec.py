"""Which problems `krylov` accepts, what its passes do, and how state and mailbox lie in memory."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import REAL, Problem
from ...common import operands, specs

LONG = ("ROWS",)  # a record answers for vectors of any length
SHAPES: dict[str, tuple[str, str]] = {}  # vectors have no gaps
shape = partial(operands.shape, SHAPES)
STATE_BYTES = 256  # of the state in the memory of the vectors: 32 doubles
SOLVERS = ("cg", "minres")


class Phase(IntEnum):
    """Passes of conjugate gradients; kernels know these numbers by the same names."""

    BEGIN = 0  # rho = r^H D r and the residual's norm
    START = 1  # p = D r
    CURVATURE = 2  # p^H q, which gives the step alpha
    RESIDUAL = 3  # r -= alpha q, rho, the residual's norm; it is posted
    DIRECTION = 4  # x += alpha p, p = D r + beta p


class Lanczos(IntEnum):
    """Passes of the minimal residual method."""

    SCALE = 0  # v = r / |r|, where the norm is the launch's
    PROJECT = 1  # u -= shift v + beta v_before, alpha = v^H u
    NORM = 2  # u -= alpha v and its norm, which give the rotation; the residual's norm is posted
    UPDATE = 3  # w and x; u becomes the next v


class Word(IntEnum):
    """Words of the state, doubles; scalars.hpp has the same."""

    STATUS = 0
    LIVE = 1  # whether the iteration is to change x
    COUNT = 2  # iterations that did
    LEFT = 3  # norm of the residual
    ALPHA = 4
    BETA = 5
    CURVED = 6  # p^H q
    RHO = 7
    FIRST = 8  # the first rho
    OF_W = 15  # factors of UPDATE
    OF_W_BEFORE = 16
    OF_X = 17
    OF_U = 18


class Status(IntEnum):
    """State of the iterations so far; kernels know these numbers by the same names."""

    RUNNING = 1
    DONE = 2  # the goal is reached, or nothing but rounding is left, or numbers are not finite
    INDEFINITE = 3  # p^H A p is not positive
    SINGULAR = 4  # the last column of the tridiagonal matrix adds nothing


def problem(dtype: str, ROWS: int, solver: str = "cg") -> Problem:
    """The passes over vectors of ROWS entries; complex ones are vectors of twice as many real numbers."""
    return Problem("krylov", dtype, (("ROWS", ROWS),), (("solver", solver),))


def strides(problem: Problem) -> tuple[int, ...]:
    """The pass, by its number."""
    return (int(Phase.DIRECTION if problem.solver == "cg" else Lanczos.UPDATE),)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.solver not in SOLVERS:
        return f"krylov: solver {problem.solver!r} is not one of {', '.join(SOLVERS)}"
    return "krylov: vectors without entries" if problem.ROWS < 1 else None


def real(dtype: str) -> Any:
    """NumPy's dtype of the real numbers that a vector consists of."""
    return np.dtype(REAL[dtype])


def words(problem: Problem) -> int:
    """Real numbers of a vector."""
    return int(problem.ROWS * (2 if problem.is_complex else 1))


def reference(x: Any, r: Any, p: Any, q: Any, d: Any) -> tuple[Any, Any, Any]:
    """One iteration of conjugate gradients: the next x, r and p, from q = A p and M = diag(d)."""
    rho = np.vdot(r, d * r).real
    alpha = rho / np.vdot(p, q).real
    following = r - alpha * q
    return x + alpha * p, following, d * following + np.vdot(following, d * following).real / rho * p
