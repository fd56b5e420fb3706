"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs
from . import space, space_cpu, tensor, work
from .shapes import shape
from .space import Block, Config, Gpu, Lanes, Tensor

TRUSTED = True  # what they rank by is made for these kernels, more than the model


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess on: by what a full multiprocessor has to issue and to wait for per matrix."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from _measured(problem, device)
    found = [
        config
        for rough in space.rough_candidates(problem)
        if (isinstance(rough, Tensor) or rough.STAGES == 1)
        and (config := space.resident(problem, rough, device)) is not None
    ]
    yield from sorted(found, key=lambda config: cost(problem, config))


def _measured(problem: Problem, device: Device) -> Iterator[Gpu]:
    """What won on an H200, for square matrices."""
    known = _REDUCED if problem.want == "reduced" else _SQUARE if problem.want in ("raw", "r") else {}
    if problem.M != problem.N:
        return
    rough = next((config for most, config in known.get(problem.dtype, ()) if most >= problem.N), None)
    config = None if rough is None else space.resident(problem, rough, device)
    if config is not None:
        yield config


# Rows up to which; None: by what a full multiprocessor takes. Where several rows of lanes share a column, one step's
# code serves them all (ROLL 1). Of 33 to 36 rows five blocks are filled too little for tensor cores, of 41 to 48 six
# spill.
_Known: TypeAlias = dict[str, tuple[tuple[int, Gpu | None], ...]]
_SQUARE: _Known = {
    "float32": ((24, None), (32, Lanes(2, 8, 1)), (44, None), (56, Lanes(4, 8, 1)), (64, Lanes(4, 8, 2))),
    "float64": (
        (4, None), (6, Lanes(2, 1)), (7, None), (8, Lanes(1, 4)), (12, None), (14, Lanes(1, 4)), (24, Lanes(1, 8)),
        (25, Lanes(1, 16, 1, WARPS=1)), (28, Lanes(2, 8, 1, WARPS=1)), (31, Lanes(1, 16, 1)),
        (32, Lanes(1, 16, 1, WARPS=1)), (36, Lanes(4, 8, 1)), (40, Tensor(1)), (48, Lanes(2, 16, 1)), (64, Tensor(2)),
        (80, Tensor(5)), (96, Tensor(6)), (112, Tensor(7)), (128, Tensor(8)),
    ),
    "complex64": (
        (12, None), (13, Lanes(1, 4, 2, WARPS=1)), (14, Lanes(2, 2, 1, WARPS=1)), (16, Lanes(1, 8, 2, WARPS=1)),
        (18, Lanes(1, 4, 2, WARPS=1)), (20, Lanes(2, 4, 1)), (23, Lanes(1, 8, 2, WARPS=1)), (24, Lanes(2, 8, 1)),
        (26, Lanes(2, 4, 1, WARPS=1)), (28, Lanes(4, 4, 1, WARPS=1)), (29, Lanes(1, 16, 2, WARPS=1)),
        (30, Lanes(2, 8, 1, WARPS=1)), (31, Lanes(1, 16, 2, WARPS=1)), (48, Lanes(4, 8, 1)),
        (64, Block(4, 16, 2, 1, 2)),
    ),
    "complex128": (
        (8, None), (9, Lanes(1, 4, 1, WARPS=1)), (12, Lanes(1, 4)), (14, Lanes(1, 8, 1, WARPS=1)),
        (15, Lanes(1, 8, 2, WARPS=1)), (16, Lanes(1, 8, WARPS=1)), (20, Lanes(4, 4, 1, WARPS=1)),
        (24, Lanes(2, 8, 1, WARPS=1)), (30, Lanes(2, 16, 1, WARPS=1)), (32, Lanes(4, 8, 1, WARPS=1)),
        (48, Block(4, 16, 2, 1, 2)), (64, Block(4, 32, 1, 1, 4)),
    ),
}  # fmt: skip
_REDUCED: _Known = {"float64": ((12, None), (16, Lanes(1, 4)))}


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


# Bytes per clock of a multiprocessor, where all of them copy; warps that it needs to be busy; instructions that are at
# hand.
_BYTES_PER_CLOCK, _WARPS, _CODE = 16, 10, 2500
