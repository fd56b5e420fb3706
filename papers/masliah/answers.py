"""Numbers that answer the figures of Masliah et al., from committed rows."""

from __future__ import annotations

from typing import Any

from mansard.bench.batched.summary import batches, is_square
from mansard.bench.rows import Row

from ..found import Number, best, column, experiment, geometric_mean, lines, median, results, rows
from . import counters as computed
from . import tables

_GPU, _CPU = "h200/batched", "papers/masliah/cpu.jsonl"
_BAND = "percent_bandwidth"


def _speeds(kernel: str, threads: int) -> dict[int, Row]:
    return {row["n"]: row for row in lines(_CPU)
            if (row["what"], row["kernel"], row.get("threads")) == ("speed", kernel, threads)}  # fmt: skip


def _counts(kernel: str) -> dict[int, Row]:
    return {row["n"]: row for row in lines(_CPU) if (row["what"], row["kernel"]) == ("counts", kernel)}


def _compared(what: str) -> Number:
    """Counts of a product by the three loops; the gain of registers over the best of the others at n = 16 and 32."""
    found = {name: _counts(name) for name in ("ijk", "ikj", "registers")}
    cells = tuple((str(n), *(f"{each[n][what]:.0f}" for each in found.values())) for n in sorted(found["ijk"]))
    values = {f"{name}{n}": found[name][n][what] / found["registers"][n][what] for name in ("ijk", "ikj")
              for n in (8, 16, 32)}  # fmt: skip
    return Number(True, values, ("n", *(f"{what}, {name}" for name in found)), cells)


def stores() -> Number:
    found = _compared("stores")
    values = found.values | {f"fewer{n}": found.values[f"ikj{n}"] / found.values[f"ijk{n}"] for n in (16, 32)}
    holds = values["fewer16"] > 1 and values["fewer32"] > 1 and values["ikj32"] > 1
    return Number(holds, values, found.columns, found.cells)


def instructions() -> Number:
    found = _compared("instructions")
    return Number(found.values["ijk16"] > 1 and found.values["ikj16"] > 1, found.values, found.columns, found.cells)


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
    columns = ("n", *(f"{name}, GFLOP/s" for name in names), "bound")
    return Number(values["xeon"] > 90, values, columns, cells)


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
              "ijk": median(loops[n, threads[-1]] / loops[n, half] for n in sizes)}  # fmt: skip
    cells = tuple((str(count), *(f"{found[n, count]['gflops']:.0f} ({share[n, count]:.0%})" for n in sizes))
                  for count in threads)  # fmt: skip
    columns = ("threads", *(f"n = {n}, GFLOP/s" for n in sizes))
    return Number(values["small"] > 0.88 and values["ijk"] > 1.3, values, columns, cells)


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
