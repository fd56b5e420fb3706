"""Runs a planned batch of rank-k updates: by one kernel, or by a product of which a triangle counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays.types import Matrices
from ...kernels.batched.rank_k import emit
from .. import run as call
from ..direct import Direct, described
from .gemm_run import BatchRun
from .rank_products import Update


class UpdateRun(BatchRun):
    """Runs a plan as for products. With one factor, calls have no B, and kernels get A twice."""

    emit = emit
    names = ("a", "b")
    form: Update
    product: Callable[..., Matrices]  # the update by a product, where no kernel answers

    def _result_shape(self) -> tuple[int, ...]:
        rows = self.given[0].rows
        return (*self.batch.shape, rows, rows)

    def _by_library(self) -> Callable[..., Matrices]:
        return self.general

    def _make_fast(self) -> Callable[..., Matrices]:
        if self.form.two:
            return super()._make_fast()
        address, stream, plain, general = self.kind.address, self.stream, self.launch, self.general
        empty, shape, dtype, apart = self.kind.empty, self.shape, self.problem.dtype, self._check_apart
        unit = call.scalars(self.problem, 1.0, 0.0)
        (first_a, last_a), (first_c, last_c) = self._reach[0], (*self._reach, (0, 0))[2]

        held: tuple[Any, ...] = (None,) * 4  # the last factors, and what they mean

        def fast(
            A: Matrices, B: Matrices = None, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
        ) -> Matrices:
            nonlocal held
            launch, scaling = plain, unit
            if alpha != 1.0 or beta != 0.0:
                own = held  # another thread may put its own there meanwhile
                if own[0] != alpha or own[1] != beta:
                    own = held = (alpha, beta, *self._scaled(alpha, beta))
                launch, scaling = own[2:]
                if launch is None or (out is None and beta != 0.0):
                    return general(A, None, out, alpha, beta)
            a = address(A)
            if out is None:
                out = empty(shape, dtype, A)
                c = address(out)
            else:
                c = address(out)
                if a + first_a < c + last_c and c + first_c < a + last_a:
                    apart(A, A, out)
            launch((a, a, c), scaling, stream())
            return out

        return described(fast, self._direct(shape))

    def _direct(self, shape: tuple[int, ...], like: int = 0, in_place: int = 0) -> Direct:
        found = super()._direct(shape, like, in_place)
        return found if self.form.two else found._replace(order=(0, 0, 2))

    def general(
        self, A: Matrices, B: Matrices = None, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        """The update with scaling, copies, lists, several launches, or by a product."""
        if out is None and beta != 0.0:
            raise ValueError("beta scales the content of out: pass out")
        if self.launch is None or (self.copies[2] and out is not None):
            call.scalars(self.problem, alpha, beta)
            return self.product(A, B, out, alpha, beta)
        return super().general(A, A if B is None else B, out, alpha, beta)

    def _vendor(self, A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex) -> Matrices:
        return self.product(A, B, out, alpha, beta)
