"""Triangular systems and products of ragged batches: `trsm`, `trsv`, `solve_triangular`, `trmm`.

On CPUs one kernel solves matrices of all sizes, which it learns at run time. On GPUs the matrices of a class of sizes
are gathered into a stack, each followed by the unit matrix, solved by the kernel of the class, and scattered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays.types import Array, Matrices
from ...backends.base import Backend
from ...backends.select import select
from ...kernels.batched.trsm import spec
from ...plan.problem import ITEMSIZE
from .. import ragged_layout
from .. import run as call
from ..ragged import Ragged, allocate_beside
from ..ragged_classes import divide
from ..ragged_indices import Indices, copy_entries
from ..ragged_kernel import RowsKernel, Runs, Sizes, held_by, pins_reach
from ..ragged_stacks import Compute, Found, Given, StackedRun, Wanted
from .gemm_call import Form
from .ragged_call import Side, check_kinds, check_result, count_of, known, multiply_ragged, overlap, side_of
from .triangular_library import by_lapack, by_library

_RUNS: Runs = WeakKeyDictionary()
_PRODUCTS: Runs = WeakKeyDictionary()
_NAMES = ("a", "b")
Solve = Callable[..., Array]  # triangular_call.solve, for stacks


class Pass(NamedTuple):
    """One triangular solve with the matrices of A."""

    upper: bool = False
    transposed: bool = False
    conjugated: bool = False
    unit: bool = False

    def flags(self) -> int:
        """The bits that kernels read (triangle.hpp)."""
        return sum(bit << i for i, bit in enumerate(self)) | _PRESENT


_PRESENT, _FROM_RIGHT, _EXCHANGED_FIRST, _EXCHANGED_LAST = 16, 1 << 16, 1 << 17, 1 << 18


def flags_of(*passes: Pass, right: bool = False, first: bool = False, last: bool = False) -> int:
    """Solves in turn, from the `right`, with exchanges of rows before the `first` or after the `last` of them."""
    more = _FROM_RIGHT * right | _EXCHANGED_FIRST * first | _EXCHANGED_LAST * last
    return sum(one.flags() << 8 * i for i, one in enumerate(passes)) | more


def _pass_of(form: Any) -> Pass:
    """X op(A) = B is solved as op(A)^T X^T = B^T."""
    transposed = (form.trans in "TC") != (form.side == "right")
    return Pass(form.uplo == "upper", transposed, form.trans in "CR", form.unit)


# ---- systems ----------------------------------------------------------------------------------------------


def solve_ragged(
    solve: Solve,
    check: bool,
    A: Matrices,
    B: Matrices,
    out: Matrices,
    alpha: complex,
    beta: complex,
    backend: str | None,
    form: Any,
) -> Ragged:
    """X_i with op(A_i) X_i = alpha B_i, or X_i op(A_i) = alpha B_i. Nothing is written before everything is checked.
    Sizes that only the device has are fetched."""
    a, b = (known(side_of(one, name)) for one, name in zip((A, B), _NAMES, strict=True))
    kind, count = check_kinds(_NAMES, a.ragged, b.ragged, out), count_of(_NAMES, a, b)
    dtype, device = a.ragged._view.dtype, a.ragged._view.device
    chosen = select(device, backend)
    runs = held_by(_RUNS, a.ragged.layout, b.ragged.layout, (b.ragged if out is None else out).layout)
    key = ("solve", form, a.step, b.step, dtype, device, chosen.name, kind, out is None)
    if key not in runs:
        runs[key] = TriangleRun(solve, form, chosen, (a, b), out, count)
    run = runs[key]
    scaling = call.scalars(run.problem, alpha, 0.0)
    if check and not form.unit:
        run.refuse_singular(a.ragged)
    if out is None:
        out = allocate_beside(a.ragged, *run.result)
    else:
        _check_places(a.ragged, b.ragged, out)
    run((a.ragged, b.ragged, out), scaling, backend)
    if kind.written is not None:
        kind.written((out.buffer,))
    return out  # type: ignore[no-any-return]


def _check_places(A: Ragged, B: Ragged, out: Ragged) -> None:
    """`out` is B itself, or apart from A and B."""
    if out._view.readonly:
        raise ValueError("out is read-only")
    same = out._view.address == B._view.address and out.layout is B.layout
    if overlap(out, A):
        raise ValueError("out overlaps a: the result needs memory of its own")
    if not same and overlap(out, B):
        raise ValueError("out overlaps b: the result needs memory of its own, or b itself")


class TriangleRun:
    """For layouts that belong together, of which it holds nothing but tables."""

    def __init__(
        self, solve: Solve, form: Any, backend: Backend, sides: tuple[Side, Side], out: Ragged | None, count: int
    ) -> None:
        (a, b), dtype = sides, sides[0].ragged._view.dtype
        _check_sizes(a, b, count, form.side)
        self.kind, self.backend, self.steps = a.ragged._kind, backend, (a.step, b.step)
        self.problem = spec.problem(
            dtype, 1, 1, max(1, count), side=form.side, uplo=form.uplo, trans=form.trans, unit=form.unit
        )
        rows, columns = (np.broadcast_to(one, (count,)) for one in (b.rows, b.columns))
        self.result = ragged_layout.packed(rows, columns, ragged_layout.ALIGNMENT // ITEMSIZE[dtype])
        if out is not None:
            check_result(out, self.result[0])
        layout = self.result[0] if out is None else out.layout
        tables = tuple(one.host() for one in (a.ragged.layout, b.ragged.layout, layout))
        self.diagonal = Indices(*_diagonals(tables[0]))
        self.stacked, self.rows = None, None
        if backend.name in ("cuda", "emulated"):
            self.stacked = _stacked_solver(solve, form, backend, a.ragged, tables, count)
        elif backend.name == "cpu":
            self.rows = rows_solver(backend, dtype, flags_of(_pass_of(form), right=form.side == "right"), tables, count)

    def __call__(self, given: tuple[Ragged, ...], scaling: tuple[float, ...], backend: str | None) -> None:
        A, B, X = given
        alpha = complex(*scaling[:2]) if self.problem.is_complex else scaling[0]
        if self.stacked is not None:
            self.stacked([A, B], {"X": X}, alpha, backend)
            return
        which: Sequence[int] = range(len(X))
        if self.rows is not None and pins_reach():
            pointers = (A._view.address, B._view.address, 0, X._view.address, 0, 0)
            which = self.rows(pointers, scaling)
        way = (by_lapack if self.backend.device.backend == "cpu" else by_library)(self.problem)
        for i in which:
            b, x = B[i * self.steps[1]], X[i]
            if x.shape[0] and x.shape[1]:
                x[...] = b
                way(A[i * self.steps[0]], x, alpha)

    def refuse_singular(self, A: Ragged) -> None:
        """LinAlgError for the first zero on a diagonal; waits for the device."""
        zero = A.buffer[self.diagonal.beside(A)] == 0
        if bool(zero.any()):
            first = zero.tolist().index(True)
            matrix, entry = (int(one[first]) for one in (self.diagonal.matrix, self.diagonal.row))
            name = f"a[{matrix}]" if self.steps[0] else "a"
            raise np.linalg.LinAlgError(f"{name} is singular: entry {entry} of its diagonal is zero")


def _stacked_solver(solve: Solve, form: Any, backend: Backend, like: Ragged, tables: Any, count: int) -> StackedRun:
    """Class by class; `tables` are rows, columns and offsets of A, B and X, of one matrix for all or of each."""
    a, b, x = ([np.broadcast_to(one, (count,)) for one in table] for table in tables)
    order, right, dtype = a[0], b[1 if form.side == "left" else 0], like._view.dtype
    classes = divide(np.stack([order, order, right], 1)[order * right > 0], ITEMSIZE[dtype])
    some = np.flatnonzero(order * right > 0)
    across = (0, 2) if form.side == "left" else (2, 0)

    def run(stacks: list[Array], number: int, alpha: complex, name: str | None) -> Found:
        A, B = stacks
        return {"X": solve(A, B, B, alpha, name, form)}

    return StackedRun(
        like._kind, backend, dtype, like._view.device, Compute(run),
        [one._replace(members=some[one.members]) for one in classes],
        [Given(a, ones=0), Given(b, across)], {"X": Wanted(x, lambda bounds: (bounds[across[0]], bounds[across[1]]))},
    )  # fmt: skip


def rows_solver(
    backend: Backend, dtype: str, flags: int, tables: Array, count: int, numbers: int | Array = 0
) -> RowsKernel:
    """The kernel that solves triangular systems of all sizes; `tables` are rows, columns and offsets of A, B and X."""
    order = np.broadcast_to(tables[0][0], (count,))
    right = np.broadcast_to(tables[1][0 if flags & _FROM_RIGHT else 1], (count,))
    places = {name: np.broadcast_to(one[2], (count,)) for name, one in zip("abx", tables, strict=True)}
    places["numbers"] = np.broadcast_to(numbers, (count,))
    sizes = Sizes(order, order, right, right)
    return RowsKernel(backend, dtype, "triangle", 0, flags, sizes, places, order * right > 0)


def _diagonals(table: Array) -> tuple[Array, Array, Array]:
    """Places, matrices and rows of all diagonal entries."""
    orders, offsets = table[0], table[2]
    matrix = np.repeat(np.arange(len(orders)), orders)
    row = np.arange(len(matrix)) - np.repeat(np.cumsum(orders) - orders, orders)
    return np.repeat(offsets, orders) + row * (np.repeat(orders, orders) + 1), matrix, row


def _check_sizes(a: Side, b: Side, count: int, side: str) -> None:
    """Square matrices, and right-hand sides that fit them."""
    wrong = a.rows != a.columns
    if wrong.any():
        i = int(np.argmax(wrong))
        name = f"a[{i}]" if a.step else "a"
        raise ValueError(f"{name} has shape {(int(a.rows[i]), int(a.columns[i]))}: a triangular matrix is square")
    what, found = ("rows", b.rows) if side == "left" else ("columns", b.columns)
    order, found = (np.broadcast_to(one, (count,)) for one in (a.rows, found))
    if (order != found).any():
        i = int(np.argmax(order != found))
        one, other = (f"{name}[{i}]" if x.step else name for name, x in zip(_NAMES, (a, b), strict=True))
        raise ValueError(f"{one} has order {order[i]} and {other} {found[i]} {what}: both need the same number")


# ---- products ---------------------------------------------------------------------------------------------


def multiply_triangles(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Any
) -> Ragged:
    """alpha op(A_i) B_i, or alpha B_i op(A_i): copies of the triangles with zeros on the other side, then `gemm`."""
    a, b = (known(side_of(one, name)) for one, name in zip((A, B), _NAMES, strict=True))
    check_kinds(_NAMES, a.ragged, b.ragged, out)
    left = form.side == "left"
    runs = held_by(_PRODUCTS, a.ragged.layout, b.ragged.layout)
    key = (form, a.step, b.step)
    if key not in runs:
        _check_sizes(a, b, count_of(_NAMES, a, b), form.side)
        trans, conj = form.trans in "TC", form.trans in "CR"
        runs[key] = Form(trans, conj) if left else Form(False, False, trans, conj)
    how = runs[key]
    triangle, other = _masked(a, form.uplo, form.unit), B if isinstance(B, Ragged) else b.ragged[0]
    if out is not None:
        _check_places(a.ragged, b.ragged, out)
    in_place = out is not None and overlap(out, b.ragged)
    first, second = (triangle, other) if left else (other, triangle)
    names = ("a", "b") if left else ("b", "a")
    found = multiply_ragged(first, second, None if in_place else out, alpha, 0.0, backend, how, names)
    if not in_place:
        return found
    copy_entries(out, found)
    if out._kind.written is not None:
        out._kind.written((out.buffer,))
    return out  # type: ignore[no-any-return]


def _masked(a: Side, uplo: str, unit: bool) -> Matrices:
    """A copy whose other triangles are zero, whatever stood there; `unit`: with ones on the diagonals."""
    A = a.ragged
    every = Indices.of(A.layout)
    other = every.part(("outside", uplo), lambda row, column: (column > row) if uplo == "lower" else (column < row))
    buffer = other.without(A)
    made = Ragged._of(A._kind, buffer, A.layout, A._view._replace(address=A._kind.address(buffer), readonly=False))
    if unit:
        made.buffer[every.part("diagonal", lambda row, column: row == column).beside(A)] = 1
    return made if a.step else made[0]
