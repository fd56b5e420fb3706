"""Operands and places of results, checked for routines that write one triangle of every matrix."""

from __future__ import annotations

from typing import Any

from ..operations import run as call
from ..operations import stacks
from ..operations.batched.rank_products import each
from ..operations.ragged import Ragged


def check_options(uplo: str, trans: str, other: str, beta: complex, out: Any) -> None:
    """Options of a routine that writes one triangle; `other` is what `trans` may be beside "N"."""
    if uplo not in ("L", "U"):
        raise ValueError(f"uplo={uplo!r} is neither 'L' nor 'U'")
    if trans not in ("N", other):
        raise ValueError(f"trans={trans!r} is neither 'N' nor {other!r}")
    if out is None and beta != 0.0:
        raise ValueError("beta scales the content of out: pass out")


def check_places(kind: Any, a: Any, trans: str, out: Any) -> None:
    """The result's kind, number, shape and dtype; nothing is cast."""
    if isinstance(a, Ragged) != isinstance(out, Ragged):
        raise TypeError(f"out is {_counted(out)} and a {_counted(a)}: where one is a Ragged, so is the other")
    if kind_of(out, "out") is not kind:
        raise TypeError("a and out are arrays of different libraries: convert one of them")
    if isinstance(out, Ragged):
        return  # the rest is looked at for all matrices at once
    if kind is not None:
        for view in stacks.described(kind, out, "out"):
            call.check_out(view, view.shape)
    if stacks.is_list(out) != stacks.is_list(a) or len(each(out)) != len(each(a)):
        raise ValueError(f"out is {_counted(out)} and a {_counted(a)}: one for each is needed")
    for one, place in zip(each(a), each(out), strict=True):
        wanted = (*one.shape[:-2], *(one.shape[-2 if trans == "N" else -1],) * 2)
        if tuple(place.shape) != wanted:
            raise ValueError(f"out has shape {tuple(place.shape)}, the result {wanted}")
        if place.dtype != one.dtype:
            raise TypeError(f"a has dtype {one.dtype} and out {place.dtype}: convert one of them")


def _counted(operand: Any) -> str:
    if isinstance(operand, Ragged):
        return repr(operand)
    return f"a list of {len(operand)} arrays" if stacks.is_list(operand) else "an array"


def check(operand: Any, name: str) -> Any:
    """The operand's array library, None for an empty list. Vectors are refused; those of lists are, later."""
    kind = stacks.kind_of(operand, name)
    if not stacks.is_list(operand) and operand.ndim < 2:
        raise ValueError(f"{name} has shape {tuple(operand.shape)}: a matrix or a stack of matrices is needed")
    return kind


def kind_of(operand: Any, name: str) -> Any:
    """Array library of an operand; a Ragged counts as the library of its buffer."""
    return operand._kind if isinstance(operand, Ragged) else check(operand, name)
