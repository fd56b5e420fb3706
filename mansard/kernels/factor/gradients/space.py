"""The configurations of `gradients`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names
from ...common import configs
from ...common.configs import OnGpu
from ..lu import space as lu_space
from . import shapes, spec, work

_TEAMS = (1, 2, 4, 8, 16, 32)  # lanes of a team: powers of two, which divide a warp
_WORDS = 132  # registers of a lane for its tile of a product, or its column of a matrix


@dataclass(frozen=True)
class Products(OnGpu):
    """Products with A on both sides: a few lanes of a warp per matrix; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "products"
    LANES_M: int = 8  # lanes along the rows of a matrix
    LANES_N: int = 2  # and along its columns
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Tensor(OnGpu):
    """Float64 products with A on both sides on the tensor cores: a warp per matrix; any layout and stride."""

    VARIANT: ClassVar[str] = "tensor"
    GROUP: int = 1  # matrices per warp
    WARPS: int = 4
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Columns(OnGpu):
    """Cholesky factors: a lane of a warp per column; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "columns"
    TEAM: int = 32  # lanes per matrix, at least as many as columns
    WARPS: int = 4
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Solution(OnGpu):
    """Solutions: the elimination of lu's `lanes`, then a product of rank NRHS; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "solution"
    LANES: int = 8  # of a team, as in lu
    ROLLED: bool = False  # four steps share their code
    WARPS: int = 1
    BLOCKS_PER_SM: int = 2
    VIA: Annotated[str, Names("lanes", "shared")] = "lanes"


Config: TypeAlias = Products | Tensor | Columns | Solution
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Products, Tensor, Columns, Solution)}
_KINDS = {"cholesky": ("columns",), "solution": ("solution",)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "gradients", VARIANTS)


def illegal(problem: Problem, c: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(c, device) or spec.refusal(problem):
        return reason
    if c.VARIANT not in _KINDS.get(problem.want, ("products", "tensor")):
        return f"want={problem.want!r} is not of {c.VARIANT}"
    if not 1 <= c.WARPS <= 32:
        return f"{c.WARPS} warps: 1 to 32"
    return _of_variant(problem, c, device) or configs.too_large(work, problem, c, device, together=True)


def _of_variant(problem: Problem, c: Config, device: Device) -> str | None:
    if isinstance(c, Products):
        if min(c.LANES_M, c.LANES_N) < 1 or 32 % (c.LANES_M * c.LANES_N):
            return f"a team of {c.LANES_M} x {c.LANES_N} lanes does not divide a warp"
        held = work.tile(problem, c)
        return f"a lane's tile fills {held} registers" if held > _WORDS else None
    if isinstance(c, Tensor):
        if problem.dtype != "float64":
            return f"tensor: dtype {problem.dtype} is not float64"
        return None if 1 <= c.GROUP <= 32 else f"GROUP={c.GROUP}: 1 to 32"
    if isinstance(c, Columns):
        legal = c.TEAM in _TEAMS and c.TEAM >= problem.N
        return None if legal else f"TEAM={c.TEAM}: a power of two up to 32, at least {problem.N} lanes"
    return lu_space.illegal(shapes.of_lu(problem), shapes.lu_config(c), device)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The same with as many blocks per multiprocessor as fit, None if not even one does."""
    most = min(32, device.threads_per_multiprocessor // work.threads(problem, config))
    return configs.fullest(config, most, lambda c: configs.too_large(work, problem, c, device, together=True))


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering."""
    yield from configs.fitting(problem, device, _rough(problem), resident, illegal)


def _rough(problem: Problem) -> Iterator[Config]:
    if problem.want == "cholesky":
        yield from (Columns(team, warps) for team in _TEAMS if team >= problem.N for warps in (1, 2, 4))
    elif problem.want == "solution":
        for lanes, rolled, warps, via in product(_TEAMS, (False, True), (1, 4), ("lanes", "shared")):
            yield Solution(lanes, rolled and lanes > 2, warps, VIA=via if lanes > 2 else "lanes")
    else:
        yield from (Tensor(group, warps) for group in (1, 2, 4, 8, 16) for warps in (1, 2, 4))
        for m, n, warps in product(_TEAMS, _TEAMS, (1, 4)):
            if m * n <= 32 and m < 2 * problem.N and n < 2 * problem.N:
                yield Products(m, n, warps)
