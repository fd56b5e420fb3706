"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space, space_cpu
from .space import Block, Config, Lanes, Tensor
from .space_cpu import Simd
from .work_shapes import lanes_shape

_FULL = 32  # rows up to which lanes of a warp do: beyond, the images of a group leave few warps per multiprocessor


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from swept(problem, device)
    kinds = (_lanes(problem), _tensor(problem, device), _blocks(problem, device))
    for kind in kinds if problem.N <= _FULL else kinds[1:] + kinds[:1]:
        for rough in kind:
            config = space.resident(problem, rough, device)
            if config is not None:
                yield config
    for order, columns in product((32, 16, 8), (16, 8, 4, 1)):
        yield Block(order, columns, min(columns, 4), 16 if columns > 1 else 32, 1)


def swept(problem: Problem, device: Device) -> Iterator[Config]:
    """Legal configurations of the sweeps on this device, with as many blocks per multiprocessor as fit."""
    for config in measured.configs(space, problem, device):
        found = config if isinstance(config, Simd) else space.resident(problem, config, device)
        if found is not None and space.illegal(problem, found, device) is None:
            yield found


def _lanes(problem: Problem) -> Iterator[Lanes]:
    """Teams by what they cost, without the other triangle where lines are longer than what memory moves at a time, and
    blocks of a quarter of a multiprocessor's shared memory, so that some copy while others compute."""
    if problem.N > space.NARROW:
        return
    out = "own" if problem.stack_b == "shared" else "back"
    stages = 2 if "shared" in (problem.stack_a, problem.stack_b) else 1  # blocks stay, and fetch ahead
    for team in space.teams(problem):
        plain = Lanes(*team, 1, stages, out)
        stage = lanes_shape(problem, plain).stage_bytes
        plain = replace(plain, WARPS=4 if 4 * stage <= _OF_BLOCK else 2 if 2 * stage <= _OF_BLOCK else 1)
        if problem.N * problem.itemsize > 64:
            yield replace(plain, TRIANGLE=True)
        yield from (replace(plain, WARPS=warps) for warps in (plain.WARPS, 1))


_OF_BLOCK = 52 << 10  # bytes of shared memory: less than a quarter of what multiprocessors with tensor cores have


def _is_few(problem: Problem, device: Device, columns: int) -> bool:
    """Whether the products, by so many columns, would leave most multiprocessors without work."""
    return bool(2 * problem.BATCH * configs.up(problem.NRHS, columns) < device.multiprocessors)


def _tensor(problem: Problem, device: Device) -> Iterator[Tensor]:
    """Whole triangles up to 64 rows, all rows of 16 columns per warp; beyond, blocks of 32 rows in two rows of warps,
    of which more fit on a multiprocessor. Block rows apart where products are few."""
    if problem.NRHS < _FEWEST:
        return
    if _is_few(problem, device, 16):
        for order, stages in ((32, 3), (32, 2), (16, 3), (16, 2), (16, 1)):
            yield Tensor(order, 16, 2, 1, stages, order < problem.N)
    widths = [most for most in (64, 32) if not _is_few(problem, device, most)]
    for most, (order, stages) in product((*widths, 16), ((64, 1), (32, 2), (16, 2))):
        columns = min(most, configs.up(problem.NRHS, 16) * 16)
        along = 1 if order == 16 or (problem.N <= 64 and not problem.is_complex) else 2
        if order < 64 or problem.N <= 64:
            yield Tensor(order, columns, along, configs.up(columns, 16), stages, False)


_FEWEST = 6  # columns: with less, most of a tile of 16 is idle


def _blocks(problem: Problem, device: Device) -> Iterator[Block]:
    """Threads along the columns first, since those of a slot with the diagonal have less to do the more they are along
    the rows; shares of at most 64 registers; block rows apart where products are few."""
    words = problem.itemsize // 4
    dims = sorted(space.dims(problem), key=lambda pair: (pair[0] > problem.NRHS, pair[1], -pair[0]))
    if problem.N > 64 and problem.NRHS > 8 and _is_few(problem, device, 64):
        across, widths = 16 if problem.NRHS > 16 else 8, (64, 32)
        yield from (Block(32, min(most, problem.NRHS), across, 8, 1, True) for most in widths)
    for order, each, (dim_x, dim_y) in product(space.orders(problem), (4, 2, 1), dims):
        columns = min(problem.NRHS, dim_x * each)
        shares = configs.up(order, dim_y) * configs.up(columns, dim_x) * words
        if shares > 64 or (each > 1 and columns <= dim_x):
            continue
        blocks = configs.up(problem.N, order)
        split = blocks > 1 and _is_few(problem, device, columns)
        for stages in (1, 2) if blocks == 1 else (2, 1):
            if stages <= blocks * (blocks + 1) // 2:
                yield Block(order, columns, dim_x, dim_y, stages, split)
