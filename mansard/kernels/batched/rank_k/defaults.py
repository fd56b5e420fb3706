"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from ...common.configs import up
from . import space, space_cpu, spec
from .space import Config, Tensor, Tiles

_THREADS, _OF_NUMBERS = 128, 256  # threads of a block of several matrices; of matrices of a few numbers, which wait
_NUMBERS = 3  # rows up to which a matrix is a few numbers: a thread has all of it
_GROUP_BYTES = 32 << 10  # bytes of a group and its results: several blocks fit, and some copy while others compute
_WHOLE_BYTES = 48 << 10  # bytes of a matrix that is copied as a whole: of larger ones the first panels come sooner
_PART = 64  # tiles of a part of a matrix, where several blocks share one: two warps have work
_WARPS = 4  # warps of a part of a matrix on tensor cores, one for each quarter of a multiprocessor
_MOST_WARPS = 12  # warps of a block on tensor cores: so many of 160 registers fill a multiprocessor's register file
_MOST_THREADS = 512  # threads of a block: so many of 128 registers fill the register file of a multiprocessor
_MOST_SUMS = 128  # 32-bit registers of sums per thread, half of what there is
_FEW_ROWS = 40  # rows up to which tiles of four rows give several warps work, so that some wait while others compute
_SETS = 13  # sets of rows of larger matrices: a triangle of them are three warps
_ONE_EACH = 48  # rows up to which a warp has one tile of the tensor cores: six warps are the triangle
_SPLIT_ROWS = 96  # rows up to which two blocks of TF32 products fit on a multiprocessor, and one copies meanwhile
_SHORT_BYTES = 8 << 10  # bytes of a matrix that blocks copy ahead: their copies alone would not keep memory busy
_IMAGE_BYTES = 72 << 10  # bytes of an image of C by way of which it leaves: three blocks of so many fit
_TENSOR_ROWS = 32  # rows beyond which tensor cores, which compute whole squares of 16, have less to do than threads


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if problem.N < 1 or problem.K < 1:
        return
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    yield from swept(problem, device)
    for rough in (*_tensor(problem, device), *_tiles(problem, device)):
        config = space.resident(problem, rough, device)
        if config is not None:
            yield config


def swept(problem: Problem, device: Device) -> Iterator[Config]:
    """Legal configurations that records of the device name for sizes like these."""
    if device.backend == "cpu":
        return
    for record in measured.configs(space, problem, device):
        config = space.resident(problem, record, device)
        if config is not None and space.illegal(problem, config, device) is None:
            yield config


def _tensor(problem: Problem, device: Device) -> Iterator[Tensor]:
    """Squares of one tile per warp where a few are the whole triangle, larger ones beyond; whole matrices or panels.
    Rows that begin anywhere leave by way of an image, and so do TF32 products."""
    is_split = problem.dtype == "float32"
    if not _TENSOR_ROWS < problem.N <= (_SPLIT_ROWS if is_split else spec.WIDEST) or problem.dtype == "complex64":
        return
    stages = 2 if is_split and problem.N * problem.K * problem.itemsize <= _SHORT_BYTES else 1
    step = 8 if is_split or not (problem.is_complex or problem.K < 8) else 4
    size = problem.itemsize
    begins_anywhere = problem.N * size % 16 != 0 or not problem.aligned or problem.layout_c == "any"
    gathers = is_split or (begins_anywhere and problem.N**2 * size <= _IMAGE_BYTES)
    for square in (1, 2) if problem.is_complex or problem.N <= _ONE_EACH else (2, 1):
        squares = up(up(problem.N, 16), square)
        tiles = squares * (squares + 1) // 2
        parts = max(1, min(up(tiles, _WARPS), up(device.multiprocessors, problem.BATCH)))
        parts = max(parts, up(tiles, _MOST_WARPS))
        out = "back" if gathers and parts == 1 else "direct"
        if problem.N * problem.K * size <= _WHOLE_BYTES:
            yield Tensor(square, parts, 16384, stages if parts == 1 else 1, step, OUT=out)
        yield from (Tensor(square, parts, depth, 2, step, OUT=out) for depth in (32, 16, 8) if depth < problem.K)
        yield Tensor(square, parts, 16384, 1, step, OUT=out)


def _tiles(problem: Problem, device: Device) -> Iterator[Tiles]:
    """Tiles by what they waste and how often they read; whole matrices in groups, large ones by panels; several blocks
    for a matrix where matrices are few, or have more tiles than a block has threads."""
    factors = 2 if problem.two else 1
    operand = factors * problem.N * problem.K * problem.itemsize
    result = problem.N * problem.N * problem.itemsize
    threads, vector = _OF_NUMBERS if problem.N <= _NUMBERS else _THREADS, 16 // problem.itemsize
    for tile in tile_sizes(problem):
        sets = up(problem.N, tile)
        tiles = sets * (sets + 1) // 2
        most = max(1, min(threads // tiles, _GROUP_BYTES // max(operand, result)))
        group = min(
            range(max(1, most - 3), most + 1), key=lambda count: (up(count * tiles, 32) / (count * tiles), -count)
        )
        group -= group % vector if group > 4 * vector else 0  # groups begin on 16-byte boundaries
        depths = [depth for depth in (32, 16, 8, 4) if depth < problem.K]
        parts = min(up(tiles, _PART), up(device.multiprocessors, problem.BATCH))
        parts = max(parts if tiles >= 2 * _PART else 1, up(tiles, _MOST_THREADS))
        if parts > 1:
            yield from (Tiles(tile, 1, parts, depth, 2, "direct") for depth in depths)
            yield Tiles(tile, 1, parts, OUT="direct")
            continue
        if operand <= _WHOLE_BYTES:
            yield Tiles(tile, group)
        for out in ("back", "direct"):
            yield from (Tiles(tile, 1, 1, depth, 2, out) for depth in depths)
            yield Tiles(tile, 1, OUT=out)


def tile_sizes(problem: Problem) -> list[int]:
    """Rows of a set, the most promising first: few products for nothing, few reads per product, several warps."""
    words, rows = problem.itemsize // 4, problem.N
    found = []
    for tile in range(1, min(8, rows) + 1):
        sets = up(rows, tile)
        waste = sets * (sets + 1) * tile * tile / (rows * (rows + 1))
        if words * tile * tile > _MOST_SUMS:
            continue
        wanted = up(rows, _SETS)
        cost = waste * (1 + 2 / tile + tile / 8) if rows <= _FEW_ROWS else abs(tile - wanted) + waste
        found.append((cost, tile))
    return [tile for _, tile in sorted(found)]
