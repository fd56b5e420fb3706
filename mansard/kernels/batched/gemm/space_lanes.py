"""The `lanes` configurations: what each parameter means, their rules and their candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

from ....plan.problem import Problem
from ....rules import Names
from ...common import lanes
from ...common.configs import OnGpu, up
from .work_lanes import lanes_shape

WIDEST = 48  # beyond it a lane's share of C does not fit into registers,
THIN = 8  # unless C has no more rows, or columns, than these
# Lanes along rows and columns of a team: powers of two that divide a warp.
_TEAMS = [(m, n) for m, n in product((1, 2, 4, 8, 16, 32), repeat=2) if m * n <= 32]


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, groups of matrices through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES_M: int = 2  # lanes along the rows of a matrix
    LANES_N: int = 2  # and along its columns
    PER_TEAM: int = 1  # matrices of a group per team of lanes
    STAGES: int = 1  # groups under way per warp; 1: warps come and go
    # where C is laid down on its way out: back where A was, or in a place of its own
    OUT: Annotated[str, Names("own", "back")] = "back"
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 2


def illegal(problem: Problem, c: Lanes) -> str | None:
    """Why the configuration cannot be used for a problem with a row-major C; resources apart."""
    return lanes.illegal(
        c, "A", problem.stack_a == "shared", lambda: (lanes_shape(problem, c).a, lanes_shape(problem, c).c)
    )


def candidates(problem: Problem) -> Iterator[Lanes]:
    """Teams that waste little, with a few ways to keep bytes under way; residence is filled in by the caller."""
    outs = ("own",) if problem.stack_a == "shared" else ("back",)
    for lanes_m, lanes_n in teams(problem):
        matrices = 32 // (lanes_m * lanes_n)
        group_bytes = matrices * (problem.M + problem.N) * problem.K * problem.itemsize
        for stages, out in (*product((1,), outs), (2, "own"), *product((2,), outs)):
            yield Lanes(lanes_m, lanes_n, 1, stages, out)
        if group_bytes <= 4096:
            for per_team, stages in product((2, 4), (1, 2)):
                yield from (Lanes(lanes_m, lanes_n, per_team, stages, out) for out in (*outs, "own"))
        if group_bytes >= 8192:
            yield from (Lanes(lanes_m, lanes_n, 1, 1, outs[0], warps) for warps in (1, 2))


def teams(problem: Problem) -> list[tuple[int, int]]:
    """Shapes of teams, the most promising first: at most 128 registers of C per lane, few of them for nothing."""
    words = problem.itemsize // 4
    found = []
    for m, n in _TEAMS:
        rows, columns = up(problem.M, m), up(problem.N, n)
        waste = rows * columns * m * n / (problem.M * problem.N)
        idle = (m > 1 and rows * (m // 2) >= problem.M) or (n > 1 and columns * (n // 2) >= problem.N)
        if idle or rows * columns * words > 128:
            continue
        # reads per product, paid for entries that nobody needs, too; a lane with few of them computes little per read
        found.append((waste * (1 / rows + 1 / columns) + 0.01 * rows * columns * words / 16, m, n))
    return [(m, n) for _, m, n in sorted(found)[:8]]
