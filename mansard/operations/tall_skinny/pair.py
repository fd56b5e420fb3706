"""Two matrices and the place of a result: what plans of `gram`, `tsmm` and `tsm2r` begin and end with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...arrays import kinds as arrays
from ...arrays.gemm import Gemm
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...kernels.family import Emit
from ...plan.plan import Plan
from ...plan.problem import ITEMSIZE, Problem
from ...plan.route import REFERENCE
from .. import library_launch
from .. import run as call


def product(kind: Kind, problem: Problem) -> call.Multiply:
    """A B by the array library."""
    return kind.matmul


class Pair(NamedTuple):
    """Operands of one array library, each a matrix of one supported dtype; B and `out` may be None."""

    A: Array
    B: Array
    out: Array
    kind: Kind
    views: dict[str, View]

    @staticmethod
    def of(A: Array, B: Array, out: Array) -> Pair:
        """Describe the operands; those that no kernel takes raise an error."""
        given = [(name, one) for name, one in (("A", A), ("B", B), ("out", out)) if one is not None]
        kind = arrays.common_kind(given)
        views = {name: kind.view(array, name) for name, array in given}
        call.check_matrices(views)
        return Pair(A, B, out, kind, views)

    def backend(self, asked: str | None) -> Backend:
        """The backend for the operands' one device."""
        chosen: Backend = select(arrays.same_device(list(self.views.items())), asked)
        return chosen

    def plan(
        self, emit: Emit, problem: Problem, backend: Backend, read: tuple[View, View], shape: tuple[int, ...],
        handover: bool, asked: str | None, copies: tuple[bool, bool] = (False, False), vendor: call.Vendor = product,
        columns: Gemm | None = None, on_host: Callable[[], Launch | None] | None = None,
    ) -> Plan:  # fmt: skip
        """Plan a kernel that reads the operands as `read` says, after copying those in `copies`. `asked`: the backend
        that the caller named, or None. `columns`: the product as cuBLAS may be asked for it where no kernel answers;
        `on_host` finds the launch of NumPy's BLAS."""
        (a, b), c, kind, out = read, self.views.get("out"), self.kind, self.out
        strides = (*a.strides, *b.strides, *(c.strides if c else (problem.N, 1)))
        launch, choice, kernel = call.prepare(emit, problem, backend, strides, handover, is_free=asked is None)
        run = call.Run(kind, problem, launch, copies, self.views, shape, vendor)
        by_library = launch is None and 0 not in (problem.M, problem.N, problem.K) and backend.name != REFERENCE
        own = columns if by_library and not any(copies) else None
        straight = library_launch.launch_of(kind, own, a.device)
        if by_library and straight is None and on_host is not None:
            straight = on_host()
        path = run.fast if straight is None else library_launch.fast_path(self._place(shape), straight, run.general)
        fast, verify = call.counted(kind, out, path), call.make_verify(kind, self.A, self.B, out)
        return Plan(problem, choice, backend, kernel, fast, verify, launch, run.fast != run.general)

    def _place(self, shape: tuple[int, ...]) -> library_launch.Place:
        is_pair, a = "B" in self.views, self.views["A"]
        views = [a, self.views.get("B", a), *([self.views["out"]] if "out" in self.views else [])]
        reaches = tuple(arrays.reach(view, ITEMSIZE[view.dtype]) for view in views)
        return library_launch.Place(self.kind, a.device, shape, a.dtype, reaches, is_pair)
