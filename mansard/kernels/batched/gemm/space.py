"""The GPU configurations of `gemm` together: what is legal on a device, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, images
from ...common.configs import OnGpu
from . import runtime, space_cpu, space_lanes, space_panels, space_stream, work
from .runtime import Runtime
from .space_cpu import Simd
from .space_lanes import Lanes
from .space_panels import Block, Tensor
from .space_stream import Stream

SMALL = 32  # rows, columns and depth up to which a warp or a few hold a whole product, and a ring gains nothing


@dataclass(frozen=True)
class Readonly(OnGpu):
    """Operands through the read-only cache, without shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "readonly"
    DIM_X: int = 8  # threads of a matrix along the columns of C
    DIM_Y: int = 8  # and along its rows
    PER_BLOCK: int = 2  # matrices per block
    BLOCKS_PER_SM: int = 4


Gpu: TypeAlias = Lanes | Block | Tensor | Stream | Readonly
Config: TypeAlias = Gpu | Simd | Runtime
VARIANTS: dict[str, type[Config]] = {
    config.VARIANT: config for config in (Lanes, Block, Tensor, Stream, Readonly, Simd, Runtime)
}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "gemm", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if isinstance(config, Runtime):
        return configs.elsewhere(config, device) or runtime.illegal(problem)
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if "interleaved" in (problem.stack_a, problem.stack_b, problem.stack_c):
        return "interleaved stacks have a kernel of their own (interleaved.py)"
    problem = images.oriented(problem)
    if isinstance(config, Lanes):
        reason = space_lanes.illegal(problem, config)
    elif isinstance(config, Readonly):
        reason = _readonly(problem, config)
    elif isinstance(config, Stream):
        reason = space_stream.illegal(problem, config, device)
    else:
        reason = space_panels.illegal(problem, config, device)
    return reason or configs.too_large(work, problem, config, device)


def _readonly(problem: Problem, c: Readonly) -> str | None:
    if not (1 <= c.DIM_X <= problem.N and 1 <= c.DIM_Y <= problem.M and c.PER_BLOCK >= 1):
        return f"{c.DIM_X} x {c.DIM_Y} threads for {problem.N} columns and {problem.M} rows"
    return None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        if runtime.illegal(problem) is None:
            yield Runtime()
        yield from space_cpu.candidates(problem, device)
        return
    yield from configs.fitting(problem, device, _gpu_candidates(images.oriented(problem)), resident, illegal)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The same with as many blocks per multiprocessor as fit, None if not even one does."""
    problem = images.oriented(problem)
    if isinstance(config, Block | Tensor) and space_panels.illegal(problem, config, device):
        return None
    if isinstance(config, Stream) and space_stream.illegal(problem, config, device):
        return None
    return configs.resident(work, problem, config, device)


def _gpu_candidates(problem: Problem) -> Iterator[Gpu]:
    widest = max(problem.M, problem.N)
    if widest <= space_lanes.WIDEST or min(problem.M, problem.N) <= space_lanes.THIN:
        yield from space_lanes.candidates(problem)
    if max(widest, problem.K) > SMALL:
        yield from space_stream.candidates(problem)
    if problem.dtype in ("float64", "complex128") and widest >= 8:
        yield from space_panels.tensor_candidates(problem)
    elif widest > 16:
        yield from space_panels.block_candidates(problem)
    if widest <= 64:
        side = (min(8, problem.N), min(8, problem.M))
        yield Readonly(*side, max(1, 128 // (side[0] * side[1])))
