"""The configurations of `krylov`: what each parameter means, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Range
from ...common import configs
from ...common.configs import OnGpu
from . import space_cpu, work
from .space_cpu import Simd, SimdMinres


@dataclass(frozen=True)
class Cg(OnGpu):
    """Passes of conjugate gradients: the grid strides over packs of 16 bytes."""

    VARIANT: ClassVar[str] = "cg"
    BLOCK: int = 256  # threads per block
    BLOCKS_PER_SM: int = 4
    DEPTH: Annotated[int, Range(1, 8)] = 2  # packs of each vector that a thread loads before it computes


@dataclass(frozen=True)
class Minres(OnGpu):
    """Passes of the minimal residual method, likewise."""

    VARIANT: ClassVar[str] = "minres"
    BLOCK: int = 256  # threads per block
    BLOCKS_PER_SM: int = 4
    DEPTH: Annotated[int, Range(1, 8)] = 2  # packs of each vector that a thread loads before it computes


Config: TypeAlias = Cg | Minres | Simd | SimdMinres
VARIANTS: dict[str, type[Config]] = {one.VARIANT: one for one in (Cg, Minres, Simd, SimdMinres)}
to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "krylov", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if isinstance(c, Simd | SimdMinres) or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, c, device)
    if problem.solver != c.VARIANT:
        return f"{c.VARIANT} has no passes of {problem.solver}"
    if c.BLOCK % 32:
        return f"BLOCK={c.BLOCK} is no multiple of a warp's 32 threads"
    return configs.too_large(work, problem, c, device)


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    kind = Minres if problem.solver == "minres" else Cg
    for block, per_sm, depth in product((128, 256, 512, 1024), (1, 2, 4, 8), (1, 2, 4)):
        config = kind(block, per_sm, depth)
        if illegal(problem, config, device) is None:
            yield config
