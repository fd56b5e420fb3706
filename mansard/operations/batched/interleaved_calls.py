"""Operations whose kernels read any strides, on interleaved batches: the matrices side by side are stacks of views."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from math import prod

from ...arrays.types import Array, Matrices
from ..operation import Special
from .interleaved import Interleaved, beside, check_alike, checked

Stacked = Callable[..., Array]  # (A, B, out, alpha, beta, backend, form), for stacks
Sizes = tuple[int, int]
ShapeOf = Callable[..., Sizes]  # of a result, from the form and the shapes of A and B (None: there is none)


def also_interleaved(run: Stacked, shape_of: ShapeOf, others: Special | None = None, fills: bool = True) -> Special:
    """`Operation.special` of an operation that `run` answers for stacks. `others` answers other containers; `fills`
    says that `run` writes all of a place, not one triangle."""

    def chosen(A: Matrices, B: Matrices, out: Matrices) -> Callable[..., Matrices] | None:
        if any(isinstance(one, Interleaved) for one in (A, B, out)):
            return partial(_answer, run, shape_of, fills)
        return others(A, B, out) if others else None

    return chosen


def shape_of_right(form: Hashable, a: Sizes, b: Sizes | None) -> Sizes:
    """The shape of what a triangle multiplies, or of right-hand sides: that of the result, too."""
    assert b is not None
    return b


def _answer(
    run: Stacked, shape_of: ShapeOf, fills: bool, A: Matrices, B: Matrices, out: Matrices, alpha: complex,
    beta: complex, backend: str | None, form: Hashable,
) -> Interleaved:  # fmt: skip
    """The results for the matrices that exist; one of A and B may be an ordinary matrix that serves all."""
    given = {name: checked(one, name) for name, one in (("a", A), ("b", B), ("out", out)) if one is not None}
    stacks = [of for name, (_, of) in given.items() if of is not None and name != "out"]
    if not stacks:
        raise TypeError("out is an Interleaved, and no operand is: interleave one of them")
    for name, (view, of) in given.items():
        check_alike(name, view, of, stacks[0])
    if out is None and beta != 0.0:
        raise ValueError("beta scales the content of out: pass out")
    shape = shape_of(form, _sizes(A), None if B is None else _sizes(B))
    if out is not None and out.shape != (*stacks[0].leading, *shape):
        raise ValueError(f"out has shape {out.shape}, the result {(*stacks[0].leading, *shape)}")
    result = beside(stacks[0], shape) if out is None else out
    for part in _parts(stacks[0]):
        a, b, place = (part(one) if isinstance(one, Interleaved) else one for one in (A, B, result))
        if out is None and not fills:
            place[...] = run(a, b, None, alpha, beta, backend, form)
        else:
            run(a, b, place, alpha, beta, backend, form)
    return result


def _parts(like: Interleaved) -> Iterator[Callable[[Interleaved], Array]]:
    """Functions that view the matrices of a batch as stacks (groups, lanes, rows, columns): those of whole groups, and
    those that exist in the last one."""
    whole, rest = divmod(prod(like.leading), like.lanes)

    def first(batch: Interleaved) -> Array:
        return batch.buffer[:whole].swapaxes(2, 3).swapaxes(1, 2)

    def last(batch: Interleaved) -> Array:
        return batch.buffer[whole:, :, :, :rest].swapaxes(2, 3).swapaxes(1, 2)

    yield from [first] * (whole > 0) + [last] * (rest > 0)


def _sizes(operand: Matrices) -> Sizes:
    rows, columns = operand.shape[-2:]
    return int(rows), int(columns)
