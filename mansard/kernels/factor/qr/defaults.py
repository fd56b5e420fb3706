"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space, space_cpu, tensor, work
from .shapes import shape
from .space import Config, Gpu, Tensor

TRUSTED = True  # rules come before the model: `cost` counts what these kernels issue and wait for


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations that sweeps on this device found, then the others by `cost`."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    for rough in measured.configs(space, problem, device):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config
    found = [
        config
        for rough in space.rough_candidates(problem)
        if (isinstance(rough, Tensor) or rough.STAGES == 1)
        and (config := space.resident(problem, rough, device)) is not None
    ]
    for config in sorted(found, key=lambda config: cost(problem, config)):
        yield configs.with_spare_registers(work, problem, config, device)


def cost(problem: Problem, c: Gpu) -> float:
    """Clocks per matrix of a full multiprocessor."""
    least = work.work(problem.replace(BATCH=1)).bytes / _BYTES_PER_CLOCK
    if isinstance(c, Tensor):
        busy = [tensor.issued(problem, c) / 4, tensor.waited(problem, c) / c.BLOCKS_PER_SM, least]
        return max(busy) + 0.25 * sum(busy)
    s = shape(problem, c)
    busy = [
        work.issued(problem, c) / s.group / 4,
        work.exchanged(problem, c) / s.group,
        work.waited(problem, c) / (c.BLOCKS_PER_SM * s.units * s.group),
        least,
    ]
    few = max(1.0, _WARPS / (c.BLOCKS_PER_SM * c.WARPS))
    long = max(1.0, 0.9 + 0.1 * work.code_length(problem, c) / _CODE)
    return (max(busy) + 0.25 * sum(busy)) * few * long


_BYTES_PER_CLOCK = 16  # bytes per clock and multiprocessor while all of them copy (13 to 20 by data sheets)
_WARPS = 10  # warps that a multiprocessor needs to be busy: two or three for each of its four schedulers
_CODE = 2500  # instructions of 16 bytes (40 KB): longer code leaves the instruction cache
