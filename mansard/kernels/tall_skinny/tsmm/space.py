"""The configurations of `tsmm`: what each parameter means, its candidates, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ....rules import Names, Range
from ...common import configs, measured
from ...common.configs import OnGpu
from . import space_columns, space_cpu, work
from .space_columns import Columns
from .space_cpu import Simd


@dataclass(frozen=True)
class Threads(OnGpu):
    """A few threads per row, the mappings of Ernst et al. and of TSM2L; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "threads"
    PER_ROW: int = 1  # threads per row
    TRANSPOSED: bool = True  # a thread's columns interleave with its neighbours'
    UNROLL: int = 1  # rows per thread at once
    SOURCE: Annotated[str, Names("registers", "shared", "cache")] = "cache"  # where C is read from
    BLOCK: int = 256  # threads per block
    BLOCKS_PER_SM: int = 4


@dataclass(frozen=True)
class Ring(OnGpu):
    """Tensor cores, or lanes with whole rows, between bulk copies in and out; row-major, rows of any width."""

    VARIANT: ClassVar[str] = "ring"
    WARPS_K: int = 2  # warps along the rows of a chunk
    WARPS_N: int = 1  # and along the columns of W
    GROUPS: int = 4  # teams per block, each with a ring of its own
    ROWS: Annotated[int, Range(1, 8192)] = 64  # rows per chunk
    STAGES: int = 3  # chunks per ring
    # chunks of W on their way out; 0: where their rows came from, or stored by the lanes
    OUT: Annotated[int, Range(0, 64)] = 2
    SOURCE: Annotated[str, Names("registers", "shared")] = "shared"  # where C waits
    PASSES: int = 1  # how often a warp comes back to a chunk for more of its rows
    UNIT: Annotated[str, Names("float64", "tf32x3", "wgmma", "fma")] = "float64"  # who multiplies
    TURNED: bool = False  # tensor cores form W transposed
    PRODUCTS: int = 4  # real products per complex one: 4 | 3
    BLOCKS_PER_SM: int = 1


@dataclass(frozen=True)
class Fragment(OnGpu):
    """FP64 tensor cores fed straight from memory, for few rows; row-major, any pitch."""

    VARIANT: ClassVar[str] = "fragment"
    TILES: int = 1  # tiles of 16 rows per warp
    WARPS: int = 2  # per block
    BLOCKS_PER_SM: int = 1  # that must fit: there are as many as the rows need


Config: TypeAlias = Threads | Ring | Columns | Fragment | Simd
VARIANTS: dict[str, type[Config]] = {config.VARIANT: config for config in (Threads, Ring, Columns, Fragment, Simd)}

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "tsmm", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    rules: dict[str, Any] = {
        "threads": _threads, "ring": _ring, "columns": space_columns.illegal, "fragment": _fragment
    }  # fmt: skip
    return rules[config.VARIANT](problem, config, device) or configs.too_large(work, problem, config, device)


def _fragment(problem: Problem, c: Fragment, device: Device) -> str | None:
    if device.capability < 90:
        return f"needs m16n8k8 tensor-core instructions (sm_90), the device is {device.arch}"
    if problem.layout_a != "row" or problem.layout_w != "row":
        return "fragments are read and written along rows: both matrices must be row-major"
    return None if min(c.TILES, c.WARPS) >= 1 else f"TILES={c.TILES}, WARPS={c.WARPS}: one at least"


def _threads(problem: Problem, c: Threads, device: Device) -> str | None:
    if c.SOURCE not in ("registers", "shared", "cache"):
        return f"SOURCE={c.SOURCE!r} is not one of registers, shared, cache"
    if not 1 <= c.PER_ROW <= min(problem.N, c.BLOCK):
        return f"PER_ROW={c.PER_ROW}: a row of W has {problem.N} columns, a block {c.BLOCK} threads"
    if problem.in_place and 32 % c.PER_ROW:
        return f"in place, a row's PER_ROW={c.PER_ROW} threads must lie in one warp"
    return None


