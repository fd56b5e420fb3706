"""Operands for the benchmark: two large random buffers per real type, made once, and views of them for every case.

Drawing gigabytes for each case would take longer than measuring it. Buffers are drawn per real type, never
reinterpreted: the bits of doubles read as floats would be NaN and denormals, which run at another speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..plan.problem import REAL
from ..testing import array_module
from .cases import Case

_ALIGN = 256  # words: every operand starts as a fresh allocation would
_MOST_SETS = 512


class Operands:
    """Views of the buffers; `index` numbers disjoint copies for rotating through memory."""

    def __init__(self, backend_name: str, cases: Iterable[Case], cache_bytes: int, seed: int = 7) -> None:
        self.xp = array_module(backend_name)
        self.cache_bytes = cache_bytes
        self._seed = seed
        self._sizes: dict[str, int] = {}
        for case in cases:
            widest = case.M if case.operation == "tsmm" else max(case.M, case.N)
            need = max(self._stride(case, widest) * self.sets(case), 2 * case.M * case.N)
            real = REAL[case.dtype]
            self._sizes[real] = max(self._sizes.get(real, 0), need)
        self._buffers: dict[tuple[str, str], Any] = {}

    def sets(self, case: Case) -> int:
        """How many operand pairs a case cycles through, so that each is out of cache when its turn comes."""
        if case.mode not in ("graph", "eager") or case.temperature != "cold":
            return 1
        return max(1, min(_MOST_SETS, -(-2 * self.cache_bytes // case.bytes)))

    def pair(self, case: Case, index: int = 0) -> tuple[Any, Any]:
        """A and B of the case; B is None for gram(A), and small for tsmm."""
        A = self._view("A", case, case.M, index)
        if case.operation == "tsmm":
            words = case.M * case.N * (2 if case.dtype.startswith("complex") else 1)
            return A, self._buffer("B", REAL[case.dtype])[:words].view(case.dtype).reshape(case.M, case.N)
        return A, None if case.same else self._view("B", case, case.N, index)

    def release(self, real: str) -> None:
        """Give a type's buffers back when no more cases need them."""
        for which in ("A", "B"):
            self._buffers.pop((which, real), None)

    def _stride(self, case: Case, columns: int) -> int:
        lines = columns if case.layout == "col" else case.K
        words = lines * case.pitch(columns) * (2 if case.dtype.startswith("complex") else 1)
        return -(-(words + 2) // _ALIGN) * _ALIGN

    def _view(self, which: str, case: Case, columns: int, index: int) -> Any:
        lines, pitch = (columns if case.layout == "col" else case.K), case.pitch(columns)
        words = lines * pitch * (2 if case.dtype.startswith("complex") else 1)
        start = index * self._stride(case, columns) + (1 if case.layout == "unaligned" else 0)
        flat = self._buffer(which, REAL[case.dtype])[start : start + words].view(case.dtype)
        body = flat.reshape(lines, pitch)
        return body.T if case.layout == "col" else body[:, :columns]

    def _buffer(self, which: str, real: str) -> Any:
        key = (which, real)
        if key not in self._buffers:
            rng = self.xp.random.default_rng(self._seed + (which == "B"))
            size = self._sizes[real]
            if self.xp.__name__ == "numpy":  # one core draws: a tenth of the words, repeated, is random enough
                drawn = rng.standard_normal(max(1, min(size, max(1 << 20, size // 10 | 1))), dtype=real)
                self._buffers[key] = self.xp.resize(drawn, size)
            else:
                self._buffers[key] = rng.standard_normal(size, dtype=real)
        return self._buffers[key]
