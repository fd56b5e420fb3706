"""Operands of a batch of products: from stacks (..., rows, columns) and lists of arrays to what kernels of `gemm` take.

Leading dimensions broadcast as in numpy.matmul. Those through which every operand moves with one stride collapse to one
dimension, the batch of a launch; an operand that does not move at all is `shared`. Where dimensions remain, the largest
is the batch, and there is one launch, of the same kernel, for each combination of the others, unless these launches
would be many and small: then operands without a single stride are addressed matrix by matrix, through an array of
addresses, and one launch does it all. Nothing is copied for the sake of the batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import kinds as arrays
from ..arrays.kinds import View
from ..arrays.types import Array, Kind, Matrices
from ..kernels.batched.gemm import spec
from ..plan.problem import ITEMSIZE, Options, Problem
from .ragged_vectors import Vectors

_FEW_LAUNCHES, _LARGE_LAUNCH = 8, 64  # launches are repeated if they are few, or of that many matrices each


class Operand(NamedTuple):
    """The matrices of one operand; strides count elements."""

    view: View  # of the array; of a list's first one
    rows: int
    columns: int
    row: int
    column: int
    shape: tuple[int, ...]  # leading dimensions, (length,) for a list
    strides: tuple[int, ...]
    listed: bool = False
    aligned: bool = True  # every array of it begins on a 16-byte boundary
    uniform: bool = True  # all arrays of a list have the same strides and conjugation
    transposed: bool = False  # the arrays hold the transposed matrices
    vector: bool = False  # one-dimensional: the result lacks a dimension
    loose: bool = False  # rows (or columns) may overlap and go backwards: kernels for CPUs read them all the same

    @property
    def layout(self) -> tuple[str, int]:
        """Layout, and the distance between rows (or columns)."""
        if (self.columns == 1 or self.column == 1) and (self.rows == 1 or self.row >= self.columns or self.loose):
            return "row", self.columns if self.rows == 1 else self.row
        if (self.rows == 1 or self.row == 1) and (self.column >= self.rows or self.loose):
            return "col", self.column
        return "any", 0

    @property
    def is_dense(self) -> bool:
        """Whether a matrix has no gaps."""
        layout, pitch = self.layout
        return layout != "any" and pitch == (self.columns if layout == "row" else self.rows)

    def copied(self) -> Operand:
        """As it is after `copy`: without gaps, conjugations carried out; what was repeated is there once."""
        kept = tuple(1 if stride == 0 else size for size, stride in zip(self.shape, self.strides, strict=True))
        strides = tuple(self.rows * self.columns * prod(kept[i + 1 :]) for i in range(len(kept)))
        row, column = (1, self.rows) if self.transposed else (self.columns, 1)
        view, aligned = self.view._replace(conjugated=False), self.aligned or not self.listed
        if self.listed:  # arrays that need no copy stay where they are
            kept, strides = self.shape, self.strides
        return self._replace(
            view=view, row=row, column=column, shape=kept, strides=strides, aligned=aligned, uniform=True
        )


def is_list(operand: Matrices) -> bool:
    """Whether an operand is a list of arrays (or a tuple, or `Vectors`), one for each product."""
    return isinstance(operand, list | tuple | Vectors)


def kind_of(operand: Matrices, name: str) -> Any:  # Kind | None: callers that have arrays need not ask
    """The one array library of an operand; None for an empty list."""
    if not is_list(operand):
        return arrays.kind_of(operand, name)
    if not operand:
        return None
    kind = arrays.kind_of(operand[0], f"{name}[0]")
    if len(set(map(type, operand))) > 1:
        for i, array in enumerate(operand):
            other = arrays.kind_of(array, f"{name}[{i}]")
            if other is not kind:
                raise TypeError(f"{name}[0] is a {kind.name} array and {name}[{i}] a {other.name} array: convert one")
    return kind


def common_kind(given: Sequence[tuple[str, Matrices]]) -> Any:  # Kind | None: callers that have arrays need not ask
    """The one array library of all arguments that are there; None if there are only empty lists."""
    found = [(name, kind_of(one, name)) for name, one in given if one is not None]
    found = [(name, kind) for name, kind in found if kind is not None]
    if not found:
        return None
    first, common = found[0]
    for name, kind in found[1:]:
        if kind is not common:
            text = f"{first} has {common.name} arrays and {name} {kind.name} arrays: convert one of them"
            common = arrays.prevailing(common, kind, text)
    return common


def unwrapped(kind: Kind, operand: Matrices, name: str) -> Matrices:
    """NumPy or CuPy views of a JAX array, or of a list of them."""
    if is_list(operand):
        return [kind.unwrap(one, f"{name}[{i}]") for i, one in enumerate(operand)]
    return kind.unwrap(operand, name)


def described(kind: Kind, operand: Matrices, name: str) -> list[View]:
    """Views of an array, or of the arrays of a list; errors name them."""
    if is_list(operand):
        return [kind.view(one, f"{name}[{i}]") for i, one in enumerate(operand)]
    return [kind.view(operand, name)]


def signature(kind: Kind, operand: Matrices) -> Hashable:
    """Different whenever planning could differ; of lists, the arrays' signatures in whatever order."""
    if is_list(operand):
        return len(operand), frozenset(map(kind.signature, operand))
    return None if operand is None else kind.signature(operand)


