"""The GPU configurations of `qr`: what each parameter means, their rules, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu, spec, tensor, work
from .space_cpu import Simd

_POWERS = (1, 2, 4, 8, 16, 32)  # lanes of a team: what divides a warp
_REGISTERS = 208  # of a thread's share of the matrix, at the most


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, groups of matrices through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES_M: int = 1  # lanes along the rows of A, between which sums are formed
    LANES_N: int = 8  # and along its columns
    ROLL: Annotated[int, Range(0, 64)] = 0  # slots of rows of a lane whose steps share code; 0: none do
    STAGES: int = 1  # groups under way per warp; 1: warps come and go
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Block(OnGpu):
    """A block of threads per matrix, which stays in its registers; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "block"
    LANES_M: int = 8  # threads along the rows of A, lanes of one warp
    LANES_N: int = 16  # and along its columns
    ROLL: Annotated[int, Range(0, 64)] = 1  # as above
    STAGES: int = 1  # matrices under way
    WARPS: int = 4  # all threads
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Tensor(OnGpu):
    """Warps that hold a matrix as tensor cores take it, and apply eight reflections at a time; float64 only."""

    VARIANT: ClassVar[str] = "tensor"
    WARPS: int = 1  # per matrix and block
    BLOCKS_PER_SM: int = 1


Gpu: TypeAlias = Lanes | Block | Tensor
Config: TypeAlias = Gpu | Simd
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Lanes, Block, Tensor, Simd)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "qr", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if refused := spec.refusal(problem) or spec.too_large(problem):
        return refused
    if isinstance(config, Tensor):
        return tensor.refusal(problem, config) or _tensor_too_large(problem, config, device)
    c, team = config, config.LANES_M * config.LANES_N
    if c.LANES_M not in _POWERS or c.LANES_N < 1 or c.LANES_N & (c.LANES_N - 1):
        return f"{c.LANES_M} x {c.LANES_N} lanes are no powers of two, or more than 32 along the rows"
    if min(c.STAGES, c.WARPS) < 1 or c.WARPS > 32:
        return "a count is not positive, or there are more than 32 warps"
    if (c.VARIANT == "lanes") != (team <= 32) or (c.VARIANT == "block" and team != 32 * c.WARPS):
        return f"{c.LANES_M} x {c.LANES_N} lanes are not those of a warp, or not those of {c.WARPS} warps"
    if c.ROLL < 0 or (c.ROLL > 1 and c.LANES_N % (c.ROLL * c.LANES_M)):
        return f"ROLL={c.ROLL}: steps that share code are of the same slot of columns"
    return configs.too_large(work, problem, config, device, _together(config))


def _tensor_too_large(problem: Problem, c: Tensor, device: Device) -> str | None:
    if tensor.held(problem, c) > tensor.MOST_REGISTERS:
        return f"a lane would hold {tensor.held(problem, c)} registers of a matrix, beyond {tensor.MOST_REGISTERS}"
    return configs.too_large(work, problem, c, device, _together(c))


def _together(config: Gpu) -> bool:
    """Whether blocks are counted as they share the four quarters of a multiprocessor, or as if each had a place in all
    of them, which is what blocks of two warps were ranked with."""
    return isinstance(config, Tensor) or (isinstance(config, Lanes) and config.WARPS < 4)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    yield from configs.fitting(problem, device, rough_candidates(problem), resident, illegal)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The same with as many blocks per multiprocessor as fit, None if not even one does."""
    if spec.too_large(problem):
        return None
    if isinstance(config, Tensor) and tensor.refusal(problem, config):
        return None
    if not _together(config):
        return configs.resident(work, problem, config, device)
    too_large = partial(configs.too_large, work, problem, device=device, together=True)
    return configs.resident(work, problem, config, device, quarters=False, refused=lambda c: too_large(config=c))


def rough_candidates(problem: Problem) -> Iterator[Gpu]:
    """Configurations before the number of blocks per multiprocessor is settled."""
    for (lanes_m, lanes_n), warps, stages in product(teams(problem), (4, 1), (1, 2)):
        for roll in rolls(problem, lanes_m, lanes_n):
            yield Lanes(lanes_m, lanes_n, roll, stages, warps)
    if problem.dtype == "float64" and min(problem.M, problem.N) > 8:
        yield from (
            Tensor(warps) for warps in (1, 2, 3, 4, 5, 6, 7, 8) if tensor.refusal(problem, Tensor(warps)) is None
        )
    for warps, lanes_m in product((2, 4, 8, 16), (4, 8, 16, 32)):
        lanes_n = 32 * warps // lanes_m
        if max(problem.M, problem.N) > 24 and fits(problem, lanes_m, lanes_n):
            for roll in rolls(problem, lanes_m, lanes_n):
                if roll:
                    yield Block(lanes_m, lanes_n, roll, 1, warps)


def fits(problem: Problem, lanes_m: int, lanes_n: int) -> bool:
    """Whether a thread's share fits into registers, and none is idle throughout."""
    width = max(problem.N + problem.NRHS, spec.shape(problem, "q")[1])
    rows, columns = configs.up(problem.M, lanes_m), configs.up(width, lanes_n)
    idle = (lanes_m > 1 and rows * (lanes_m // 2) >= problem.M) or (lanes_n > 1 and columns * (lanes_n // 2) >= width)
    return not idle and rows * columns * problem.itemsize // 4 <= _REGISTERS


def teams(problem: Problem) -> list[tuple[int, int]]:
    """Shapes of teams in one warp that have room for the matrix."""
    return [(m, n) for m, n in product(_POWERS, repeat=2) if m * n <= 32 and fits(problem, m, n)]


def rolls(problem: Problem, lanes_m: int, lanes_n: int) -> list[int]:
    """Where little is shared, code is long: 16 bytes per instruction."""
    slots = configs.up(min(problem.M, problem.N), lanes_m)
    found = [0] if min(problem.M, problem.N) <= 32 else []
    return found + [roll for roll in (1, 2, 4) if roll <= slots and (roll == 1 or lanes_n % (roll * lanes_m) == 0)]
