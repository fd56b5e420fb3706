"""The configurations of `gram`: what each parameter means, its candidates, and why a combination is illegal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

from ....codegen.geometry import Device
from ....plan.problem import REAL, Problem
from ....rules import Names, Numbers, Range
from ...common import configs
from ...common.configs import OnGpu
from ...common.fields import Reduce
from . import space_columns, space_cpu, space_entries, space_group, space_thirds, spec, work
from .space_columns import Columns
from .space_cpu import Simd
from .space_entries import Entries
from .space_group import Group
from .space_thirds import Thirds


@dataclass(frozen=True)
class Tiled(OnGpu):
    """Tiles of C in registers, the mapping of Ernst et al.; any dtype, layout and stride."""

    VARIANT: ClassVar[str] = "tiled"
    TILE_M: int = 4  # columns of A per thread
    TILE_N: int = 4  # columns of B per thread
    TRANSPOSED: bool = True  # a thread's columns interleave with its neighbours'
    LEAPFROG: bool = False  # load the next rows before using the current ones
    UNROLL: int = 1  # rows per thread at once
    BLOCK: int = 256  # threads per block
    BLOCKS_PER_SM: int = 2
    REDUCE: Reduce = "ticket"


@dataclass(frozen=True)
class Fragment(OnGpu):
    """FP64 tensor cores fed straight from memory; any layout and stride."""

    VARIANT: ClassVar[str] = "fragment"
    TILE_M: int = 2  # slots of eight real columns of A per warp
    TILE_N: int = 2
    WARPS_M: int = 1  # warps side by side over a block's part of C
    WARPS_N: int = 1
    WARPS_K: int = 8  # teams of warps that share a block's rows
    DEPTH: int = 4  # steps of four rows in flight
    VECTOR: int = 1  # words per load across columns
    K_VECTOR: int = 1  # words per load down a column
    FOLD: int = 1  # rows viewed as one
    BLOCKS_PER_SM: int = 1
    REDUCE: Reduce = "ticket"


@dataclass(frozen=True)
class Ring(OnGpu):
    """FP64 tensor cores fed by a ring of bulk copies; row-major, rows of any width."""

    VARIANT: ClassVar[str] = "ring"
    WARPS_M: int = 1
    WARPS_N: int = 1
    WARPS_K: int = 1
    GROUPS: int = 8  # teams per block, each with a ring of its own
    ROWS: Annotated[int, Range(1, 8192)] = 32  # rows per chunk
    STAGES: int = 3  # chunks per ring
    FEED: Annotated[str, Names("own", "producer")] = "own"  # who refills the ring
    SPREAD: Annotated[str, Names("none", "rotate", "shift")] = "rotate"  # what keeps rows from colliding in the banks
    KSTEP: Annotated[int, Numbers(4, 8, 16)] = 4  # rows per tensor-core instruction
    FOLD: int = 1
    BLOCKS_PER_SM: int = 1
    REDUCE: Reduce = "ticket"
    UNIT: Annotated[str, Names("float64", "tf32x3")] = "float64"  # what multiplies float32 data
    TRIANGLE: bool = False  # WARPS_M warps share one half of A^H A


Config: TypeAlias = Tiled | Fragment | Ring | Columns | Entries | Thirds | Group | Simd
VARIANTS: dict[str, type[Config]] = {
    config.VARIANT: config for config in (Tiled, Fragment, Ring, Columns, Entries, Thirds, Group, Simd)
}
REDUCTIONS = ("ticket", "sliced", "block", "atomic")

to_dict = configs.to_dict
from_dict = partial(configs.from_dict, "gram", VARIANTS)


def illegal(problem: Problem, config: Config, device: Device) -> str | None:
    """Why the configuration cannot be used for the problem on the device, or None if it can."""
    if config.TARGET == "cpu" or device.backend == "cpu":
        return configs.illegal_on_cpus(space_cpu, problem, config, device)
    if config.REDUCE not in REDUCTIONS:
        return f"REDUCE={config.REDUCE!r} is not one of {', '.join(REDUCTIONS)}"
    if problem.deterministic and config.REDUCE in ("atomic", "block"):
        return f"REDUCE={config.REDUCE} varies from run to run and a reproducible result was asked for"
    return _RULES[config.VARIANT](problem, config, device) or _resources(problem, config, device)


def _tiled(problem: Problem, c: Tiled, device: Device) -> str | None:
    per_row = -(-problem.M // c.TILE_M) * -(-problem.N // c.TILE_N)
    if c.TILE_M > problem.M or c.TILE_N > problem.N:
        return f"a tile of {c.TILE_M} x {c.TILE_N} is larger than C, {problem.M} x {problem.N}"
    if per_row > c.BLOCK:
        return f"a row takes {per_row} threads, a block has {c.BLOCK}"
    return None


def _tensor(problem: Problem, c: Fragment | Ring | Thirds, device: Device) -> str | None:
    if device.capability < 90:
        return f"needs m16n8k4 tensor-core instructions (sm_90), the device is {device.arch}"
    if c.FOLD > 1 and not spec.is_contiguous(problem):
        return f"FOLD={c.FOLD} needs contiguous row-major operands"
    return None


def _fragment(problem: Problem, c: Fragment, device: Device) -> str | None:
    words, width_m, width_n = work.real_widths(problem, c.FOLD)
    tiles = -(-width_m // (8 * c.TILE_M * c.WARPS_M)) * -(-width_n // (8 * c.TILE_N * c.WARPS_N))
    row = problem.layout_a == problem.layout_b == "row"
    real = problem.itemsize // words
    if c.TILE_M % 2 or c.TILE_M % c.VECTOR or c.TILE_N % c.VECTOR:
        return f"TILE_M={c.TILE_M} must be even and both tiles multiples of VECTOR={c.VECTOR}"
    if c.FOLD > 1 and tiles > 1:
        return "a folded product must lie in one block"
    if tiles > 64:
        return f"C falls into {tiles} tiles; at most 64 have counters"
    if words == 2 and c.VECTOR < 2:
        return "complex numbers are loaded whole: VECTOR must be 2 or more"
    if words < c.VECTOR and not row:
        return f"VECTOR={c.VECTOR} reads adjacent columns, which need row-major operands"
    if words < c.VECTOR and (width_m % c.VECTOR or width_n % c.VECTOR):
        return f"VECTOR={c.VECTOR} does not divide the widths {width_m} and {width_n}"
    pitches = (problem.pitch_a, problem.pitch_b) if c.FOLD == 1 else (width_m // words, width_n // words)
    wide = max(c.VECTOR, c.K_VECTOR) * real
    if wide > real and (not problem.aligned or any(pitch * problem.itemsize % wide for pitch in pitches)):
        return f"loads of {wide} bytes need aligned operands and pitches"
    if c.K_VECTOR > 1 and (words == 2 or "col" not in (problem.layout_a, problem.layout_b) or c.DEPTH % c.K_VECTOR):
        return "K_VECTOR reads down real column-major columns and must divide DEPTH"
    return _tensor(problem, c, device)


def _copied(problem: Problem) -> str | None:
    """Why chunks of rows cannot be fetched by bulk copies."""
    if problem.layout_a != "row" or problem.layout_b != "row" or not problem.aligned:
        return "bulk copies need row-major operands that start on 16-byte boundaries"
    if max(problem.pitch_a, problem.pitch_b) > 128 + 8:
        return f"pitch {max(problem.pitch_a, problem.pitch_b)}: most of a chunk would be padding"
    if problem.pitch_a > 1.25 * problem.M + 1 or problem.pitch_b > 1.25 * problem.N + 1:
        return f"pitches {problem.pitch_a}, {problem.pitch_b}: too much padding would be fetched"
    return None


def _ring(problem: Problem, c: Ring | Thirds, device: Device) -> str | None:
    if reason := _copied(problem):
        return reason
    shape = work.ring_shape(problem, c)
    if c.ROWS % (4 * c.WARPS_K) or shape.quads % (c.KSTEP // 4):
        return f"ROWS={c.ROWS} does not split into WARPS_K={c.WARPS_K} x KSTEP={c.KSTEP}"
    if c.SPREAD == "shift" and c.ROWS % 16:
        return f"SPREAD=shift splits a chunk into four blocks: ROWS={c.ROWS} must be a multiple of 16"
    if c.SPREAD != "shift" and shape.quads % shape.step:
        return f"ROWS={c.ROWS} is not a multiple of {4 * shape.step * c.WARPS_K}, which free of bank conflicts needs"
    if c.UNIT not in ("float64", "tf32x3"):
        return f"UNIT={c.UNIT!r} is not one of float64, tf32x3"
    if c.UNIT == "tf32x3" and (REAL[problem.dtype] != "float32" or c.KSTEP != 8 or problem.K < 4096):
        return "tf32x3 multiplies float32 data, eight rows at a time, and is accurate enough from K = 4096"
    if c.TRIANGLE and (not problem.same or c.WARPS_N > 1 or c.FOLD > 1 or shape.slots_m // 2 % c.WARPS_M):
        return f"TRIANGLE is for A^H A, with WARPS_N=1 and WARPS_M={c.WARPS_M} dividing {shape.slots_m // 2} pairs"
    if c.TRIANGLE and c.SPREAD == "rotate" and shape.clash_a > 1:
        return "TRIANGLE reads slots where they lie: SPREAD must be shift or none"
    if c.GROUPS > 15:
        return f"GROUPS={c.GROUPS}: there are 15 named barriers"
    if shape.threads > 1024:
        return f"{shape.threads} threads exceed a block's 1024"
    return _tensor(problem, c, device)


def _thirds(problem: Problem, c: Thirds, device: Device) -> str | None:
    return space_thirds.refusal(problem) or _ring(problem, c, device)


def _group(problem: Problem, c: Group, device: Device) -> str | None:
    return _copied(problem) or space_group.refusal(problem, c, device)


_RULES: dict[str, Callable[[Problem, Any, Device], str | None]] = {
    "tiled": _tiled,
    "fragment": _fragment,
    "ring": _ring,
    "columns": space_columns.illegal,
    "entries": space_entries.illegal,
    "thirds": _thirds,
    "group": _group,
}


def _resources(problem: Problem, config: Any, device: Device) -> str | None:
    resident = work.threads(problem, config) * config.BLOCKS_PER_SM
    reason = configs.too_large(work, problem, config, device)
    if not reason and config.REDUCE == "sliced" and resident > device.threads_per_multiprocessor:
        return "a cooperative grid must be resident at once"
    return reason


def candidates(problem: Problem, device: Device) -> Iterator[Config]:
    """Every legal configuration worth considering; the model ranks them."""
    if device.backend == "cpu":
        yield from space_cpu.candidates(problem, device)
        return
    for variant in (*_LIKELY, _tiled_candidates):
        yield from (config for config in variant(problem) if illegal(problem, config, device) is None)


def likely(problem: Problem, device: Device) -> Iterator[Config]:
    """Those that may win: where bulk copies can be had, the tiled kernel, of which there are most, does not."""
    for config in candidates(problem, device):
        if config.VARIANT in ("ring", "columns", "entries"):
            yield config
            break
    else:
        yield from candidates(problem, device)
        return
    for variant in _LIKELY:
        yield from (config for config in variant(problem) if illegal(problem, config, device) is None)


def reduction(problem: Problem) -> str:
    """Few entries are added by the last block; many would keep it busy too long and are shared among all."""
    return "ticket" if problem.M * problem.N * (2 if problem.is_complex else 1) <= 192 else "sliced"


def folds(problem: Problem) -> tuple[int, ...]:
    """Rows to view as one so that narrow matrices fill a tensor-core tile."""
    width = max(problem.M, problem.N) * (2 if problem.is_complex else 1)
    if not spec.is_contiguous(problem) or width > 8:
        return (1,)
    return tuple(dict.fromkeys((max(1, 15 // width), max(1, 16 // width), 1)))


def warp_grids(problem: Problem, fold: int, most: int = 16) -> Iterator[tuple[int, int]]:
    """Ways to lay warps over C that compute little beyond it (the same number of slots for every warp)."""
    _, width_m, width_n = work.real_widths(problem, fold)
    rows, columns = -(-width_m // 8), -(-width_n // 8)
    grids = [(m, n) for m in range(1, min(rows, 8) + 1) for n in range(1, min(columns, 8) + 1) if m * n <= most]
    computed = {(m, n): -(-rows // m) * m * -(-columns // n) * n for m, n in grids}
    registers = {(m, n): 4 * -(-rows // m) * -(-columns // n) for m, n in grids}
    for grid in grids:
        if registers[grid] <= 160 and computed[grid] <= 1.2 * min(computed.values()):
            yield grid


def triangles(problem: Problem) -> list[int]:
    """Numbers of warps that can share one half of A^H A, where it is too large for one."""
    pairs = -(-work.real_widths(problem, 1)[1] // 16)
    return [warps for warps in range(2, pairs + 1) if pairs % warps == 0] if problem.same and pairs > 2 else []


def _ring_candidates(problem: Problem) -> Iterator[Ring]:
    if problem.layout_a != "row" or problem.layout_b != "row":
        return
    reduce = reduction(problem)
    units: list[tuple[str, int]] = [("float64", 4)]
    if REAL[problem.dtype] == "float32":
        units.append(("tf32x3", 8))
    elif max(problem.M, problem.N) * (2 if problem.is_complex else 1) > 64:  # arithmetic counts: fewer, longer steps
        units += [("float64", 8), ("float64", 16)]
    for fold in folds(problem):
        grids = [(wm, wn, False) for wm, wn in warp_grids(problem, fold)] + [(wm, 1, True) for wm in triangles(problem)]
        for (wm, wn, triangle), wk, groups in product(grids, (1, 2, 4, 8), (1, 2, 3, 4, 5, 6, 8, 12)):
            if not 6 <= wm * wn * wk * groups <= 16:
                continue
            for rows, feed, (unit, kstep), spread in product(
                (16, 32, 64, 96, 128, 256), ("own", "producer"), units, ("rotate", "shift")
            ):
                if rows == 96 and not (unit == "tf32x3" and problem.is_complex):  # where long chunks matter most
                    continue
                one = Ring(wm, wn, wk, groups, rows, 1, feed, spread, kstep, fold, 1, reduce, unit, triangle)
                shape = work.ring_shape(problem, one)
                if spread == "shift" and shape.clash_a == shape.clash_b == 1:
                    continue  # nothing to spread
                for stages in depths(shape.stage_bytes * groups):  # not `replace`, which takes longer than all the rest
                    yield Ring(wm, wn, wk, groups, rows, stages, feed, spread, kstep, fold, 1, reduce, unit, triangle)


def depths(bytes_per_stage: int, room: int = 220 << 10) -> tuple[int, ...]:
    """Stages worth trying: what fits `room`, bytes of a block's shared memory, and half of it."""
    fit = min(8, room // bytes_per_stage)
    return tuple(dict.fromkeys(stages for stages in (fit, fit // 2) if stages >= 2))


def _thirds_candidates(problem: Problem) -> Iterator[Thirds]:
    yield from space_thirds.candidates(problem, reduction(problem), depths)


def _group_candidates(problem: Problem) -> Iterator[Group]:
    yield from space_group.candidates(problem, reduction(problem))


def _columns_candidates(problem: Problem) -> Iterator[Columns]:
    yield from space_columns.candidates(problem, reduction(problem))


def _entries_candidates(problem: Problem) -> Iterator[Entries]:
    yield from space_entries.ranked(problem, reduction(problem))


def _fragment_candidates(problem: Problem) -> Iterator[Fragment]:
    reduce = reduction(problem)
    words = 2 if problem.is_complex else 1
    vectors = (words, 2, 4) if problem.dtype in ("float32", "complex64") else (words, 2)
    for fold in folds(problem):
        _, width_m, width_n = work.real_widths(problem, fold)
        for (wm, wn), vector in product(((1, 1), (1, 2), (2, 2), (2, 4)), dict.fromkeys(vectors)):
            even = max(2, vector)
            tile_m = -(-width_m // (8 * wm * even)) * even
            tile_n = -(-width_n // (8 * wn * vector)) * vector
            if tile_m > 8 or tile_n > 16:
                tile_m, tile_n = min(tile_m, 8), min(tile_n, 8)
            k_vectors = (1, 2, 4) if "col" in (problem.layout_a, problem.layout_b) else (1,)
            for wk, depth, k_vector, per_sm in product((2, 4, 8, 16), (1, 2, 4, 8), k_vectors, (1, 2, 4)):
                if 4 <= wm * wn * wk <= 16:
                    yield Fragment(tile_m, tile_n, wm, wn, wk, depth, vector, k_vector, fold, per_sm, reduce)


def _tiled_candidates(problem: Problem) -> Iterator[Tiled]:
    reductions = (reduction(problem),) if problem.deterministic else REDUCTIONS
    flags = list(product((True, False), (True, False), (1, 2), (128, 256), (1, 2, 4), reductions))
    for tile_m, tile_n in product(_sides(problem.M), _sides(problem.N)):
        if tile_m * tile_n <= 128 and max(tile_m, tile_n) <= 4 * min(tile_m, tile_n) + 4:
            for transposed, leapfrog, unroll, block, per_sm, reduce in flags:
                yield Tiled(tile_m, tile_n, transposed, leapfrog, unroll, block, per_sm, reduce)


def _sides(width: int) -> list[int]:
    """The smallest tile side for every number of threads across."""
    return sorted({-(-width // threads) for threads in range(1, width + 1) if -(-width // threads) <= 16})


_LIKELY: tuple[Callable[[Problem], Iterator[Config]], ...] = (
    _ring_candidates, _group_candidates, _thirds_candidates, _columns_candidates, _entries_candidates,
    _fragment_candidates,
)  # fmt: skip
