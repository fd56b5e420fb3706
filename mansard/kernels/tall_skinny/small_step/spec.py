"""Which problems `small_step` accepts, what it answers, and how its state lies in memory."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs
from ..sketch import spec as sketch

LONG: tuple[str, ...] = ()  # one matrix, one block: no size in which a record may differ
SHAPES: dict[str, tuple[str, str]] = {}  # G, S and R have no gaps
shape = partial(operands.shape, SHAPES)


class Status(IntEnum):
    """What became of a step; the kernel knows these numbers by the same names."""

    TRUSTED = 1  # the next block is near enough to an orthonormal one for its step to be the last
    SHIFTED = 2  # it may need more
    LAST = 3  # it is orthonormal, and R is there
    DECLINED = 4  # S is the identity and nothing has changed: the host decides
    SKETCHED = 5  # a sketch planned it: the next block is well conditioned, and its step the last


class Rules(NamedTuple):
    """Number and thresholds of a step; `operations/tall_skinny/small_factors.py` derives the thresholds."""

    number: float
    roundoff: float
    near: float
    safe: float
    cancellation: float
    shift: float
    weak: float
    least: float  # norm of a column whose square does not underflow


def problem(dtype: str, N: int, sketched: bool = False) -> Problem:
    """A step of a block of N columns, from its Gram matrix or a sketch; G, Y, S and R are row-major without gaps."""
    return Problem("small_step", dtype, (("N", N),), (("sketched", sketched),))


def strides(problem: Problem) -> tuple[int, ...]:
    """Nothing: G, S and R have no gaps."""
    return ()


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.N < 1:
        return "small_step: no columns"
    if problem.sketched and problem.N * (2 if problem.is_complex else 1) > sketch.WIDEST_WITH_GRAM:
        return f"small_step: no sketch of {problem.N} columns comes with their Gram matrix"
    return None


def reference(G: Any) -> tuple[Any, Any]:
    """The answer in NumPy where nothing has to be shifted or turned: S = R^-1 and R with R^H R = G."""
    R = np.linalg.cholesky(G).conj().T
    return np.linalg.inv(R), R


def state_bytes(problem: Problem) -> int:
    """Whether to go on, the norms of the columns, the factor twice: before and after a step."""
    wide = 16 if problem.is_complex else 8
    return int(8 + problem.N * 8 + 2 * problem.N**2 * wide)


def state_parts(problem: Problem, state: Any, count: int) -> tuple[Any, Any]:
    """Norms and factor, from the bytes of the state before step `count` (at least the second)."""
    n, wide = problem.N, np.dtype("complex128" if problem.is_complex else "float64")
    norms = np.frombuffer(state, "float64", n, 8)
    factor = np.frombuffer(state, wide, n * n, 8 + n * 8 + (count - 1) % 2 * n * n * wide.itemsize)
    return norms, factor.reshape(n, n)
