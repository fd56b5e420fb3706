"""A drawn problem: operands with their places in memory, options, and the dice that draw them.

Everything is a function of the seed, the problem's number and the memory that operands and result may take together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...machine.roofline import Work
from ...plan.problem import ITEMSIZE

T = TypeVar("T")
Shape = tuple[int, ...]
LEAST_BYTES = 1 << 12  # of the smallest problems: one of these costs its call alone
FLOPS_PER_BYTE = 16.0  # of the memory limit: 2 GFLOP where it is 128 MiB, fractions of a second of two cores
_SLACK = 6  # arrays of the largest matrix that a problem may consist of, with padding
DTYPES = {"float64": 0.4, "float32": 0.25, "complex128": 0.2, "complex64": 0.15}
LAYOUTS = {
    "row": 0.4, "column": 0.18, "padded rows": 0.1, "padded columns": 0.08, "shifted": 0.08, "every other": 0.06,
    "gaps": 0.05, "batch last": 0.05,
}  # fmt: skip


class Operand(NamedTuple):
    """An array: its shape, and where its entries lie."""

    shape: Shape
    layout: str = "row"  # of LAYOUTS
    padding: int = 0  # elements between lines (padded ...), matrices between matrices (gaps)

    @property
    def entries(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape))} {self.layout}{f' +{self.padding}' if self.padding else ''}"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A problem. `operation` is a name of `operations.KINDS`."""

    operation: str
    dtype: str
    operands: tuple[Operand, ...]
    sizes: Mapping[str, Any]  # by their names in formulas: m, n, k, batch; arrays of them for ragged batches
    work: Work
    result: Shape | None = None  # of `out`; None: the call makes its results anew
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes of operands and result, padding left out."""
        return (sum(one.entries for one in self.operands) + math.prod(self.result or (0,))) * ITEMSIZE[self.dtype]

    def __str__(self) -> str:
        """The problem on one line, for tables."""
        parts = [self.dtype, "; ".join(map(str, self.operands)) or self._sizes()]
        parts += [f"{name}={value!r}" for name, value in self.options.items()]
        return ", ".join([*parts, *(["out"] if self.result else [])])

    def _sizes(self) -> str:
        """The sizes of a ragged batch."""
        return f"{self.sizes['batch']} matrices to {self.sizes['most']}, {self.sizes['law']}"


class Dice:
    """Random numbers of one problem."""

    def __init__(self, seed: int, number: int, memory: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64([seed, number]))
        self.memory = memory

    def choose(self, weights: Mapping[T, float]) -> T:
        """A key, as often as its weight says."""
        names, place = list(weights), self._rng.random() * sum(weights.values())
        for name in names:
            place -= weights[name]
            if place < 0:
                return name
        return names[-1]

    def one_of(self, values: Sequence[T]) -> T:
        return values[int(self._rng.integers(len(values)))]

    def chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def log(self, low: int, high: int) -> int:
        """An integer in [low, high], all orders of magnitude alike."""
        drawn = math.exp(self._rng.uniform(math.log(low), math.log(high + 1)))
        return max(low, min(high, int(drawn)))

    def side(self, high: int, low: int = 1) -> int:
        """A side of a small matrix; the memory limit lowers `high`."""
        return self.log(low, max(low, min(high, math.isqrt(self.memory // (_SLACK * 16)))))

    def dtype(self) -> str:
        return self.choose(DTYPES)

    def long(self, dtype: str, elements: float, flops: float = 0.0, least: int = 1) -> int:
        """The long size: rows of a tall matrix, matrices of a batch. The bytes of operands and result are drawn
        log-uniformly; `elements` and `flops` are those of a row, or of a matrix."""
        room = self.log(min(LEAST_BYTES, self.memory), self.memory)
        found = room / (elements * ITEMSIZE[dtype])
        if flops:
            real = 4 if dtype.startswith("complex") else 1
            found = min(found, FLOPS_PER_BYTE * self.memory / (real * flops))
        return max(least, int(found))

    def operand(self, shape: Shape, plain: bool = False) -> Operand:
        """An operand somewhere in memory. Layouts that make no sense for a vector, or a single matrix, are rows."""
        layout = self.choose(LAYOUTS)
        padding = self.one_of((1, 2, 3, 5, 8, 13, 17))
        if layout in ("gaps", "batch last") and len(shape) < 3:
            layout = "row"
        if plain or len(shape) < 2:
            layout = "row"
        return Operand(shape, layout, padding if layout.startswith("padded") or layout == "gaps" else 0)

    def lengths(self, law: str, most: int, count: int) -> Any:
        """Sizes of a ragged batch, from 1 to `most`."""
        if law == "uniform":
            return self._rng.integers(1, most + 1, count)
        if law == "power law":  # a few large ones among many small ones
            return np.minimum(most, np.floor((1 - self._rng.random(count)) ** (-1 / 1.2))).astype(np.int64)
        small = max(1, most // 8)
        return np.where(self._rng.random(count) < 0.8, small, most).astype(np.int64)
