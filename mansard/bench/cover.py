"""The picture of the README: one column per operation, its best dtype above its worst one, beside the best peer.

`mansard report --readme` draws it from the folders of one device. Every size that was measured is a point, so that the
misses are seen beside the hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from . import store, summary
from .batched.summary import batches, is_square
from .factor.summary import factors
from .plots import COLOURS, figure, percent_axis, sizes_below
from .rows import Row

FILE = "cover.png"
_PEER = COLOURS[1]


class Panel(NamedTuple):
    """One panel: the folder of its rows, which of them it shows, and the bandwidth that its percentages are of."""

    folder: str
    title: str
    rows: Callable[[list[Row]], Iterable[Row]]
    dtype: str
    unit: str
    widths: bool = False  # a linear axis of columns instead of a logarithmic one of orders


def _squares(rows: list[Row]) -> Iterable[Row]:
    return (row for row in batches(rows) if is_square(row) and not row["accumulate"])


def _solutions(rows: list[Row]) -> Iterable[Row]:
    return factors(rows, "solve")


def _cholesky(rows: list[Row]) -> Iterable[Row]:
    return factors(rows, "cholesky")


PANELS = (
    Panel("gram", "gram(A, B), float64", summary.squares, "float64", "read", True),
    Panel("matmul", "matmul(A, C), tall A, float64", summary.squares, "float64", "copy", True),
    Panel("batched", "matmul of stacks, float64", _squares, "float64", "copy"),
    Panel("factor", "linalg.cholesky, float64", _cholesky, "float64", "copy"),
    Panel("gram", "gram(A, B), complex64", summary.squares, "complex64", "read", True),
    Panel("matmul", "matmul(A, C), tall A, complex128", summary.squares, "complex128", "copy", True),
    Panel("batched", "matmul of stacks, complex64", _squares, "complex64", "copy"),
    Panel("factor", "linalg.solve, float64", _solutions, "float64", "read"),
)


def draw(device: Path) -> Any:
    """Draw the picture from the folders of `device`, say results/h200; ImportError without matplotlib."""
    results = {name: store.load(device / name) for name in dict.fromkeys(panel.folder for panel in PANELS)}
    title = "Share of the bandwidth, every size measured: best cases above, worst below"
    drawn, axes = figure(results["factor"], title, 2, 4, (4.1, 3.1))
    for axis, panel in zip(axes, PANELS, strict=True):
        rows = [row for row in panel.rows(results[panel.folder]["rows"]) if row["dtype"] == panel.dtype]
        _draw_panel(axis, panel, sorted(rows, key=lambda row: int(row["M"])))
    axes[0].legend(loc="lower right", fontsize=9, framealpha=0.9)
    return drawn


def _draw_panel(axis: Any, panel: Panel, rows: list[Row]) -> None:
    peers = [(row["M"], row["percent_bandwidth"] / row["x_peer"]) for row in rows if row.get("x_peer")]
    ours = [(row["M"], row["percent_bandwidth"]) for row in rows]
    axis.plot(*zip(*ours, strict=True), color=COLOURS[0], marker="o", markersize=3.5, linewidth=1.6, label="Mansard",
              zorder=4)  # fmt: skip
    axis.plot(*zip(*peers, strict=True), color=_PEER, marker="s", markersize=3, linewidth=1, linestyle="--",
              label="best peer")  # fmt: skip
    if panel.widths:
        axis.set_xticks([1, *range(8, 65, 8)])
        axis.set_xlabel("columns")
    else:
        sizes_below(axis, (row["M"] for row in rows))
    axis.set(title=panel.title, ylabel=f"% of {panel.unit} bandwidth")
    percent_axis(axis)


def write(device: Path) -> Path:
    """Draw the picture into the folder of the device; returns its path."""
    import matplotlib

    with matplotlib.rc_context({"font.size": 9, "axes.titlesize": 10}):
        drawn = draw(device)
        drawn.savefig(device / FILE, dpi=110)
    return device / FILE
