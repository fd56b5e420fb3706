"""Occupancy and load efficiency of kernels for small products, computed from their launch.

Figures 7 and 8 of Masliah et al. show counters of a K40. Nothing is counted here: resident warps follow from threads,
(estimated) registers and shared memory of a block, and bytes moved from the 32-byte sectors that its loads touch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mansard.bench.batched.summary import batches, is_square
from mansard.bench.rows import Row, of_set
from mansard.kernels import family_of
from mansard.machine import occupancy
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import ITEMSIZE

_SECTOR = 32
_GROUPS = 32  # of matrices whose places relative to sectors are looked at


@dataclass(frozen=True)
class Counters:
    """Occupancy and loads of one kernel for n x n products in float64."""

    n: int
    kernel: str
    threads: int
    blocks: int  # per multiprocessor
    occupancy: float
    efficiency: float  # bytes that are needed over bytes that are loaded


def all_of(results: dict[str, Any]) -> list[Counters]:
    """Counters of the chosen kernels, and of those through the read-only cache; empty on CPUs."""
    rows = [row for row in batches(results["rows"]) if is_square(row) and row["dtype"] == "float64"]
    rows += [row for row in of_set(results["rows"], "readonly") if row["pins"]]
    device = NOMINAL.get(results["environment"].get("arch", ""))
    if results["environment"].get("backend") != "cuda" or device is None:
        return []
    found = [each for row in rows if not row["accumulate"] for each in [_of(row, device)] if each is not None]
    return sorted(found, key=lambda each: (each.kernel == "readonly", each.n))


def _of(row: Row, device: Any) -> Counters | None:
    gemm = family_of("gemm")
    if (row.get("config") or {}).get("VARIANT") not in gemm.space.VARIANTS:
        return None
    config = gemm.space.from_dict(row["config"])
    problem = gemm.spec.problem("float64", row["M"], row["M"], row["M"], row["K"])
    threads, needed = gemm.work.threads(problem, config), gemm.work.registers(problem, config)
    blocks = occupancy.blocks_per_multiprocessor(device, threads, needed, gemm.work.shared_bytes(problem, config))
    share = blocks * -(-threads // 32) * 32 / device.threads_per_multiprocessor
    efficiency = cached_loads(row["M"], config) if config.VARIANT == "readonly" else copied_loads(problem, config)
    return Counters(row["M"], config.VARIANT, threads, blocks, share, efficiency)


def cached_loads(n: int, config: Any) -> float:
    """Each warp of a block loads an entry of A and one of B per thread and step: sectors, warp by warp."""
    team, item = config.DIM_X * config.DIM_Y, ITEMSIZE["float64"]
    needed = moved = 0
    for first in range(0, team * config.PER_BLOCK, 32):
        lanes = range(first, min(first + 32, team * config.PER_BLOCK))
        places = [(lane // team * n * n, lane % team // config.DIM_X, lane % config.DIM_X) for lane in lanes]
        for k in range(n):
            for addresses in (
                {base + row * n + k for base, row, _ in places}, {base + k * n + column for base, _, column in places}
            ):  # fmt: skip
                needed += item * len(addresses)
                moved += _SECTOR * len({address * item // _SECTOR for address in addresses})
    return needed / moved


def copied_loads(problem: Any, config: Any) -> float:
    """Groups of matrices are copied whole, from where they begin to where they end."""
    matrices = config.PER_BLOCK if config.VARIANT != "lanes" else (
        32 // (config.LANES_M * config.LANES_N) * config.PER_TEAM * config.WARPS
    )  # fmt: skip
    each = matrices * problem.M * problem.K * problem.itemsize
    sectors = sum(-(-(group + 1) * each // _SECTOR) - group * each // _SECTOR for group in range(_GROUPS))
    return float(_GROUPS * each / (_SECTOR * sectors))
