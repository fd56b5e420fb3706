"""Rules of thumb: the configuration to use before anything was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, images, measured
from ...common.configs import up
from . import space, space_cpu, space_lanes, space_stream
from .space import Config, Readonly
from .space_lanes import Lanes
from .space_panels import Block, Tensor, balanced
from .space_stream import Stream


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations from the best guess to the one that always works."""
    if device.backend == "cpu":
        yield space_cpu.default(problem, device)
        return
    oriented = images.oriented(problem)
    narrow = 16 if problem.dtype == "complex128" else 32
    yield from swept(problem, device)
    kinds = (_lanes, _tensor, _block) if max(problem.M, problem.N) <= narrow else (_tensor, _block, _lanes)
    yield from _resident((config for kind in kinds for config in kind(oriented, device)), problem, device)
    yield from _readonly(oriented)
    yield from _resident(space_stream.candidates(oriented), problem, device)


def _resident(rough: Iterable[Config], problem: Problem, device: Device) -> Iterator[Config]:
    """Configurations with as many blocks per multiprocessor as fit; those that do not fit are left out."""
    for one in rough:
        config = space.resident(problem, one, device)
        if config is not None:
            yield config


def swept(problem: Problem, device: Device) -> Iterator[Config]:
    """Legal configurations that records of the device name for products beyond 32 rows, columns or depth."""
    if device.backend == "cpu" or max(problem.M, problem.N, problem.K) <= space.SMALL:
        return
    oriented = images.oriented(problem)
    is_small = space_lanes.THIN < min(problem.M, problem.N) <= max(problem.M, problem.N) <= space.SMALL
    for record in _records(oriented, device):
        if isinstance(record, Lanes) and is_small:  # the shape of a team alone: `_lanes` derives the rest
            continue
        rough = _fitted(oriented, record) if isinstance(record, Stream) else record
        config = space.resident(problem, rough, device)
        if config is not None and space.illegal(problem, config, device) is None:
            yield config


def _records(problem: Problem, device: Device) -> Iterator[Config]:
    """What records of the device recommend. `remainder` is N modulo 4: rows of odd length begin anywhere in memory."""
    yield from measured.configs(space, problem, device, remainder=problem.N % 4)


def _fitted(problem: Problem, record: Stream) -> Stream:
    """The configuration of a record for a range of sizes: its tiles are upper bounds, C is cut into equal pieces."""
    m, n = balanced(problem.M, record.BLK_M, 16), balanced(problem.N, record.BLK_N, 16)
    return replace(record, BLK_M=m, BLK_N=n, BLK_K=min(record.BLK_K, up(problem.K, 4) * 4))


def _lanes(problem: Problem, device: Device) -> Iterator[Lanes]:
    """Teams that sweeps on this device found the best, then teams by their waste."""
    out = "own" if problem.stack_a == "shared" else "back"
    stages = 2 if "shared" in (problem.stack_a, problem.stack_b) else 1  # blocks stay, and fetch ahead
    found = (config for config in _records(problem, device) if isinstance(config, Lanes))
    teams = [(config.LANES_M, config.LANES_N) for config in found] + space_lanes.teams(problem)
    for team in teams:
        group_bytes = 32 // (team[0] * team[1]) * (problem.M + problem.N) * problem.K * problem.itemsize
        if group_bytes <= 2048:
            yield Lanes(*team, 4 if group_bytes <= 1024 else 2, stages, out)
        yield from (Lanes(*team, 1, stages, out, warps) for warps in (4, 1))


def _tensor(problem: Problem, device: Device) -> Iterator[Tensor]:
    """Warps of 32 x 32 entries (16 x 32, if complex); whole matrices up to about 64, panels of 16 columns beyond."""
    rows = 16 if problem.is_complex else 32
    step = 4 if problem.is_complex or problem.K < 8 else 8
    high, wide = (up(size, 16) * 16 for size in (problem.M, problem.N))
    if (problem.M + problem.N) * problem.K * problem.itemsize <= 70 << 10 and high * wide <= 96 * 96:
        warps_m, warps_n = up(high, rows), up(wide, 32)
        for team in ((warps_m, warps_n), (up(high, 16), warps_n)):
            teams = max(1, 4 // (team[0] * team[1]))
            for out in ("back", "direct"):
                yield Tensor(*team, high, wide, up(problem.K, 4) * 4, step, teams, 1, out)
    for most, stages, depth in product((128, 64), (3, 2), (16, 8)):
        m, n = balanced(problem.M, most, 16), balanced(problem.N, most, 16)
        yield Tensor(up(m, rows), up(n, 32), m, n, depth, step, 1, stages, "direct")
        yield Tensor(up(m, 16), up(n, 32), m, n, depth, step, 1, stages, "direct")


def _block(problem: Problem, device: Device) -> Iterator[Block]:
    """Shares of at most 64 registers; whole matrices where they fit, panels of 16 columns elsewhere."""
    words, vector = problem.itemsize // 4, 16 // problem.itemsize
    high, wide = up(problem.M, 4) * 4, up(problem.N, 4) * 4
    sizes = [(high, wide, up(problem.K, vector) * vector, 1, "back")]
    sizes += [(balanced(problem.M, most, 4), balanced(problem.N, most, 4), 16, 2, "direct") for most in (64, 32, 16)]
    for (m, n, depth, stages, out), (dim_x, dim_y) in product(sizes, _DIMS):
        if up(m, dim_y) * up(n, dim_x) * words <= 64:
            yield Block(dim_x, dim_y, m, n, depth, max(1, 128 // (dim_x * dim_y)), stages, out)


# Threads along columns and rows, from one warp per matrix to eight: small ones first, so that more matrices are under
# way; the last two for matrices of one row or column.
_DIMS = ((8, 4), (8, 8), (16, 8), (16, 16), (32, 1), (1, 32))


def _readonly(problem: Problem) -> Iterator[Readonly]:
    for side in (8, 4, 16):
        dim_x, dim_y = min(side, problem.N), min(side, problem.M)
        for per_sm in (4, 1):
            yield Readonly(dim_x, dim_y, max(1, 64 // (dim_x * dim_y)), per_sm)
    yield Readonly(min(32, problem.N), min(16, problem.M), 1, 1)
