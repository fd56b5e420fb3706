"""The configurations of `tsm2r`: what each parameter means, its candidates, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names, Numbers, Range
from ...common import configs
from ...common.configs import OnGpu
from . import space_group, work
from .space_group import Group


@dataclass(frozen=True)
class Steps(OnGpu):
    """A thread per row of A, the four kernels of TSM2R; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "steps"
    STEP: Annotated[str, Names("inner", "outer", "shared", "prefetch")] = "prefetch"  # algorithms 1 to 4
    T1: int = 128  # threads per block, rows of a tile of B
    T2: int = 4  # results per thread at a time
    T3: int = 4  # numbers of A fetched at once
    SPLIT: Annotated[int, Range(1, 65535)] = 1  # blocks that share a row's K
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Tensor(OnGpu):
    """Tensor cores, a persistent grid, A read once; row- or column-major."""

    VARIANT: ClassVar[str] = "tensor"
    WARPS_M: int = 8  # warps along the rows of a panel
    WARPS_N: int = 1  # and along the columns of C
    WARPS_K: int = 1  # such teams, which share the columns of a chunk
    TILES: int = 2  # tiles of 16 real rows per warp
    DEPTH: int = 64  # real columns per chunk
    LOAD: Annotated[str, Names("bulk", "registers")] = "bulk"  # bulk: through shared memory | registers: any alignment
    STAGES: int = 2  # chunks in shared memory
    FEEDERS: int = 4  # warps that fetch them
    ONCE: bool = True  # what was fetched leaves the second cache first, where B is to stay
    SPREAD: Annotated[str, Names("rotate", "none")] = "rotate"  # what keeps reads of shared memory from colliding
    KSTEP: Annotated[int, Numbers(4, 8)] = 8  # columns per FP64 tensor-core instruction
    UNIT: Annotated[str, Names("float64", "tf32x3")] = "float64"  # tf32x3: three TF32 products per float32 product
    BLOCKS_PER_SM: int = 1


Config: TypeAlias = Steps | Tensor | Group
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Steps, Tensor, Group)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "tsm2r", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if elsewhere := configs.elsewhere(config, device):
        return elsewhere
    if isinstance(config, Steps):
        reason = _steps(problem, config)
    elif isinstance(config, Group):
        reason = space_group.refusal(problem, config, device)
    else:
        reason = _tensor(problem, config, device)
    return reason or _resources(problem, config, device)


def _steps(problem: Problem, c: Steps) -> str | None:
    if c.STEP not in ("inner", "outer", "shared", "prefetch"):
        return f"STEP={c.STEP!r} is not one of inner, outer, shared, prefetch"
    if c.T1 % 32 or c.T3 < 1 or c.T1 % c.T3:
        return f"T1={c.T1} is no multiple of 32 and T3={c.T3}"
    if not 1 <= c.T2 <= problem.N:
        return f"T2={c.T2}: a row of C has {problem.N} columns"
    results = {"inner": 1, "outer": problem.N}.get(c.STEP, c.T2)
    if results != c.T2 or (c.STEP in ("inner", "outer") and c.T3 != 1):
        return f"STEP={c.STEP} has T2={results}, T3=1"
    return None if 1 <= c.SPLIT <= 65535 else f"SPLIT={c.SPLIT} is not in 1 to 65535"


def _tensor(problem: Problem, c: Tensor, device: Device) -> str | None:
    if device.capability < 90:
        return f"needs m16n8k8 tensor-core instructions (sm_90), the device is {device.arch}"
    if problem.layout_a == "any":
        return "A is neither row- nor column-major"
    for name, known in _WORDS.items():
        if getattr(c, name) not in known:
            return f"{name}={getattr(c, name)!r} is not one of {', '.join(map(str, known))}"
    vector, real = work.vector(problem), work.real_bytes(problem)
    if c.LOAD == "bulk" and vector * real < 16:
        return "bulk copies need rows (or columns) of A that start on 16-byte boundaries"
    if c.LOAD == "registers" and problem.layout_a == "col" and 2 * c.TILES % vector:
        return f"TILES={c.TILES}: a load brings {vector // 2} tiles"
    if c.UNIT == "tf32x3" and (real != 4 or c.LOAD != "bulk"):
        return "tf32x3 is for float32 and complex64, LOAD=bulk"
    shape = work.tensor_shape(problem, c)
    if shape.consumers < shape.block * min(8, problem.N):
        return f"{shape.consumers} threads are too few to lay down B: {shape.block * min(8, problem.N)} at least"
    unit = 4 * shape.group * c.WARPS_K
    if unit > c.DEPTH or c.DEPTH % unit:
        return f"DEPTH={c.DEPTH} does not split into WARPS_K={c.WARPS_K} x {unit // c.WARPS_K} columns"
    return "STAGES: two at least" if c.LOAD == "bulk" and c.STAGES < 2 else None


