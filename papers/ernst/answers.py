"""Numbers that answer the figures of Ernst et al., from committed rows."""

from __future__ import annotations

from collections import defaultdict

from mansard.bench.rows import OURS, Row

from ..found import Number, best, column, experiment, median, rows

_GRAM, _MATMUL, _SPLIT = "h200/gram", "h200/matmul", "xeon-avx512-2-cores/gram"
_SHARE = "percent_limit"
_NEAR = 0.95  # of the best: tile sizes that are as good


def _square(folder: str, operation: str, dtype: str, ours: bool) -> list[Row]:
    """Rows of square products of all widths: operands row-major, out of the cache, the library's own choice."""
    found = rows(folder, "full", "readme", ours=ours, operation=operation, dtype=dtype, layout="row", mode="device")
    return [row for row in found if row["M"] == row["N"] and not row["pins"] and row["temperature"] == "cold"]


def _vendor(folder: str, operation: str) -> Number:
    """Share of the roofline that the vendor's product reaches, real and complex."""
    values: dict[str, float] = {}
    cells: list[tuple[str, ...]] = []
    for name, dtype in (("real", "float64"), ("complex", "complex128")):
        shares = {width: row[_SHARE] for width, row in
                  best(_square(folder, operation, dtype, False), lambda row: row["M"], _SHARE).items()}  # fmt: skip
        wide = [share for width, share in shares.items() if width > 1]
        values |= {f"{name}_least": min(wide), f"{name}_median": median(wide), f"{name}_most": max(wide)}
        cells.append((dtype, f"{min(wide):.0f}", f"{median(wide):.0f}", f"{max(wide):.0f}", f"{len(shares)}"))
    columns = ("dtype", "cuBLAS, least % of the roofline (width 2 to 64)", "median", "most", "widths")
    return Number(True, values, columns, tuple(cells))


def vendor_gram() -> Number:
    """Figure 3: at how many widths beyond 1 cuBLAS takes twice as long as the roofline allows, or longer."""
    found = _vendor(_GRAM, "gram")
    shares = best(_square(_GRAM, "gram", "float64", False), lambda row: row["M"], _SHARE)
    gaps = {width: 100 / row[_SHARE] for width, row in shares.items() if width > 1}
    twice = sum(gap >= 2 for gap in gaps.values())
    values = {"most": max(gaps.values()), "at": max(gaps, key=lambda width: gaps[width]),
              "median": median(gaps.values()), "twice": twice, "of": len(gaps)}  # fmt: skip
    return Number(twice > len(gaps) / 2, values, found.columns, found.cells)


def vendor_product() -> Number:
    found = _vendor(_MATMUL, "tsmm")
    return Number(found.values["real_median"] > 75, found.values, found.columns, found.cells)


def _against(folder: str, operation: str) -> Number:
    values: dict[str, float] = {}
    cells: list[tuple[str, ...]] = []
    for name, dtype in (("real", "float64"), ("complex", "complex128")):
        shares = best(_square(folder, operation, dtype, True), lambda row: row["M"], _SHARE)
        for low, high in ((1, 16), (17, 32), (33, 48), (49, 64)):
            inside = [row for width, row in shares.items() if low <= width <= high]
            share, times = column(inside, _SHARE), column(inside, "x_peer")
            cells.append((dtype, f"{low} to {high}", f"{min(share):.0f}", f"{median(share):.0f}",
                          f"{min(times):.2f}", f"{median(times):.2f}"))  # fmt: skip
        values |= {f"{name}_narrow": min(row[_SHARE] for width, row in shares.items() if width <= 32),
                   f"{name}_wide": min(row[_SHARE] for width, row in shares.items() if width > 32),
                   f"{name}_peer": min(column(shares.values(), "x_peer"))}  # fmt: skip
    columns = ("dtype", "widths", "least % of the roofline", "median", "x the best peer, least", "median")
    holds = values["real_narrow"] > 90 and values["real_wide"] > 67
    return Number(holds, values, columns, tuple(cells))


def gram_against() -> Number:
    """Figure 18, beside cuBLAS on the H200, and beside a split-K product where that was measured."""
    found = _against(_GRAM, "gram")
    beats = min(found.values["real_peer"], found.values["complex_peer"]) > 1
    return Number(found.holds and beats, found.values | {"split": _split()}, found.columns, found.cells)


def _split() -> str:
    """How our product compares with slices of K and a sum on a CPU, in a sentence."""
    every = rows(_SPLIT, ours=None, operation="gram", dtype="float64")
    mine = {row["case"]: row["median"] for row in every if row["contender"] == OURS}
    times = {row["M"]: row["median"] / mine[row["case"]] for row in every if row["contender"].startswith("split K")}
    if not times:
        return ""
    worst = min(times, key=lambda width: times[width])
    return (f" On two Xeon cores PyTorch's batched product and sum take {median(times.values()):.1f} times as long as "
            f"`ms.gram` in the median of {len(times)} widths, {times[worst]:.2f} times at {worst}.")  # fmt: skip


def product_against() -> Number:
    return _against(_MATMUL, "tsmm")


