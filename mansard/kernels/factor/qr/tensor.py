"""Sizes, registers and clocks of the `tensor` kernel of qr: the numbers of fragments.cuh."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common.configs import up
from . import spec

MOST_REGISTERS = 176  # of a thread's share of the matrix


@dataclass(frozen=True)
class TensorShape:
    """Of a matrix among its warps."""

    panels: int
    blocks: int  # of eight rows
    strips: int  # of sixteen columns
    local: int  # strips of a warp
    shared_bytes: int


@lru_cache(maxsize=8192)
def shape(problem: Problem, c: Any) -> TensorShape:
    """Vectors in shared memory, T of each panel, tau."""
    M, N, K = problem.M, problem.N, min(problem.M, problem.N)
    front, panels = -K % 8, up(K, 8)
    blocks, strips = up(front + M, 8), up(up(front + N, 8), 2)
    pitch = 8 * blocks + (8 if blocks % 2 == 0 else 0)
    elements = pitch * max(8 * panels, N) + 64 * panels + K
    return TensorShape(panels, blocks, strips, up(strips, c.WARPS), up(elements * 8, 128) * 128)


def refusal(problem: Problem, c: Any) -> str | None:
    """Why the kernel does not take the problem, or None if it does."""
    if problem.dtype != "float64":
        return "tensor: only float64"
    if problem.want not in ("raw", "r", "reduced") and (problem.want != "complete" or problem.M > problem.N):
        return "tensor: only R and reflections, and Q that has no more columns than A"
    strips = shape(problem, c).strips
    return None if 1 <= c.WARPS <= strips else f"{c.WARPS} warps: {strips} strips of 16 columns"


def held(problem: Problem, c: Any) -> int:
    """32-bit registers of a thread's share of the matrix. An odd block of columns is alone in its strip, which is never
    updated."""
    s = shape(problem, c)
    odd = c.WARPS == 1 and up(-min(problem.M, problem.N) % 8 + problem.N, 8) % 2
    return s.blocks * (8 * s.local - 4 * odd)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated: the matrix, the vector of a reflection if it stays, and sums; less where
    a few bytes that spill cost less than a block that does not fit."""
    s = shape(problem, c)
    beside = 56 + 4 * s.blocks if s.blocks < 8 else 64 if s.blocks == 8 and s.strips == c.WARPS == 4 else 72
    if s.local > 1 and s.blocks > 5:
        beside += 4 * s.blocks
    elif s.local > 1 and s.blocks > 3:
        beside -= 8
    return held(problem, c) + beside + (24 if s.local > 1 and s.blocks > 4 and _passes(problem) > 1 else 0)


def issued(problem: Problem, c: Any) -> float:
    """Instructions of all warps per matrix."""
    s = shape(problem, c)
    steps = sum(8 * (_STEP_INSTRUCTIONS + 12 * (s.blocks - p)) + 120 for p in range(s.panels))
    return float(steps + _passes(problem) * (14 * products(problem, c) + 24 * s.blocks * s.strips))


def products(problem: Problem, c: Any) -> int:
    """Blocks times strips that the panels update, each by two products."""
    s = shape(problem, c)
    across = up(-min(problem.M, problem.N) % 8 + problem.N, 8)
    return sum((s.blocks - p) * up(across - p - 1, 2) for p in range(s.panels))


def waited(problem: Problem, c: Any) -> float:
    """Clocks of a matrix from its first to its last panel: other ones on the multiprocessor fill them."""
    s = shape(problem, c)
    columns = min(problem.M, problem.N)
    rows = sum(s.blocks - p for p in range(s.panels))
    alone = products(problem, c) if c.WARPS == 1 else rows  # with more warps only what the next panel waits for
    return float(_LATENCY + columns * _STEP_CLOCKS + 8 * rows * 10 + s.panels * 250 + alone * 60 * _passes(problem))


def _passes(problem: Problem) -> int:
    return 1 + (spec.shape(problem, "q")[1] > 0)


# Instructions of a reflection beside its rows, clocks until it is known, and until memory answers.
_STEP_INSTRUCTIONS, _STEP_CLOCKS, _LATENCY = 70, 330, 2500
