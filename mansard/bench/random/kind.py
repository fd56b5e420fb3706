"""How a kind of random problem is declared: its draw, our call, other libraries' spellings, and its error.

The kinds are in `tall.py`, `products.py`, `factors.py` and `ragged.py`, by the names of `--operations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...machine.roofline import Work
from ...plan.problem import ITEMSIZE
from .problem import Dice, Drawn

Options = Mapping[str, Any]


class Way(NamedTuple):
    """A spelling, `run(xp, A, B, out, options)`, of the libraries that have it; without a B, B is A."""

    libraries: str
    written: str
    run: Callable[[Any, Any, Any, Any, Options], Any]


def as_drawn(xp: Any, drawn: Drawn, A: Any, B: Any) -> tuple[Any, Any]:
    """Random numbers as they are."""
    return A, B


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Problems of one operation."""

    public: str  # our function, a name of the registry of operations
    draw: Callable[[Dice], Drawn]
    ways: tuple[Way, ...]
    # (problem, A, B, result) to the largest error in units of its bound; with `by_matrix`, of some matrices on the host
    error: Callable[[Drawn, Any, Any, Any], float]
    by_matrix: bool = True
    # (xp, problem, A, B), random numbers, to the operands of the call
    operands: Callable[[Any, Drawn, Any, Any], tuple[Any, Any]] = as_drawn
    fixed: Options = field(default_factory=dict)  # options of our call that are no part of the problem
    taken: Mapping[str, Callable[..., tuple[Any, Any]]] = field(default_factory=dict)  # library -> as it wants them
    weight: float = 1.0  # how often the kind is drawn


def least(dtype: str, read: float, written: float, flops: float) -> Work:
    """Work from elements moved and flops of real numbers; complex ones take four times as many."""
    item, each = ITEMSIZE[dtype], 4 if dtype.startswith("complex") else 1
    return Work(int(read * item), int(written * item), int(each * flops), dtype)
