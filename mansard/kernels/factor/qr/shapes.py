"""Shared memory of the GPU configurations of qr: how matrices lie there, and the numbers that the kernels assert."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common import images, operands
from ...common.configs import up
from ...common.images import Image
from . import spec


@dataclass(frozen=True)
class Shape:
    """What decides legality."""

    a: Image
    twin: bool  # F moves as A does, from the same image
    feed_f: str
    group: int  # matrices per unit and turn
    units: int  # warps, or the block
    rows: int  # slots of a thread
    columns: int  # of A and B, or of Q
    shared_bytes: int


def view(problem: Problem, name: str) -> Problem:
    """The operand by itself, as the C of a problem."""
    return operands.alone(problem, operands.of(problem, name), spec.shape(problem, name))


@lru_cache(maxsize=8192)
def shape(problem: Problem, c: Any) -> Shape:
    """Images whose accesses by single elements keep apart."""
    team, K = c.LANES_M * c.LANES_N, min(problem.M, problem.N)
    group = max(1, 32 // team)
    units = 1 if team > 32 else c.WARPS
    rows, columns = up(problem.M, c.LANES_M), up(problem.N + problem.NRHS, c.LANES_N)
    a = images.of_operand(view(problem, "a"), "c", group)
    raw = problem.want in ("raw", "panel")
    f = images.of_operand(view(problem, "f"), "c", group) if raw else a
    twin = raw and problem.layout_a == problem.layout_f and _moves_alike(a, f)
    choices = [one for one in images.padded(a) if not twin or _carries(f, one)]
    a = min(choices, key=lambda one: (_collisions(problem, c, one), one.bytes))
    of_q = 0
    if problem.want in ("reduced", "complete"):
        width = spec.shape(problem, "q")[1]
        columns = max(columns, up(width, c.LANES_N))
        lines, length = (width, problem.M) if problem.layout_q == "col" else (problem.M, width)
        of_q = _bytes(problem, group * lines * (length | 1))
    beside = _bytes(problem, group * problem.NRHS * (problem.M | 1)) + _bytes(problem, group * K)
    beside += _bytes(problem, 2 * (rows * c.LANES_M + 1)) if team > 32 else 0
    beside += _bytes(problem, group * 2 * K * K) if problem.want == "panel" else 0
    unit = c.STAGES * max(a.bytes, of_q) + beside
    return Shape(a, twin, f.feed if twin else a.feed, group, units, rows, columns, up(units * unit, 128) * 128)


def _bytes(problem: Problem, elements: int) -> int:
    return up(elements * problem.itemsize, 16) * 16


def _moves_alike(a: Image, f: Image) -> bool:
    """Whether F can leave from where A was: what begins anywhere must begin alike."""
    return (not a.shifted and not f.shifted) or (a.feed == f.feed and a.aligned)


def _carries(f: Image, one: Image) -> bool:
    return any((other.pitch, other.matrix) == (one.pitch, one.matrix) for other in images.padded(f))


def _collisions(problem: Problem, c: Any, image: Image) -> int:
    """Accesses to shared memory when each lane of a warp reads an element."""
    row, column = (1, image.pitch) if problem.layout_a == "col" else (image.pitch, 1)
    across = min(c.LANES_N, 32 // c.LANES_M)
    offsets = []
    for lane in range(32):
        team, rank = divmod(lane, c.LANES_M * across)
        offsets.append(team * image.matrix * (image.group > 1) + rank // across * row + rank % across * column)
    return images.wavefronts(offsets, problem.itemsize)
