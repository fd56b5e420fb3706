"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from ...common.configs import up
from . import space, space_cpu
from .space import Block, Config, Csr, Merge, Rows, Sell

TRUSTED = True  # configurations differ in how they hide latencies, of which the model knows little


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    rules = _csr if problem.format == "csr" else _block if problem.NVECS > 1 else _sell
    for rough in rules(problem):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config


def _sell(problem: Problem) -> Iterator[Config]:
    """A row in one go where it is short, else in pieces of about eight entries; an H200 wants no hints."""
    lanes = 32 // problem.C
    mean = up(up(problem.NNZ, max(1, problem.ROWS)), lanes)
    words = problem.itemsize // 4
    most = 9 if words <= 2 else 4
    unroll = max(1, up(mean, up(mean, most)))
    yield Sell(256, unroll, CACHE="normal")
    yield Sell(128, 1)


def _block(problem: Problem) -> Iterator[Config]:
    """Four entries of a row under way."""
    lanes_n = space.across(problem)
    yield from (Block(lanes_n, 128 if lanes_n <= 2 else 256, unroll) for unroll in (4, 1))
    while lanes_n > 1:
        lanes_n //= 2
        yield Block(lanes_n, 256, 1)


def _csr(problem: Problem) -> Iterator[Config]:
    """As many lanes as keep busy; the same share for every thread where rows are skewed."""
    mean = problem.NNZ / max(1, problem.ROWS)
    if problem.skewed and problem.NVECS <= 4:  # it reads the matrix once per vector
        yield from (Merge(256, items) for items in (7, 5, 3))
    if problem.NVECS > 1:
        lanes_n = space.across(problem)
        yield Rows(min(32, max(lanes_n, _power(mean / 2))), lanes_n)
        yield from (Rows(max(8, few), few) for few in (8, 4, 2, 1))
    else:
        threads = min(32, _power(mean / 4))
        yield Csr(threads, 256, max(1, min(4, up(int(mean) + 1, threads))))
        yield Csr(1, 128, 1)
    yield from (Merge(256, items) for items in (7, 5, 3))


def _power(count: float) -> int:
    """The largest power of two that is not larger, at least one."""
    return 1 << (max(1, int(count)).bit_length() - 1)
