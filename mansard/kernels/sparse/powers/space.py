"""The GPU configurations of `powers`: what each parameter means, what is legal, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Matches, Names, Range
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu, spec, work
from .space_cpu import Simd


@dataclass(frozen=True)
class Groups(OnGpu):
    """A launch per level group and power (or, with one group, per power); one thread per row."""

    VARIANT: ClassVar[str] = "groups"
    BLOCK: int = 256  # threads per block
    UNROLL: int = 8  # entries of a row that a thread loads before it uses them
    # the matrix leaves the caches first (`streaming`), or in its turn
    CACHE: Annotated[str, Names("normal", "streaming")] = "normal"
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Persistent(OnGpu):
    """One launch: resident blocks, dataflow between them, tiles of the matrix retained in shared memory."""

    VARIANT: ClassVar[str] = "persistent"
    TILE: int = 1  # chunks per tile
    ABREAST: int = 1  # chunks that a warp takes at once
    UNROLL: int = 8  # entries of a row under way
    WARPS: int = 14  # that compute; one more copies, one watches
    LAG: Annotated[int, Range(1, 1 << 20)] = 1  # turns between a power and the next one
    # how many consecutive powers share a copy of a tile: "1|2|2"
    RETAIN: Annotated[str, Matches(r"[1-9][0-9]?(\|[1-9][0-9]?){0,15}", "1|2|2")] = "1"
    SLOTS: Annotated[int, Range(1, 4096)] = 2  # tiles that shared memory holds
    SLOT_BYTES: Annotated[int, Range(128, 1 << 18)] = 1024  # room for a tile; larger ones are read from global memory
    DIRECT: bool = False  # whether there are such tiles
    # tiles at the upper end of what a tile reads whose progress is asked for; 0: none
    WINDOW: Annotated[int, Range(0, 32)] = 16
    EAGER: Annotated[int, Range(0, 1024)] = 0  # steps before they are done that a task begins
    # how vectors are read: through L1, which may hold old words, checked; or `relaxed`, past it
    GATHER: Annotated[str, Names("relaxed", "stale")] = "stale"
    # copies that leave L2 first: of the `last` group, `none`, or (`keep`) all others stay
    EVICT: Annotated[str, Names("none", "last", "keep")] = "last"
    BLOCKS_PER_SM: int = 1


Gpu: TypeAlias = Groups | Persistent
Config: TypeAlias = Gpu | Simd
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Groups, Persistent, Simd)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "powers", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if problem.C != spec.CHUNK:
        return f"chunks of {problem.C} rows: a warp has {spec.CHUNK}"
    reason = _groups(config) if isinstance(config, Groups) else _persistent(problem, config, device)
    return reason or configs.too_large(work, problem, config, device)


def _groups(c: Groups) -> str | None:
    if c.BLOCK < 32 or c.BLOCK % 32 or c.UNROLL < 1:
        return f"BLOCK={c.BLOCK} is no multiple of 32, or UNROLL={c.UNROLL} is not positive"
    if c.CACHE not in ("normal", "streaming"):
        return f"CACHE={c.CACHE} is not one of normal, streaming"
    return None


def _persistent(problem: Problem, c: Persistent, device: Device) -> str | None:
    if device.capability < 90:
        return "bulk copies need sm_90 or later"
    if min(c.TILE, c.ABREAST, c.UNROLL, c.WARPS, c.LAG) < 1 or c.TILE % c.ABREAST or c.BLOCKS_PER_SM != 1:
        return "a count is not positive, ABREAST does not divide TILE, or BLOCKS_PER_SM is not 1"
    if problem.P > spec.MOST_POWERS or c.TILE > 14:
        return f"P={problem.P} or TILE={c.TILE} exceed {spec.MOST_POWERS} powers and 14 chunks of a launch"
    if not 0 <= c.WINDOW <= 32 or c.EAGER < 0:
        return f"WINDOW={c.WINDOW} tiles: a warp asks for up to 32"
    if c.GATHER not in ("relaxed", "stale") or c.EVICT not in ("none", "last", "keep"):
        return f"GATHER={c.GATHER} or EVICT={c.EVICT} is unknown"
    try:
        lengths = work.retained(c.RETAIN)
    except ValueError:
        return f"RETAIN={c.RETAIN!r} is not of the form 1|2|2"
    if sum(lengths) != problem.P or min(lengths) < 1:
        return f"RETAIN={c.RETAIN} are not the {problem.P} powers"
    if c.SLOT_BYTES % 128 or c.SLOT_BYTES < 128 or work.slots_needed(c) > c.SLOTS:
        return f"SLOTS={c.SLOTS} of {c.SLOT_BYTES} bytes: {work.slots_needed(c)} of whole lines are needed"
    return None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations that need not know the matrix; those of `persistent` are fitted to one (`fit.py`)."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    for block in (128, 256, 512):
        for unroll in (4, 7, 9, 14, 27):
            for cache in ("normal", "streaming"):
                config = Groups(block, unroll, cache)
                if illegal(problem, config, device) is None:
                    yield config


def resident(config: Persistent, problem: Problem, device: Device) -> Persistent:
    """The same with as many slots as shared memory holds."""
    room = device.shared_per_block
    slots = max(0, room // config.SLOT_BYTES)
    while slots and work.shared_bytes(problem, replace(config, SLOTS=slots)) > room:
        slots -= 1
    return replace(config, SLOTS=slots)