def operand_of(kind: Kind, array: Matrices, name: str, transposed: bool = False, vector: str = "") -> Operand:
    """Describe an array or a list; `vector` says what a one-dimensional array is: a `row`, a `column`, or refused."""
    if is_list(array):
        found = _list_of(kind, array, name)
    else:
        view = kind.view(array, name)
        if len(view.shape) == 1 and vector:
            (size,), (stride,) = view.shape, view.strides
            sizes, steps = ((1, size), (1, stride)) if vector == "row" else ((size, 1), (stride, 1))
            return matrices_of(view, sizes, steps, 0)._replace(vector=True)
        if len(view.shape) < 2:
            raise ValueError(f"{name} has shape {view.shape}: a matrix or a stack of matrices is needed")
        found = matrices_of(view, view.shape[-2:], view.strides[-2:], len(view.shape) - 2)
    if transposed:
        rows, columns, row, column = found.columns, found.rows, found.column, found.row
        found = found._replace(rows=rows, columns=columns, row=row, column=column, transposed=True)
    return found


def matrices_of(view: View, sizes: tuple[int, ...], steps: tuple[int, ...], leading: int) -> Operand:
    """Matrices of these sizes and strides, along the first dimensions of a view."""
    (rows, columns), (row, column), aligned = sizes, steps, view.address % 16 == 0
    return Operand(view, rows, columns, row, column, view.shape[:leading], view.strides[:leading], aligned=aligned)


def _list_of(kind: Kind, array: Sequence[Array], name: str) -> Operand:
    views = described(kind, array, name)
    first = views[0]
    if len(first.shape) != 2:
        raise ValueError(f"{name}[0] has shape {first.shape}: a list holds matrices (two dimensions)")
    for i, view in enumerate(views):
        if view.shape != first.shape:
            raise ValueError(
                f"{name}[{i}] has shape {view.shape} and {name}[0] {first.shape}: a list holds matrices of one shape; "
                "for others there is ms.Ragged"
            )
        if view.dtype != first.dtype:
            raise TypeError(f"{name}[0] has dtype {first.dtype} and {name}[{i}] {view.dtype}: convert one of them")
        if view.device != first.device:
            arrays.same_device([(f"{name}[0]", first), (f"{name}[{i}]", view)])
    (rows, columns), (row, column) = first.shape, first.strides
    return Operand(
        first, rows, columns, row, column, (len(views),), (0,), listed=True,
        aligned=all(view.address % 16 == 0 for view in views),
        uniform=all((view.strides, view.conjugated) == (first.strides, first.conjugated) for view in views),
    )  # fmt: skip


def copy(kind: Kind, array: Matrices, operand: Operand) -> Matrices:
    """What `Operand.copied` describes: matrices row after row, without repeating what broadcasting repeats."""
    if operand.listed:
        return [kind.plain(one) for one in array]
    kept = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in operand.strides)
    return kind.plain(array[kept])


def broadcast(a: Operand, b: Operand, names: tuple[str, str] = ("A", "B")) -> tuple[int, ...]:
    """The leading dimensions of the result."""
    first, last = names
    for name, one, second, other in ((first, a, last, b), (last, b, first, a)):
        fitting = (one.shape,) if other.listed else ((), (1,), one.shape)
        if one.listed and other.shape not in fitting:
            what = f"is a list of {other.shape[0]}" if other.listed else f"has leading dimensions {other.shape}"
            raise ValueError(f"{name} is a list of {one.shape[0]} arrays and {second} {what}: one for each is needed")
    try:
        return np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        message = f"{first} has leading dimensions {a.shape} and {last} {b.shape}: they do not broadcast"
        raise ValueError(message) from None


class Walk(NamedTuple):
    """How launches go through a batch; one entry per operand (A, B, C)."""

    batch: int  # matrices of a launch
    steps: tuple[int, ...]  # from one to the next, in elements
    starts: tuple[tuple[int, ...], ...]  # of the launches, in elements
    tables: tuple[Array, ...]  # where all matrices are, in elements, of those without a single step; else None


