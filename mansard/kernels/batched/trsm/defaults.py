"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space, space_cpu
from .space import Blocked, Config, Lanes, Stream, Tensor


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from swept(problem, device)
    yield from space.few(problem, device)
    for rough in (*_lanes(problem), *_streams(problem, device), *_tensor(problem), *_blocked(problem)):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config
    for order, columns in product((32, 16, 8), (16, 8, 4, 1)):
        yield Blocked(order, columns, min(columns, 4), 16 if columns > 1 else 32, 2)


def swept(problem: Problem, device: Device) -> Iterator[Config]:
    """Legal configurations of the sweeps on this device, with as many blocks per multiprocessor as fit."""
    for config in measured.configs(space, problem, device):
        found = space.resident(problem, config, device)
        if found is not None and space.illegal(problem, found, device) is None:
            yield found


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
        yield from (replace(plain, WARPS=warps) for warps in (4, 1))


def _streams(problem: Problem, device: Device) -> Iterator[Stream]:
    """As few warps per matrix as keep all multiprocessors busy for two turns, three pieces under way each."""
    if problem.NRHS > 1:
        return
    width, most = min(32, 128 // problem.itemsize), configs.up(problem.N, 64)
    warps = 1
    resident = measured.number("trsm", device, "RESIDENT_WARPS", _RESIDENT_WARPS) * device.multiprocessors
    while 2 * warps <= min(8, most) and problem.BATCH * warps < _TURNS * resident:
        warps *= 2
    for teams, stages in ((max(1, 4 // warps), 3), (max(1, 4 // warps), 2), (1, 2)):
        yield Stream(warps, teams, width, stages)


_TURNS = 2  # matrices of a team, one after the other: with fewer, most of a device idles behind the slowest
_RESIDENT_WARPS = 8  # warps of a multiprocessor, two for each of its four schedulers


def _tensor(problem: Problem) -> Iterator[Tensor]:
    """Blocks of four warps, of which two fit."""
    if problem.NRHS > 1:
        yield Tensor(min(4, configs.up(problem.NRHS, 16)))


def _blocked(problem: Problem) -> Iterator[Blocked]:
    """Shares of at most 64 registers; blocks that hang over little, few of them."""
    words = problem.itemsize // 4
    orders = sorted((32, 16, 8), key=lambda order: (configs.up(problem.N, order) * order) ** 2 * (1 + 16 / order))
    if problem.dtype == "complex128":
        orders.sort(key=lambda order: order == 32)
    for order, (dim_x, dim_y), each in product(orders, space.dims(problem), (4, 2, 1)):
        columns = min(problem.NRHS, dim_x * each)
        rows = configs.up(min(order, problem.N), dim_y)
        if rows * configs.up(columns, dim_x) * words <= 64 and (dim_y <= order or problem.NRHS == 1):
            yield Blocked(order, columns, dim_x, dim_y, 3)
