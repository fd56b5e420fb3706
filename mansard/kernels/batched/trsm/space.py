"""The GPU configurations of `trsm`: what each parameter means, their rules, and what is worth considering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ....rules import Names
from ...common import configs, measured
from ...common.configs import OnGpu
from . import space_cpu, work, work_tensor
from .space_cpu import Simd
from .triangles import illegal_lanes
from .work_shapes import lanes_shape, stream_feed

NARROW = 32  # beyond it a lane's share of the rows does not fit into registers
# Right-hand sides from which on tensor cores pay, whose tiles have 16 columns: one tile, and two of more than _LARGE
# unknowns, where A leaves room in shared memory for one block of threads.
_MANY, _MORE = 16, 32
_LARGE = 128  # unknowns: 128 KiB of float64 numbers, above a half of any multiprocessor's shared memory
_REGISTERS = 144  # of X, per lane


@dataclass(frozen=True)
class Lanes(OnGpu):
    """A few lanes of a warp per matrix, groups of matrices through shared memory; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "lanes"
    LANES_M: int = 4  # lanes along the rows of X; a known row goes from one to the others
    LANES_N: int = 1  # and along its columns
    PER_TEAM: int = 1  # matrices of a group per team of lanes
    STAGES: int = 1  # groups under way per warp; 1: warps come and go
    # where X is laid down on its way out: back where B was, or in a place of its own
    OUT: Annotated[str, Names("own", "back")] = "back"
    TRIANGLE: bool = False  # leave out what lies on the other side of the diagonal
    INVERT: bool = False  # multiply by inverted diagonal entries: less accurate than dividing by them
    WARPS: int = 4  # per block
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Blocked(OnGpu):
    """A block of threads per matrix, or per some of its columns; A in square blocks. Any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "blocked"
    BLK_M: int = 32  # order of the blocks of A
    BLK_N: int = 32  # columns of X per block of threads
    DIM_X: int = 8  # threads along the columns of X
    DIM_Y: int = 16  # and along its rows, lanes of a warp
    STAGES: int = 3  # blocks of A under way
    INVERT: bool = False  # as above
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Stream(OnGpu):
    """Some warps per matrix, one right-hand side; A in pieces that are always under way. Any dtype, layout, stride."""

    VARIANT: ClassVar[str] = "stream"
    WARPS: int = 1  # per matrix: one solves, the others prepare what it solves next
    PER_BLOCK: int = 4  # matrices per block
    BLK_K: int = 16  # columns of a piece, which has 32 rows
    STAGES: int = 3  # pieces under way per warp
    INVERT: bool = False  # as above
    BLOCKS_PER_SM: int = 2


@dataclass(frozen=True)
class Tensor(OnGpu):
    """Eight or more columns of X per warp on the tensor cores, A in a ring of rows. float64, any layout and stride."""

    VARIANT: ClassVar[str] = "tensor"
    WARPS: int = 4  # per block, which has a matrix or some of its columns
    STAGES: int = 3  # rows of 8 x 8 blocks in shared memory
    EIGHTS: int = 2  # columns of X per warp, in eights
    INVERT: bool = False  # as above
    BLOCKS_PER_SM: int = 2


Gpu: TypeAlias = Lanes | Blocked | Stream | Tensor
Config: TypeAlias = Gpu | Simd
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Lanes, Blocked, Stream, Tensor, Simd)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "trsm", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if problem.stack_x == "shared":
        return "the matrices of X need a place each"
    reason = _REASONS[config.VARIANT](problem, config)
    return reason or configs.too_large(work, problem, config, device, together=True)


def _blocked(problem: Problem, c: Blocked) -> str | None:
    threads = c.DIM_X * c.DIM_Y
    if min(c.BLK_M, c.BLK_N, c.DIM_X, c.DIM_Y) < 1 or c.STAGES < 2:
        return "a count is not positive, or STAGES less than 2"
    if 32 % c.DIM_Y or threads % 32 or threads > 1024:
        return f"{c.DIM_X} x {c.DIM_Y} threads: DIM_Y does not divide a warp, or they are not 1 to 32 whole warps"
    if c.BLK_M > NARROW or c.BLK_M & (c.BLK_M - 1):
        return f"BLK_M={c.BLK_M} is no power of two up to {NARROW}"
    return None


def _stream(problem: Problem, c: Stream) -> str | None:
    if min(c.WARPS, c.PER_BLOCK) < 1 or c.STAGES < 2 or c.WARPS * c.PER_BLOCK > 32:
        return "a count is not positive, STAGES less than 2, or there are more than 32 warps"
    if problem.NRHS > 1:
        return f"{problem.NRHS} right-hand sides, only one is solved for"
    if c.WARPS > 1 and c.PER_BLOCK > _BARRIERS:
        return f"{c.PER_BLOCK} teams of several warps: {_BARRIERS} can meet"
    vector = 1 if stream_feed(problem) == "elements" else 16 // problem.itemsize
    if c.BLK_K not in (1, 2, 4, 8, 16, 32) or c.BLK_K % vector:
        return f"BLK_K={c.BLK_K} is no power of two from {vector} to 32"
    return None


_BARRIERS = 15  # named barriers of a block beside the one for all its threads


def _tensor(problem: Problem, c: Tensor) -> str | None:
    if problem.dtype != "float64" or problem.N > work_tensor.WIDEST:
        return f"{problem.dtype}, {problem.N} unknowns: only float64, at most {work_tensor.WIDEST}"
    if not 1 <= c.WARPS <= 32 or not 1 <= c.EIGHTS <= 6:
        return f"{c.WARPS} warps, {8 * c.EIGHTS} columns of each: 1 to 32 and 8 to 48"
    return None if c.STAGES >= 2 else f"STAGES={c.STAGES}: one row arrives while another one is read"


_REASONS: dict[str, Any] = {
    "lanes": partial(illegal_lanes, NARROW, lanes_shape),
    "blocked": _blocked,
    "stream": _stream,
    "tensor": _tensor,
}


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    found = _resident_candidates(problem, device)
    others = (_fuller(problem, config, device) for config in found)
    yield from dict.fromkeys([*found, *(config for config in others if config is not None)])


def _resident_candidates(problem: Problem, device: Device) -> list[Config]:
    return list(configs.fitting(problem, device, _gpu_candidates(problem), resident, illegal))


def _fuller(problem: Problem, c: Config, device: Device) -> Lanes | None:
    """The same with twice as many blocks: `resident` counts those of two warps as four."""
    if not isinstance(c, Lanes) or c.WARPS != 2:
        return None
    fuller = replace(c, BLOCKS_PER_SM=min(16, 2 * c.BLOCKS_PER_SM))
    return fuller if illegal(problem, fuller, device) is None else None


def is_few(problem: Problem, device: Device) -> bool:
    """Whether the systems, by 16 columns, would leave most multiprocessors without work."""
    return bool(problem.NRHS > 1 and 2 * problem.BATCH * configs.up(problem.NRHS, 16) < device.multiprocessors)


def few(problem: Problem, device: Device) -> Iterator[Blocked]:
    """Configurations for few systems of more unknowns than lanes of a warp solve for: a row of a block per lane and a
    column per warp, so that the chain of rows is short, and as many blocks of threads as there are multiprocessors."""
    if problem.N <= NARROW or device.backend == "cpu" or not is_few(problem, device):
        return
    widths = [
        columns for columns in (4, 8, 16) if problem.BATCH * configs.up(problem.NRHS, columns) <= device.multiprocessors
    ]
    for columns in (*widths, 2):
        config = resident(problem, Blocked(32, min(columns, problem.NRHS), columns, 32, 4), device)
        if config is not None and illegal(problem, config, device) is None:
            yield config


def likely(problem: Problem, device: Device) -> Iterator[Config]:
    """Candidates of the model, which does not see what decides between variants: up to 32 unknowns `lanes`,
    since their rows fit into registers; beyond, for one right-hand side, `stream`, and for many `tensor`."""
    for config in few(problem, device):
        yield config
        return
    other: tuple[type, ...] = (Stream, Blocked, Tensor)
    if problem.N > NARROW:
        other = (Tensor,) if 1 < problem.NRHS < _fewest_for_tensor(problem, device) else (Blocked,)
    found = _resident_candidates(problem, device) if device.backend != "cpu" else list(candidates(problem, device))
    yield from [config for config in found if not isinstance(config, other)] or found


def _fewest_for_tensor(problem: Problem, device: Device) -> int:
    """Right-hand sides from which on tensor cores pay."""
    if measured.number("trsm", device, "LARGE", _LARGE) >= problem.N:
        return measured.number("trsm", device, "TENSOR_FROM", _MANY)
    return measured.number("trsm", device, "TENSOR_FROM_LARGE", _MORE)


def resident(problem: Problem, config: Any, device: Device) -> Any:
    """The same with as many blocks per multiprocessor as fit, None if not even one does."""
    if not isinstance(config, Lanes) and _REASONS[config.VARIANT](problem, config):
        return None
    return configs.resident(work, problem, config, device, quarters=not isinstance(config, Tensor))


def _gpu_candidates(problem: Problem) -> Iterator[Gpu]:
    if problem.N <= NARROW:
        yield from _lanes_candidates(problem)
    if problem.NRHS == 1 and problem.N > NARROW // 2:
        yield from streams(problem)
    if problem.NRHS > 1 and problem.N > NARROW // 2:
        alone = min(6, configs.up(problem.NRHS, 8))  # all columns in one warp
        for eights in sorted({2, 4, 6, alone}):
            widths = sorted({min(most, configs.up(problem.NRHS, 8 * eights)) for most in (1, 2, 4, 8)})
            yield from (Tensor(*shape, eights) for shape in product(widths, (2, 3)))
    if problem.N > 8:
        for order, (dim_x, dim_y), stages in product((8, 16, 32), dims(problem), (2, 3)):
            for columns in {min(problem.NRHS, dim_x * each) for each in (1, 2, 4, 8)}:
                rows = configs.up(min(order, problem.N), dim_y)
                fits = rows * configs.up(columns, dim_x) * problem.itemsize // 4 <= _REGISTERS // 2
                if fits and (dim_y <= order or problem.NRHS == 1):
                    yield Blocked(order, columns, dim_x, dim_y, stages)


def _lanes_candidates(problem: Problem) -> Iterator[Lanes]:
    back = problem.stack_b != "shared"
    triangles = (False, True) if problem.N * problem.itemsize >= 64 else (False,)
    for (lanes_m, lanes_n), triangle in product(teams(problem), triangles):
        yield Lanes(lanes_m, lanes_n, 1, 1, "back" if back else "own", triangle)
        yield Lanes(lanes_m, lanes_n, 1, 2, "back" if back else "own", triangle)
        if triangle and problem.NRHS == 1:  # smaller blocks leave less of the shared memory over
            yield Lanes(lanes_m, lanes_n, 1, 1, "back" if back else "own", triangle, WARPS=2)
        group_bytes = 32 // (lanes_m * lanes_n) * problem.N**2 * problem.itemsize
        if group_bytes <= 4096:
            yield from (Lanes(lanes_m, lanes_n, per_team, 1, "own", triangle) for per_team in (2, 4))


def streams(problem: Problem) -> Iterator[Stream]:
    """One warp per matrix where there are many, and several where these are long; pieces of lines of 128 bytes."""
    width = min(32, 128 // problem.itemsize)
    most = configs.up(problem.N, 64)
    for warps, (narrow, stages) in product((1, 2, 4, 8), ((1, 3), (1, 2), (2, 4), (1, 4))):
        if warps == 1 or warps <= most:
            yield Stream(warps, max(1, 4 // warps), width // narrow, stages)


def teams(problem: Problem) -> list[tuple[int, int]]:
    """Shapes of teams, the most promising first: by what a multiprocessor with all its shared memory and registers in
    use has to issue, to wait for and to move per matrix."""
    found = []
    for m, n in product((1, 2, 4, 8, 16, 32), repeat=2):
        rows, columns = configs.up(problem.N, m), configs.up(problem.NRHS, n)
        idle = (m > 1 and rows * (m // 2) >= problem.N) or (n > 1 and columns * (n // 2) >= problem.NRHS)
        if m * n > 32 or idle or rows * columns * problem.itemsize // 4 > _REGISTERS:
            continue
        config = Lanes(m, n, OUT="own" if problem.stack_b == "shared" else "back")
        shape = lanes_shape(problem, config)
        warps = min(48, 2000 // work.registers(problem, config), _SHARED // max(1, shape.stage_bytes))
        issued, waited = work.issued(problem, config) / 4, work.waited(problem, config) / max(1, warps)
        moved = shape.group * (problem.N + 2 * problem.NRHS) * problem.N * problem.itemsize / _BYTES_PER_CLOCK
        cost = max(issued, waited, moved) + 0.2 * (issued + waited + moved)
        few = max(1.0, 24 / max(warps, 0.1))  # warps, to take turns at copying and computing
        found.append((cost * few / shape.group, m, n))
    return [(m, n) for _, m, n in sorted(found)[:6]]


_SHARED, _BYTES_PER_CLOCK = 220 << 10, 20  # of a multiprocessor


def dims(problem: Problem) -> list[tuple[int, int]]:
    """Threads of blocked configurations, along columns and rows."""
    if problem.NRHS == 1:
        return [(1, 32)]
    if problem.NRHS <= 8:
        return [(2, 16), (4, 8), (4, 16), (8, 8), (2, 32)]
    return [(8, 16), (16, 8), (8, 8), (16, 16), (32, 4), (4, 32)]
