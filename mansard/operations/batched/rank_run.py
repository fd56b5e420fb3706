"""Runs a planned batch of rank-k updates: by one kernel, or by a product of which a triangle counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays.host_products import Matrix, RankK
from ...arrays.types import Matrices
from ...backends.base import Launch
from ...kernels.batched.rank_k import emit
from ...plan.route import REFERENCE
from .. import library_launch, stacks
from .. import run as call
from ..direct import Direct, described
from .gemm_run import BatchRun
from .rank_products import Update

_MANY = 64  # updates of one row: more are squares of vectors, which NumPy sums in one call


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
        """The fast path of NumPy's BLAS, which computes one triangle, where it can be called directly."""
        launch = self._on_host()
        if launch is None:
            return self.general
        device, dtype = self.given[0].view.device, self.problem.dtype
        place = library_launch.Place(self.kind, device, self.shape, dtype, tuple(self._reach), is_pair=False)
        return library_launch.fast_path(place, launch, self.general)

    def _on_host(self) -> Launch | None:
        if self.empty or self.form.two or any(one.listed for one in self.given) or self.backend.name == REFERENCE:
            return None
        a, shape, placed = self.given[0], self.batch.shape, len(self.given) == 3
        c = self.given[2] if placed else stacks.result_of(a, a._replace(columns=a.rows), shape)
        walk, adjoint = stacks.batch_of(a, a, c, shape).walk, self.form.hermitian
        if len(walk.starts) != 1 or any(walk.starts[0]) or any(table is not None for table in walk.tables):
            return None
        if a.rows == 1 and walk.batch > _MANY:
            return None
        factor = Matrix(0, a.rows, a.columns, a.row, a.column, walk.steps[0])
        place = Matrix(2, c.rows, c.columns, c.row, c.column, walk.steps[2])
        conjugated = adjoint and self.form.transposed  # op(a) is the conjugate of the factor
        update = RankK(
            self.problem.dtype, factor, place, walk.batch, self.form.lower, adjoint, conjugated, mirrored=not placed
        )  # fmt: skip
        return library_launch.on_host(self.kind, update, [one.view for one in self.given])

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
            if out is not None and not any(one.listed for one in self.given):
                self._check_apart(A, A if B is None else B, out)
            return self.product(A, B, out, alpha, beta)
        return super().general(A, A if B is None else B, out, alpha, beta)

    def _vendor(self, A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex) -> Matrices:
        return self.product(A, B, out, alpha, beta)