# Values that each parameter may have.
_WORDS: dict[str, tuple[Any, ...]] = {
    "LOAD": ("bulk", "registers"),
    "SPREAD": ("rotate", "none"),
    "KSTEP": (4, 8),
    "UNIT": ("float64", "tf32x3"),
}


def _resources(problem: Problem, config: Config, device: Device) -> str | None:
    if isinstance(config, Steps) and config.T1 in (32, 64):  # such blocks share the quarters of a multiprocessor
        config = replace(config, T1=128, BLOCKS_PER_SM=configs.up(config.T1 * config.BLOCKS_PER_SM, 128))
    return configs.too_large(work, problem, config, device)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        return
    for variant in (space_group.candidates, _tensor_candidates, _steps_candidates):
        yield from (config for config in variant(problem, device) if illegal(problem, config, device) is None)


def _tensor_candidates(problem: Problem, device: Device) -> Iterator[Tensor]:
    if problem.layout_a == "any":
        return
    real, rows = work.real_bytes(problem), problem.M * (2 if problem.is_complex and problem.layout_a == "col" else 1)
    units = ("float64", "tf32x3") if real == 4 and work.width(problem) > 8 else ("float64",)
    feeders = 4 if problem.layout_a == "row" else 1  # many short copies, or few long ones
    teams = (*_TEAMS, *(_WIDE_TEAMS if work.width(problem) > 32 else ()))
    teams += _FEW_TEAMS if real == 8 and work.width(problem) > 16 else ()
    for (wm, wn, wk), tiles, depth, unit in product(teams, (1, 2, 4), (32, 64, 128), units):
        one = Tensor(wm, wn, wk, tiles, depth, FEEDERS=min(feeders, 2) if wm == 6 else feeders, UNIT=unit)
        shape = work.tensor_shape(problem, one)
        if not 64 <= shape.rows <= max(64, min(512, 2 * rows)) or shape.stage_bytes > 96 << 10:
            continue
        for per_sm, spread in product((1, 2), ("rotate", "none")):
            most = min(8, (device.shared_per_multiprocessor // per_sm - 2048 - shape.small_bytes) // shape.stage_bytes)
            for stages in sorted({most, min(most, 3)}):
                yield replace(one, STAGES=stages, SPREAD=spread, BLOCKS_PER_SM=per_sm)
        if unit == "float64":
            yield replace(one, LOAD="registers")


# Warps along rows, columns and K: eight or sixteen, two or four for each scheduler, and twelve, of 168 registers each.
_TEAMS = ((8, 1, 1), (4, 1, 2), (12, 1, 1), (16, 1, 1), (8, 1, 2), (4, 1, 4), (2, 1, 4), (1, 1, 8))
_FEW_TEAMS = ((6, 1, 1),)  # eight warps with those that fetch: registers for two tiles, which read B half as often
# The same where the sums of more than 32 columns are too many for the registers of one warp.
_WIDE_TEAMS = ((4, 2, 1), (8, 2, 1), (2, 2, 2), (4, 2, 2), (2, 4, 1))


def _steps_candidates(problem: Problem, device: Device) -> Iterator[Steps]:
    widths = sorted({1, 2, 4, 8, 16, 32, problem.N} & set(range(1, problem.N + 1)))
    for t1, t2, t3, split in product((128, 256), widths, (4, 8, 16, 32), _splits(problem, device)):
        one = Steps("prefetch", t1, t2, t3, split)
        most = device.registers_per_multiprocessor // (_up_to_eight(work.registers(problem, one)) * t1)
        for per_sm in sorted({1, max(1, min(most, device.threads_per_multiprocessor // t1))}):
            yield replace(one, BLOCKS_PER_SM=per_sm)
    for split in _splits(problem, device):
        yield Steps("outer", 128, problem.N, 1, split)
        yield Steps("shared", 128, min(problem.N, 8), 4, split)


def _up_to_eight(registers: int) -> int:
    return -(-registers // 8) * 8


def _splits(problem: Problem, device: Device) -> list[int]:
    """Once, and as often as gives every multiprocessor four blocks."""
    panels = -(-problem.M // 128)
    return sorted({1, max(1, min(problem.K // 512, -(-4 * device.multiprocessors // panels)))})
