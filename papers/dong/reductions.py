"""Dong's bidiagonalization: products of matrices with vectors that start anywhere in memory (figures 3.9 and 3.10), two
settings of them (4.6), the bound that they set (4.7), speed (4.8), and where the time goes (4.9).

His matrices are column-major: his product goes along the lines of memory that our product with the transpose does.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from mansard.bench.cases import Case, Size, gpu_only
from mansard.bench.factor.cases import squares
from mansard.bench.plots import BOUND, contenders, figure, lines, style
from mansard.bench.rows import OURS, Row, operation_of

_ALIGNED, _LINE = (64, 128, 192, 256), 16  # rows of 16 doubles begin with a line of memory
_SIZES = (64, 128, 256, 512)
_REDUCED = (512, 256, 128, 64, 32, 384, 192, 96, 448, 320, 224, 160)  # as they are measured: the paper's claims first
_COMPARED = 256  # rows, and their multiples, beside cuSOLVER, which takes a minute for batches of smaller matrices
_STREAM = {"VARIANT": "stream", "LANES_M": 1, "LANES_N": 32, "TILE_M": 8, "UNROLL": 2, "WARPS_N": 1}
_SETTINGS: dict[str, dict[str, Any]] = {
    "a warp per matrix": {**_STREAM, "WARPS_M": 1, "PER_BLOCK": 8, "BLOCKS_PER_SM": 2},
    "a block per matrix": {**_STREAM, "WARPS_M": 4, "PER_BLOCK": 1, "BLOCKS_PER_SM": 4},
}
_SPLIT = ((128, 4_096), (32, 16_384), (64, 8_192))  # rows, and matrices of a batch
_PHASES = (("reduction", "#0072B2"), ("iteration", "#E69F00"), ("vectors", "#009E73"))
_CHAINS = {"eigh": ("tridiagonalize", "eigvalsh", "eigh"), "svd": ("bidiagonalize", "svdvals", "svd")}


def _product(name: str, size: Size, n: int, form: str, **more: Any) -> Case:
    return Case(name, "float64", n, 1, size.rows("float64", n * n), operation="gemv", form=form, peers=False, **more)


@gpu_only
def alignment(size: Size) -> list[Case]:
    """Figures 3.9 and 3.10 of Dong: products with vectors whose rows begin with a line of memory, or anywhere."""
    sizes = sorted({n + more for n in _ALIGNED for more in (0, 1, _LINE)})
    return [_product("alignment", size, n, form) for form, n in product(("", "T"), sizes)]


@gpu_only
def settings(size: Size) -> list[Case]:
    """Figure 4.6 of Dong: products with vectors by a warp per matrix, by a block, and by the chosen kernel."""
    pinned = [_product("settings", size, n, "", pins=tuple(pins.items()))
              for pins, n in product(_SETTINGS.values(), _SIZES)]  # fmt: skip
    return pinned + [_product("settings", size, n, "") for n in _SIZES]


@gpu_only
def gebrd(size: Size) -> list[Case]:
    """Figures 4.7 and 4.8 of Dong: bidiagonalization of 32 to 512 rows; of 256 and 512 beside cuSOLVER's."""
    return [one for n in _REDUCED
            for one in squares("gebrd", size, ("bidiagonalize",), (n,), ("float64",), peers=not n % _COMPARED)]


