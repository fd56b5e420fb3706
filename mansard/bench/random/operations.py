"""The distribution of random problems: which kinds there are, how often each is drawn, and problem I of a seed.

Problem I is a function of the seed, I, and the memory limit alone: filters of operations leave out problems, and change
none of the others. Everything is drawn by `Dice`:

* the kind by its weight (`weights`), the dtype by `problem.DTYPES`;
* sides of small matrices log-uniformly to 96 .. 160 in batches, to 256 .. 1024 alone, half of the time equal ones;
* the bytes of operands and result log-uniformly from 4 KiB to the memory limit: rows of tall matrices, and the
  number of matrices in a batch, follow from them. Arithmetic is limited to 16 flops per byte of the memory limit;
* the layout of each operand by `problem.LAYOUTS`; transposition, triangle, side, unit diagonal by BLAS's options;
  one operand for a whole batch; results in given memory or made anew;
* sizes of ragged batches uniformly, by a power law, or from two sizes; sparse matrices among stencils, bands, blocks,
  random, power-law and graph-like ones.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from ...machine.roofline import Work
from . import factors, products, ragged, sparse, tall
from .kind import Kind
from .problem import Dice, Drawn

PREFIX = "random "  # of operations in cases and rows
KINDS: dict[str, Kind] = {**tall.KINDS, **products.KINDS, **factors.KINDS, **ragged.KINDS}
NAMES = (*KINDS, *sparse.OPERATIONS)
DRAWN = tuple(PREFIX + name for name in KINDS)
Source = tuple[int, ...]  # seed, number, bytes of memory


def weights() -> dict[str, float]:
    """How often each kind is drawn, relative to the others."""
    return {name: kind.weight for name, kind in KINDS.items()} | sparse.WEIGHTS


def name_of(seed: int, number: int) -> str:
    """The kind of problem `number`."""
    return Dice(seed, number, 1).choose(weights())


@lru_cache(maxsize=256)
def problem(seed: int, number: int, memory: int) -> Drawn | dict[str, Any]:
    """Problem `number`: a drawn problem, or the fields of a sparse case."""
    dice = Dice(seed, number, memory)
    name = dice.choose(weights())
    return sparse.draw(dice, name) if name in sparse.OPERATIONS else KINDS[name].draw(dice)


def dense(source: Source) -> Drawn:
    """The problem behind a case of DRAWN."""
    found = problem(*source)
    assert isinstance(found, Drawn)
    return found


def kind(drawn: Drawn) -> Kind:
    return KINDS[drawn.operation]


def facts(source: Source) -> dict[str, Any]:
    """Description of a problem that its row stores: the work, and a line for people."""
    drawn = dense(source)
    return {"work": asdict(drawn.work), "problem_text": str(drawn)}


def work(row: dict[str, Any]) -> Work:
    """Least work of a row, which carries it, or of a case's fields."""
    if "work" in row:
        return Work(**row["work"])
    return dense(tuple(row["drawn"])).work
