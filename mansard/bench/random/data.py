"""Arrays of a drawn problem: random numbers, placed in memory as the problem says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import mansard as ms

from ...plan.problem import REAL
from ..declared.systems import positive
from .operations import Source, dense, kind
from .problem import Drawn, Operand

_POOL = (1 << 20) + 7  # random words that are drawn; more repeat them, which is random enough and takes no time


class Numbers:
    """Random words on a device, drawn once; problems begin at different ones."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._pools: dict[str, Any] = {}

    def array(self, shape: tuple[int, ...], dtype: str, start: int) -> Any:
        """Normal numbers, row after row."""
        words = math.prod(shape) * (2 if dtype.startswith("complex") else 1)
        pool, first = self._pool(REAL[dtype]), start * 7919 % (_POOL // 2)
        if words <= _POOL - first:
            return pool[first : first + words].copy().view(dtype).reshape(shape)
        return self.xp.resize(pool[first:], words).view(dtype).reshape(shape)

    def _pool(self, real: str) -> Any:
        if real not in self._pools:
            self._pools[real] = self.xp.random.default_rng(7).standard_normal(_POOL, dtype=real)
        return self._pools[real]


def pair(numbers: Numbers, source: Source) -> tuple[Any, Any]:
    """The operands of a problem; B is None where there is none."""
    drawn, (seed, number, _) = dense(source), source
    start = seed + 131 * number
    if not drawn.operands:
        return _ragged(numbers, drawn, start)
    arrays = [placed(numbers, one, drawn.dtype, start + place) for place, one in enumerate(drawn.operands)]
    return kind(drawn).operands(numbers.xp, drawn, arrays[0], arrays[1] if len(arrays) > 1 else None)


def empty(xp: Any, source: Source) -> Any:
    """Memory for the result; None where the call makes it."""
    drawn = dense(source)
    return None if drawn.result is None else xp.empty(drawn.result, drawn.dtype)


def placed(numbers: Numbers, operand: Operand, dtype: str, start: int) -> Any:
    """An array of random numbers in its layout: a view of a larger one where that has gaps."""
    shape, layout, padding = operand.shape, operand.layout, operand.padding
    axes = list(range(len(shape)))
    if layout.endswith("column") or layout.endswith("columns"):
        axes[-2:] = axes[:-3:-1]
    elif layout == "batch last":
        axes = [*axes[1:], axes[0]]
    sides = [shape[axis] for axis in axes]  # from the slowest to the fastest
    if layout == "gaps":
        sides[0] *= 2 + padding % 2  # every second or third matrix of a longer stack
    elif layout.startswith("padded"):
        sides[-1] += padding
    elif layout == "every other":
        sides[-1] *= 2
    shift = int(layout == "shifted")
    flat = numbers.array((math.prod(sides) + shift,), dtype, start)
    view = flat[shift:].reshape(sides)
    if layout == "gaps":
        view = view[:: 2 + padding % 2]
    view = view[..., :: 2 if layout == "every other" else 1][..., : shape[axes[-1]]]
    return view.transpose([axes.index(axis) for axis in range(len(shape))])


def _ragged(numbers: Numbers, drawn: Drawn, start: int) -> tuple[Any, Any]:
    m, k, n = (drawn.sizes[name] for name in "mkn")
    if drawn.operation == "ragged-matmul":
        return _batch(numbers, drawn, m, k, start), _batch(numbers, drawn, k, n, start + 1)
    A, xp = _batch(numbers, drawn, m, m, start), numbers.xp
    offsets = np.cumsum(m * m) - m * m
    for size in np.unique(m).tolist():
        entries = xp.asarray(offsets[m == size, None] + np.arange(size * size))
        some = A.buffer[entries].reshape(-1, size, size)
        if drawn.operation == "ragged-cholesky":
            some = positive(xp, some)
        else:
            some[:, range(size), range(size)] += 2 * math.sqrt(size)
        A.buffer[entries] = some.reshape(entries.shape)
    return A, _batch(numbers, drawn, m, n, start + 1) if drawn.operation == "ragged-solve" else None


def _batch(numbers: Numbers, drawn: Drawn, rows: Any, columns: Any, start: int) -> Any:
    return ms.Ragged(numbers.array((int((rows * columns).sum()),), drawn.dtype, start), rows, columns)
