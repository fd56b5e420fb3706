"""Ragged batches by padded stacks on GPUs: gather the matrices of a class, compute on the stack, scatter the results.

A matrix A in a stack of larger matrices is followed by the unit matrix, and its right-hand sides by zeros:

    [A 0] [X]   [B]
    [0 I] [0] = [0]

Products with the padding are exact zeros, so that factors, solutions, inverses and determinants of A are parts of the
stack's. A row of the padding is zero in the columns of A and never has the largest entry of one: of equal ones the
first is the pivot, which is a row of A. So `info` names A's own columns, and pivots stay inside A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays.types import Array, Kind
from ..backends.base import Backend
from ..plan.problem import ITEMSIZE
from . import run as call
from .ragged import Ragged
from .ragged_classes import SizeClass
from .ragged_copy import NO_ONES, Block, Copies, Copy, is_capturing
from .ragged_layout import ALIGNMENT

_MOST = 256 << 20  # bytes of gathered operands at a time; results take as much beside them
Table = Sequence[Array]  # rows, columns and offsets of all matrices
Found = dict[str, Array]  # parts of a result by name


class Given(NamedTuple):
    """An operand: where its matrices are, which bounds of a class its stack has, and row minus column of ones."""

    table: Table
    bounds: tuple[int, int] = (0, 1)
    ones: int | Array = NO_ONES


class Wanted(NamedTuple):
    """A result of matrices: where they go, and the shape of the stack's matrices (from the class's bounds)."""

    table: Table
    shape: Callable[[tuple[int, int, int]], tuple[int, int]]
    is_turned: bool = False  # the transposes of the stack's matrices are wanted


class Compute(NamedTuple):
    """What is done with the stacks of a class, and what prepares it: several classes at once, in threads."""

    run: Callable[..., Found]  # (stacks, number of their class among `members`, what the call passes on) -> parts
    prepare: Callable[[list[Array]], object] = lambda stacks: None


class Piece(NamedTuple):
    """A class, or a part of one that is too large: the places and shapes of its stacks, and copies of the results."""

    members: Array
    stacks: list[tuple[slice, tuple[int, int, int]]]
    scatters: dict[str, Copy]


class _Chunk(NamedTuple):
    """Pieces whose operands are in memory at a time: entries of each operand's buffer, and the copies into it."""

    entries: list[int]
    gathers: list[Copy]
    pieces: list[Piece]


class StackedRun:
    """One operation for layouts that belong together, of which it holds nothing but tables."""

    def __init__(
        self, kind: Kind, backend: Backend, dtype: str, device: tuple[str, int], compute: Compute,
        classes: list[SizeClass], given: list[Given], wanted: dict[str, Wanted],
    ) -> None:  # fmt: skip
        self.kind, self.backend, self.dtype, self.compute = kind, backend, dtype, compute
        self.stream = kind.stream_of(device)
        self.copies = Copies(kind, backend, dtype)
        self._captured: list[Any] = []  # memory that graphs read and write
        self._is_prepared = False
        self.chunks = [self._chunk(some, given, wanted) for some in chunks(classes, given, ITEMSIZE[dtype])]
        self.pieces = [piece for chunk in self.chunks for piece in chunk.pieces]
        self.members = [piece.members for piece in self.pieces]

    def _chunk(self, classes: list[SizeClass], given: list[Given], wanted: dict[str, Wanted]) -> _Chunk:
        unit, members = ALIGNMENT // ITEMSIZE[self.dtype], np.concatenate([one.members for one in classes])
        pieces = [Piece(one.members, [], self._scatters(one, wanted)) for one in classes]
        entries, gathers = [], []
        for operand in given:
            rows, columns, source = (np.asarray(one)[members] for one in operand.table)
            starts, shapes, first = [], [], 0
            for one, piece in zip(classes, pieces, strict=True):
                height, width = (one.bounds[i] for i in operand.bounds)
                count = len(one.members)
                piece.stacks.append((slice(first, first + count * height * width), (count, height, width)))
                starts.append(first + np.arange(count) * height * width)
                shapes.append(np.broadcast_to([height, width], (count, 2)))
                first += -(-count * height * width // unit) * unit
            height, width = np.concatenate(shapes).T
            ones = np.broadcast_to(operand.ones, (len(operand.table[0]),))[members]
            block = Block(source, np.concatenate(starts), rows, columns, height, width, columns, 1, ones)
            entries.append(first)
            gathers.append(self.copies.add(block))
        return _Chunk(entries, gathers, pieces)

    def _scatters(self, one: SizeClass, wanted: dict[str, Wanted]) -> dict[str, Copy]:
        """Copies of the results of a class, each from a stack of its own."""
        made = {}
        for part, result in wanted.items():
            rows, columns, target = (np.asarray(table)[one.members] for table in result.table)
            height, width = result.shape(one.bounds)
            steps = (1, width) if result.is_turned else (width, 1)
            source = np.arange(len(one.members)) * height * width
            made[part] = self.copies.add(Block(source, target, rows, columns, rows, columns, *steps))
        return made

    def __call__(self, given: list[Ragged], results: dict[str, Ragged], *more: Any) -> list[Found]:
        """Write the results of matrices; return the other parts of every piece, in the order of `members`."""
        like, stream, address = given[0].buffer, self.stream(), self.kind.address
        table = self.copies.table(like, stream)
        rest: list[Found] = []
        for chunk in self.chunks:
            buffers = [self.kind.empty((1, size), self.dtype, like).reshape(-1) for size in chunk.entries]
            for gather, operand, buffer in zip(chunk.gathers, given, buffers, strict=True):
                gather(operand._view.address, address(buffer), table, stream)
            stacks = [
                [buffer[where].reshape(shape) for buffer, (where, shape) in zip(buffers, piece.stacks, strict=True)]
                for piece in chunk.pieces
            ]
            if not self._is_prepared:
                call.together([partial(self.compute.prepare, one) for one in stacks])
            for piece, one in zip(chunk.pieces, stacks, strict=True):
                found = self.compute.run(one, len(rest), *more)
                for part, scatter in piece.scatters.items():
                    plain = self.kind.plain(found.pop(part))
                    scatter(address(plain), results[part]._view.address, table, stream)
                    buffers.append(plain)
                rest.append(found)
            if is_capturing(self.backend, stream):
                self._captured.append((buffers, rest))
        self._is_prepared = True
        return rest


def chunks(classes: list[SizeClass], given: list[Given], itemsize: int) -> Iterator[list[SizeClass]]:
    """Classes, or parts of large ones, whose gathered operands take no more than `_MOST` bytes together."""
    chunk: list[SizeClass] = []
    room = _MOST
    for one in classes:
        each = max(1, itemsize * sum(prod(one.bounds[i] for i in operand.bounds) for operand in given))
        parts = -(-len(one.members) * each // max(each, _MOST))
        for members in np.array_split(one.members, max(1, parts)):
            if chunk and len(members) * each > room:
                yield chunk
                chunk, room = [], _MOST
            chunk.append(one._replace(members=members))
            room -= len(members) * each
    if chunk:
        yield chunk