def _ring(problem: Problem, c: Ring, device: Device) -> str | None:
    if device.capability < 90:
        return f"needs m16n8k4 tensor-core instructions (sm_90), the device is {device.arch}"
    if problem.layout_a != "row" or problem.layout_w != "row" or not problem.aligned:
        return "bulk copies need row-major operands that start on 16-byte boundaries"
    if problem.pitch_a > 1.25 * problem.M + 1:
        return f"pitch {problem.pitch_a}: too much padding would be fetched"
    if problem.in_place and problem.pitch_a != problem.M:
        return "in place, padding between rows would be fetched while neighbours write"
    if c.OUT > 0 and problem.pitch_w != problem.N:
        return f"OUT={c.OUT}: bulk copies write whole chunks, and rows of W are {problem.pitch_w} apart"
    if c.OUT == 0 and problem.pitch_w == problem.N and (problem.pitch_a < problem.N or c.PASSES > 1):
        return "OUT=0: results do not fit where their rows came from, or other rows are still to be read"
    if c.GROUPS > 15:
        return f"GROUPS={c.GROUPS}: there are 15 named barriers"
    return _unit(problem, c, device)


def _unit(problem: Problem, c: Ring, device: Device) -> str | None:
    if c.UNIT not in ("float64", "tf32x3", "wgmma", "fma") or c.SOURCE not in ("registers", "shared"):
        return f"UNIT={c.UNIT!r}, SOURCE={c.SOURCE!r}: units are float64, tf32x3, wgmma, fma, sources registers, shared"
    if c.UNIT in ("tf32x3", "wgmma") and (REAL[problem.dtype] != "float32" or problem.M < 16):
        return f"{c.UNIT} multiplies float32 data, and is accurate enough from M = 16"
    if c.UNIT == "wgmma":
        return _warpgroup(problem, c, device)
    if c.TURNED and (c.UNIT != "float64" or c.SOURCE != "shared"):
        return "TURNED is a form of UNIT=float64 with SOURCE=shared"
    thirds = problem.is_complex and c.UNIT == "tf32x3" and c.SOURCE == "shared"
    if c.PRODUCTS != 4 and not (c.PRODUCTS == 3 and thirds):
        return f"PRODUCTS={c.PRODUCTS}: 4, or, for complex numbers with UNIT=tf32x3, SOURCE=shared, 3"
    shape = work.ring_shape(problem, c)
    rows = c.WARPS_K * c.PASSES
    if c.UNIT == "fma":
        if problem.M * problem.N * shape.words > 64 or c.WARPS_N > 1 or problem.pitch_a * shape.words > 16:
            return "a lane holds at most 64 words of C and 16 of a row, and all columns"
        return None if c.ROWS % (32 * rows) == 0 else f"ROWS={c.ROWS} is not {rows} warps and passes of 32 rows"
    if c.ROWS % (8 * max(2, shape.step) * rows):
        return f"ROWS={c.ROWS} does not split into {rows} warps and passes of {8 * max(2, shape.step)} rows"
    if c.SOURCE == "registers" and shape.blocks * shape.columns > 16:
        return f"{shape.blocks} x {shape.columns} fragments of C are too many for registers"
    return None


def _warpgroup(problem: Problem, c: Ring, device: Device) -> str | None:
    if device.arch != "sm_90a":
        return f"UNIT=wgmma needs sm_90a, the device is {device.arch}"
    if (c.WARPS_K, c.WARPS_N, c.SOURCE) != (4, 1, "shared") or c.ROWS != 64 * c.PASSES:
        return "UNIT=wgmma: a team is four warps along 64 rows per pass, with C in shared memory"
    if c.TURNED or c.PRODUCTS != 4:
        return "UNIT=wgmma has neither TURNED nor PRODUCTS"
    return f"N={problem.N}: a warpgroup takes 128 columns at most" if problem.N > 128 else None


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    for variant in (_ring_candidates, space_columns.candidates, _fragment_candidates, _threads_candidates):
        yield from (config for config in variant(problem) if illegal(problem, config, device) is None)


