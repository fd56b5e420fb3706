"""The configurations of `sketch`: what each parameter means, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names, Range
from ...common import configs
from ...common.configs import OnCpu, OnGpu
from ...common.vectors import bad_lanes, registers_of
from . import spec, work


@dataclass(frozen=True)
class Ring(OnGpu):
    """FP64 tensor cores fed by a ring of bulk copies; A^H A from the same fragments."""

    VARIANT: ClassVar[str] = "ring"
    BLOCKS_PER_SM: ClassVar[int] = 1
    ROWS: Annotated[int, Range(64, 8192)] = 64  # rows per chunk
    STAGES: int = 4  # chunks in shared memory
    REDUCE: Annotated[str, Names("ticket", "sliced")] = "sliced"


@dataclass(frozen=True)
class Simd(OnCpu):
    """Sums of 16 rows of Y and some columns in registers, over cache-resident blocks of rows."""

    VARIANT: ClassVar[str] = "simd"
    LANES: int = 4  # doubles per vector
    TILE: Annotated[int, Range(1, 16)] = 2  # columns whose sums stay in registers
    ROWS: Annotated[int, Range(8, 8192)] = 64  # rows per block


Config: TypeAlias = Ring | Simd
VARIANTS: dict[str, type[Config]] = {"ring": Ring, "simd": Simd}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "sketch", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(c, device):
        return reason
    return _on_cpu(c, device) if isinstance(c, Simd) else _ring(problem, c, device)


def _on_cpu(c: Simd, device: Device) -> str | None:
    if reason := bad_lanes(c.LANES, 8, device):
        return reason
    if c.ROWS % spec.GROUPS:
        return f"ROWS={c.ROWS} is no multiple of {spec.GROUPS}"
    sums, most = c.TILE * (16 // c.LANES), registers_of(device)
    return f"{sums} vector sums, {most} registers" if sums + 16 // c.LANES > most else None


def _ring(problem: Problem, c: Ring, device: Device) -> str | None:
    reals = problem.N * (2 if problem.is_complex else 1)
    if device.capability < 90:
        return f"needs bulk copies and m16n8k8 tensor-core instructions (sm_90), the device is {device.arch}"
    if problem.layout_a != "row" or not problem.aligned:
        return "bulk copies need a row-major operand that starts on a 16-byte boundary"
    if problem.pitch_a > 1.25 * problem.N + 1:
        return f"pitch {problem.pitch_a}: padding would be fetched"
    if reals > spec.WIDEST_WITH_GRAM:
        return f"{reals} real columns: the sums of more than {spec.WIDEST_WITH_GRAM} leave the registers"
    if c.ROWS % 64 or c.STAGES < 2 or c.REDUCE not in ("ticket", "sliced"):
        return f"ROWS={c.ROWS}, STAGES={c.STAGES}, REDUCE={c.REDUCE!r}: steps of 64, at least 2, ticket or sliced"
    return configs.too_large(work, problem, c, device)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    rings = (Ring(rows, stages) for rows in (64, 128, 256, 512, 1024) for stages in (2, 3, 4, 6, 8, 12))
    simds = product((2, 4, 8), (1, 2, 3, 4, 6, 8, 10), (64, 128, 256, 512))
    found: Iterator[Config] = chain(rings, (Simd(lanes, tile, rows) for lanes, tile, rows in simds))
    yield from (config for config in found if illegal(problem, config, device) is None)
