"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from ...common.configs import power_below, up
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
    for rough in rules(problem, device):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config


# Entries of a lane under way, of values up to 8 bytes and of 16: each takes a value, a column and an entry of x, five
# or nine registers, of the 64 with which 32 warps share a multiprocessor.
_UNDER_WAY, _UNDER_WAY_WIDE = 8, 4
_ITEMS = 7, 5, 3  # entries and row ends of a thread: odd, so that strided reads of shared memory meet no bank twice
_PER_LANE, _PER_LANE_OF_ROWS = 4, 2  # entries of a row per lane, so that lanes keep busy: of one vector, of several


def _sell(problem: Problem, device: Device) -> Iterator[Config]:
    """A row in one go where it is short, else in equal pieces."""
    lanes = 32 // problem.C
    mean = up(up(problem.NNZ, max(1, problem.ROWS)), lanes)
    most = _UNDER_WAY if problem.itemsize <= 8 else _UNDER_WAY_WIDE
    if problem.itemsize <= 8:
        most = measured.number("spmv", device, "UNDER_WAY", most, bytes=problem.itemsize, entries=mean)
    unroll = max(1, up(mean, up(mean, most)))
    found = [config.CACHE for config in measured.configs(space, problem, device) if isinstance(config, Sell)]
    yield Sell(256, unroll, CACHE=found[0] if found else "streaming")  # the matrix is read once
    yield Sell(128, 1)


def _block(problem: Problem, device: Device) -> Iterator[Config]:
    """Four entries of a row under way."""
    lanes_n = space.across(problem)
    yield from (Block(lanes_n, 128 if lanes_n <= 2 else 256, unroll) for unroll in (4, 1))
    while lanes_n > 1:
        lanes_n //= 2
        yield Block(lanes_n, 256, 1)


def _csr(problem: Problem, device: Device) -> Iterator[Config]:
    """As many lanes as keep busy; the same share for every thread where rows are skewed."""
    mean = problem.NNZ / max(1, problem.ROWS)
    if problem.skewed and problem.NVECS <= 4:  # it reads the matrix once per vector
        yield from (Merge(256, items) for items in _ITEMS)
    if problem.NVECS > 1:
        lanes_n = space.across(problem)
        yield Rows(min(32, max(lanes_n, power_below(mean / _PER_LANE_OF_ROWS))), lanes_n)
        yield from (Rows(max(8, few), few) for few in (8, 4, 2, 1))
    else:
        threads = min(32, power_below(mean / _PER_LANE))
        yield Csr(threads, 256, max(1, min(4, up(int(mean) + 1, threads))))
        yield Csr(1, 128, 1)
    yield from (Merge(256, items) for items in _ITEMS)
