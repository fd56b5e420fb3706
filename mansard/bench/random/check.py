"""Is a result of a drawn problem right? Some matrices of a batch, first and last included; tall ones entirely."""

from __future__ import annotations

from typing import Any

import numpy as np

from .operations import Source, dense, kind

_ENTRIES = 1 << 19  # of A that are compared
_MOST = 32  # matrices
_SEED = 23


class Reference:
    """Operands of some matrices in double precision."""

    def __init__(self, source: Source, A: Any, B: Any) -> None:
        self.drawn = dense(source)
        self.kind, self.A, self.B = kind(self.drawn), A, B
        self.is_ragged = not self.drawn.operands
        if self.kind.by_matrix:
            lead = self.drawn.operands[0].shape[:-2] if self.drawn.operands else ()
            shared = [one for one in self.drawn.operands[1:] if len(one.shape) > len(self.drawn.operands[0].shape)]
            self.count = int(self.drawn.sizes["batch"])
            self.stacked = bool(lead) or bool(shared) or self.is_ragged
            self.chosen = _chosen(self.count, self._entries())
            self.sample = self._some(A), self._some(B)

    def prepare(self, out: Any, in_place: bool = False) -> None:
        """Fill a result with NaN, so that an entry that is not written is found."""
        if out is not None:
            out.fill(np.nan)

    def error(self, result: Any) -> float:
        """The largest error in units of its bound; at most 1 is right."""
        if not self.kind.by_matrix:
            return self.kind.error(self.drawn, self.A, self.B, result)
        if self.drawn.operation == "lstsq" and isinstance(result, tuple):
            result = result[0]  # residuals, ranks and singular values follow
        if not self._is_plausible(result):
            return float("inf")
        return self.kind.error(self.drawn, *self.sample, self._some(result, True))

    def _is_plausible(self, result: Any) -> bool:
        """Whether there are as many matrices as there should be, and no entry of any of them is NaN."""
        if self.is_ragged:
            return len(result) == self.count
        parts = [one for one in (result if isinstance(result, tuple) else (result,)) if one is not None]
        if self.stacked and any(np.ndim(one) and len(one) != self.count for one in parts):
            return False
        one_triangle = self.drawn.operation in ("syrk", "herk") and self.drawn.result is not None
        return one_triangle or all(bool(abs(one.sum()) < np.inf) for one in parts)

    def _entries(self) -> int:
        if self.is_ragged:
            return int(self.drawn.sizes["most"]) ** 2
        return int(max(np.prod(one.shape[-2:]) for one in self.drawn.operands))

    def _some(self, operand: Any, is_result: bool = False) -> Any:
        """Some matrices on the host, stacked, in double precision; a shared operand is one for all of them."""
        if operand is None or isinstance(operand, bool):
            return operand
        if self.is_ragged:
            return [_wide(_host(operand[int(at)])) for at in self.chosen]
        if isinstance(operand, tuple):
            return tuple(self._some(one, is_result) for one in operand)
        if not self.stacked:
            return _wide(_host(operand))[None]
        if not is_result and np.ndim(operand) == 2 and len(self.drawn.operands) > 1 and self._is_shared(operand):
            return _wide(_host(operand))[None]
        chosen = self.chosen if isinstance(operand, np.ndarray) else self._on_device(operand)
        return _wide(_host(operand[chosen]))

    def _is_shared(self, operand: Any) -> bool:
        """Whether a matrix serves the whole batch; a stack of vectors has as many axes."""
        return any(operand is given and len(one.shape) == 2 and self.drawn.operation in ("gemm", "matmul-stack")
                   for given, one in zip((self.A, self.B), self.drawn.operands, strict=False))  # fmt: skip

    def _on_device(self, operand: Any) -> Any:
        import cupy

        return cupy.asarray(self.chosen)


def _chosen(count: int, entries: int) -> Any:
    """Numbers of the matrices that are compared: all, or some."""
    most = max(2, min(_MOST, _ENTRIES // max(1, entries)))
    if count <= most:
        return np.arange(count)
    return np.unique([0, count - 1, *np.random.default_rng(_SEED).integers(0, count, most - 2)])


def _wide(array: Any) -> Any:
    array = np.asarray(array)
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def _host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array