def mapping() -> Number:
    found = best(rows(_GRAM, "mapping"), lambda row: (row["M"], row["pins"]["LEAPFROG"]))
    widths = sorted({width for width, _ in found})
    faster = [width for width in widths if found[width, True]["gflops"] > found[width, False]["gflops"]]
    searched = rows(_GRAM, "mapping_search")
    values = {"faster": ", ".join(map(str, faster)), "count": len(faster), "of": len(widths),
              "share": max(found[32, flag][_SHARE] for flag in (True, False))}  # fmt: skip
    return Number(not searched, values)


def searched() -> Number:
    """Figure 15 after a search: the best tile with and without leap-frogging, by width and mapping."""
    every = rows(_GRAM, "mapping", "mapping_search")
    found = best(every, lambda row: (row["M"], row["pins"]["TRANSPOSED"], row["pins"]["LEAPFROG"]))
    widths = sorted({row["M"] for row in every if row["set"] == "mapping_search"})
    leaps = {(width, way): found[width, way, True]["gflops"] / found[width, way, False]["gflops"]
             for width in widths for way in (True, False)}  # fmt: skip
    turned = [found[width, True, True]["gflops"] / found[width, False, True]["gflops"] for width in widths]
    cells = tuple((str(width), "transposed" if way else "plain", *map(_best_tile, (found[width, way, True],
                   found[width, way, False])), f"{leaps[width, way]:.2f}")
                  for width in widths for way in (True, False))  # fmt: skip
    fastest = max((row for (width, *_), row in found.items() if width == 32), key=lambda row: row["gflops"])
    values = {"least": min(leaps.values()), "most": max(leaps.values()), "median": median(leaps.values()),
              "turned_least": min(turned), "turned_most": max(turned), "widths": ", ".join(map(str, widths)),
              "count": sum(row["set"] == "mapping_search" for row in every), "share": fastest[_SHARE],
              "kind": "with" if fastest["pins"]["LEAPFROG"] else "without"}  # fmt: skip
    columns = ("width", "mapping", "leap-frogging: GFLOP/s (tile)", "without it", "gain")
    return Number(values["least"] > 1.05, values, columns, cells)


def _best_tile(row: Row) -> str:
    return f"{row['gflops']:.0f} ({row['pins']['TILE_M']} x {row['pins']['TILE_N']})"


def tile_size() -> Number:
    found = rows(_GRAM, "tilesize", M=32)
    fastest = max(found, key=lambda row: row["gflops"])
    tile_m, tile_n = fastest["pins"]["TILE_M"], fastest["pins"]["TILE_N"]
    near = [row for row in found if row["gflops"] > _NEAR * fastest["gflops"]]
    most = max(_registers(row) for row in near)
    beyond = sum(_registers(row) > 256 for row in found)
    values = {"tile": f"{tile_m} x {tile_n}", "gflops": fastest["gflops"], "registers": _registers(fastest),
              "most": most, "measured": len(found), "share": fastest[_SHARE]}  # fmt: skip
    return Number(most <= 256 and not beyond, values)


def _registers(row: Row) -> int:
    """Registers of a tile by the paper's formula."""
    m, n = row["pins"]["TILE_M"], row["pins"]["TILE_N"]
    return int(2 * (m * n + 2 * (m + n) + 8))


def reduction() -> Number:
    times: dict[int, dict[tuple[str, int], float]] = defaultdict(dict)
    for row in rows(_GRAM, "reduction"):
        times[row["M"]][row["pins"]["REDUCE"], row["K"]] = row["median"] * 1e6
    cells = tuple(
        (str(width), f"{count:,}", *(f"{found[name, count]:.1f}" for name in ("atomic", "block", "sliced", "ticket")))
        for width, found in sorted(times.items())
        for count in sorted({count for _, count in found})
        if count in (10_000, 1_000_000, 3_162_278)
    )
    million = 1_000_000
    narrow, wide = (times[width]["atomic", million] / times[width]["ticket", million] for width in (4, 32))
    block = times[4]["block", million] / times[4]["ticket", million]
    values = {"narrow": narrow, "wide": wide, "block": block}
    columns = ("width", "rows", "global atomics, us", "block, then atomics, us", "sliced, us", "ticket, us")
    return Number(narrow > 2 * wide and narrow > block > 1, values, columns, cells)


def _speeds(name: str, pin: str) -> dict[tuple[int, object], float]:
    return {key: row["gflops"] for key, row in
            best(rows(_MATMUL, name), lambda row: (row["M"], row["pins"][pin])).items()}  # fmt: skip


