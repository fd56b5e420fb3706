"""Lists of arrays that differ in shape: copied into ragged batches, and the results given as lists again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..arrays import kinds as arrays
from ..arrays import numpy_lists
from ..arrays.kinds import View
from ..arrays.numpy_lists import Listed
from ..arrays.types import Kind, Matrices
from ..errors import UnsupportedProblem
from ..plan import pin
from ..plan.problem import DTYPES
from . import ragged_layout, stacks
from . import run as call
from .batch_checks import through_jax
from .plans import PLANS
from .ragged import Ragged
from .ragged_layout import Layout

_SHAPE_AND_DTYPE = attrgetter("shape", "dtype")
_PLACE = attrgetter("shape", "strides", "dtype", "flags.writeable")
Answer = Callable[..., Ragged]  # (A, B, out, alpha, beta, backend, form) for ragged batches
Chosen = Callable[[Matrices, Matrices, Matrices], Callable[..., Matrices] | None]


# (A, B, out, alpha, beta, backend, form) of lists, matrix by matrix; None: not these, or something does not fit
Each = Callable[..., list[Matrices] | None]


def special(answer: Answer, names: tuple[str, str] = ("a", "b"), each: Each | None = None) -> Chosen:
    """Who answers operands of which one is a Ragged, or a list whose arrays differ in shape; `Operation.special`.
    `each` answers lists without copies into one buffer, where it can."""

    def chosen(A: Matrices, B: Matrices, out: Matrices) -> Callable[..., Matrices] | None:
        given = (A, B, out)
        if any(isinstance(one, Ragged) for one in given):
            return answer
        if not any(differ(one) for one in given):
            return None
        return lambda A, B, out, *options: answer_lists(answer, names, (A, B, out), options, each)

    return chosen


def differ(operand: Matrices) -> bool:
    """Whether an operand is a list of arrays that differ in shape."""
    if not stacks.is_list(operand) or len(operand) < 2:
        return False
    first = getattr(operand[0], "shape", None)
    return any(getattr(one, "shape", None) != first for one in operand)


class _Known(NamedTuple):
    """What was found out about lists, for later ones whose arrays have the same shapes and dtypes."""

    layouts: tuple[Layout | None, Layout | None]  # of A and B; None: one array for all
    is_vector: bool  # B holds vectors
    dtype: str


def answer_lists(
    answer: Answer, names: tuple[str, str], given: tuple[Matrices, Matrices, Matrices], options: Any,
    each: Each | None = None,
) -> list[Matrices]:  # fmt: skip
    """The answer for lists of matrices, or of vectors, that differ in shape; one array for all may be among them."""
    one_by_one = each and each(*given, *options)
    if one_by_one:
        return one_by_one
    A, B, out = given
    kind = stacks.common_kind([(name, one) for name, one in zip((*names, "out"), given, strict=True)])
    if kind.immutable:
        return through_jax(  # type: ignore[no-any-return]
            kind, names, A, B, out, lambda a, b: answer_lists(answer, names, (a, b, None), options, each)
        )
    _, beta, backend, form = options
    key = (answer, kind, names, backend, form, beta == 0, _signature(kind, A), _signature(kind, B), _places(kind, out))
    known: _Known | None = None if pin.pins() else PLANS.get(key)
    if known is not None:
        if out is not None:
            _check_apart(kind, out)
        found = _gathered(answer, kind, given, known, options, beta != 0)
    else:
        known = _checked(kind, names, given, form)
        found = _gathered(answer, kind, given, known, options, True)  # refuses places that do not fit
        PLANS.keep(key, known)
    if out is not None:
        return scatter(kind, out, found)  # type: ignore[no-any-return]
    if known.is_vector:
        return list(map(found.buffer.__getitem__, found.layout.pieces()[1]))  # matrices of one column, as vectors
    return found.to_list()


def _gathered(
    answer: Answer, kind: Kind, given: tuple[Matrices, Matrices, Matrices], known: _Known, options: Any, placed: bool
) -> Ragged:
    """The results of copies in one buffer. `placed`: `out` is copied, too."""
    A, B, out = given
    a, b = (
        _packed(kind, one, layout, known.dtype) if layout else one[:, None] if len(one.shape) == 1 else one
        for one, layout in zip((A, B), known.layouts, strict=True)
    )
    return answer(a, b, ragged_of(kind, out, "out") if placed and out is not None else None, *options)


def _checked(kind: Kind, names: tuple[str, str], given: tuple[Matrices, Matrices, Matrices], form: Any) -> _Known:
    """What is known about lists after a look at every array."""
    A, B, out = given
    is_vector = _is_vector(B)
    if is_vector:
        _check_vectors(names, A, B, getattr(form, "trans_a", False))
    made = [as_ragged(kind, one, name) for name, one in zip(names, (A, B), strict=True)]
    if out is not None:
        place_of(kind, out)
    a, b = (one.layout if isinstance(one, Ragged) else None for one in made)
    return _Known((a, b), is_vector, next(one._view.dtype for one in made if isinstance(one, Ragged)))


def _signature(kind: Kind, operand: Matrices) -> Hashable:
    """Shapes and dtypes of the arrays of a list: strides do not matter to what is only copied."""
    listed = _described(kind, operand)
    if listed is not None:
        return listed.key
    signature = _SHAPE_AND_DTYPE if kind.on_host_alone else kind.signature
    if not stacks.is_list(operand):
        return signature(operand)
    return (*set(map(type, operand)), *map(signature, operand))


def _places(kind: Kind, out: Matrices) -> Hashable:
    """What decides whether arrays can be written to, beside their addresses."""
    signature = _PLACE if kind.on_host_alone else kind.signature
    listed = _described(kind, out)
    if listed is not None and listed.is_plain and listed.is_writeable:
        return listed.key
    if stacks.is_list(out):
        return tuple(map(signature, out))
    if kind.on_host_alone and arrays.known_kind(out) is kind:
        return _PLACE(out)
    return None if out is None else type(out).__name__


def check_once(kind: Kind, key: Hashable, given: Matrices, out: Matrices, check: Callable[[], object]) -> None:
    """Call `check` unless it has passed for lists, or NumPy arrays, like `given` and `out`."""
    whole = (key, kind, _signature(kind, given), _places(kind, out))
    if pin.pins() or PLANS.get(whole) is None:
        check()
        PLANS.keep(whole, True)


def scatter(kind: Kind, out: Matrices, found: Ragged) -> Matrices:
    """Copy results into the arrays of a list; vectors take matrices of one column."""
    listed = _described(kind, out)
    if listed is not None:
        numpy_lists.scatter(listed, found.buffer, found.layout.host()[2])
        return out
    for to, value in zip(out, found.to_list(), strict=True):
        to[...] = value if value.shape == to.shape else value.reshape(to.shape)
    if kind.written is not None:
        kind.written(out)
    return out


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
    found = ragged_like_earlier(kind, matrices)
    if found is None:
        layout = _checked_layout(kind, matrices, name)
        found = Ragged._of(kind, _joined(kind, matrices, layout), layout)
        PLANS.keep(("list", kind, _signature(kind, matrices)), (layout, found._view.dtype))
    return found


def ragged_like_earlier(kind: Kind, matrices: Matrices) -> Ragged | None:
    """`ragged_of` a list whose arrays have the shapes and dtypes of an earlier one; None: there was none."""
    listed = _described(kind, matrices)
    signature = _signature(kind, matrices) if listed is None else listed.key
    known: tuple[Layout, str] | None = PLANS.get(("list", kind, signature))
    return None if known is None else _packed(kind, matrices, *known, listed)


def _described(kind: Kind, operand: Matrices) -> Listed | None:
    """A list of NumPy arrays as a compiled loop sees it; None: the interpreter has to ask every array."""
    return numpy_lists.describe(operand) if kind.on_host_alone and stacks.is_list(operand) else None


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


def _packed(kind: Kind, matrices: Matrices, layout: Layout, dtype: str, listed: Listed | None = None) -> Ragged:
    """Copies of matrices that have been described before."""
    buffer = _joined(kind, matrices, layout, listed)
    view = View(kind.address(buffer), buffer.shape, (1,), dtype, ("cpu", 0), False) if kind.on_host_alone else None
    return Ragged._of(kind, buffer, layout, view)


def _joined(kind: Kind, matrices: Matrices, layout: Layout, listed: Listed | None = None) -> Matrices:
    """All entries, one matrix after the other, as the layout has them."""
    listed = listed or _described(kind, matrices)
    if listed is not None:
        buffer = np.empty(layout.reach(0)[1], listed.dtype)
        numpy_lists.gather(listed, buffer, layout.host()[2])
        return buffer
    if kind.on_host_alone:
        return np.asarray(np.concatenate(matrices, axis=None))  # flattens without a call for every matrix
    return kind.module.concatenate([kind.plain(one).reshape(-1) for one in matrices])


def place_of(kind: Kind, out: Matrices) -> Ragged:
    """The content of `out` as a Ragged, after a look at every array: the result is written there in the end."""
    if not stacks.is_list(out):
        raise TypeError(f"out is a {type(out).__name__}: the results of lists need a list")
    views: list[View] = stacks.described(kind, out, "out")
    for view in views:
        call.check_out(view, view.shape)
    _check_apart(kind, out)
    return ragged_of(kind, out, "out")


def _check_apart(kind: Kind, out: Matrices) -> None:
    """Refuse a list that holds an array twice."""
    if len(set(map(kind.address, out))) == len(out):
        return
    addresses = [kind.address(one) for one in out if 0 not in one.shape]
    if len(set(addresses)) < len(addresses):
        raise ValueError("out holds an array twice: every result needs a place of its own")
