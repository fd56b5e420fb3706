"""Products of lists of NumPy matrices that differ in shape: one launch of `ragged_gemm`, which reads every array where
it is. Results are views of one buffer, or are copied from it to the arrays of `out`.

`ragged_gemm` finds a matrix by an offset into its operand's buffer. For arrays the buffer begins at address zero, and
offsets are addresses in units of the item size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import numpy_lists
from ...arrays.kinds import KINDS
from ...arrays.numpy_lists import Listed, Part
from ...arrays.types import Array, Matrices
from ...backends.base import Backend
from ...kernels.batched.ragged_gemm import emit, spec
from ...plan.dispatch import choose
from ...plan.problem import Problem
from .. import ragged_layout, recording, stacks
from .. import run as call
from ..plans import PLANS
from ..ragged_layout import ALIGNMENT

_NUMPY = KINDS["numpy"]


class Given(NamedTuple):
    """An operand: a list, or one array for all, and the part of its matrices that counts."""

    listed: Listed
    step: int  # 0: one for all
    part: Part = "whole"


class Place(NamedTuple):
    """Arrays that results are written to, and the part of them that is."""

    listed: Listed
    part: Part = "whole"


def given(operand: Matrices, part: Part = "whole") -> Given | None:
    """An operand of NumPy arrays; None: there are others, or nothing is compiled."""
    is_list = stacks.is_list(operand)
    listed = numpy_lists.describe(operand if is_list else (operand,))
    return None if listed is None else Given(listed, int(is_list), part)


def place(out: Matrices, part: Part = "whole") -> Place | None:
    """Arrays without gaps that are writable and have no element in common; None: others."""
    listed = numpy_lists.describe(out) if stacks.is_list(out) else None
    if listed is None or not (listed.is_plain and listed.is_writeable):
        return None
    rows, columns, begins = listed.tables
    order = np.argsort(begins)
    ends = begins + rows * columns
    return Place(listed, part) if (ends[order][:-1] <= begins[order][1:]).all() else None


def multiply(
    a: Given, b: Given, out: Place | None, scaling: tuple[complex, complex], form: Any, backend: Backend
) -> list[Array] | None:
    """alpha op(a_i) op(b_i) + beta out_i, with alpha and beta in `scaling`; an empty list if they are written to `out`.
    None, and nothing was written: something does not fit."""
    key = ("list products", form, a.listed.key, a.step, b.listed.key, b.step, scaling[1] != 0)
    run: ListRun | None = PLANS.get(key)
    if run is None:
        run = _made(a, b, form, backend, accumulate=scaling[1] != 0)
        if run is None:
            return None
        PLANS.keep(key, run)
    if out is not None and not run.fits(out.listed):
        return None
    return run(a, b, out, call.scalars(run.problem, *scaling))


def _made(a: Given, b: Given, form: Any, backend: Backend, accumulate: bool) -> ListRun | None:
    """The run for arrays of these shapes; None: they do not fit together."""
    lengths = {len(one.listed.arrays) for one in (a, b) if one.step}
    if len(lengths) != 1 or a.listed.dtype != b.listed.dtype or a.listed.dimensions != 2:
        return None
    count = lengths.pop()
    problem = spec.problem(a.listed.dtype.name, count, accumulate=accumulate, **form._asdict())
    of_a, of_b = (np.broadcast_to(one.listed.tables[:2], (2, count)) for one in (a, b))
    (m, k), (inner, n) = of_a[:: -1 if form.trans_a else 1], of_b[:: -1 if form.trans_b else 1]
    return ListRun(problem, backend, (a.step, b.step), np.stack([m, n, k])) if (k == inner).all() else None


class _Read(NamedTuple):
    """An operand as the kernel reads it: arrays where they are, or copies of them in a buffer."""

    arrays: tuple[Array, ...]
    tables: Array
    address: int  # of the tables
    buffer: Array = None

    @property
    def base(self) -> int:
        return 0 if self.buffer is None else int(_NUMPY.address(self.buffer))

    def matrix(self, i: int) -> Array:
        if self.buffer is None:
            return self.arrays[i].reshape(len(self.arrays[i]), -1)
        rows, columns, begin = self.tables[:, i].tolist()
        return self.buffer[begin : begin + rows * columns].reshape(rows, columns)


def _read(one: Given) -> _Read:
    listed = one.listed
    if listed.is_plain and one.part == "whole":
        return _Read(listed.arrays, listed.tables, listed.address)
    tables = listed.tables.copy()
    sizes = tables[0] * tables[1]
    tables[2] = np.cumsum(sizes) - sizes
    buffer = np.empty(int(sizes.sum()), listed.dtype)
    numpy_lists.gather(listed, buffer, tables[2], one.part)
    return _Read(listed.arrays, tables, int(_NUMPY.address(tables)), buffer)


class ListRun:
    """Runs the products of lists whose arrays have these shapes; `sizes` are m, n and k of every product."""

    def __init__(self, problem: Problem, backend: Backend, steps: tuple[int, int], sizes: Array) -> None:
        self.problem, self.dtype, self.steps = problem, np.dtype(problem.dtype), steps
        self.shapes = np.ascontiguousarray(sizes[:2])
        self.layout, self.elements = ragged_layout.packed(sizes[0], sizes[1], ALIGNMENT // self.dtype.itemsize)
        config = choose(problem, backend.device).config
        is_wide = sizes.max(0) > config.WIDEST
        self.wide = np.flatnonzero(is_wide).tolist()
        products = int(sizes[:, ~is_wide].prod(0).sum())
        self.launch, _ = recording.prepared(emit, problem, config, backend, (*steps, products))
        self.begins = self.layout.host()[2]
        self.tables = tuple(int(_NUMPY.address(one)) for one in self.layout.host())

    def fits(self, out: Listed) -> bool:
        """Whether arrays have the dtype and the shapes of the results."""
        return bool(out.dtype == self.dtype) and np.array_equal(out.tables[:2], self.shapes)

    def __call__(self, a: Given, b: Given, out: Place | None, scaling: tuple[float, ...]) -> list[Array]:
        buffer, address = np.empty(self.elements, self.dtype), _NUMPY.address
        if out is not None and self.problem.accumulate:
            numpy_lists.gather(out.listed, buffer, self.begins, out.part)
        left, right = _read(a), _read(b)
        (at_a, step_a), (at_b, step_b) = ((one.address, 8 * len(one.arrays)) for one in (left, right))
        tables = (at_a, at_a + step_a, at_a + 2 * step_a, at_b, at_b + step_b, at_b + 2 * step_b, *self.tables)
        self.launch((left.base, right.base, address(buffer), *tables), scaling, 0)
        if self.wide:
            self._multiply_wide(left, right, buffer, scaling)
        if out is not None:
            numpy_lists.scatter(out.listed, buffer, self.begins, out.part)
            return []
        shapes, places = self.layout.pieces()
        found = map(buffer.__getitem__, places)
        return list(found if b.listed.dimensions == 1 else map(np.ndarray.reshape, found, shapes))

    def _multiply_wide(self, left: _Read, right: _Read, buffer: Array, scaling: tuple[float, ...]) -> None:
        """Matrices that the kernel skips, by NumPy."""
        p, (shapes, places) = self.problem, self.layout.pieces()
        alpha, beta = (complex(*scaling[i : i + 2]) if p.is_complex else scaling[i] for i in (0, 2))
        for i in self.wide:
            a = _op(left.matrix(i * self.steps[0]), p.trans_a, p.conj_a)
            product = a.dot(_op(right.matrix(i * self.steps[1]), p.trans_b, p.conj_b))
            to = buffer[places[i]].reshape(shapes[i])
            to[...] = alpha * product + beta * to if p.accumulate else alpha * product


def _op(matrix: Array, transposed: bool, conjugated: bool) -> Array:
    turned = matrix.T if transposed else matrix
    return turned.conj() if conjugated else turned
