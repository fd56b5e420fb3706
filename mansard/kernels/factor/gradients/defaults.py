"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ..lu import defaults as lu_defaults
from ..lu import space as lu_space
from . import shapes, space, work
from .space import Columns, Config, Products, Solution, Tensor

_BYTES = 4096  # of A and G per warp, under way at once
_COLUMNS = 8  # of a lane's tile: each entry of the other operand serves as many products


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works, with as many blocks as fit."""
    for rough in _rules(problem, device):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield configs.with_spare_registers(work, problem, config, device)


def _rules(problem: Problem, device: Device) -> Iterator[Config]:
    if problem.want == "cholesky":
        yield from _most_warps(problem, device)
    elif problem.want == "solution":
        yield from _solutions(problem, device)
    else:
        if problem.dtype == "float64":  # as many matrices as keep a warp's copies under way
            group = configs.power_below(_BYTES // (2 * problem.N * problem.N * problem.itemsize) or 1)
            yield from (Tensor(min(16, group), warps) for warps in (4, 2, 1))
        lanes_n = _power_above(configs.up(problem.N, _COLUMNS))
        for rows in (2, 4):  # of a lane's tile
            lanes_m = min(32 // lanes_n, _power_above(configs.up(problem.N, rows)))
            yield from (Products(lanes_m, lanes_n, warps) for warps in (4, 2, 1))
        yield from (Products(8, 4, warps) for warps in (4, 2, 1))


def _most_warps(problem: Problem, device: Device) -> Iterator[Columns]:
    """Blocks of the size with which most warps fit: they hide each other's dependent steps."""
    rough = (Columns(_power_above(problem.N), warps) for warps in (4, 2, 1))
    found = [config for config in (space.resident(problem, one, device) for one in rough) if config is not None]
    yield from sorted(found, key=lambda c: -c.WARPS * c.BLOCKS_PER_SM)


def _solutions(problem: Problem, device: Device) -> Iterator[Solution]:
    """What lu's rules and records say of the system."""
    for config in lu_defaults.ranked(shapes.of_lu(problem), device):
        if isinstance(config, lu_space.Lanes):
            yield Solution(**asdict(config))


def _power_above(count: int) -> int:
    """The smallest power of two that is not smaller than `count`."""
    return 1 << (max(1, count) - 1).bit_length()
