"""Which problems `sketch` accepts, and the sign matrix in NumPy (signs.hpp has the same)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....plan.problem import Problem
from ...common import operands, specs

WIDEST = 128
WIDEST_WITH_GRAM = 48  # real columns whose sums of A^H A and of the sketch fit into registers
GROUPS = 8  # of rows of Y; a row of A is added to all rows of one group
SCALE = 0.25  # of signs: the columns of Y are about as long as those of A
LONG = ("K",)  # sizes in which a tuning record may differ from the problem it answers
SHAPES = {"a": ("K", "N")}  # rows and columns of the operand that has a pitch
shape = partial(operands.shape, SHAPES)


def problem(
    dtype: str, N: int, K: int, *, layout_a: str = "row", pitch_a: int | None = None, aligned: bool = True
) -> Problem:
    """A sketch of a K x N matrix."""
    pitch = (N if layout_a == "row" else K) if pitch_a is None else pitch_a
    traits = (("layout_a", layout_a), ("pitch_a", pitch), ("aligned", aligned))
    return Problem("sketch", dtype, (("N", N), ("K", K)), traits)


def signs(columns: int) -> int:
    """Rows of a group: with eight groups Y has at least 2.6 rows per column, which bounds the condition of
    A R^-1 (R: the factor of Y) by about 8."""
    return 16 * -(-columns // 48)


def rows(columns: int) -> int:
    """Rows of Y."""
    return GROUPS * signs(columns)


def strides(problem: Problem) -> tuple[int, ...]:
    """Strides of A, rows then columns, in elements; then the seed of the signs."""
    row, column = (problem.pitch_a, 1) if problem.layout_a == "row" else (1, problem.pitch_a)
    return (row, column, 0)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    return specs.unknown_dtype(problem) or specs.too_wide(problem, WIDEST, "N")


def reference(A: Any, seed: int = 0) -> tuple[Any, Any]:
    """Y and A^H A in NumPy, in the operand's own precision."""
    return sign_matrix(A.shape[0], A.shape[1], seed).astype(A.real.dtype) @ A, A.conj().T @ A


def sign_matrix(length: int, columns: int, seed: int = 0, first: int = 0) -> Any:
    """S / 4 for `length` rows, from row `first` on, of a matrix with so many columns."""
    row, count = np.arange(first, first + length, dtype="uint64"), signs(columns)
    turn = _scrambled_with(row // GROUPS, _key(seed, 1)) % GROUPS
    group = (row % GROUPS) ^ turn
    S = np.zeros((GROUPS * count, length))
    for i in range(count):
        word = _scrambled_with(row, (_key(seed, 2) + i // 32 * 0x9E3779B9) & _WORD)
        negative = (word >> np.uint64(i % 32)) & 1
        S[group * np.uint64(count) + np.uint64(i), row - np.uint64(first)] = np.where(negative, -SCALE, SCALE)
    return S


_WORD = 0xFFFFFFFF


def _scrambled(x: Any) -> Any:
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _WORD
    return x ^ (x >> 16)


def _key(seed: int, salt: int) -> int:
    return int(_scrambled(_scrambled(((seed & _WORD) + salt) & _WORD) ^ (seed >> 32)))


def _scrambled_with(number: Any, key: int) -> Any:
    return _scrambled((number & _WORD) ^ (((number >> 32) * 0x9E3779B9) & _WORD) ^ key)
