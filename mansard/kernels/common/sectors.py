"""Bytes that memory moves for triangles: sectors of 32 bytes, of which one that is written in part is read first."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np

from ...plan.problem import Problem

SECTOR = 32  # bytes that GPUs read and write at a time


class Moved(NamedTuple):
    """Bytes per matrix, as a mean over a stack."""

    read: float  # sectors with an entry
    written: float  # the same, for writing
    filled: float  # of these, sectors that other bytes share: they are read before they are written


def triangle(problem: Problem, side: str, part: str, order: int) -> Moved:
    """Bytes moved per matrix for one triangle of operand `side`: `part` is lower or upper, as the caller sees it.

    Entries that are adjacent in no direction count as they are. Strided and separate matrices are taken to begin on
    sectors, and shared sectors of packed ones to be moved once.
    """
    layout = getattr(problem, f"layout_{side}")
    if layout == "any" or order == 0:
        entries = order * (order + 1) / 2 * problem.itemsize
        return Moved(entries, entries, 0.0)
    packed = getattr(problem, f"stack_{side}") == "packed"
    pitch = order if packed else getattr(problem, f"pitch_{side}")
    return _triangle(order, pitch, problem.itemsize, (part == "lower") == (layout == "row"), packed)


@lru_cache(maxsize=1024)
def _triangle(order: int, pitch: int, itemsize: int, falls: bool, packed: bool) -> Moved:
    """Bytes moved for a triangle whose lines are `pitch` elements apart; `falls`: line i has its first i + 1 entries,
    otherwise all but its first i."""
    each = SECTOR // itemsize  # elements of a sector
    count = each // gcd(order * pitch, each) if packed else 1  # matrices until one begins on a sector again
    inside = np.zeros((order, pitch), dtype=bool)
    inside[:, :order] = np.tri(order, dtype=bool) if falls else np.tri(order, dtype=bool).T
    run = np.tile(inside.ravel(), count)
    sectors = np.append(run, np.zeros(-len(run) % each, dtype=bool)).reshape(-1, each)
    touched, whole = int(sectors.any(axis=1).sum()), int(sectors.all(axis=1).sum())
    return Moved(SECTOR * touched / count, SECTOR * touched / count, SECTOR * (touched - whole) / count)
