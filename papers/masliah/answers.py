"""Numbers that answer the figures of Masliah et al., from committed rows."""

from __future__ import annotations

from typing import Any

from mansard.bench.batched.summary import batches, is_square
from mansard.bench.rows import Row

from ..found import Number, best, column, experiment, geometric_mean, lines, listed, median, results, rows
from . import counters as computed
from . import tables

_GPU, _CPU = "h200/batched", "papers/masliah/cpu.jsonl"
_BAND = "percent_bandwidth"
_CLOSE = 1.5  # times as fast: loops that are "close to each other"


def _speeds(kernel: str, threads: int) -> dict[int, Row]:
    return {row["n"]: row for row in lines(_CPU)
            if (row["what"], row["kernel"], row.get("threads")) == ("speed", kernel, threads)}  # fmt: skip


def _counts(kernel: str) -> dict[int, Row]:
    return {row["n"]: row for row in lines(_CPU) if (row["what"], row["kernel"]) == ("counts", kernel)}


def _compared(what: str) -> Number:
    """Counts of a product by the three loops. The verdict stands if ijk needs fewer than ikj at no size, and registers
    fewer than both at every one."""
    names = ("ijk", "ikj", "registers")
    found = {name: {n: row[what] for n, row in _counts(name).items()} for name in names}
    sizes = sorted(found["ijk"])
    ijk, ikj, registers = found.values()
    fewer = [n for n in sizes if ikj[n] < ijk[n]]
    ties = [n for n in sizes if registers[n] >= min(ijk[n], ikj[n])]
    values: dict[str, Any] = {
        "ikj_fewer": listed(fewer), "ijk_fewer": listed(n for n in sizes if ijk[n] < ikj[n]),
        "not_fewest": listed(ties), "fewest": listed(n for n in sizes if n not in ties), "largest": sizes[-1],
    }  # fmt: skip
    for name, counts in (("ijk", ijk), ("ikj", ikj)):
        gains = [counts[n] / registers[n] for n in sizes]
        values |= {f"{name}_least": min(gains), f"{name}_most": max(gains)}
    both = [ikj[n] / ijk[n] for n in sizes]
    values |= {"least": min(both), "most": max(both)}
    cells = tuple((str(n), *(f"{each[n]:.0f}" for each in found.values())) for n in sizes)
    return Number(not ties, values, ("n", *(f"{what}, {name}" for name in names)), cells)


def stores() -> Number:
    """Figure 3a: ijk stores less than ikj at every size, registers least."""
    found = _compared("stores")
    return Number(found.holds and found.values["least"] > 1, found.values, found.columns, found.cells)


def loads() -> Number:
    """Figure 3b: instructions that load, beside the misses of a first-level cache of 32 KiB."""
    found = _compared("loads")
    every = [_counts(name) for name in ("ijk", "ikj", "registers")]
    misses = {n: [each[n]["d1_misses"] for each in every] for n in every[0]}
    once = {n: 3 * 8 * n * n / 64 for n in misses}  # lines of 64 bytes of three matrices
    over = max(max(each) / once[n] for n, each in misses.items())
    cells = tuple((*cell, f"{once[int(cell[0])]:.0f}", f"{max(misses[int(cell[0])]):.0f}") for cell in found.cells)
    columns = (*found.columns, "lines of A, B and C", "cache misses, most of the three")
    return Number(found.holds, found.values | {"over": over}, columns, cells)


def instructions() -> Number:
    """Figure 5a: registers need fewer instructions than either loop at every size."""
    return _compared("instructions")


def processors() -> Number:
    """Their figure 5b: loops, ours and the bound on one core; beside it the published rows of a Xeon."""
    threads = 1
    names = ("ijk", "ikj", "registers", "Mansard")
    found = {name: _speeds(name, threads) for name in names}
    bound = {n: row["bound_gflops"] for n, row in found["ijk"].items()}
    cells = tuple((str(n), *(f"{each[n]['gflops']:.1f}" for each in found.values()), f"{bound[n]:.1f}")
                  for n in found["ijk"])  # fmt: skip
    published = best(
        rows("xeon-avx512-2-cores/batched", "full", dtype="float64", operation="gemm"), lambda row: row["M"]
    )
    small = [row for n, row in published.items() if n <= 32]
    values: dict[str, Any] = {"xeon": median(column(small, _BAND)), "xeon_least": min(column(small, _BAND)),
                              "peer": geometric_mean(column(small, "x_peer")),
                              "worst": min(column(small, "x_peer"))}  # fmt: skip
    wide = [n for n in found["ijk"] if n >= 16]
    values["ijk"] = median(found["Mansard"][n]["gflops"] / found["ijk"][n]["gflops"] for n in wide)
    values["ikj"] = median(found["Mansard"][n]["gflops"] / found["ikj"][n]["gflops"] for n in wide)
    apart = {n: found["ikj"][n]["gflops"] / found["ijk"][n]["gflops"] for n in found["ijk"]}
    share = {n: 100 * found["Mansard"][n]["gflops"] / bound[n] for n in bound}
    values |= {"apart_least": min(apart.values()), "apart_most": max(apart.values()),
               "share_least": min(share.values()), "share_most": max(share.values()),
               "share_at": max(share, key=lambda n: share[n])}  # fmt: skip
    columns = ("n", *(f"{name}, GFLOP/s" for name in names), "n B / 16")
    close = all(1 / _CLOSE < ratio < _CLOSE for ratio in apart.values())
    return Number(values["xeon"] > 90 and values["worst"] > 1 and close, values, columns, cells)


