"""Numbers of Dong's figures 3.12 to 3.16: updates of low rank, and products one by one in streams."""

from __future__ import annotations

from collections.abc import Iterable

from mansard.bench.rows import OURS, Row

from ..found import Number, best, geometric_mean, results, rows
from .cases import label

_FAR = 1.3  # times as fast as cuBLAS: what the paper calls 30 % on average
_BATCHED, _CPU = "h200/batched", "xeon-avx512-2-cores/batched"


def _updates(k: int) -> Number:
    """Pinned tiles, the library's choice and cuBLAS; the verdict is that of the best tile."""
    pinned = best((row for row in rows(_BATCHED, "kernels") if row["pins"] and (row.get("inner") or row["M"]) == k),
                  lambda row: row["M"])  # fmt: skip
    every = [row for row in rows(_BATCHED, ours=None, operation="gemm", dtype="float64", form="", mode="device")
             if (row.get("inner") or row["M"]) == k and row["M"] == row["N"]
             and not (row["accumulate"] or row["pins"])]  # fmt: skip
    vendor = best((row for row in every if row["contender"] != OURS), lambda row: row["M"])
    chosen = best((row for row in every if row["contender"] == OURS), lambda row: row["M"])
    both = [n for n in pinned if n in vendor and n in chosen]
    times = {n: pinned[n]["gflops"] / vendor[n]["gflops"] for n in both}
    wide = [times[n] for n in both if n >= 128]
    cells = tuple((str(n), label(pinned[n]["pins"]), f"{pinned[n]['gflops']:.0f}", f"{vendor[n]['gflops']:.0f}",
                   f"{times[n]:.2f}", f"{chosen[n]['gflops']:.0f}", f"{pinned[n]['bound_gflops']:.0f}")
                  for n in both)  # fmt: skip
    values = {"wide": geometric_mean(wide), "least": min(times.values()), "most": max(times.values()),
              "chosen": geometric_mean(chosen[n]["gflops"] / vendor[n]["gflops"] for n in both if n >= 128),
              "date": _between(chosen[n]["date"][:10] for n in both),
              "handed": min((n for n in both if chosen[n].get("origin") == "vendor"), default=0)}  # fmt: skip
    columns = ("m = n", "best tile", "GFLOP/s", "cuBLAS, GFLOP/s", "x cuBLAS", "ms.matmul, GFLOP/s", "P_max")
    return Number(values["wide"] > _FAR, values, columns, cells)


def _between(dates: Iterable[str]) -> str:
    first, *_, last = sorted([*dates] * 2)
    return first if first == last else f"{first} to {last}"


def rank_eight() -> Number:
    return _updates(8)


def rank_sixteen() -> Number:
    return _updates(16)


def rank_thirty_two() -> Number:
    return _updates(32)


def rank_thirty_two_over_cpus() -> Number:
    """Figure 3.15: beside cuBLAS, and beside the multiply-adds that sixteen cores of our Xeon could do at most."""
    found = _updates(32)
    peak = 8 * results(_CPU)["ceilings"]["fma"]["float64"] / 1e9  # it was measured on two cores
    (cpu,) = rows(_CPU, "full", operation="gemm", dtype="float64", M=32)
    slowest = min(float(line[2]) for line in found.cells if int(line[0]) >= 128)
    values = found.values | {"cpu": cpu["gflops"], "times": slowest / peak, "peak": peak}
    return Number(found.holds and values["times"] > 3, values, found.columns, found.cells)


def streamed() -> Number:
    found: dict[str, dict[str, Row]] = {}
    for row in rows(_BATCHED, "streamed", ours=None):
        found.setdefault(row["case"], {})[row["contender"]] = row
    shares = {}
    for each in found.values():
        batched = min(row["median"] for name, row in each.items() if "one by one" not in name)
        alone = next(row["median"] for name, row in each.items() if "one by one" in name)
        first = next(iter(each.values()))
        shares[first.get("inner") or first["M"], first["M"]] = alone / batched
    cells = tuple((str(k), str(n), f"{times:.1f}") for (k, n), times in sorted(shares.items()))
    values = {"least": min(shares.values()), "most": max(shares.values())}
    return Number(values["least"] > 1, values, ("k", "m = n", "one by one in streams takes x batched"), cells)
