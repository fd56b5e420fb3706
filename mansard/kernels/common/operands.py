"""How operands lie in memory: layout, pitch and stack of each, and the traits and strides that follow.

A problem stores them as traits named after the operand: `layout_a`, `pitch_a`, `stack_a`. The `problem` of a family
takes these names, or an `Operand` as a whole:

    spec.problem("float64", 4, 4, 4, 100, layout_a="col", pitch_a=7)
    spec.problem("float64", 4, 4, 4, 100, a=Operand("col", 7))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...plan.problem import Problem

KINDS = ("layout", "pitch", "stack")
TURNED = {"row": "col", "col": "row", "any": "any"}  # layout of the transpose
Shapes = Mapping[str, tuple[int, int]]  # rows and columns of each operand; (0, 0) where one is absent


@dataclass(frozen=True)
class Operand:
    """One operand, or a batch of them, in memory. What is None follows from the operand that it lies like.

    layout  row, col, or any (neither rows nor columns are adjacent)
    pitch   elements between rows (or columns); None: no gaps
    stack   packed (matrix after matrix without a gap), strided, shared (one matrix serves all), pointers (an array of
            addresses), interleaved (each entry of L matrices side by side; the pitch is L times the width), or ragged
    """

    layout: str | None = None
    pitch: int | None = None
    stack: str | None = None


def resolved(
    shapes: Shapes,
    given: Mapping[str, Any],
    like: Mapping[str, str] | None = None,
    kinds: Iterable[str] = KINDS,
    rows_of_any: bool = False,
) -> dict[str, Operand]:
    """Every operand with a layout, a pitch and a stack, in the order of `shapes`.

    `given` are keywords; one that describes no operand raises TypeError. An operand in `like` lies as the other one
    does where nothing else is said, but a result is never shared, and it has no gaps where sizes or layouts differ.
    The pitch of an `any` operand means nothing; where none is given its columns stand there, or (`rows_of_any`) rows.
    """
    stated, like = _stated(shapes, given, tuple(kinds)), like or {}
    found: dict[str, Operand] = {}
    for name, (rows, columns) in sorted(shapes.items(), key=lambda item: item[0] in like):
        other = found[like[name]] if name in like else Operand("row", None, "packed")
        one = stated[name]
        layout = one.layout or other.layout
        stack = one.stack or ("packed" if other.stack == "shared" else other.stack)
        pitch = one.pitch
        if pitch is None and name in like:
            alike = (layout, stack, shapes[name]) == (other.layout, other.stack, shapes[like[name]])
            pitch = other.pitch if alike else None
        dense = rows if layout == "col" or (layout == "any" and rows_of_any) else columns
        found[name] = Operand(layout, dense if pitch is None else pitch, stack)
    return {name: found[name] for name in shapes}


def _stated(shapes: Shapes, given: Mapping[str, Any], kinds: tuple[str, ...]) -> dict[str, Operand]:
    """The operands as keywords describe them."""
    stated = dict.fromkeys(shapes, Operand())
    for keyword, value in given.items():
        kind, _, name = keyword.rpartition("_")
        if keyword in stated and isinstance(value, Operand):
            stated[keyword] = value
        elif kind in kinds and name in stated:
            stated[name] = replace(stated[name], **{kind: value})
        else:
            known = ", ".join(f"{kind}_{name}" for kind in kinds for name in shapes)
            raise TypeError(f"{keyword!r} is no trait of this problem's operands; they have {known}")
    return stated


def traits(operands: Mapping[str, Operand], **only: Iterable[str]) -> tuple[tuple[str, Any], ...]:
    """The traits of a problem: all layouts, then all pitches, then all stacks; with `only`, of these operands."""
    kinds = only or dict.fromkeys(KINDS, tuple(operands))
    return tuple((f"{kind}_{name}", getattr(operands[name], kind)) for kind, names in kinds.items() for name in names)


def shape(shapes: Mapping[str, tuple[str, str]], problem: Problem, operand: str) -> tuple[int, int]:
    """Rows and columns of an operand, by the names of the sizes (`spec.SHAPES`)."""
    rows, columns = (int(getattr(problem, name)) for name in shapes[operand])
    return rows, columns


def strides(
    problem: Problem, operand: str, shape: tuple[int, int], rows_of_any: bool = False
) -> tuple[int, int, int]:  # fmt: skip
    """Matrix, row and column stride of an operand without arrays, in elements: matrices as close as their alignment
    allows, and zeros where the operand is absent."""
    rows, columns = shape
    if rows * columns == 0:
        return 0, 0, 0
    one = of(problem, operand)
    by_columns = one.layout == "col" or (one.layout == "any" and rows_of_any)  # as `resolved` has it
    lines, length = (columns, rows) if by_columns else (rows, columns)
    stack, pitch = one.stack, one.pitch or 0
    matrix, step = lines * pitch, 16 // problem.itemsize
    if stack == "strided" and problem.aligned and step > 1:
        matrix = -(-matrix // step) * step
    row, column = problem.strides(operand)
    if stack == "interleaved":  # entries of so many matrices lie side by side
        row, column = max(row, pitch // length), max(column, pitch // length)
    return 0 if stack == "shared" else matrix, row, column


def of(problem: Problem, operand: str, turned: bool = False) -> Operand:
    """Layout, pitch and stack that a problem states of an operand, or (`turned`) of its transpose."""
    layout, pitch, stack = (getattr(problem, f"{kind}_{operand}") for kind in KINDS)
    return Operand(TURNED[layout] if turned else layout, pitch, stack)


def alone(problem: Problem, operand: Operand, shape: tuple[int, int]) -> Problem:
    """A problem whose only operand, C, lies like this one: images are made of problems (`images.py`)."""
    rows, columns = shape
    pitch = (rows if operand.layout == "col" else columns) if operand.pitch is None else operand.pitch
    operand = Operand(operand.layout or "row", pitch, operand.stack or "packed")
    sizes = (("M", rows), ("N", columns), ("BATCH", problem.BATCH))
    return Problem("operand", problem.dtype, sizes, (*traits({"c": operand}), ("aligned", problem.aligned)))


def as_column(operand: Operand, shape: tuple[int, int]) -> Operand:
    """Describe a packed row-major operand of one column as column-major; return any other operand unchanged."""
    is_column = shape[1] == 1 and operand.layout == "row" and operand.pitch == 1
    return replace(operand, layout="col", pitch=shape[0]) if is_column else operand
