"""The picture of batches of matrices of all sizes."""

from __future__ import annotations

from typing import Any

from ..plots import COLOURS, contenders, every_contender, figure, lines, sizes_below
from ..rows import OURS, Row
from .operations import uniform_sizes
from .summary import batches, sizes


def ragged(results: dict[str, Any]) -> Any:
    """Products as bars beside equal matrices of the same bytes; Dong's figure 3.30 for vectors."""
    rows = every_contender(results, batches(results["rows"], "ragged"))
    products, vectors = ([row for row in rows if (row["N"] == 1) == one] for one in (False, True))
    panels = [draw for draw, some in ((_bars, products), (_random, vectors)) if some]
    if not panels:
        return None
    drawn, axes = figure(results, "Ragged batches: sizes from 1 to n", 1, len(panels), (7.2, 4.2))
    for axis, draw in zip(axes, panels, strict=True):
        draw(axis, products if draw is _bars else vectors)
    return drawn


def _bars(axis: Any, rows: list[Row]) -> None:
    cases = list(dict.fromkeys(row["case"] for row in rows))
    names = contenders(rows)
    wide = 0.8 / (len(names) + 1)
    for number, name in enumerate([*names, "equal matrices"]):
        colour, heights = COLOURS[number % len(COLOURS)], []
        for place, case in enumerate(cases):
            found = {row["contender"]: row for row in rows if row["case"] == case}
            row = found.get(OURS if name == "equal matrices" else name)
            if row is not None:
                rate = row["gbytes_per_second"]
                if name == "equal matrices":
                    rate = 100 * rate / row["percent_uniform"] if row.get("percent_uniform") else 0
                heights.append((place + (number - len(names) / 2) * wide, rate))
        axis.bar(*zip(*heights, strict=True), wide, label=name, color=colour)
    firsts = [next(row for row in rows if row["case"] == case) for case in cases]
    texts = [
        f"{sizes(row)}\n{row['dtype']}\n(equal: {uniform_sizes(row['M'], row['N'], row['K'])[0]})" for row in firsts
    ]
    axis.set_xticks(range(len(cases)), texts)
    axis.set(title="products", ylabel="GB/s")
    axis.set_ylim(0, 1.35 * axis.get_ylim()[1])
    axis.grid(False, axis="x")
    axis.legend(fontsize=8, loc="upper left", ncols=2)


def _random(axis: Any, rows: list[Row]) -> None:
    lines(axis, rows, contenders(rows), lambda row: row["M"], "gflops")
    equal = sorted(
        (row["M"], 100 * row["gflops"] / row["percent_uniform"]) for row in rows if row.get("percent_uniform")
    )
    if equal:
        axis.plot(*zip(*equal, strict=True), color="#000000", linewidth=1, marker="x", label="equal matrices")
    sizes_below(axis, (row["M"] for row in rows), "largest size")
    axis.set(title=f"times vectors, {rows[0]['dtype']}", ylabel="GFLOP/s", ylim=(0, None))
    axis.legend(fontsize=8)


