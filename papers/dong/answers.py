"""Numbers that answer the figures of Dong's dissertation, from committed rows."""

from __future__ import annotations

from typing import Any

from mansard.bench.rows import operation_of
from mansard.operations.factor.blocked import HOW

from ..found import Number, best, column, geometric_mean, median, rows
from .application import application, energies, profile, strong_scaling
from .counted import configurations, products, tiles
from .measured import backward_ways, exchanges_in_time, forward_ways, own_classic, panels, panels_in_time
from .powers import greenup_of_application, powers_drawn, qr_joules
from .reduced import bidiagonal, phases, progress
from .scaling import weak as weak_scaling
from .updates import rank_eight, rank_sixteen, rank_thirty_two, rank_thirty_two_over_cpus, streamed

__all__ = ["application", "bidiagonal", "configurations", "energies", "exchanges_in_time", "greenup_of_application",
           "panels", "panels_in_time", "phases", "powers_drawn", "products", "profile", "progress", "qr_joules",
           "rank_eight", "rank_sixteen", "rank_thirty_two", "rank_thirty_two_over_cpus", "strong_scaling", "tiles",
           "weak_scaling"]  # fmt: skip
_BATCHED, _FACTOR, _TWO = "h200/batched", "h200/factor", "h200/two_sided"
_BAND = "percent_bandwidth"
_CPU = "xeon-avx512-2-cores/factor"


def _aligned(form: str) -> Number:
    speed = {row["M"]: row["gflops"] for row in rows(_TWO, "alignment", form=form)}
    sizes = (64, 128, 192, 256)
    loss = [speed[n + 1] / speed[n] for n in sizes]
    padded = [speed[n + 16] * (n + 1) ** 2 / (n + 16) ** 2 / speed[n + 1] for n in sizes]
    values = {"least": min(loss), "most": max(loss), "padded": max(padded), "padded_least": min(padded)}
    useful = {n: speed[n + 16] * (n + 1) ** 2 / (n + 16) ** 2 for n in sizes}
    cells = tuple((str(n), f"{speed[n]:.0f}", f"{speed[n + 1]:.0f}", f"{useful[n]:.0f}")
                  for n in sizes)  # fmt: skip
    columns = ("n", "aligned n x n, GFLOP/s", "n + 1, not aligned", "n + 1, padded to lines, useful GFLOP/s")
    return Number(values["least"] > 0.8 and values["padded"] < 1.05, values, columns, cells)


def aligned() -> Number:
    """His columns are our rows: his product without transposing is ours with."""
    return _aligned("T")


def aligned_transposed() -> Number:
    return _aligned("")


def _shapes(name: str, chosen: Any) -> Number:
    found = [row for row in rows(_BATCHED, name, dtype="float64") if chosen(row)]
    cells = tuple((str(row["M"]), str(row["inner"] or row["M"]), f"{row[_BAND]:.0f}", f"{row['x_peer']:.2f}")
                  for row in sorted(found, key=lambda row: (row["M"], row["inner"])))  # fmt: skip
    values = {"least": min(column(found, _BAND)), "median": median(column(found, _BAND)),
              "peer": geometric_mean(column(found, "x_peer")), "worst": min(column(found, "x_peer"))}  # fmt: skip
    return Number(values["median"] > 90, values, ("rows", "columns", "% of bandwidth", "x cuBLAS"), cells)


def tall_transposed() -> Number:
    return _shapes("gemvt", lambda row: row["inner"] and row["inner"] <= 32 and row["M"] > row["inner"])


def wide_transposed() -> Number:
    return _shapes("gemvt", lambda row: row["inner"] and row["M"] <= 32 and row["inner"] > row["M"])


def square_transposed() -> Number:
    return _shapes("gemvt", lambda row: not row["inner"])


def tall_plain() -> Number:
    return _shapes("gemv", lambda row: row["inner"] and row["inner"] <= 32 and row["M"] > row["inner"])


def wide_plain() -> Number:
    return _shapes("gemv", lambda row: row["inner"] and row["M"] <= 32 and row["inner"] > row["M"])


def square_plain() -> Number:
    return _shapes("gemv", lambda row: not row["inner"])


def uniform() -> Number:
    equal = rows(_BATCHED, "gemv", "gemvt", dtype="complex128")
    ragged = [row for row in rows(_BATCHED, "ragged") if row.get("percent_uniform")]
    values = {"equal": min(column(equal, _BAND)), "count": len(ragged),
              "ragged": median(column(ragged, "percent_uniform")),
              "least": min(column(ragged, "percent_uniform"))}  # fmt: skip
    cells = tuple((operation_of(row), row["dtype"], str(row["M"]), f"{row['percent_uniform']:.0f}") for row in ragged)
    return Number(
        values["ragged"] > 70, values, ("operation", "dtype", "largest n", "% of equal matrices' speed"), cells
    )