def cores() -> Number:
    """Figure 4b: speed of `ms.matmul` over threads of the H200's host, as a share of that of all."""
    found = {(row["n"], row["threads"]): row for row in experiment("masliah-cpu", kernel="Mansard")}
    sizes, threads = (sorted({key[at] for key in found}) for at in (0, 1))
    share = {(n, count): row["gflops"] / found[n, threads[-1]]["gflops"] for (n, count), row in found.items()}
    loops = {(row["n"], row["threads"]): row["gflops"] for row in experiment("masliah-cpu", kernel="ijk")}
    half = threads[-2]
    values = {"threads": threads[-1], "half": half,
              "quarter": median(share[n, threads[-3]] for n in sizes),
              "small": min(share[n, half] for n in sizes if n < 32), "large": share[32, half],
              "ijk": median(loops[n, threads[-1]] / loops[n, half] for n in sizes),
              "two": _second_core(sizes)}  # fmt: skip
    cells = tuple((str(count), *(f"{found[n, count]['gflops']:.0f} ({share[n, count]:.0%})" for n in sizes))
                  for count in threads)  # fmt: skip
    columns = ("threads", *(f"n = {n}, GFLOP/s" for n in sizes))
    return Number(values["small"] > 0.88 and values["ijk"] > 1.3, values, columns, cells)


def _second_core(sizes: list[int]) -> str:
    """What a second core brings on the Xeon of figure 5b, in a sentence; empty before it was measured."""
    gains = {}
    for kernel in ("Mansard", "ijk"):
        one, two = (_speeds(kernel, threads) for threads in (1, 2))
        gains[kernel] = [two[n]["gflops"] / one[n]["gflops"] for n in sizes if n in one and n in two]
    if not all(gains.values()):
        return ""
    ours, ijk = map(median, gains.values())
    return f" A second core of the Xeon of figure 5b makes `ms.matmul` {ours:.2f} and ijk {ijk:.2f} times as fast."


def per_block() -> Number:
    found: dict[int, dict[int, Row]] = {}
    for row in rows(_GPU, "tba"):
        if row["pins"]["VARIANT"] == "readonly":
            found.setdefault(row["M"], {})[tables.matrices_of(row)] = row
    gains = {
        n: max(row["gflops"] for row in each.values()) / each[1]["gflops"] for n, each in found.items() if 1 in each
    }
    values = {
        "two": gains[2],
        "three": gains[3],
        "eight": gains[8],
        "beyond": max(g for n, g in gains.items() if n > 12),
    }
    cells = tuple((str(n), f"{gain:.2f}") for n, gain in sorted(gains.items()))
    return Number(values["two"] > 6.8 and values["beyond"] < 1.1, values, ("n", "best number per block / one"), cells)


def _counters() -> tuple[list[Any], list[Any]]:
    found = computed.all_of(results(_GPU))
    return [each for each in found if each.kernel != "readonly"], [each for each in found if each.kernel == "readonly"]


def occupancy() -> Number:
    chosen, cache = _counters()
    shares = [100 * each.occupancy for each in chosen]
    values = {"least": min(shares), "most": max(shares), "cache": median(100 * each.occupancy for each in cache)}
    return Number(values["most"] < 75, values)


def efficiency() -> Number:
    chosen, cache = _counters()
    values = {"chosen": min(100 * each.efficiency for each in chosen),
              "cache": median(100 * each.efficiency for each in cache)}  # fmt: skip
    return Number(values["chosen"] > 90 > values["cache"], values)


def against() -> Number:
    found = {row["M"]: row for row in batches(results(_GPU)["rows"]) if is_square(row) and row["dtype"] == "float64"
             and not row["accumulate"] and row["M"] <= 32}  # fmt: skip
    added = [row for row in rows(_GPU, "accumulate", dtype="float64") if row["M"] <= 32]
    cache = tables.cached(results(_GPU), set())
    values = {"least": min(column(found.values(), _BAND)), "median": median(column(found.values(), _BAND)),
              "added": min(column(added, _BAND)), "peer": min(column(found.values(), "x_peer")),
              "small": found[2]["x_peer"], "cache": max(float(line[-1]) for line in cache.cells)}  # fmt: skip
    cells = tuple((str(n), f"{row['gflops']:.0f}", f"{row[_BAND]:.0f}", f"{row['x_peer']:.1f}")
                  for n, row in found.items()
                  if n in (2, 4, 8, 12, 16, 20, 24, 28, 32))  # fmt: skip
    return Number(values["least"] > 90, values, ("n", "GFLOP/s", "% of P_max", "x cuBLAS"), cells)


def integer_share() -> Number:
    """Figure 6a: the share of integer instructions among those that threads executed."""
    found: dict[int, dict[str, float]] = {}
    for row in experiment("masliah-instructions"):
        found.setdefault(row["n"], {})[row["contender"]] = 100 * row["integer"] / row["all"]
    names = ("Mansard", "cuBLAS")
    cells = tuple((str(n), *(f"{each[name]:.0f}" for name in names)) for n, each in sorted(found.items()))
    ours, theirs = ([each[name] for each in found.values()] for name in names)
    lower = sum(each["Mansard"] < each["cuBLAS"] for each in found.values())
    values = {"ours_least": min(ours), "ours_most": max(ours), "least": min(theirs), "most": max(theirs),
              "lower": lower, "count": len(found)}  # fmt: skip
    return Number(lower > len(found) / 2, values, ("n", "Mansard, %", "cuBLAS, %"), cells)
