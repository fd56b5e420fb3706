"""Later products of ragged batches in the CPU's memory: of layouts that were multiplied before, checks are two
comparisons, and the result is one allocation and one launch."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from ...arrays.kinds import View
from ...arrays.types import Matrices
from ...plan import pin
from ..ragged import Ragged, is_as_described
from ..ragged_layout import Layout

if TYPE_CHECKING:
    from .ragged_run import RaggedRun

_UNSCALED = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0
_HOST = ("cpu", 0)
_PLAIN_KEY = (False,)  # of a run's launch without accumulation and without pins


class WarmProduct:
    """Products of batches with two layouts, without factors or a place for the result. It holds neither layout."""

    def __init__(self, run: RaggedRun, result: tuple[Layout, int], tables: tuple[int, ...], dtype: str) -> None:
        self._run, self._layout, self._tables = run, result[0], tables
        self._dtype, self._name, self._elements = np.dtype(dtype), dtype, result[1]

    def __call__(self, A: Ragged, B: Ragged) -> Ragged | None:
        """A_i B_i; None: the buffers are others than they were when they were described, or of another kind."""
        kind, name = self._run.kind, self._name
        if A._kind is not kind or B._kind is not kind or A._view.dtype != name or B._view.dtype != name:
            return None
        launch, wide = self._run._launches.get(_PLAIN_KEY, (None, None))
        if launch is None or wide or not (is_as_described(A) and is_as_described(B)):
            return None
        buffer = np.empty(self._elements, self._dtype)
        view = View(kind.address(buffer), buffer.shape, (1,), name, _HOST, False)
        made = Ragged._of(kind, buffer, self._layout, view)
        launch((A._view.address, B._view.address, view.address, *self._tables), _UNSCALED, 0)
        return made


def recall(A: Matrices, B: Matrices, out: Matrices, factors: tuple[complex, complex], key: Hashable) -> Ragged | None:
    """The product, where batches of the same layouts were multiplied before; None: look at them closely."""
    if out is not None or factors != (1.0, 0.0) or type(A) is not Ragged or type(B) is not Ragged or pin.pins():
        return None
    pair = A.layout.pairs.get(B.layout)
    warm: WarmProduct | None = None if pair is None else pair.warm.get(key)
    return None if warm is None else warm(A, B)
