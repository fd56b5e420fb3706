"""Configurations, legality and launch text that `tridiagonal` and `bidiagonal` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source
from ....plan.problem import REAL, Problem
from ....rules import Numbers
from ...common import configs, sources, specs
from ...common.configs import OnGpu, up

LEAST, MOST = 2, 512  # rows: a single one is reduced already; beyond, shared memory has no room for panels
MOST_OF_LANES = 32  # rows up to which a few lanes have a matrix; larger ones take a block
MOST_OF_BLOCK = 128  # rows up to which the registers of a multiprocessor hold a matrix,
MOST_OF_COMPLEX = 96  # and of complex128 up to these
ROWS = 8  # consecutive rows of a warp of a block: a chunk of the trailing matrix that is updated or skipped together
WANTS = ("values", "vectors")
STACKS = ("packed", "strided")
REALS = ("D", "E", "SCALE", "TAU_U", "TAU_V")  # pointers to real numbers, whatever the dtype
INTEGERS = ("BATCH", "a_matrix", "a_row", "a_col")


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, which hold whole columns in registers; up to 32 rows, any dtype and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES: int = 16  # per matrix
    WARPS: int = 2  # per block
    BLOCKS_PER_SM: int = 4
    ROLL: Annotated[int, Numbers(1, 4)] = 1  # steps that share their code


@dataclass(frozen=True)
class Block(OnGpu):
    """A block per matrix; each warp holds chunks of 8 rows in registers, in turn; 33 to 128 rows."""

    VARIANT: ClassVar[str] = "block"
    WARPS: int = 2  # of the block
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Panels(OnGpu):
    """A block per matrix, which stays in global memory; blocked by panels of columns. The default beyond registers."""

    VARIANT: ClassVar[str] = "panels"
    PANEL: int = 8  # columns
    WARPS: int = 8  # of the block
    BLOCKS_PER_SM: int = 1


Config: TypeAlias = Lanes | Block | Panels
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Lanes, Block, Panels)}


@dataclass(frozen=True)
class Slices:
    """How the warps of a block share a matrix."""

    columns: int  # of a lane
    chunks: int  # of ROWS rows, of a warp
    rows: int  # that vectors in shared memory have room for

    @property
    def own(self) -> int:
        """Rows of a warp."""
        return self.chunks * ROWS

    @property
    def held(self) -> int:
        """Entries that a thread holds."""
        return self.columns * self.own


def slices(problem: Problem, c: Block, powers: bool = False) -> Slices:
    """The share of a warp; with `powers` the number of its chunks is a power of two, which sums over lanes need."""
    columns, chunks = up(problem.N, 32), up(up(problem.N, ROWS), c.WARPS)
    if powers:
        chunks = 1 << (chunks - 1).bit_length()
    return Slices(columns, chunks, max(32 * columns, chunks * c.WARPS * ROWS))


def strides(problem: Problem) -> tuple[int, ...]:
    """Matrix, row and column stride of A without gaps, in elements."""
    return problem.N**2, problem.N, 1


def refusal(problem: Problem) -> str | None:
    """Why there is no kernel for the problem, or None if there is."""
    name = problem.operation
    if reason := specs.unknown_dtype(problem):
        return reason
    if problem.want not in WANTS:
        return f"{name}: want={problem.want!r} is not one of {', '.join(WANTS)}"
    if problem.stack_a not in STACKS:
        return f"{name}: stack_a={problem.stack_a!r} is not one of {', '.join(STACKS)}"
    if not LEAST <= problem.N <= MOST:
        return f"{name}: N={problem.N} is not between {LEAST} and {MOST}: panels of larger ones have no room"
    return None


def fits_registers(dtype: str, N: int) -> bool:
    """Whether a block holds a matrix in its registers. Larger ones are reduced in global memory, where their first
    matrix of reflectors lies afterwards: the kernel needs that array even if it writes no reflectors."""
    return (MOST_OF_COMPLEX if dtype == "complex128" else MOST_OF_BLOCK) >= N


def illegal(
    work: configs.Resources, refusal: Callable[[Problem], str | None], problem: Problem, config: Config, device: Device
) -> str | None:  # fmt: skip
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if reason := configs.elsewhere(config, device) or refusal(problem):
        return reason
    if not isinstance(config, Panels) and (config.VARIANT == "lanes") != (problem.N <= MOST_OF_LANES):
        return f"{config.VARIANT}: {problem.N} rows; lanes have up to {MOST_OF_LANES}, a block has more"
    if isinstance(config, Block) and not fits_registers(problem.dtype, problem.N):
        return f"block: {problem.N} rows of {problem.dtype}: registers have no room for them"
    if isinstance(config, Lanes) and (config.LANES & (config.LANES - 1) or not 4 <= config.LANES <= 32):
        return f"LANES={config.LANES} is none of 4, 8, 16 and 32"
    if not 1 <= config.WARPS <= 32:
        return f"WARPS={config.WARPS} is not between 1 and 32"
    return configs.too_large(work, problem, config, device, together=_share_quarters(config))


def _share_quarters(config: Config) -> bool:
    """Whether warps of several blocks share a quarter of a multiprocessor: they do unless four divides their number."""
    return config.WARPS % 4 != 0


def resident(work: configs.Resources, problem: Problem, config: Config, device: Device) -> Config | None:
    """The configuration with as many blocks per multiprocessor as fit, None if not even one does."""
    together = _share_quarters(config)
    refused = partial(configs.too_large, work, problem, device=device, together=together)
    found = configs.resident(
        work, problem, config, device, quarters=not together, refused=lambda one: refused(config=one)
    )
    return found  # type: ignore[no-any-return]


def rough_candidates(problem: Problem) -> Iterator[Config]:
    """Configurations of whatever number of blocks per multiprocessor."""
    if problem.N <= MOST_OF_LANES:
        for lanes, warps, roll in product((4, 8, 16, 32), (1, 2, 4), (1, 4)):
            yield Lanes(lanes, warps, ROLL=roll)
    elif fits_registers(problem.dtype, problem.N):
        yield from (Block(warps) for warps in range(2, 17))
    else:
        yield from (Panels(panel, warps) for panel, warps in product((2, 4, 8, 16, 32), (4, 8, 16)))


def panels(warps: int) -> Iterator[Panels]:
    """Rules for matrices in global memory: so many warps, then narrower panels, and fewer warps."""
    yield from (Panels(panel, fewer) for fewer in (16, 8, 4) if fewer <= warps for panel in (8, 4, 2))


def panel_bytes(problem: Problem, c: Panels, vectors: int) -> int:
    """Shared memory of a blocked reduction with so many kinds of panel vectors: these, two vectors, parts of a product
    of each warp, products with panel vectors, two first entries, and two sums of each warp."""
    width = up(problem.N, 32) * 32
    entries = (vectors * c.PANEL + 2 + c.WARPS) * width + 2 * c.PANEL + 2
    return entries * problem.itemsize + 16 * c.WARPS


def panel_registers(problem: Problem) -> int:
    """Registers of a blocked reduction, from compiled kernels: two tiles of eight rows, their sums and factors."""
    return 44 * words(problem) + 28


def words(problem: Problem) -> int:
    """Registers of an entry."""
    return problem.itemsize // 4


def threads(problem: Problem, c: Config) -> int:
    """Threads per block."""
    return 32 * c.WARPS


def matrices(c: Config) -> int:
    """Matrices of a block."""
    return 32 * c.WARPS // c.LANES if isinstance(c, Lanes) else 1


def blocks(problem: Problem, c: Config, device: Device) -> int:
    """Blocks per launch: they come and go with their matrices."""
    return max(1, up(problem.BATCH, matrices(c)))


def bytes_in_flight(problem: Problem, c: Config) -> int:
    """Bytes that a multiprocessor has under way at once: the matrices that its blocks load."""
    return int(problem.N**2 * problem.itemsize * matrices(c) * c.BLOCKS_PER_SM)


def rows(problem: Problem, c: Lanes) -> int:
    """Rows of a lane's columns: whole groups of steps that share their code."""
    return up(problem.N, c.ROLL) * c.ROLL