def walk(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> Walk:
    """Of operands with these strides along the leading dimensions."""
    dimensions, no_tables = _collapsed(shape, strides), (None,) * len(strides)
    if not dimensions:
        return Walk(1, (0,) * len(strides), ((0,) * len(strides),), no_tables)
    (batch, steps), *others = sorted(dimensions, key=lambda dimension: -dimension[0])
    launches = prod(size for size, _ in others)
    if launches <= _FEW_LAUNCHES or batch >= _LARGE_LAUNCH:
        indices = product(*(range(size) for size, _ in others))
        starts = tuple(
            tuple(sum(i * moves[side] for i, (_, moves) in zip(at, others, strict=True)) for side in range(len(steps)))
            for at in indices
        )
        return Walk(batch, steps, starts, no_tables)
    alone = [_collapsed(shape, (moves,)) for moves in strides]
    tables = tuple(
        None if len(own) == 1 else _offsets(shape, moves) for own, moves in zip(alone, strides, strict=True)
    )  # fmt: skip
    single = tuple(own[0][1][0] if len(own) == 1 else 0 for own in alone)
    return Walk(batch * launches, single, ((0,) * len(strides),), tables)


def _collapsed(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> list[tuple[int, tuple[int, ...]]]:
    """Sizes and steps of the dimensions that are left, the outermost first."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in zip(shape, zip(*strides, strict=True), strict=True):
        if size == 1:
            continue
        if found and all(outer == size * step for outer, step in zip(found[-1][1], steps, strict=True)):
            found[-1] = (found[-1][0] * size, steps)
        else:
            found.append((size, steps))
    return found


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    found = np.zeros((), np.int64)
    for size, stride in zip(shape, strides, strict=True):
        found = np.add.outer(found, np.arange(size, dtype=np.int64) * stride)
    return found.reshape(-1)


class Batch(NamedTuple):
    """A batch of products: operands A, B and C, and the walk through them."""

    operands: tuple[Operand, Operand, Operand]
    shape: tuple[int, ...]  # leading dimensions
    walk: Walk

    @property
    def strides(self) -> tuple[int, ...]:
        """Of A, B and C as `gemm` takes them: matrices, rows, columns."""
        found: tuple[int, ...] = ()
        for operand, step in zip(self.operands, self.walk.steps, strict=True):
            layout, pitch = operand.layout
            inner = {"row": (pitch, 1), "col": (1, pitch), "any": (operand.row, operand.column)}[layout]
            found += (step, *inner)
        return found


def batch_of(a: Operand, b: Operand, c: Operand, shape: tuple[int, ...]) -> Batch:
    """A and B broadcast against the leading dimensions `shape`, which C has."""
    spread = []
    for operand in (a, b, c):
        missing = len(shape) - len(operand.shape)
        steps = (0 if size == 1 else step for size, step in zip(operand.shape, operand.strides, strict=True))
        spread.append((0,) * missing + tuple(steps))
    return Batch((a, b, c), shape, walk(shape, tuple(spread)))


def result_of(a: Operand, b: Operand, shape: tuple[int, ...]) -> Operand:
    """A new result: row after row, matrix after matrix."""
    rows, columns = a.rows, b.columns
    strides = tuple(rows * columns * prod(shape[i + 1 :]) for i in range(len(shape)))
    return Operand(a.view, rows, columns, columns, 1, shape, strides)


def problem_of(batch: Batch, conj: tuple[bool, bool]) -> Problem:
    """What the family is asked, for one launch; `conj` are conjugations beyond those of the arrays themselves."""
    a, b, c = batch.operands
    traits: Options = {}
    for side, operand, stack in zip("abc", batch.operands, stacks_of(batch), strict=True):
        layout, pitch = operand.layout
        traits |= {f"layout_{side}": layout, f"stack_{side}": stack}
        traits[f"pitch_{side}"] = None if layout == "any" else pitch
    return spec.problem(
        a.view.dtype, c.rows, c.columns, a.columns, batch.walk.batch, **traits, aligned=is_aligned(batch),
        conj_a=a.view.conjugated != conj[0], conj_b=b.view.conjugated != conj[1],
    )  # fmt: skip


def stacks_of(batch: Batch) -> list[str]:
    """How the matrices of each operand follow each other."""
    found = []
    for operand, step, table in zip(batch.operands, batch.walk.steps, batch.walk.tables, strict=True):
        if operand.listed or table is not None:
            found.append("pointers")
        elif batch.walk.batch > 1 and step == 0:
            found.append("shared")
        elif operand.is_dense and (batch.walk.batch == 1 or step == operand.rows * operand.columns):
            found.append("packed")
        else:
            found.append("strided")
    return found


def is_aligned(batch: Batch) -> bool:
    """Every matrix on a 16-byte boundary; of a packed stack, the first one of a launch."""
    unit = max(1, 16 // ITEMSIZE[batch.operands[0].view.dtype])
    for side, (operand, stack) in enumerate(zip(batch.operands, stacks_of(batch), strict=True)):
        starts, table = (start[side] for start in batch.walk.starts), batch.walk.tables[side]
        moved = any(start % unit for start in starts) or (table is not None and bool((table % unit).any()))
        stepping = stack == "strided" and batch.walk.batch > 1 and batch.walk.steps[side] % unit
        if not operand.aligned or moved or stepping:
            return False
    return True
