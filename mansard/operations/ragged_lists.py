"""Lists of arrays that differ in shape: copied into ragged batches, and the results given as lists again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from ..arrays import kinds as arrays
from ..arrays.kinds import View
from ..arrays.types import Kind, Matrices
from ..errors import UnsupportedProblem
from ..plan.problem import DTYPES
from . import ragged_layout, stacks
from . import run as call
from .batch_checks import through_jax
from .plans import PLANS
from .ragged import Ragged
from .ragged_layout import Layout

_SHAPE_AND_DTYPE = attrgetter("shape", "dtype")
Answer = Callable[..., Ragged]  # (A, B, out, alpha, beta, backend, form) for ragged batches
Chosen = Callable[[Matrices, Matrices, Matrices], Callable[..., Matrices] | None]


def special(answer: Answer, names: tuple[str, str] = ("a", "b")) -> Chosen:
    """Who answers operands of which one is a Ragged, or a list whose arrays differ in shape; `Operation.special`."""

    def chosen(A: Matrices, B: Matrices, out: Matrices) -> Callable[..., Matrices] | None:
        given = (A, B, out)
        if any(isinstance(one, Ragged) for one in given):
            return answer
        if not any(differ(one) for one in given):
            return None
        return lambda A, B, out, *options: answer_lists(answer, names, (A, B, out), options)

    return chosen


def differ(operand: Matrices) -> bool:
    """Whether an operand is a list of arrays that differ in shape."""
    if not stacks.is_list(operand) or len(operand) < 2:
        return False
    first = getattr(operand[0], "shape", None)
    return any(getattr(one, "shape", None) != first for one in operand)


def answer_lists(
    answer: Answer, names: tuple[str, str], given: tuple[Matrices, Matrices, Matrices], options: Any
) -> list[Matrices]:
    """The answer for lists of matrices, or of vectors, that differ in shape; one array for all may be among them."""
    A, B, out = given
    kind = stacks.common_kind([(name, one) for name, one in zip((*names, "out"), given, strict=True)])
    if kind.immutable:
        return through_jax(  # type: ignore[no-any-return]
            kind, names, A, B, out, lambda a, b: answer_lists(answer, names, (a, b, None), options)
        )
    vectors = _is_vector(B)
    if vectors:
        _check_vectors(names, A, B, options[-1].trans_a)
    a, b = (as_ragged(kind, one, name) for name, one in zip(names, (A, B), strict=True))
    place = None if out is None else place_of(kind, out)
    found = answer(a, b, place, *options)
    if out is None:
        return _columns(found) if vectors else found.to_list()
    for to, value in zip(out, found, strict=True):
        to[...] = value.reshape(to.shape)
    if kind.written is not None:
        kind.written(out)
    return out  # type: ignore[no-any-return]


def _columns(found: Ragged) -> list[Matrices]:
    """Matrices of one column as vectors."""
    rows, _, starts = (table.tolist() for table in found.layout.host())
    return [found.buffer[start : start + count] for start, count in zip(starts, rows, strict=True)]


def _is_vector(operand: Matrices) -> bool:
    first = operand[0] if stacks.is_list(operand) else operand
    return len(first.shape) == 1


def _check_vectors(names: tuple[str, str], A: Matrices, x: Matrices, transposed: bool) -> None:
    """Vectors that fit their matrices."""
    count = max(len(one) for one in (A, x) if stacks.is_list(one))
    many = [one if stacks.is_list(one) else [one] * count for one in (A, x)]
    lines = "rows (it is transposed)" if transposed else "columns"
    for i, (matrix, vector) in enumerate(zip(*many, strict=False)):
        inner = matrix.shape[0 if transposed else -1]
        if vector.shape[0] != inner:
            raise ValueError(
                f"{names[1]}[{i}] has shape {tuple(vector.shape)} and {names[0]}[{i}] {inner} {lines}: "
                "both need the same number"
            )


def as_ragged(kind: Kind, operand: Matrices, name: str) -> Matrices:
    """A list, or a stack beside one, as a Ragged; vectors, and a vector for all, become columns."""
    if stacks.is_list(operand) or len(operand.shape) == 3:
        return ragged_of(kind, list(operand), name)
    return operand[:, None] if len(operand.shape) == 1 else operand


def ragged_of(kind: Kind, matrices: Matrices, name: str) -> Ragged:
    """Copies of matrices, or of vectors as columns, in one buffer. Lists of the same shapes share a layout, and so what
    was made for it; arrays like those of an earlier list are not described again."""
    # strides do not matter to what is only copied
    signature = _SHAPE_AND_DTYPE if kind.on_host_alone else kind.signature
    key = ("list", kind, *map(signature, matrices))
    layout: Any = PLANS.get(key)
    if layout is None:
        layout = _checked_layout(kind, matrices, name)
        PLANS.keep(key, layout)
    return Ragged._of(kind, _joined(kind, matrices), layout)


def _checked_layout(kind: Kind, matrices: Matrices, name: str) -> Layout:
    """Arrays of one dtype, device and number of dimensions."""
    views = stacks.described(kind, matrices, name)
    first, vectors = views[0], len(views[0].shape) == 1
    for i, view in enumerate(views):
        if len(view.shape) != (1 if vectors else 2):
            what = "vectors (one dimension)" if vectors else "matrices (two dimensions)"
            raise ValueError(f"{name}[{i}] has shape {view.shape}: a list holds {what}")
        if view.dtype not in DTYPES:
            known = ", ".join(DTYPES)
            raise UnsupportedProblem(f"{name}[{i}] has dtype {view.dtype}; supported are {known}: convert it first")
        if view.dtype != first.dtype:
            raise TypeError(f"{name}[0] has dtype {first.dtype} and {name}[{i}] {view.dtype}: convert one of them")
        if view.device != first.device:
            arrays.same_device([(f"{name}[0]", first), (f"{name}[{i}]", view)])
    return _layout(tuple((*view.shape, 1)[:2] for view in views))


@lru_cache(maxsize=256)
def _layout(shapes: tuple[tuple[int, int], ...]) -> Layout:
    sizes = np.array(shapes, np.int64).reshape(-1, 2)
    return ragged_layout.packed(sizes[:, 0], sizes[:, 1])[0]


def _joined(kind: Kind, matrices: Matrices) -> Matrices:
    return kind.module.concatenate([kind.plain(one).reshape(-1) for one in matrices])


def place_of(kind: Kind, out: Matrices) -> Ragged:
    """The content of `out` as a Ragged, after a look at every array: the result is written there in the end."""
    if not stacks.is_list(out):
        raise TypeError(f"out is a {type(out).__name__}: the results of lists need a list")
    views: list[View] = stacks.described(kind, out, "out")
    for view in views:
        call.check_out(view, view.shape)
    if len({view.address for view in views if 0 not in view.shape}) < sum(0 not in view.shape for view in views):
        raise ValueError("out holds an array twice: every result needs a place of its own")
    return ragged_of(kind, out, "out")
