"""Operands for the benchmark: two large random buffers per real type, made once, and views of them for every case.

Drawing gigabytes for each case would take longer than measuring it. Buffers are drawn per real type, never
reinterpreted: the bits of doubles read as floats would be NaN and denormals, which run at another speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod, sqrt
from typing import Any

import numpy as np

import mansard as ms

from ..plan.problem import REAL
from ..testing import array_module
from .batched.operations import BATCHED, SOLVES, offsets, ragged_sizes
from .cases import Case
from .declared import contest as declared
from .declared.operations import DECLARED
from .factor import data as factor_data
from .factor.operations import FACTORS, STACKED
from .operations import both_large
from .random import data as random_data
from .random.operations import DRAWN
from .sparse import data as sparse_data
from .sparse.operations import SPARSE

_ALIGN = 256  # words: every operand starts as a fresh allocation would
_MOST_SETS = 512


class Operands:
    """Views of the buffers; `index` numbers disjoint copies for rotating through memory."""

    def __init__(self, backend_name: str, cases: Iterable[Case], cache_bytes: int, seed: int = 7) -> None:
        self.xp = array_module(backend_name)
        self.cache_bytes = cache_bytes
        self.matrices = sparse_data.Matrices(self.xp, backend_name)
        self._numbers = random_data.Numbers(self.xp)
        self._seed = seed
        self._sizes: dict[tuple[str, str], int] = {}
        for case in (each for given in cases for each in (given, *((given.uniform,) if given.is_ragged else ()))):
            for which in "AB":
                copies = self.sets(case) if which == "A" or both_large(case.operation) else 1
                place = (which, REAL[case.dtype])
                self._sizes[place] = max(self._sizes.get(place, 0), self._stride(case, which) * copies)
        self._buffers: dict[tuple[str, str], Any] = {}

    def sets(self, case: Case) -> int:
        """How many operand pairs a case cycles through, so that each is out of cache when its turn comes."""
        if case.mode not in ("graph", "eager") or case.temperature != "cold":
            return 1
        return max(1, min(_MOST_SETS, -(-2 * self.cache_bytes // case.bytes)))

    def pair(self, case: Case, index: int = 0) -> tuple[Any, Any]:
        """A and B of the case; B is None for gram(A) and cholesky_qr, and the same in every pair where it is small."""
        if case.operation in SPARSE:
            return self.matrices.pair(case)
        if case.operation in DRAWN:
            return random_data.pair(self._numbers, case.drawn)
        A = self._view("A", case, index)
        if case.operation in BATCHED:
            return self._batch(case, A, self._view("B", case, index))
        if case.operation in FACTORS:
            return factor_data.pair(self.xp, case, A, self._view("B", case, index))
        if case.operation in DECLARED:
            return declared.pair(self.xp, case, A, self._view("B", case, index))
        if case.operation == "cholesky_qr":
            return self.conditioned(A, case.condition), None
        if case.operation == "project":  # columns about orthonormal, as they should be
            A = A / self.xp.asarray(sqrt(case.K), A.dtype)
        if case.same:
            return A, None
        return A, self._view("B", case, index if both_large(case.operation) else 0)

    def _batch(self, case: Case, A: Any, B: Any) -> tuple[Any, Any]:
        if case.operation == "ragged":
            return self._ragged(case, A, case.M), self._ragged(case, B, case.N)
        return (self._solvable(A) if case.operation in SOLVES else A), B

    def _solvable(self, A: Any) -> Any:
        """Rows of A divided by their length, and a diagonal of magnitude 1 and more: solutions neither grow nor vanish,
        whichever triangle counts. The other one holds numbers that matter to whoever reads them."""
        size = A.shape[-1]
        A, every = A / self.xp.asarray(size, A.dtype), list(range(size))
        diagonal = A[:, every, every]
        A[:, every, every] = self.xp.where(diagonal.real < 0, -1, 1) * (1 + abs(diagonal))
        return A

    def _ragged(self, case: Case, buffer: Any, columns: int) -> Any:
        sizes, starts = ragged_sizes(case.M, case.K), offsets(case.M, case.K, columns, case.dtype)[:-1]
        return ms.Ragged(buffer.reshape(-1), sizes, sizes if columns > 1 else 1, starts)

    def conditioned(self, A: Any, condition: float) -> Any:
        """A times a square matrix with singular values from 1 down to 1 / condition. A itself is random and tall, which
        is to say as well conditioned as can be."""
        columns = A.shape[1]
        rng = np.random.default_rng(self._seed)
        left, right = (np.linalg.qr(rng.standard_normal((columns, columns)))[0] for _ in range(2))
        values = np.logspace(0, -np.log10(max(1.0, condition)), columns)
        return self.xp.matmul(A, self.xp.asarray((left * values) @ right.T, A.dtype))

    def empty(self, case: Case) -> Any:
        """Memory for the result; zeros where a product is added to it, or a system is solved in its place."""
        if case.operation in DRAWN:
            return random_data.empty(self.xp, case.drawn)
        zeros = case.accumulate or case.operation in SOLVES
        made = (self.xp.zeros if zeros else self.xp.empty)(case.shapes[2], case.dtype)
        if case.operation in FACTORS and case.is_ragged:
            return factor_data.ragged(case, made, 1 if case.operation == "solve" else case.M)
        return self._ragged(case, made, case.N) if case.operation == "ragged" else made

    def release(self, real: str) -> None:
        """Give a type's buffers back when no more cases need them."""
        self.matrices.release()
        for which in ("A", "B"):
            self._buffers.pop((which, real), None)

    def _words(self, case: Case, which: str) -> tuple[int, int]:
        """Lines of an operand, that is rows or columns, and words per element."""
        *stack, rows, columns = case.shapes[which == "B"]
        rows *= prod(stack)  # of all matrices
        return columns if case.layout_of(which) == "col" else rows, 2 if case.dtype.startswith("complex") else 1

    def _stride(self, case: Case, which: str) -> int:
        lines, words = self._words(case, which)
        return -(-(lines * case.pitch(which) * words + 2) // _ALIGN) * _ALIGN

    def _view(self, which: str, case: Case, index: int) -> Any:
        (lines, words), pitch, layout = self._words(case, which), case.pitch(which), case.layout_of(which)
        start = index * self._stride(case, which) + (1 if layout == "unaligned" else 0)
        flat = self._buffer(which, REAL[case.dtype])[start : start + lines * pitch * words].view(case.dtype)
        body = flat.reshape(lines, pitch)
        if case.operation in (*STACKED, *DECLARED):
            return body.reshape(case.shapes[which == "B"])
        return body.T if layout == "col" else body[:, : case.shapes[which == "B"][1]]

    def _buffer(self, which: str, real: str) -> Any:
        key = (which, real)
        if key not in self._buffers:
            rng = self.xp.random.default_rng(self._seed + (which == "B"))
            size = self._sizes[key]
            if self.xp.__name__ == "numpy":  # one core draws: a tenth of the words, repeated, is random enough
                drawn = rng.standard_normal(max(1, min(size, max(1 << 20, size // 10 | 1))), dtype=real)
                self._buffers[key] = self.xp.resize(drawn, size)
            else:
                self._buffers[key] = rng.standard_normal(size, dtype=real)
        return self._buffers[key]
