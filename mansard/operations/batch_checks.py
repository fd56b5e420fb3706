"""What calls of all batched operations ask of their operands, and how they treat empty lists and JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..arrays.types import Kind, Matrices
from ..errors import UnsupportedProblem
from ..plan.problem import DTYPES
from . import run as call
from . import stacks
from .stacks import Operand


def check_dtypes(given: Sequence[tuple[str, Operand]]) -> None:
    """One supported dtype."""
    first_name, first = given[0][0], given[0][1].view.dtype
    for name, operand in given:
        dtype = operand.view.dtype
        if dtype not in DTYPES:
            raise UnsupportedProblem(f"{name} has dtype {dtype}; supported are {', '.join(DTYPES)}: convert it first")
        if dtype != first:
            raise TypeError(f"{first_name} has dtype {first} and {name} {dtype}: convert one of them")


def check_out(kind: Kind, array: Matrices, out: Operand, fits: bool, wanted: tuple[int, ...]) -> None:
    """The result's shape, every array of it writable; `wanted` is what the caller would have to pass."""
    if not fits:
        found = f"{out.shape[0]} arrays of {out.view.shape}" if out.listed else f"shape {out.view.shape}"
        raise ValueError(f"out has {found}, the result {wanted}")
    for view in stacks.described(kind, array, "out"):
        call.check_out(view, out.view.shape)


def is_unreadable(operand: Operand, backend: str) -> bool:
    """Whether the kernel needs a copy: of lists whose arrays differ in their strides, and on CPUs of what has neither
    rows nor columns that are adjacent in memory, and of results that go backwards."""
    return not operand.uniform or (backend == "cpu" and operand.layout[0] == "any")


def is_empty_list(operand: Matrices) -> bool:
    return stacks.is_list(operand) and not operand


def nothing(names: tuple[str, str], A: Matrices, B: Matrices, out: Matrices) -> Matrices:
    """The results of an empty list; `names` are those of A and B."""
    first, second = names
    for name, one, other in ((first, A, second), (second, B, first), ("out", out, f"{first} and {second}")):
        if stacks.is_list(one) and one:
            raise ValueError(f"{name} is a list of {len(one)} arrays, and of {other} there are none")
    return [] if out is None else out


def through_jax(
    kind: Kind,
    names: tuple[str, str],
    A: Matrices,
    B: Matrices,
    out: Matrices,
    run: Callable[[Matrices, Matrices], Matrices],
) -> Matrices:
    """Run on the buffers of JAX arrays and return a JAX array; `names` are those of the arguments A and B."""
    if out is not None:
        raise TypeError("out is a JAX array, which cannot be written to: leave it out and use the result")
    if B is not None and not stacks.is_list(A) and not stacks.is_list(B) and A.dtype != B.dtype:
        # NumPy's rules, by which the product would be formed, are not JAX's
        raise TypeError(f"{names[0]} has dtype {A.dtype} and {names[1]} {B.dtype}: convert one of them")
    given = zip((A, B), names, strict=True)
    result = run(*(None if one is None else stacks.unwrapped(kind, one, name) for one, name in given))
    return [kind.wrap(one) for one in result] if stacks.is_list(result) else kind.wrap(result)
