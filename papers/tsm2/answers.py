"""Numbers that answer the figures of TSM2X, from committed rows."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from mansard.bench.rows import Row

from ..found import Number, column, experiment, geometric_mean, lines, median, results, rows
from .choices import choices, step_of

_MATMUL = "h200/matmul"
_BAND = "percent_bandwidth"
_STEPS = ("inner", "outer", "shared", "prefetch")
_SHORT = 128  # inner dimensions up to which a call takes about as long


def steps() -> Number:
    """Figure 6: every step over the one before; the verdict is that of float64."""
    found: dict[tuple[str, int, int], dict[str, Row]] = defaultdict(dict)
    for row in rows(_MATMUL, "steps"):
        found[row["dtype"], row["N"], row["M"]][step_of(row)] = row
    cells = []
    for (dtype, n, side), each in sorted(found.items(), key=lambda item: (item[0][0] == "float32", item[0])):
        speeds = [each[name][_BAND] for name in _STEPS]
        peer = each["tensor"][_BAND] / each["tensor"]["x_peer"]
        cells.append((dtype, str(n), str(side), *(f"{speed:.1f}" for speed in (*speeds, each["tensor"][_BAND], peer))))
    values: dict[str, float] = {}
    for dtype in {dtype for dtype, *_ in found}:
        inside = [each for place, each in found.items() if place[0] == dtype]
        ratios = {name: [each[name]["gflops"] / each[before]["gflops"] for each in inside]
                  for before, name in pairwise(_STEPS)}  # fmt: skip
        prefix = "" if dtype == "float64" else "single_"
        last = [each["prefetch"][_BAND] for each in inside]
        values |= {f"{prefix}{name}": median(found_ratios) for name, found_ratios in ratios.items()}
        tuned = [each["shared"]["median"] / _prefetched(*place) for place, each in found.items() if place[0] == dtype]
        values |= {f"{prefix}worst": min(min(each) for each in ratios.values()), f"{prefix}least": min(last),
                   f"{prefix}most": max(last), f"{prefix}tuned": median(tuned)}  # fmt: skip
    columns = ("dtype", "n", "m = k", *(f"{name}, % of bandwidth" for name in _STEPS), "tensor cores", "cuBLAS")
    holds = values["outer"] > 2.2 and values["shared"] > 1.1 and values["prefetch"] > 1.3  # the least of the paper's
    return Number(holds, values, columns, tuple(cells))


def _prefetched(dtype: str, n: int, side: int) -> float:
    """Seconds of the step with prefetching by the best parameters that were tried."""
    found = rows(_MATMUL, "steps", "tsm2model", dtype=dtype, N=n, M=side)
    return float(min(row["median"] for row in found if row["pins"].get("STEP") == "prefetch"))


def _square(dtype: str) -> list[Row]:
    found = rows(_MATMUL, "tsm2r", "rectangles", dtype=dtype, layout="col")  # which share a case
    return [row for row in found if row["N"] in (2, 4, 8, 16) and row["M"] == row["K"]]


def _table() -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    cells = []
    for dtype in ("float64", "float32"):
        for n in (2, 4, 8, 16):
            inside = [row for row in _square(dtype) if row["N"] == n]
            times, share = column(inside, "x_peer"), column(inside, _BAND)
            cells.append((dtype, str(n), f"{geometric_mean(times):.2f}", f"{min(times):.2f}", f"{max(times):.2f}",
                          f"{min(share):.0f} to {max(share):.0f}"))  # fmt: skip
    return ("dtype", "n", "x cuBLAS, mean", "least", "most", "% of the read bandwidth"), tuple(cells)


def speedup() -> Number:
    double, single = (column(_square(dtype), "x_peer") for dtype in ("float64", "float32"))
    values = {"double": geometric_mean(double), "double_most": max(double), "double_least": min(double),
              "single": geometric_mean(single)}  # fmt: skip
    return Number(values["double"] < 1.2 and values["single"] > 1.35, values, *_table())


def bandwidth() -> Number:
    shares = {dtype: column(_square(dtype), _BAND) for dtype in ("float64", "float32")}
    values = {"double": median(shares["float64"]), "single": median(shares["float32"]),
              "least": min(min(each) for each in shares.values())}  # fmt: skip
    return Number(values["double"] > 90 and values["least"] > 75, values)


def model() -> Number:
    found = choices(results(_MATMUL)["rows"])
    shares = [100 * each.share for each in found]
    values = {"count": len(found), "least": min(shares), "median": median(shares),
              "configurations": sum(each.tried for each in found)}  # fmt: skip
    return Number(values["median"] > 90, values)


def _small() -> list[Row]:
    return [row for row in rows(_MATMUL, "tsm2l") if row["M"] == row["N"] and row["M"] in (8, 16)]


def small_speedup() -> Number:
    cells, every = [], []
    for dtype in ("float32", "float64"):
        for mode in ("graph", "eager"):
            for width in (8, 16):
                inside = [row for row in _small() if (row["dtype"], row["mode"], row["M"]) == (dtype, mode, width)]
                times = column(inside, "x_peer")
                every += times
                cells.append((dtype, str(width), mode, f"{geometric_mean(times):.2f}", f"{min(times):.2f}",
                              f"{max(times):.2f}", f"{min(row['K'] for row in inside):,} to "
                              f"{max(row['K'] for row in inside):,}"))  # fmt: skip
    values = {"mean": geometric_mean(every), "least": min(every), "most": max(every)}
    columns = ("dtype", "k = n", "called in", "x cuBLAS, mean", "least", "most", "rows")
    return Number(values["least"] > 1 and values["mean"] > 1.5, values, columns, tuple(cells))


def small_bandwidth() -> Number:
    graph = [row for row in _small() if row["mode"] == "graph" and row["temperature"] == "cold"]
    tall = [row for row in graph if row["K"] >= 10_000_000] or [max(graph, key=lambda row: row["K"])]
    short = [row for row in graph if row["K"] <= 10_000]
    cells = tuple((row["dtype"], str(row["M"]), f"{row['K']:,}", f"{row[_BAND]:.0f}")
                  for row in sorted(graph, key=lambda row: (row["dtype"], row["M"], row["K"])))  # fmt: skip
    values = {
        "tall": min(column(tall, _BAND)),
        "short": max(column(short, _BAND)),
        "rows": min(row["K"] for row in tall),
    }
    return Number(values["tall"] > 80, values, ("dtype", "k = n", "rows", "% of copy bandwidth"), cells)


def registers() -> Number:
    found = lines("papers/tsm2/registers.jsonl")
    cells = tuple((str(row["algorithm"]), row["dtype"], str(row["n"]), str(row["registers"]), str(row["spills"]),
                   str(row["shared"])) for row in found)  # fmt: skip
    used = [row["registers"] for row in found]
    values = {"least": min(used), "most": max(used), "spills": max(row["spills"] for row in found)}
    columns = ("algorithm", "dtype", "k = n", "registers", "spilled bytes", "shared memory, bytes")
    return Number(values["least"] >= 80 and values["most"] <= 251 and values["spills"] == 0, values, columns, cells)


def tiles_per_thread() -> Number:
    """Figure 5: algorithms 6 and 7 by tiles per thread (tcf), beside one tile per thread."""
    found = [row for row in experiment("tsm2l") if row["right"]]
    speed: dict[tuple[int, str, int, int], dict[int, float]] = defaultdict(dict)
    for row in found:
        place = row["algorithm"], row["dtype"], row["n"], row["rows"]
        speed[place][row["tcf"]] = row["bytes"] / median(row["seconds"]) / 1e9
    cells = tuple((str(algorithm), dtype, str(n), f"{count:,}", *(f"{each[tcf]:.0f}" for tcf in sorted(each)))
                  for (algorithm, dtype, n, count), each in sorted(speed.items()))  # fmt: skip
    tall = {place: each[4] / each[1] for place, each in speed.items() if place[3] >= 1_000_000}
    six, seven = ([times for place, times in tall.items() if place[0] == algorithm] for algorithm in (6, 7))
    many = [each[max(each)] / each[1] for place, each in speed.items() if place[3] <= 10_000]
    values = {"six": median(six), "seven": median(seven), "most": max(seven), "many": median(many)}
    tiles = sorted({row["tcf"] for row in found})
    columns = ("algorithm", "dtype", "k = n", "rows", *(f"tcf = {tcf}, GB/s" for tcf in tiles))
    helps = min(values["six"], values["seven"]) > 1.1
    return Number(helps and values["many"] < 0.5, values, columns, cells)


def small_inner() -> Number:
    """Figure 4: TSM2R's step with prefetching as k becomes small."""
    found = sorted(rows(_MATMUL, "smallk"), key=lambda row: row["K"])
    share = {row["K"]: row[_BAND] for row in found}
    cells = tuple((str(row["K"]), f"{1e6 * row['median']:.1f}", f"{row[_BAND]:.0f}") for row in found)
    least, most = min(share), max(share)
    short = [1e6 * row["median"] for row in found if row["K"] <= _SHORT]
    values = {"least": least, "small": share[least], "most": most, "large": share[most], "short": _SHORT,
              "quickest": min(short), "slowest": max(short)}  # fmt: skip
    return Number(share[least] < share[most] / 2, values, ("k", "us", "% of the read bandwidth"), cells)


def rectangular() -> Number:
    """Figure 12: k = m to m / 16."""
    found = sorted(rows(_MATMUL, "rectangles"), key=lambda row: -row["K"])
    whole = found[0]
    cells = tuple((str(row["K"]), f"{1e6 * row['median']:.1f}", f"{row[_BAND]:.0f}", f"{row['x_peer']:.2f}",
                   f"{row['median'] / row['K'] / (whole['median'] / whole['K']):.2f}") for row in found)  # fmt: skip
    values = {"whole": whole[_BAND], "least": min(column(found, _BAND)), "peer": min(column(found, "x_peer")),
              "longer": max(row["median"] / row["K"] for row in found) / (whole["median"] / whole["K"]),
              "k": min(found, key=lambda row: row[_BAND])["K"], "us": min(1e6 * row["median"] for row in found)}
    columns = ("k", "us", "% of the read bandwidth", "x cuBLAS", "time per column, over k = m")
    return Number(values["least"] > 0.75 * values["whole"], values, columns, cells)