def _steps(operation: str, n: int = 512) -> Number:
    found = [row for row in rows(_FACTOR, "steps", ours=None, operation=operation)]
    mine = {(row["M"], row["form"]): row["gflops"] for row in found if row["contender"] == "Mansard"}
    peer = best((row for row in found if row["contender"] != "Mansard"), lambda row: row["M"])
    sizes = sorted({size for size, _ in mine})
    names = [*HOW, ""]
    cells = tuple((str(size), *(f"{mine[size, name]:.0f}" if (size, name) in mine else "" for name in names),
                   f"{peer[size]['gflops']:.0f}" if size in peer else "") for size in sizes)  # fmt: skip
    values = {"nonblocked": mine.get((n, "nonblocked"), 0.0), "classic": mine[n, "classic"], "swap": mine[n, "swap"],
              "recursive": mine[n, "recursive"], "chosen": mine[n, ""], "peer": mine[n, ""] / peer[n]["gflops"],
              "gain": mine[n, "recursive"] / mine[n, "classic"]}  # fmt: skip
    columns = ("n", *HOW, "chosen", "best peer (GFLOP/s)")
    return Number(values["gain"] > 3 and values["peer"] > 2, values, columns, cells)


def lu() -> Number:
    found = _steps("lu")
    own = own_classic()
    values = found.values | own | {"own_gain": found.values["recursive"] / own["own_classic"]}
    return Number(found.holds, values, found.columns, found.cells)


def cholesky() -> Number:
    return _steps("cholesky")


def cholesky_by_columns() -> Number:
    """Figure 4.2 with unblocked panels of our own kernels, whose table is shown."""
    found, own = _steps("cholesky"), panels()
    values = found.values | {name: own.values[f"cholesky_{name}"] for name in ("nonblocked", "classic")}
    values |= {"library_nonblocked": found.values["nonblocked"], "library_classic": found.values["classic"],
               "own_gain": found.values["recursive"] / values["classic"]}  # fmt: skip
    steps = values["nonblocked"] < values["classic"] < values["recursive"]
    return Number(found.holds and steps, values, own.columns, own.cells)


def qr() -> Number:
    found = _steps("qr")
    values = found.values | {"nonblocked_own": panels().values["qr_nonblocked"]}
    return Number(found.holds, values, found.columns, found.cells)


def _substitution(form: str) -> Number:
    found = sorted(rows(_BATCHED, "trsv", dtype="float64", form=form), key=lambda row: row["M"])
    wanted = [row for row in found if row["M"] in (4, 16, 32, 64, 128, 256)]
    cells = tuple(
        (str(row["M"]), f"{row['gflops']:.0f}", f"{row[_BAND]:.0f}", f"{row['x_peer']:.1f}") for row in wanted
    )
    values = {"most": max(column(found, "gflops")), "peer": min(column(found, "x_peer")),
              "at_most": max(column(found, "x_peer"))}  # fmt: skip
    return Number(values["peer"] > 2, values, ("n", "GFLOP/s", "% of bandwidth", "x cuBLAS"), cells)


def _ways(found: Number, ways: Number) -> Number:
    """Speed beside cuBLAS, and the ways to solve among each other, whose table is shown."""
    return Number(found.holds and ways.holds, found.values | ways.values, ways.columns, ways.cells)


def forward() -> Number:
    return _ways(_substitution(""), forward_ways())


def backward() -> Number:
    return _ways(_substitution("U"), backward_ways())


def settings() -> Number:
    found: dict[int, list[float]] = {}
    for row in rows(_TWO, "settings"):
        if row["pins"]:
            found.setdefault(row["M"], []).append(row["gflops"])
    ratio = {n: max(each) / min(each) for n, each in found.items()}
    return Number(max(ratio.values()) < 1.05, {"most": max(ratio.values()), "sizes": len(ratio)})


def _devices(operation: str) -> Number:
    """The GPU's speed over that of two CPU cores, there by our kernels or the best library, whichever is faster. The
    verdict stands if sixteen such cores, eight times as fast at most, stay behind by a factor of two."""
    fast = best(rows(_FACTOR, "readme", operation=operation, dtype="float64"), lambda row: row["M"])
    slow = best(rows(_CPU, "devices", operation=operation, dtype="float64"), lambda row: row["M"])
    both = [n for n in slow if n in fast]
    over = {n: fast[n]["gflops"] / (slow[n]["gflops"] / min(1.0, slow[n]["x_peer"])) for n in both}
    cells = tuple((str(n), f"{fast[n]['gflops']:.0f}", f"{slow[n]['gflops']:.1f}", f"{slow[n]['x_peer']:.1f}",
                   f"{over[n]:.0f}") for n in both)  # fmt: skip
    peers = column([slow[n] for n in both], "x_peer")
    values = {"least": min(over.values()), "most": max(over.values()), "peer": min(peers), "peer_most": max(peers),
              "largest": max(both)}  # fmt: skip
    columns = ("n", "H200, GFLOP/s", "two Xeon cores, GFLOP/s", "these x the best CPU peer", "H200 / CPU")
    return Number(values["least"] / 8 > 2, values, columns, cells)


def lu_devices() -> Number:
    return _devices("lu")


def cholesky_devices() -> Number:
    return _devices("cholesky")


def qr_devices() -> Number:
    return _devices("qr")


def streamed_line() -> Number:
    """Figure 3.17, by what is known of its parts: products take their share of the time line, in streams longer."""
    share = panels_in_time().values["products"]
    values = streamed().values | {"share": share}
    return Number(values["least"] > 1, values | {"longer": 1 + share * (values["least"] - 1)})
