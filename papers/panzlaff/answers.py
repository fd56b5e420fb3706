"""Numbers that answer the figures of Panzlaff's thesis, from committed rows."""

from __future__ import annotations

from typing import Any

from mansard.bench.rows import Row
from mansard.machine.spmv import effective_bandwidth

from ..found import Line, Number, column, experiment, geometric_mean, median, results, rows
from .bandwidths import babelstream, copies
from .rows import AHEAD

_POWERS = "h200/powers"
_LIMIT = "percent_limit"
_REGULAR = ("band-7", "band-27", "7pt", "27pt", "HPCG", "Anderson", "topological", "channel", "graphene")


def _formats(matrix: str, format: str, index: str | None = "int32") -> dict[int, Row]:
    """Pinned rows of a format by lanes per row."""
    found = {}
    for row in rows(_POWERS, "formats", form=matrix):
        pins = row["pins"]
        if pins["format"] == format and (index is None or pins.get("index", index) == index):
            found[int(pins.get("threads") or (32 // pins["C"] if "C" in pins else 1))] = row
    return found


def _cells(format: str) -> tuple[tuple[str, ...], ...]:
    return tuple((matrix, str(lanes), f"{row['gflops']:.0f}", f"{row[_LIMIT]:.0f}")
                 for matrix in ("7pt", "27pt") for lanes, row in sorted(_formats(matrix, format).items()))  # fmt: skip


def naive_csr() -> Number:
    one = {matrix: _formats(matrix, "csr")[1] for matrix in ("7pt", "27pt")}
    most = {matrix: max(_formats(matrix, "csr").values(), key=lambda row: row["gflops"]) for matrix in one}
    values = {"seven": one["7pt"][_LIMIT], "many": one["27pt"][_LIMIT], "best": most["27pt"][_LIMIT],
              "lanes": most["27pt"]["pins"]["threads"]}  # fmt: skip
    columns = ("matrix", "threads per row", "GFLOP/s", "% of the bound")
    return Number(values["many"] < 40, values, columns, _cells("csr"))


def one_lane() -> Number:
    found = {matrix: _formats(matrix, "sell")[1] for matrix in ("7pt", "27pt")}
    csr = {matrix: _formats(matrix, "csr")[1] for matrix in found}
    values = {"seven": found["7pt"][_LIMIT], "many": found["27pt"][_LIMIT],
              "gain": found["27pt"]["gflops"] / csr["27pt"]["gflops"]}  # fmt: skip
    columns = ("matrix", "lanes per row (C = 32 / lanes)", "GFLOP/s", "% of the bound")
    return Number(values["gain"] > 2, values, columns, _cells("sell"))


def four_lanes() -> Number:
    values = {}
    for name, matrix in (("seven", "7pt"), ("many", "27pt")):
        found = _formats(matrix, "sell")
        values[name] = found[4]["gflops"] / found[1]["gflops"]
    return Number(values["seven"] < 1 and values["many"] < 1, values)


def _powers(p: int) -> dict[tuple[str, str], Row]:
    """Rows of p powers by matrix and contender, peers as well."""
    return {(row["form"], row["contender"]): row for row in
            rows(_POWERS, "powers", "readme", operation="powers", ours=None, inner=p, dtype="float64")}  # fmt: skip


def graph() -> Number:
    found = _powers(5)
    gains = [found[form, "Mansard groups"]["median"] / found[form, "Mansard groups, graph"]["median"]
             for form in _REGULAR if (form, "Mansard groups") in found]  # fmt: skip
    plain = [row["gflops"] for (form, name), row in found.items() if name == "Mansard plain" and form in _REGULAR]
    graphs = [found[form, "Mansard groups, graph"]["gflops"] for form, name in found
              if name == "Mansard plain" and form in _REGULAR]  # fmt: skip
    values = {"least": min(gains), "median": median(gains),
              "loss": geometric_mean(a / b for a, b in zip(graphs, plain, strict=True))}  # fmt: skip
    return Number(values["median"] > 1.2, values)


def streams() -> Number:
    """Table 4.1: BabelStream's kernels, and the ceilings' own beside them."""
    ceilings, found = results(_POWERS)["ceilings"], babelstream()
    values = {f"ceiling_{name}": ceilings[f"{name}_bandwidth"] / 1e9 for name in ("copy", "scale", "read")}
    if found.cells:
        values["share"] = found.values["copy"] / values["ceiling_copy"]
    return Number(found.holds, found.values | values, found.columns, found.cells)


def cache() -> Number:
    ceilings = results(_POWERS)["ceilings"]
    curve = [(size / (1 << 20), rate / 1e9) for size, rate in ceilings["cache_bandwidth"]]
    peak = max(rate for _, rate in curve)
    falls = next(size for size, rate in curve if size > 40 and rate < 0.9 * peak)
    values = {"peak": peak, "memory": curve[-1][1], "ratio": peak / curve[-1][1], "falls": falls}
    cells = tuple((f"{size:.0f}", f"{rate:.0f}") for size, rate in curve)
    return Number(values["ratio"] > 1.5, values, ("data, MiB", "GB/s"), cells)


def _products() -> list[Row]:
    return [row for row in rows(_POWERS, "spmv", "readme", operation="spmv", dtype="float64") if not row["pins"]
            and row["mode"] == "device"]  # fmt: skip


def products() -> Number:
    found = {row["form"]: row for row in _products()}
    regular = [found[form][_LIMIT] for form in _REGULAR]
    values = {"least": min(regular), "median": median(regular), "kronecker": found["Kronecker"][_LIMIT],
              "delaunay": found["delaunay"][_LIMIT], "peer": min(column(found.values(), "x_peer"))}  # fmt: skip
    cells = tuple((form, row["stored"], f"{row['gflops']:.0f}", f"{row[_LIMIT]:.0f}", f"{row['x_peer']:.2f}")
                  for form, row in sorted(found.items()))  # fmt: skip
    columns = ("matrix", "stored as", "GFLOP/s", "% of equation 4.5's bound", "x cuSPARSE")
    return Number(values["median"] > 80, values, columns, cells)


def table_of_matrices() -> Number:
    found = sorted(_products(), key=lambda row: str(row["form"]))
    cells = tuple(
        (row["form"], f"{row['rows']:,}", f"{row['nnz']:,}", f"{row['nnz'] / row['rows']:.2f}") for row in found
    )
    same = {"7pt": 117047296, "27pt": 111777784, "band-7": 117440500, "band-27": 113246026}
    right = sum(next(row["nnz"] for row in found if row["form"] == form) == entries for form, entries in same.items())
    return Number(
        right == len(same), {"count": len(found), "same": right}, ("matrix", "rows", "entries", "a row"), cells
    )


def _ramp(operation: str) -> list[tuple[float, float]]:
    """MiB of the matrix, and GFLOP/s, in the cache."""
    from mansard.bench.sparse.operations import matrix_bytes

    return sorted((matrix_bytes(row) / (1 << 20), row["gflops"])
                  for row in rows(_POWERS, "cache", operation=operation, mode="graph"))  # fmt: skip


def in_cache() -> Number:
    points = _ramp("spmv")
    size, peak = max(points, key=lambda point: point[1])
    values = {"size": size, "peak": peak, "beyond": points[-1][1], "ratio": peak / min(s for m, s in points if m > 50)}
    return Number(1.2 < values["ratio"] < 2, values)


def ramp_of_copies() -> Number:
    """Figure 4.1: copies by size, and products in their place."""
    found = copies()
    values = {f"copy_{name}": value for name, value in found.values.items()} | in_cache().values
    return Number(found.holds, values, found.columns, found.cells)


def ramp() -> Number:
    once, five = dict(_ramp("spmv")), dict(_ramp("powers"))
    shares = [five[size] / once[size] for size in five if size in once]
    executions = {row.get("execution") for row in rows(_POWERS, "cache", operation="powers")}
    return Number(executions == {"plain"}, {"least": min(shares), "most": max(shares)})


def powers() -> Number:
    found, cells, gains = _powers(5), [], []
    for form in sorted({form for form, _ in found}):
        mine, plain = found[form, "Mansard"], found.get((form, "Mansard plain"))
        if plain is None:
            continue
        gain = plain["median"] / mine["median"]
        gains.append((gain, form))
        cells.append((form, str(mine.get("execution", "")), f"{mine['gflops']:.0f}", f"{plain['gflops']:.0f}",
                      f"{gain:.2f}", f"{mine['predicted_speedup']:.2f}", f"{mine['x_peer']:.2f}"))  # fmt: skip
    regular = [gain for gain, form in gains if form in _REGULAR]
    values = {"least": min(regular), "most": max(regular), "anywhere": min(gains)[0],
              "share": median(gain / found[form, "Mansard"]["predicted_speedup"] for gain, form in gains
                              if form in _REGULAR)}  # fmt: skip
    columns = ("matrix", "execution", "five powers, GFLOP/s", "five products, GFLOP/s", "gain", "by equation 4.8",
               "x cuSPARSE")  # fmt: skip
    return Number(values["least"] > 1.3, values, columns, tuple(cells))


def groups() -> Number:
    found = _powers(2)
    shares = [found[form, "Mansard groups, graph"]["gflops"] / found[form, "Mansard plain"]["gflops"]
              for form in _REGULAR if (form, "Mansard plain") in found]  # fmt: skip
    two = [found[form, "Mansard plain"]["median"] / found[form, "Mansard"]["median"]
           for form in _REGULAR if (form, "Mansard plain") in found]  # fmt: skip
    return Number(max(shares) < 1 and max(two) > 1.4,
                  {"least": min(shares), "most": max(shares), "gain": max(two), "worst": min(two)})  # fmt: skip


def budget() -> Number:
    found = sorted(rows(_POWERS, "budget"), key=lambda row: row["pins"]["budget"])
    best = max(found, key=lambda row: row["gflops"])
    plain = _powers(5)["27pt", "Mansard plain"]
    values = {"best": best["pins"]["budget"], "gflops": best["gflops"], "share": best["gflops"] / plain["gflops"]}
    cells = tuple((str(row["pins"]["budget"]), str(row["groups"]), f"{row['gflops']:.0f}") for row in found)
    return Number(values["share"] < 1, values, ("budget, MiB", "level groups", "GFLOP/s"), cells)


def allowed() -> Number:
    from mansard.machine import spmv

    ceilings = results(_POWERS)["ceilings"]
    ratio = max(rate for _, rate in ceilings["cache_bandwidth"]) / ceilings["read_bandwidth"]
    gains = {p: spmv.powers_speedup(p, ratio) for p in (2, 3, 4, 5, 8, 10)}
    cells = (tuple(f"{gain:.2f}" for gain in gains.values()),)
    return Number(gains[10] < 2.18, {"ratio": ratio, "five": gains[5], "ten": gains[10]},
                  tuple(f"p = {p}" for p in gains), cells)  # fmt: skip


def small_kernels() -> Number:
    """Figure 4.10: whether an overhead and a bandwidth describe kernels of all sizes."""
    fit = results(_POWERS)["ceilings"]["details"]["ramp"]
    overhead, rate = fit["overhead_seconds"], fit["bandwidth"]
    apart = [abs(size / effective_bandwidth(size, overhead, rate) / took - 1) for size, took in fit["points"]]
    sizes = [size / (1 << 20) for size, _ in fit["points"]]
    values = {"overhead": overhead * 1e6, "bandwidth": rate / 1e9, "deviation": max(apart), "count": len(sizes),
              "least": min(sizes), "most": max(sizes)}  # fmt: skip
    return Number(overhead > 0 and max(apart) < 0.1, values)


_ROWS, _CPU, _GPU = "panzlaff-rows", "xeon-avx512-2-cores", "h200"
_IN_CACHE = 60  # MiB of an H200's second-level cache


def _level_groups(device: str, matrix: str, C: int) -> dict[tuple[int, int, str], Line]:
    """Rows of an experiment by size, p and execution."""
    found = experiment(_ROWS, device, matrix=matrix, C=C)
    return {(row["rows"], row["p"], row["execution"]): row for row in found if row.get("ahead", AHEAD) == AHEAD}


def _rates(device: str, matrix: str, C: int) -> dict[tuple[int, int, str], float]:
    return {key: row["gflops"] for key, row in _level_groups(device, matrix, C).items()}


def _over_p(C: int) -> Number:
    """Level groups over p, over as many products, in CRS (C = 1) or with C = 8: on one thread of a CPU and on a GPU."""
    cells: list[tuple[str, ...]] = []
    values: dict[str, Any] = {}
    for name, device, matrix in (("seven", _CPU, "7pt"), ("many", _CPU, "27pt"), ("gpu", _GPU, "7pt"),
                                 ("gpu_many", _GPU, "27pt")):  # fmt: skip
        found = _rates(device, matrix, C)
        pairs = {p: (found[rows, p, "plain"], rate) for (rows, p, which), rate in sorted(found.items())
                 if which == "groups"}  # fmt: skip
        gains = {p: rate / plain for p, (plain, rate) in pairs.items()}
        values |= {f"{name}_most": max(gains.values()), f"{name}_at": max(gains, key=lambda p: gains[p]),
                   f"{name}_one": gains[1], f"{name}_two": gains[2], f"{name}_last": gains[max(gains)],
                   f"{name}_p": max(gains)}  # fmt: skip
        where = "H200" if device == _GPU else "one Xeon thread"
        cells += [(where, matrix, str(p), f"{plain:.2f}", f"{rate:.2f}", f"{rate / plain:.2f}")
                  for p, (plain, rate) in pairs.items()]  # fmt: skip
    columns = ("device", "matrix", "p", "products, GFLOP/s", "level groups", "gain")
    return Number(True, values, columns, tuple(cells))


def crs_over_p() -> Number:
    """Level groups lose on 7pt; on 27pt what they gain is there with one product already."""
    found, one = naive_csr(), _over_p(1)
    holds = found.holds and one.values["gpu_most"] < 1 and one.values["gpu_many_at"] == 1
    return Number(holds, found.values | one.values, one.columns, one.cells)


def lanes_over_p() -> Number:
    """Four lanes per row beside one: products, and level groups over p."""
    found, one = four_lanes(), _over_p(8)
    values = found.values | one.values
    for name, matrix in (("groups", "7pt"), ("long", "27pt")):
        four, alone = (_rates(_GPU, matrix, C) for C in (8, 32))
        ratios = [rate / alone[key] for key, rate in four.items() if key[1] > 1 and key[2] == "groups"]
        values |= {f"{name}_least": min(ratios), f"{name}_most": max(ratios)}
    return Number(values["long_least"] > 1.2 and values["groups_most"] < 1, values, one.columns, one.cells)


def _mib(rows: int) -> float:
    return rows * 27 * 12 / 2**20


def sawtooth() -> Number:
    """Figure 4.6: five powers of a band by size, C = 8, level groups over products."""
    found, cpu = _level_groups(_GPU, "band-27", 8), _rates(_CPU, "band-27", 8)
    cells: list[tuple[str, ...]] = []
    whole: list[float] = []
    several: list[float] = []
    for size in sorted({key[0] for key in found}):
        plain, groups = (found[size, 5, which] for which in ("plain", "groups"))
        gain = groups["gflops"] / plain["gflops"]
        (whole if groups["groups"] == 1 else several).append(gain)
        cells.append((f"{_mib(size):.0f}", f"{plain['gflops']:.0f}", f"{groups['gflops']:.0f}", str(groups["groups"]),
                      f"{gain:.2f}"))  # fmt: skip
    sizes = sorted({key[0] for key in cpu})
    gains = {size: cpu[size, 5, "groups"] / cpu[size, 5, "plain"] for size in sizes}
    values = {"least": min(whole), "most": max(whole), "lost_least": min(several), "lost": median(several),
              "lost_most": max(several), "inside": median(gains[size] for size in sizes if _mib(size) < 5),
              "beyond": median(gains[size] for size in sizes[-3:])}  # fmt: skip
    columns = ("MiB", "five products, GFLOP/s", "level groups", "number of groups", "gain")
    return Number(min(whole) > 0.9 and max(several) < 0.9, values, columns, tuple(cells))


def chunks() -> Number:
    """Figure 4.7: the same with every C."""
    every = (1, 32, 16, 8, 4, 2)
    found = {C: _rates(_GPU, "band-27", C) for C in every}
    sizes = sorted({key[0] for key in found[8]})
    values = {}
    for which in ("plain", "groups"):
        for name, C in (("four", 4), ("two", 2), ("one", 32)):
            ratios = [found[C][size, 5, which] / found[8][size, 5, which] for size in sizes if _mib(size) < _IN_CACHE]
            values[f"{which}_{name}"] = median(ratios)
    cells = tuple((f"{_mib(size):.0f}", *(f"{found[C][size, 5, 'plain']:.0f} / {found[C][size, 5, 'groups']:.0f}"
                                          for C in every)) for size in sizes)  # fmt: skip
    columns = ("MiB", "CRS, products / level groups, GFLOP/s", *(f"C = {C}" for C in every[1:]))
    holds = max(values[f"{which}_{name}"] for which in ("plain", "groups") for name in ("four", "two")) < 1.1
    return Number(holds, values, columns, cells)