def _table(speeds: dict[tuple[int, object], float], what: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    names = list(dict.fromkeys(name for _, name in speeds))
    cells = tuple((str(width), *(f"{speeds[width, name]:.0f}" if (width, name) in speeds else "" for name in names))
                  for width in sorted({width for width, _ in speeds}))  # fmt: skip
    return ("width", *(f"{what} {name}, GFLOP/s" for name in names)), cells


def source() -> Number:
    speeds = _speeds("source", "SOURCE")
    worst = speeds[64, "registers"] / speeds[64, "shared"]
    return Number(worst < 0.6, {"worst": worst, "shared": speeds[64, "shared"] / speeds[64, "cache"]},
                  *_table(speeds, "C from"))  # fmt: skip


def unroll() -> Number:
    speeds = _speeds("unroll", "UNROLL")
    wide = [width for width in (16, 32, 64) if (width, 4) in speeds]
    once = min(speeds[width, 2] / speeds[width, 1] for width in wide)
    more = min(speeds[width, 4] / speeds[width, 2] for width in wide)
    return Number(once > 1.2 and more > 1.1, {"once": once, "more": more}, *_table(speeds, "rows"))


def threads() -> Number:
    speeds = _speeds("threads", "PER_ROW")
    several = [speeds[width, count] for width in (32, 64) for count in (4, 8, 16)]
    spread = max(max(speeds[width, count] for count in (4, 8, 16)) / min(speeds[width, count] for count in (4, 8, 16))
                 for width in (32, 64))  # fmt: skip
    two = speeds[64, 2] / max(several)
    return Number(two > 1, {"one": speeds[32, 1] / speeds[32, 8], "two": two, "spread": spread},
                  *_table(speeds, "threads"))  # fmt: skip


_OCCUPANCY = "ernst-occupancy"
_BLOCK, _REGISTERS = 128, 1 << 16  # threads of a block; registers of a multiprocessor


def bandwidth() -> Number:
    """Table 1: GB/s by resident warps and loads under way; Little's law makes a latency of the smallest ones."""
    found = {(row["resident"], row["parallel"]): row for row in experiment(_OCCUPANCY, what="read") if row["right"]}
    most = max(row["gbytes_per_second"] for row in found.values())
    parallel, resident = (sorted({key[at] for key in found}) for at in (1, 0))

    def cell(key: tuple[int, int]) -> str:
        return f"{found[key]['gbytes_per_second']:.0f}" if key in found else ""

    cells = tuple((f"{found[count, 1]['occupancy']:.1%}" if count else "1 block, 4 warps",
                   *(cell((count, loads)) for loads in parallel)) for count in resident)  # fmt: skip
    chosen = {"alone": found[0, 1], "sparse": found[1, 1], "quarter": found[4, 1], "full": found[max(resident), 1]}
    values = {"most": most, "many": found[1, max(parallel)]["gbytes_per_second"] / most}
    for name, row in chosen.items():
        values |= {name: row["gbytes_per_second"] / most, f"{name}_cycles": _latency(row) * row["mhz"] / 1e3}
    columns = ("occupancy", *(f"{loads} loads, GB/s" for loads in parallel))
    rises = values["alone_cycles"] < values["sparse_cycles"] < values["quarter_cycles"] < values["full_cycles"]
    return Number(rises and values["sparse"] < values["quarter"] < values["many"], values, columns, cells)


def _latency(row: dict[str, float]) -> float:
    """Nanoseconds of a load: bytes under way over bandwidth (equation 3 in time instead of cycles)."""
    return row["blocks"] * _BLOCK * row["parallel"] * 8 / row["gbytes_per_second"]


def altered_kernels() -> Number:
    """Figure 17: the best of each kernel, the warps from which more of them bring nothing, and how much larger than the
    register file the tile's registers are for so many warps."""
    found = [row for row in experiment(_OCCUPANCY, what="probe") if row["right"]]
    cells: list[tuple[str, ...]] = []
    values: dict[str, float] = {}
    for tile in ([8, 4], [8, 8]):
        for kind in ("correct", "fewer registers", "in L1"):
            points = [row for row in found if (row["tile"], row["kind"]) == (tile, kind)]
            best_rate = max(row["gflops"] for row in points)
            enough = min(row["warps"] for row in points if row["gflops"] > _NEAR * best_rate)
            name, fits = f"{kind.split()[0]}{tile[1]}", _warps_that_fit(points[0]["registers"])
            values |= {name: best_rate, f"{name}_warps": enough, f"{name}_fits": fits}
            cells.append((f"{tile[0]} x {tile[1]}", kind, str(points[0]["registers"]), str(fits), f"{best_rate:.0f}",
                          str(enough)))  # fmt: skip
        values[f"larger{tile[1]}"] = values[f"fewer{tile[1]}_warps"] / values[f"correct{tile[1]}_fits"]
    values["gain"] = max(values[f"fewer{n}"] / values[f"correct{n}"] for n in (4, 8))
    columns = ("tile", "kernel", "registers", "warps per multiprocessor that these allow", "most GFLOP/s",
               "warps for 95 % of it")  # fmt: skip
    holds = values["gain"] > 1.1 and min(values["larger4"], values["larger8"]) >= 2
    return Number(holds, values, columns, tuple(cells))


def _warps_that_fit(registers: int) -> int:
    """Warps of whole blocks on a multiprocessor, by their registers, which threads have eight at a time."""
    return _REGISTERS // (-(-registers // 8) * 8 * _BLOCK) * _BLOCK // 32
