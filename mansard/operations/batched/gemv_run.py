"""Runs a planned batch of matrices times vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels.batched.gemv import emit
from .. import run as call
from .. import stacks
from .gemm_run import BatchRun


class VectorRun(BatchRun):
    """As for products; x and the result lack the dimension of length one that they have as matrices."""

    def _launch_that_reads(self) -> Any:
        if not self._accumulating:
            problem = self.problem.replace(accumulate=True)
            self._accumulating.append(call.prepare(emit, problem, self.backend, self.batch.strides)[0])
        return self._accumulating[0]

    def _check_apart(self, A: Any, x: Any, out: Any) -> None:
        for name, side, array in (("a", 0, A), ("x", 1, x)):
            if self._overlaps(side, array, out):
                raise ValueError(f"out overlaps {name}: the result needs memory of its own")

    def _overlaps(self, side: int, array: Any, out: Any) -> bool:
        """Of lists, only equal addresses are found; what their arrays share otherwise is the caller's business."""
        if self.listed or self.given[2].listed:
            places = self._matrices(2, out)
            if len(np.unique(places)) < len(places):
                raise ValueError("out holds an array twice: every product needs a place of its own")
            return bool(np.isin(self._matrices(side, array), places).any())
        low, high = (self.kind.address(out) + end for end in self._reach[2])
        at, (first, last) = self.kind.address(array), self._reach[side]
        return at + first < high and low < at + last and self._share(side, array, out)

    def _vendor(self, A: Any, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
        """The array library's own product; also the answer to empty problems."""
        if self.listed:
            A, x = (_one_each(one, self.batch.shape[0], 2 - side) for side, one in enumerate((A, x)))
        return super()._vendor(A, x, out, alpha, beta)

    def _product(self, A: Any, x: Any, alpha: complex) -> Any:
        A, x = self._turned(A, x)
        product = self.kind.matmul(A, x[..., None])[..., 0]
        return product if alpha == 1.0 else product * alpha

    def _turned(self, A: Any, x: Any) -> tuple[Any, Any]:
        if self.form.trans_a:
            A = A.swapaxes(-1, -2)
        return (self.kind.conj(A) if self.form.conj_a and self.problem.is_complex else A), x


def _one_each(operand: Any, count: int, dimensions: int) -> Any:
    """A list of as many as there are products."""
    if stacks.is_list(operand):
        return operand
    if len(operand.shape) == dimensions:
        return [operand] * count
    return [operand[i if len(operand) > 1 else 0] for i in range(count)]