@gpu_only
def phases(size: Size) -> list[Case]:
    """Figure 4.9 of Dong: reductions, values, and values with vectors, all of the same batches; no peers."""
    most, operations = size.elements["float64"], [name for names in _CHAINS.values() for name in names]
    return [
        Case("phases", "float64", n, 1, min(matrices, max(1, most // n**2)), temperature="hot", operation=operation,
             peers=False)
        for (n, matrices), operation in product(_SPLIT, operations)
    ]  # fmt: skip


def _ours(results: dict[str, Any], name: str) -> list[Row]:
    return [row for row in results["rows"] if row["set"] == name and row["contender"] == OURS and row["status"] == "ok"]


def draw_alignment(results: dict[str, Any]) -> Any:
    """Figures 3.9 and 3.10: aligned rows, others, and others padded to whole lines, whose useful flops count."""
    rows = _ours(results, "alignment")
    if not rows:
        return None
    drawn, axes = figure(results, "Products with vectors, float64: where rows begin", 1, 2)
    panels = (("T", "3.9: along columns (A^T x)"), ("", "3.10: along rows (A x)"))
    for axis, (form, title) in zip(axes, panels, strict=True):
        speed = {row["M"]: row["gflops"] for row in rows if row["form"] == form}
        shifted = [n + 1 for n in _ALIGNED if {n + 1, n + _LINE} <= speed.keys()]
        padded = [speed[n - 1 + _LINE] * n * n / (n - 1 + _LINE) ** 2 for n in shifted]
        curves = {
            "aligned": ([n for n in _ALIGNED if n in speed], None), "one row and column more": (shifted, None),
            "the same, padded to whole lines": (shifted, padded),
        }  # fmt: skip
        for number, (label, (sizes, values)) in enumerate(curves.items()):
            axis.plot(sizes, values or [speed[n] for n in sizes], label=label, **style(number))
        axis.set(title=title, xlabel="n", ylabel="GFLOP/s", ylim=(0, None))
    axes[0].legend(fontsize=8, loc="lower right")
    return drawn


def draw_settings(results: dict[str, Any]) -> Any:
    """Figure 4.6: a line per setting."""
    rows = [*_ours(results, "settings"), *_ours(results, "alignment")]
    rows = [row for row in rows if row["M"] in _SIZES and not row["form"]]
    if not any(row.get("pins") for row in rows):
        return None
    drawn, (axis,) = figure(results, "Products with vectors (A x), float64: two settings")
    for number, (label, pins) in enumerate({"chosen": {}, **_SETTINGS}.items()):
        points = sorted((row["M"], row["gflops"]) for row in rows if row.get("pins", {}) == pins)
        if points:
            axis.plot(*zip(*points, strict=True), label=label, **style(number))
    axis.set(xlabel="n", ylabel="GFLOP/s", ylim=(0, None))
    axis.legend(fontsize=8, loc="lower right")
    return drawn


def draw_gebrd(results: dict[str, Any]) -> Any:
    """Figures 4.7 and 4.8: GFLOP/s of every contender on the left; on the right our share of the bound."""
    rows = [row for row in results["rows"] if operation_of(row) == "bidiagonalize" and row["status"] == "ok"
            and row["dtype"] == "float64"]  # fmt: skip
    longest = {row["M"]: row["K"] for row in sorted(rows, key=lambda row: row["K"])}  # sets have batches of their own
    rows = [row for row in rows if row["K"] == longest[row["M"]]]
    mine = sorted((row for row in rows if row["contender"] == OURS), key=lambda row: row["M"])
    if not mine:
        return None
    drawn, (speed, share) = figure(results, "Bidiagonalization, float64 (Dong, figures 4.7 and 4.8)", 1, 2)
    lines(speed, rows, contenders(rows), lambda row: row["M"], "gflops")
    bounds = [row["gflops"] * 100 / row["percent_limit"] for row in mine]
    speed.plot([row["M"] for row in mine], bounds, **(BOUND | {"label": "2 / (1 / gemv + 1 / gemm)"}))
    speed.set(title="4.8: speed", xlabel="n", ylabel="GFLOP/s", yscale="log")
    speed.legend(fontsize=8)
    share.plot([row["M"] for row in mine], [row["percent_limit"] for row in mine], **style(0))
    share.axhline(100, color="#555555", linewidth=1)
    share.set(title="4.7: share of the bound", xlabel="n", ylabel="% of the bound", ylim=(0, None))
    return drawn


def draw_breakdown(results: dict[str, Any]) -> Any:
    """Figure 4.9, of eigenvectors and singular vectors: diagonals alone, values, and the rest of the whole time."""
    panels = {name: found for name in _CHAINS if (found := shares_of(results, name))}
    if not panels:
        return None
    drawn, axes = figure(results, "Where the time goes, float64 (Dong, figure 4.9)", 1, len(panels), (5.4, 4.4))
    for axis, (name, found) in zip(axes, panels.items(), strict=True):
        places, below = range(len(found)), [0.0] * len(found)
        for number, (phase, colour) in enumerate(_PHASES):
            heights = [100 * shares[number] for shares in found.values()]
            axis.bar(places, heights, bottom=below, label=phase, color=colour)
            below = [low + more for low, more in zip(below, heights, strict=True)]
        axis.set_xticks(list(places), [str(n) for n in found])
        axis.set(title=name, xlabel="n", ylabel="% of the time", ylim=(0, 100))
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    return drawn


def shares_of(results: dict[str, Any], name: str) -> dict[int, tuple[float, float, float]]:
    """Shares of the phases by size: each function does what the one before it does, and more. Rows of set `phases`."""
    times: list[dict[int, float]] = []
    for operation in _CHAINS[name]:
        rows = [row for row in _ours(results, "phases") if operation_of(row) == operation]
        times.append({row["M"]: row["median"] / row["K"] for row in rows})
    reduced, values, whole = times
    both = sorted(reduced.keys() & values.keys() & whole.keys())
    return {n: (reduced[n] / whole[n], max(0.0, values[n] - reduced[n]) / whole[n], 1 - values[n] / whole[n])
            for n in both}  # fmt: skip


PICTURES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "alignment": ("Products with vectors: where rows begin (Dong, figures 3.9 and 3.10)", draw_alignment),
    "settings": ("Products with vectors: two settings (Dong, figure 4.6)", draw_settings),
    "gebrd": ("Bidiagonalization and its bound (Dong, figures 4.7 and 4.8)", draw_gebrd),
    "breakdown": ("Where the time goes (Dong, figure 4.9)", draw_breakdown),
}
