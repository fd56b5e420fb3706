"""The configurations of `sketch`: what each parameter means, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names, Range
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu, spec, work
from .space_cpu import Simd


@dataclass(frozen=True)
class Ring(OnGpu):
    """FP64 tensor cores fed by a ring of bulk copies; A^H A from the same fragments."""

    VARIANT: ClassVar[str] = "ring"
    BLOCKS_PER_SM: ClassVar[int] = 1
    ROWS: Annotated[int, Range(64, 8192)] = 64  # rows per chunk
    STAGES: int = 4  # chunks in shared memory
    REDUCE: Annotated[str, Names("ticket", "sliced")] = "sliced"


Config: TypeAlias = Ring | Simd
VARIANTS: dict[str, type[Config]] = {"ring": Ring, "simd": Simd}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "sketch", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if isinstance(c, Simd) or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, c, device)
    return _ring(problem, c, device)


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
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    for rows, stages in product((64, 128, 256, 512, 1024), (2, 3, 4, 6, 8, 12)):
        config = Ring(rows, stages)
        if illegal(problem, config, device) is None:
            yield config
