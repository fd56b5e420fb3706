"""The GPU configurations of `jacobi`: what each parameter means, their rules, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu, spec, work
from .space_cpu import Ragged, Simd


@dataclass(frozen=True)
class Threads(OnGpu):
    """A matrix per thread, in its registers; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "threads"
    BLOCK: int = 64  # threads per block: matrices of a tile
    # where rotations are accumulated: registers, or a slot of shared memory
    VECTORS: Annotated[str, Names("registers", "shared")] = "registers"
    SHEARS: bool = True  # rotate real numbers by three shears instead of two sums of products
    SWEEPS: int = 30  # sweeps after which a matrix counts as not converged
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Block(OnGpu):
    """A matrix per block, in its shared memory: singular values and vectors of small batches; any dtype and stride."""

    VARIANT: ClassVar[str] = "block"
    LANES: int = 8  # per pair of columns
    # where a team's own column of the rotations' product is; the others are in shared memory
    VECTORS: Annotated[str, Names("registers", "shared")] = "registers"
    SWEEPS: int = 30  # sweeps after which a matrix counts as not converged
    BLOCKS_PER_SM: int = 1  # at least


Config: TypeAlias = Threads | Block | Simd | Ragged
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Threads, Block, Simd, Ragged)}
LANES = (4, 8, 16, 32)  # of a team of `block`
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "jacobi", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if problem.stack_a == "ragged":
        return "stack_a='ragged': kernels of CPUs alone read the size of every matrix"
    if isinstance(config, Block):
        return _illegal_block(problem, config, device)
    if reason := spec.refusal(problem) or spec.too_large(problem, spec.LARGEST_OF_THREAD):
        return reason
    if config.BLOCK % 32:
        return f"BLOCK={config.BLOCK} is not a multiple of a warp's 32 threads"
    if config.VECTORS == "shared" and not spec.has_vectors(problem):
        return f"VECTORS=shared: {problem.want} accumulates no rotations"
    return configs.too_large(work, problem, config, device, together=True)


def _illegal_block(problem: Problem, config: Block, device: Device) -> str | None:
    if reason := spec.refusal(problem):
        return reason
    if not spec.is_svd(problem):
        return f"block: singular values, not {problem.want}"
    if problem.N < spec.LEAST_OF_BLOCK:
        return f"block: {problem.N} rows: a pair of columns has two"
    if config.LANES not in LANES:
        return f"LANES={config.LANES} is not one of {', '.join(map(str, LANES))}"
    if config.VECTORS == "shared" and not spec.has_vectors(problem):
        return f"VECTORS=shared: {problem.want} accumulates no rotations"
    return configs.too_large(work, problem, config, device, together=True)


def resident(problem: Problem, config: Threads, device: Device) -> Threads | None:
    """The configuration with as many blocks per multiprocessor as fit, None if not even one does."""
    most = min(32, device.threads_per_multiprocessor // config.BLOCK)
    refused = partial(configs.too_large, work, problem, device=device, together=True)
    return configs.fullest(config, most, lambda c: refused(config=c))  # type: ignore[no-any-return]


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    places = ("registers", "shared") if spec.has_vectors(problem) else ("registers",)
    blocks = (Block(*choice) for choice in product(LANES, places, (30,), (1, 2, 3, 4)))
    yield from (config for config in blocks if illegal(problem, config, device) is None)
    if spec.too_large(problem, spec.LARGEST_OF_THREAD):
        return
    ways = (False,) if problem.is_complex else (True, False)
    found = (Threads(*choice) for choice in product((32, 64, 128, 256), places, ways))
    yield from configs.fitting(problem, device, found, resident, illegal, fewer=1)
