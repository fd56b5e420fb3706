"""Sums, exchanges and searches of vectors by the array library's own arithmetic: there is nothing to choose."""

from __future__ import annotations

from collections.abc import Iterator

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind, Matrices
from ...errors import UnsupportedProblem
from ...plan.problem import DTYPES, ITEMSIZE
from .. import run as call
from .. import stacks

Factor = Array  # alpha: a number, or an array of one number per vector


def scaled_sum(alpha: Factor, x: Matrices, y: Matrices, out: Matrices) -> Matrices:
    """alpha x + y, or alpha x where y is None; alpha may be an array of one number per vector."""
    kind = stacks.common_kind((("x", x), ("y", y), ("out", out)))
    if kind is None:
        return [] if out is None else out
    if kind.immutable and out is not None:
        raise TypeError("out is a JAX array, which cannot be written to: leave it out and use the result")
    found = [_sum(kind, alpha_i, *them) for alpha_i, them in _members(alpha, (x, y, out))]
    if out is not None and kind.written is not None:
        kind.written(out if stacks.is_list(out) else (out,))
    return out if out is not None else found if stacks.is_list(x) else found[0]


def swap_contents(x: Matrices, y: Matrices) -> None:
    """Exchange the contents of two batches of one shape."""
    kind = stacks.common_kind((("x", x), ("y", y)))
    if kind is None:
        return
    if kind.immutable:
        raise TypeError("x is a JAX array, which cannot be written to: exchange the names instead")
    pairs = [them for _, them in _members(1.0, (x, y, None))]
    for one, other, _ in pairs:
        first, second = (_checked(kind, name, array) for name, array in (("x", one), ("y", other)))
        if first.shape != second.shape or first.dtype != second.dtype:
            raise ValueError(f"x is {first.dtype} {first.shape} and y {second.dtype} {second.shape}: they must agree")
        for name, view in (("x", first), ("y", second)):
            if view.readonly:
                raise ValueError(f"{name} is read-only")
        if 0 not in first.shape and _overlap(first, second):
            raise ValueError("x overlaps y: each needs memory of its own")
    for one, other, _ in pairs:
        kept = kind.allocate(tuple(one.shape), kind.view(one, "x").dtype, one)
        kept[...] = one
        one[...] = other
        other[...] = kept
        if kind.written is not None:
            kind.written((one, other))


def iamax_of(x: Matrices) -> Array:
    """Index of the first entry with the largest |real| + |imaginary|, along the last dimension."""
    kind = stacks.kind_of(x, "x")
    if kind is None:
        raise ValueError("x is an empty list: there is no vector to look at")
    found = []
    for _, (one, _, _) in _members(1.0, (x, None, None)):
        shape = tuple(one.shape)
        if kind.immutable:
            is_complex = "complex" in str(one.dtype)
        else:
            view = _checked(kind, "x", one)
            is_complex = view.dtype.startswith("complex")
        if not shape or shape[-1] == 0:
            raise ValueError(f"x has shape {shape}: vectors of at least one entry are needed")
        size = abs(one.real) + abs(one.imag) if is_complex else abs(one)
        found.append(size.argmax(-1))
    return kind.module.stack(found) if stacks.is_list(x) else found[0]


Member = tuple[Factor, tuple[Array, ...]]  # alpha, and operands that belong together


def _members(alpha: Factor, operands: tuple[Matrices, ...]) -> Iterator[Member]:
    """Operands that belong together: those themselves, or the arrays of lists one after the other."""
    given = [one for one in operands if one is not None]
    if not any(map(stacks.is_list, given)):
        yield alpha, operands
        return
    if not all(map(stacks.is_list, given)) or len({len(one) for one in given}) > 1:
        raise ValueError("lists and arrays are mixed, or lists differ in length: one vector for each is needed")
    for i in range(len(given[0])):
        factor = alpha[i] if getattr(alpha, "shape", ()) else alpha
        yield factor, tuple(None if one is None else one[i] for one in operands)


def _sum(kind: Kind, alpha: Factor, x: Array, y: Array, out: Array) -> Array:
    if kind.immutable:
        scaled = x * (alpha[..., None] if getattr(alpha, "shape", ()) else alpha)
        return scaled if y is None else scaled + y
    view = _checked(kind, "x", x)
    if y is not None and (other := _checked(kind, "y", y)).dtype != view.dtype:
        raise TypeError(f"x has dtype {view.dtype} and y {other.dtype}: convert one of them")
    place = None if out is None else _checked(kind, "out", out)
    if place is not None and place.dtype != view.dtype:
        raise TypeError(f"x has dtype {view.dtype} and out {place.dtype}: convert one of them")
    result = x * _factor(kind, alpha, view)
    result = result if y is None else result + y
    if place is None:
        return result
    call.check_out(place, tuple(result.shape))
    out[...] = result
    return out


def _factor(kind: Kind, alpha: Factor, view: View) -> Factor:
    """alpha as the library multiplies by it, without changing the vectors' dtype."""
    if getattr(alpha, "shape", ()):
        if arrays.kind_of(alpha, "alpha") is not kind or kind.view(alpha, "alpha").dtype != view.dtype:
            raise TypeError(f"alpha is an array and not one of {kind.name} with dtype {view.dtype}: convert it")
        return alpha[..., None]
    number = complex(alpha)
    if view.dtype.startswith("complex"):
        return number
    if number.imag:
        raise TypeError(f"alpha must be real for {view.dtype} vectors")
    return number.real


def _checked(kind: Kind, name: str, array: Array) -> View:
    """The view of a batch of vectors; of a dtype that is supported."""
    view = kind.view(array, name)
    if not view.shape:
        raise ValueError(f"{name} is a single number: a vector or a stack of vectors is needed")
    if view.dtype not in DTYPES:
        raise UnsupportedProblem(f"{name} has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first")
    return view


def _overlap(one: View, other: View) -> bool:
    (low, high), (first, last) = (arrays.extent(view, ITEMSIZE[view.dtype]) for view in (one, other))
    return low < last and first < high
