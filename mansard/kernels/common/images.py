"""How operands of batches lie in shared memory: the numbers of gemm's image.cuh, chosen so that reads do not collide.

Operands are those of a product C = A B, or the C of a problem that has nothing else (`operands.alone`). Kernels form
row-major results. A column-major C is that of the transposed product: `oriented` exchanges the operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd
from typing import Any

from ...plan.problem import Problem
from .configs import up
from .operands import TURNED

_SIZES = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N")}  # rows and columns
_TRAITS = ("layout", "pitch", "stack", "conj")


@lru_cache(maxsize=4096)
def oriented(problem: Problem) -> Problem:
    """The same problem with a row-major C (or an arbitrary one): (A B)^T = B^T A^T."""
    if not is_turned(problem):
        return problem
    changes = {"M": problem.N, "N": problem.M, "layout_c": "row"}
    for this, other in (("a", "b"), ("b", "a")):
        changes |= {f"{trait}_{this}": getattr(problem, f"{trait}_{other}") for trait in _TRAITS}
        changes[f"layout_{this}"] = TURNED[getattr(problem, f"layout_{other}")]
    return problem.replace(**changes)


def is_turned(problem: Problem) -> bool:
    """Whether kernels form the transposed product."""
    return bool(problem.layout_c == "col")


def lines(problem: Problem, side: str) -> tuple[int, int]:
    """Lines of an operand and their length: rows of columns, or columns of rows."""
    rows, columns = (getattr(problem, name) for name in _SIZES[side])
    return (columns, rows) if getattr(problem, f"layout_{side}") == "col" else (rows, columns)


def feed(problem: Problem, side: str) -> str:
    """What carries an operand to shared memory (`Feed` in image.cuh)."""
    layout, pitch, stack = (getattr(problem, f"{trait}_{side}") for trait in ("layout", "pitch", "stack"))
    count, length = lines(problem, side)
    if layout == "any" or (problem.is_complex and not problem.aligned):
        return "elements"
    dense = pitch == length or count == 1
    if stack == "packed" and dense:
        return "flat"
    if not problem.aligned:
        return "elements"
    if dense:
        return "matrices"
    return "elements" if pitch * problem.itemsize % 16 else "lines"


@dataclass(frozen=True)
class Image:
    """A group of matrices in shared memory; sizes and strides in elements."""

    lines: int
    length: int
    group: int
    feed: str
    aligned: bool
    itemsize: int
    pitch: int
    matrix: int

    @property
    def vector(self) -> int:
        return 16 // self.itemsize

    @property
    def shifted(self) -> bool:
        """Whether it may begin anywhere between 16-byte boundaries."""
        whole = self.group * self.lines * self.length % self.vector == 0
        return self.feed == "flat" and not (self.aligned and whole)

    @property
    def bytes(self) -> int:
        elements = (self.group - 1) * self.matrix + self.lines * self.pitch + (self.vector if self.shifted else 0)
        return up(elements, self.vector) * 16

    @property
    def read(self) -> int:
        """Elements of a line that can be read at once."""
        begins = self.vector
        if self.shifted:
            begins = gcd(self.group * self.lines * self.length, self.vector) if self.aligned else 1
        return gcd(self.length, self.pitch, self.matrix if self.group > 1 else self.vector, begins)


def wavefronts(offsets: list[int], width: int) -> int:
    """How often shared memory is accessed for one read of `width` bytes by each of 32 lanes, at these multiples of it,
    if 128 bytes' worth of lanes are served at a time."""
    at_once = 128 // width
    return sum(_crowd(offsets[begin : begin + at_once], at_once) for begin in range(0, 32, at_once))


def merged_wavefronts(offsets: list[int], width: int) -> int:
    """The same if lanes that read the same words are served together: nearer to what an H200 takes."""
    return max(width // 8, _crowd(offsets, 128 // width))


def _crowd(offsets: list[int], banks: int) -> int:
    """The most words that are wanted from one bank."""
    wanted: dict[int, set[int]] = {}
    for offset in offsets:
        wanted.setdefault(offset % banks, set()).add(offset)
    return max(len(words) for words in wanted.values())


def of_operand(problem: Problem, side: str, group: int) -> Image:
    """Without padding."""
    count, length = lines(problem, side)
    return Image(
        count, length, group, feed(problem, side), bool(problem.aligned), problem.itemsize, length, count * length
    )


def padded(image: Image) -> Iterator[Image]:
    """Images that hold the same, with the paddings that its feed admits."""
    vector, length = image.vector, image.length
    pads = range(8 if image.group > 1 else 1)
    if image.feed == "flat":  # pieces of 16 bytes stay whole
        yield image
        if not image.shifted and length % vector == 0:
            yield replace(image, pitch=length + vector, matrix=image.lines * (length + vector))
        if not image.shifted and image.matrix % vector == 0:
            yield from (replace(image, matrix=image.matrix + pad * vector) for pad in pads[1:])
        return
    even = up(length, vector) * vector
    pitches = {"lines": (even, even + vector), "elements": (length, even, even + vector)}.get(
        image.feed, (length, length + vector) if even == length else (length,)
    )
    for pitch, pad in product(pitches, pads):
        yield replace(image, pitch=pitch, matrix=(up(image.lines * pitch, vector) + pad) * vector)


@lru_cache(maxsize=8192)
def spread(image: Image, lanes: tuple[int, int], steps: tuple[str, str]) -> Image:
    """The image whose reads collide least; `steps` say what separates the rows and the columns of a team's lanes:
    a `line` of the image, a `run` of adjacent elements that are read at once, or nothing."""
    return min(padded(image), key=lambda one: (collisions(one, lanes, steps), one.bytes))


def collisions(image: Any, lanes: tuple[int, int], steps: tuple[str, str]) -> float:
    """Accesses to shared memory per element that each lane of a warp reads."""
    return float(wavefronts(_offsets(image, lanes, steps), image.read * image.itemsize) / image.read)


def accesses(image: Any, lanes: tuple[int, int], steps: tuple[str, str]) -> float:
    """The same as they are likely to be."""
    return float(merged_wavefronts(_offsets(image, lanes, steps), image.read * image.itemsize) / image.read)


def _offsets(image: Any, lanes: tuple[int, int], steps: tuple[str, str]) -> list[int]:
    """What the lanes of a warp read at once, in units of a read."""
    distance = {"line": image.pitch, "run": image.read, "": 0}
    offsets = []
    for lane in range(32):
        team, rank = divmod(lane, lanes[0] * lanes[1])
        row, column = divmod(rank, lanes[1])
        matrix = team * image.matrix if image.group > 1 else 0
        offsets.append((matrix + row * distance[steps[0]] + column * distance[steps[1]]) // image.read)
    return offsets