def vector_bytes(problem: Problem, entries: int) -> int:
    """Bytes of a vector in shared memory, in whole chunks of 16 bytes."""
    return up(entries * problem.itemsize, 16) * 16


def kernel(
    source: Any, work: sources.Resources, problem: Problem, config: Config, device: Device, strides: tuple[int, ...]
) -> Kernel:  # fmt: skip
    """Everything a backend needs; `strides` are those of A: matrices, rows, columns, in elements."""
    geometry = Geometry(
        (work.blocks(problem, config, device), 1, 1), threads(problem, config), work.shared_bytes(problem, config)
    )
    return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH, *strides))


def source(
    work: configs.Resources, pointers: tuple[str, ...], constants: dict[str, Any], problem: Problem, config: Config,
    target: str,
) -> Source:  # fmt: skip
    """The kernel's text for `target` (cuda or emulated); A is read, the other `pointers` are written."""
    kinds = dict.fromkeys(REALS, f"{CPP_TYPES[REAL[problem.dtype]]}*") | {"A": "const Params::T*", "INFO": "int*"}
    fields = tuple(Field(name, kinds.get(name, "Params::T*"), "pointer") for name in pointers)
    return sources.source(
        problem, config, target, work=work, folder=f"factor/{problem.operation}",
        title=f"A[{problem.N},{problem.N}], {problem.want}, {problem.dtype}",
        constants={
            "N": problem.N, "WANT": problem.want, "PACKED": problem.stack_a == "packed", **constants,
            "SHARED_BYTES": work.shared_bytes(problem, config),
        },
        arguments=(*fields, *WORKSPACE, *sources.integers(INTEGERS)),
    )  # fmt: skip


def reflection(x: Any) -> Any:
    """H with H x = beta e_1, in NumPy: a part of the references."""
    norm, head = np.linalg.norm(x), abs(x[0])
    u = np.array(x)
    u[0] += (x[0] / head if head else 1.0) * norm
    square = np.vdot(u, u).real
    return np.eye(len(x)) - (2 / square * np.outer(u, u.conj()) if square else 0)
