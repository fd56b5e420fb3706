"""Sizes that stand for arrays: what --m --n --k --batch mean for an operation, their defaults, and which one is long.

Options have one meaning throughout: products give M x N results, K is what is summed over, --batch counts matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..codegen.geometry import Device
from ..errors import UsageError
from ..plan.problem import Options


@dataclass(frozen=True)
class Asked:
    """The options of a command line; a size that was not given is None."""

    operation: str
    dtype: str = "float64"
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | None = None
    layout: str = "row"
    same: bool = False
    deterministic: bool = True
    on_cpu: bool = False  # where the arrays live: short products go to the array library there
    device: Device | None = None  # whose records may decide between families; None: none is known


class Sizes(NamedTuple):
    """The sizes of a problem, all known."""

    m: int
    n: int
    k: int
    batch: int


class SizeOptions(NamedTuple):
    """Which sizes an operation has: the options that describe its operands."""

    takes: tuple[str, ...]  # those that are needed first
    needs: int  # how many of them have no default
    long: str = "batch"  # the option that tuning and benchmarks choose by --elements; "": none
    entries: Callable[[Sizes], int] = lambda s: max(s.m * s.k, s.k * s.n, s.m * s.n)  # elements per unit of `long`
    n: str | int = "m"  # default of N: that of another option, or a number


TALL = SizeOptions(("m", "k", "n"), 2, "k", lambda s: max(s.m, s.n))
TALL_BLOCK = SizeOptions(("m", "k"), 2, "k", lambda s: s.m)
PRODUCT = SizeOptions(("m", "k", "n", "batch"), 2, "", n="k")
PRODUCTS = SizeOptions(("m", "batch", "n", "k"), 2)
VECTORS = SizeOptions(("m", "batch", "k"), 2, n=1)
SQUARE = SizeOptions(("m", "batch"), 2, entries=lambda s: s.m * s.m)
RECTANGLE = SizeOptions(("m", "batch", "n"), 2, entries=lambda s: s.m * s.n)
SYSTEM = SizeOptions(("m", "batch", "n"), 2, entries=lambda s: s.m * max(s.m, s.n), n=1)
ONE_VECTOR = SizeOptions(("m", "batch"), 2, entries=lambda s: s.m * s.m, n=1)
UPDATE = SizeOptions(("m", "batch", "k"), 2)
SPARSE = SizeOptions(("m", "k", "n"), 2, "m", lambda s: s.k, n=1)
POWERS = SPARSE._replace(n=4)
_MEANING = {"batch": "the number of matrices"}


def sizes_of(asked: Asked, options: SizeOptions, text: str) -> Sizes:
    """All sizes, with the defaults of those that were not given; UsageError, with the operation's text, where one is
    missing or has no meaning."""
    given = {name: getattr(asked, name) for name in Sizes._fields if getattr(asked, name) is not None}
    for name in options.takes[: options.needs]:
        if name not in given:
            raise UsageError(f"{asked.operation} needs --{name}, {_MEANING.get(name, 'a size')}: {text}")
    for name in given:
        if name not in options.takes:
            raise UsageError(f"{asked.operation} has no --{name}: {text}")
    if asked.same and (asked.operation != "gram" or asked.n not in (None, asked.m)):
        raise UsageError("--same means that B is A: it belongs to gram, with N = M (leave --n out)")
    m, k = given["m"], given.get("k", given["m"])
    n = given.get("n", {"m": m, "k": k}.get(str(options.n), options.n))
    return Sizes(m, int(n), k, given.get("batch", 1))


def with_long(asked: Asked, options: SizeOptions, text: str, elements: int) -> Asked:
    """Return `asked` with its long size set so that the largest operand has about `elements` entries.

    A long size that the user gave stays."""
    if not options.long or getattr(asked, options.long) is not None:
        return asked
    one: Options = {options.long: 1}
    entries = options.entries(sizes_of(replace(asked, **one), options, text))
    many: Options = {options.long: max(1, elements // max(1, entries))}
    return replace(asked, **many)
