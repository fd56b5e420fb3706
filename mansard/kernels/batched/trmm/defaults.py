"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu
from .space import Block, Config, Lanes

_FULL = 32  # rows up to which lanes of a warp do: beyond, the images of a group leave few warps per multiprocessor


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    kinds = (_lanes(problem), _blocks(problem, device))
    for kind in kinds if problem.N <= _FULL else kinds[::-1]:
        for rough in kind:
            config = space.resident(problem, rough, device)
            if config is not None:
                yield config
    for order, columns in product((32, 16, 8), (16, 8, 4, 1)):
        yield Block(order, columns, min(columns, 4), 16 if columns > 1 else 32, 1)


def _lanes(problem: Problem) -> Iterator[Lanes]:
    """Teams by what they cost, without the other triangle where lines are longer than what memory moves at a time."""
    if problem.N > space.NARROW:
        return
    out = "own" if problem.stack_b == "shared" else "back"
    stages = 2 if "shared" in (problem.stack_a, problem.stack_b) else 1  # blocks stay, and fetch ahead
    for team in space.teams(problem):
        plain = Lanes(*team, 1, stages, out)
        if problem.N * problem.itemsize >= 128:
            yield replace(plain, TRIANGLE=True)
        yield from (replace(plain, WARPS=warps) for warps in (4, 2, 1))


def _blocks(problem: Problem, device: Device) -> Iterator[Block]:
    """Whole triangles up to 64 rows, shares of at most 64 registers; block rows apart where products are few."""
    words, many = problem.itemsize // 4, problem.BATCH >= 2 * device.multiprocessors
    for order, each, (dim_x, dim_y) in product(space.orders(problem), (4, 2, 1), space.dims(problem)):
        columns = min(problem.NRHS, dim_x * each)
        shares = configs.up(order, dim_y) * configs.up(columns, dim_x) * words
        if shares > 64 or (each > 1 and columns <= dim_x):
            continue
        blocks = configs.up(problem.N, order)
        split = blocks > 1 and not many and problem.BATCH * configs.up(problem.NRHS, columns) < device.multiprocessors
        for stages in (3, 2, 1):
            if stages <= blocks * (blocks + 1) // 2:
                yield Block(order, columns, dim_x, dim_y, stages, split)
