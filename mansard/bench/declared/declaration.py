"""Declaration of a benchmark case, an entry of `table.py`: operands, spellings of other libraries, sizes.

The call, its name and sizes, the problems whose kernels are compiled ahead, and the right answer are the registry's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...operations.sizes import Sizes
from ...plan.problem import DTYPES, Options

Shape = tuple[int, ...]


class Way(NamedTuple):
    """A spelling, `run(xp, A, B, out)`, of the libraries that have it; without a B, B is A."""

    libraries: str
    written: str
    run: Callable[..., Any]


class Least(NamedTuple):
    """Least traffic (elements) and arithmetic (flops on real numbers) per unit of the long size: a matrix, a row."""

    read: float
    written: float
    flops: float


def as_drawn(xp: Any, A: Any, B: Any) -> tuple[Any, Any]:
    """Random numbers as they are."""
    return A, B


def alone(xp: Any, A: Any, B: Any) -> tuple[Any, Any]:
    """Random numbers as they are, without a B."""
    return A, None


@dataclass(frozen=True, kw_only=True)
class Declared:
    """How an operation of the registry is measured."""

    shapes: Callable[[Sizes], tuple[Shape, Shape, Shape]]  # of A and B as they are drawn, and of the result
    ways: tuple[Way, ...]
    sizes: tuple[Options, ...]  # of the set with the operation's name, as on the command line; the long one left out
    least: Callable[[Sizes], Least] | None = None  # None: the work of the family that the registry names
    # (xp, A, B), random numbers, to the operands of the call
    operands: Callable[[Any, Any, Any], tuple[Any, Any]] = as_drawn
    taken: Mapping[str, Callable[..., tuple[Any, Any]]] = field(default_factory=dict)  # library -> as it wants them
    options: Options = field(default_factory=dict)  # of our call, and of its plan where plans have them
    into: bool = True  # our call takes `out`
    counts: Callable[[Any], Any] | None = None  # the part of a result that is compared; None: all of it
    # what an entry may be off, relative to the largest one, in roundings of a sum as long as A is wide
    room: float = 4.0
    reference: Callable[..., Any] | None = None  # the answer in NumPy; None: the registry's
    # (A, B, result) to an error that is right up to 1; None: the reference is compared
    error: Callable[[Any, Any, Any], float] | None = None
    dtypes: tuple[str, ...] = DTYPES  # the first at every size, others at the second one
    catalogue: str = "batched"  # the group of `mansard bench`