def likely(problem: Problem, device: Device) -> Iterator[Config]:
    """Those that may win: where bulk copies can be had, threads on their own do not, unless there are few rows."""
    some = next((config for config in candidates(problem, device) if config.VARIANT == "ring"), None)
    if some is None or work.is_short(problem):
        yield from candidates(problem, device)
    else:
        rings = [config for config in _ring_candidates(problem) if illegal(problem, config, device) is None]
        wider = measured.number("tsmm", device, "WIDER", _WIDER)
        several = [config for config in rings if config.GROUPS > 1] if wider * problem.M <= problem.N else []
        yield from several or rings


_WIDER = 8  # columns of W per column of A: much to write, little to read: a single group would wait for its writes


def _ring_candidates(problem: Problem) -> Iterator[Ring]:
    if problem.layout_a != "row" or problem.layout_w != "row":
        return
    dense = problem.pitch_w == problem.N
    outs = (1, 2, 0) if dense and problem.pitch_a >= problem.N else (1, 2) if dense else (0,)
    row_bytes = problem.pitch_a * problem.itemsize
    rows_of = [n for n in (16, 32, 64, 128, 256, 512, 1024) if n == 16 or 2048 <= n * row_bytes <= 65536]
    for wk, wn, groups, rows in product((1, 2, 4, 8), (1, 2, 4), (1, 2, 3, 4, 6, 8), rows_of):
        if 4 <= wk * wn * groups <= 16:
            for out, (unit, source, turned, products), tall in product(outs, _units(problem), (16, 32, 64)):
                if rows >= wk * tall and not (unit == "fma" and wn > 1):
                    one = Ring(wk, wn, groups, rows, 1, out, source, rows // wk // tall, unit, turned, products)
                    yield from (replace(one, STAGES=stages) for stages in _stages(problem, one))


def _fragment_candidates(problem: Problem) -> Iterator[Fragment]:
    if work.is_short(problem):
        yield from (Fragment(tiles, warps) for tiles, warps in product((1, 2), (1, 2, 4, 8)))


def _units(problem: Problem) -> list[tuple[str, str, bool, int]]:
    """Who might multiply: unit, source of C, whether turned, real products per complex one. Three of these, which round
    a little differently, are for widths where arithmetic is the limit; in double precision they were no faster."""
    words = 2 if problem.is_complex else 1
    units = [("float64", "shared", False, 4), ("float64", "shared", True, 4)]
    if problem.M * problem.N * words * words <= 32 * 32:
        units.append(("float64", "registers", False, 4))
    if problem.M * problem.N * words <= 64 and problem.pitch_a * words <= 16:
        units.append(("fma", "registers", False, 4))
    if REAL[problem.dtype] == "float32" and problem.M >= 16:
        units += [("tf32x3", "shared", False, products) for products in ((3, 4) if problem.is_complex else (4,))]
        units.append(("wgmma", "shared", False, 4))
    return units


def _stages(problem: Problem, c: Ring) -> Iterator[int]:
    """As many as there is room for, to eight, and fewer."""
    shape = work.ring_shape(problem, c)
    room = 220 * 1024 - shape.small_bytes - c.GROUPS * c.OUT * shape.out_bytes
    yield from (n for n in dict.fromkeys((min(8, room // (c.GROUPS * shape.stage_bytes)), 2, 3)) if n >= 2)


def _threads_candidates(problem: Problem) -> Iterator[Threads]:
    per_row = sorted({1, 2, 4, 8, 16, 32, problem.N} & set(range(1, problem.N + 1)))
    for threads, transposed, unroll in product(per_row, (True, False), (1, 2, 4)):
        for source, block, per_sm in product(("registers", "shared", "cache"), (128, 256), (2, 4, 8)):
            yield Threads(threads, transposed, unroll, source, block, per_sm)
