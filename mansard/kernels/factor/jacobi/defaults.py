"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....codegen.geometry import Device
from ....plan.problem import ITEMSIZE, Problem
from ...common import configs, measured
from . import space, space_cpu, spec, work
from .space import Block, Config, Threads

TRUSTED = True  # rules come before the model: latencies decide, which it does not see


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield from space_cpu.ranked(problem, device)
        return
    if spec.too_large(problem, spec.LARGEST_OF_THREAD):
        if spec.is_svd(problem):
            yield from _rules_of_block(problem)
        return
    for rough in (*measured.configs(space, problem, device), *_rules(problem)):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield configs.with_spare_registers(work, problem, config, device)


_FEW_ROWS = 4  # rows up to which a tile of 128 matrices is small enough for many blocks to fit
_SHEARED = 5  # rows from which the third of the products that shears save pays for the division of their angle


def _rules(problem: Problem) -> Iterator[Threads]:
    """Small tiles, so that blocks end at different times; vectors in shared memory where registers would overflow."""
    shears = not problem.is_complex and spec.has_vectors(problem) and problem.N >= _SHEARED
    rough = Threads(128 if problem.N <= _FEW_ROWS else 64, SHEARS=shears)
    if spec.has_vectors(problem) and work.held(problem, rough) > work.most_held(problem):
        rough = replace(rough, VECTORS="shared")
    yield rough
    yield replace(rough, BLOCK=32)


_ONE_WARP = 16  # rows up to which four lanes per pair are one warp, whose barrier is cheap


def _rules_of_block(problem: Problem) -> Iterator[Block]:
    """One warp for a matrix where that is enough; else as few lanes per pair as have room for their shares."""
    for place in ("registers", "shared") if spec.has_vectors(problem) else ("registers",):
        for lanes in (4, 8, 16, 32) if problem.N <= _ONE_WARP else (8, 16, 4):
            yield Block(lanes, place)


_WAVES = 2  # waves of blocks that are done before a thread per matrix has run through its chain


def fewest_of_chains(want: str, dtype: str, N: int, device: Device) -> int:
    """Matrices of N rows from which other methods are taken to be faster than a block that rotates columns (`svd`); a
    record of the device, or assumed: as many as a few waves of blocks have. 0 where a block has no room for one."""
    if device.backend == "cpu" or want != "svd" or spec.LARGEST_OF_THREAD >= N:
        return 0
    problem = spec.problem(dtype, N, 1, want=want)
    config = default(problem, device, Block.VARIANT)
    if not isinstance(config, Block):
        return 0
    resident = configs.resident(work, problem, config, device, quarters=False)
    fewest = _WAVES * device.multiprocessors * (resident or config).BLOCKS_PER_SM
    return measured.number("jacobi", device, "SVD_BELOW", fewest, rows=N, bytes=ITEMSIZE[dtype])
