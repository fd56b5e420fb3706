"""The pictures of a report. Each one is a function from results to a figure, or None where its rows are missing.

Colours are Okabe and Ito's, distinguishable by all kinds of colour vision; lines differ in marker and dash as well.
matplotlib is imported when a picture is drawn: without it a report has tables only, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from .rows import OURS, Row

COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HOLLOW = {"markerfacecolor": "none", "markersize": 7, "linewidth": 0.9}
DRAWN_BY = "matplotlib"  # a PNG's note of the version that drew it
_NARROW = 8.0  # inches: a foot with two rates takes two lines
_DASHES = ("-", "--", "-.", ":")
_TICKS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
BOUND = {"color": "#555555", "linestyle": (0, (6, 3)), "linewidth": 1, "label": "P_max"}


def small_png(figure: Any, dpi: int, colours: int = 96) -> bytes:
    """A figure as a PNG of few colours, a third of the size: chosen by an octree, which keeps the colours of thin lines
    apart. Pillow's median cut makes one of orange and vermilion where most of the picture is white."""
    import matplotlib
    from PIL import Image, PngImagePlugin  # comes with matplotlib

    full, few, about = BytesIO(), BytesIO(), PngImagePlugin.PngInfo()
    about.add_text(DRAWN_BY, matplotlib.__version__)  # another version draws other pixels
    figure.savefig(full, dpi=dpi)
    picture = Image.open(full).convert("RGB").quantize(colours, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    picture.save(few, "PNG", optimize=True, pnginfo=about)
    return few.getvalue()


def style(number: int) -> dict[str, Any]:
    """Colour, marker and dash of the number-th contender."""
    return {
        "color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)], "markersize": 4.5 if number else 5,
        "linewidth": 1.2 if number else 1.8,
    }  # fmt: skip


def figure(
    results: dict[str, Any], title: str, rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.2, 4.4)
) -> tuple[Any, Any]:
    """An empty figure whose foot names device, date and ceilings, and its axes as a flat list."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False).flatten()
    environment, ceilings = results["environment"], results.get("ceilings") or {}
    drawn.suptitle(title, fontsize=13, fontweight="bold")
    foot = f"{environment['device']}, {environment['date'][:10]}"
    if ceilings:
        both = ("read", "copy") if results.get("family") in ("batched", "factor", "powers") else ("read",)
        rates = ", ".join(f"{which} bandwidth {rate_text(ceilings[f'{which}_bandwidth'])}B/s" for which in both)
        foot += "\n" if len(both) > 1 and size[0] * columns < _NARROW else ", "
        foot += f"{rates} ({ceilings['origin'].split(':')[0]})"
    drawn.supxlabel(foot, fontsize=8, color="#444444")
    for axis in axes:
        axis.grid(True, color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return drawn, axes


def rate_text(value: float) -> str:
    return f"{value / 1e12:.2f} T" if value >= 1e12 else f"{value / 1e9:.1f} G"


def contenders(rows: list[Row]) -> list[str]:
    """Names, ours first, the others in an order that is the same in every picture."""
    return sorted({row["contender"] for row in rows}, key=lambda name: (name != OURS, name))


def every_contender(results: dict[str, Any], mine: Iterable[Row]) -> list[Row]:
    """Rows of all contenders whose result was right, in the cases of these rows."""
    cases = {row["case"] for row in mine}
    return [row for row in results["rows"] if row["case"] in cases and row["status"] == "ok"]


def lines(axis: Any, rows: list[Row], names: list[str], x: Callable[[Row], float], y: str) -> None:
    """Draw a line per contender, ours on top. Peers behind the first have large hollow markers, which are seen where
    their lines coincide, as two callers of one library do."""
    for number, name in enumerate(names):
        points = sorted((x(row), row[y]) for row in rows if row["contender"] == name)
        if points:
            hollow = _HOLLOW if number > 1 else {}
            order = 5 if number == 0 else 3 + number / 10
            axis.plot(*zip(*points, strict=True), label=name, zorder=order, **(style(number) | hollow))


def sizes_below(axis: Any, values: Iterable[int], label: str = "n") -> None:
    """Make the axis below logarithmic, with ticks at powers of two."""
    values = list(values)
    shown = [n for n in _TICKS if min(values) <= n <= max(values)] or sorted(set(values))
    axis.set(xlabel=label, xscale="log")
    axis.set_xticks(shown, [str(n) for n in shown])
    axis.minorticks_off()


def legend(axes: Any, **options: Any) -> None:
    """Draw the legend in the panel with most lines."""
    max(axes, key=lambda axis: len(axis.lines)).legend(**{"fontsize": 8, "framealpha": 0.9, **options})


def percent_axis(axis: Any) -> None:
    """Per cent of a bandwidth: up to a hundred and a little, more where caches help."""
    axis.axhline(100, color="#555555", linewidth=1)
    axis.set_ylim(0, max(108, axis.get_ylim()[1]))


def plain_ticks(axis: Any) -> None:
    """5, 10, 20, 50, ... instead of powers: the range is a decade or two."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def grid(
    results: dict[str, Any], title: str, panels: int, most: int = 2, size: tuple[float, float] = (7.2, 3.9)
) -> tuple[Any, Any]:  # fmt: skip
    """A figure of `panels` panels, at most `most` in a line; axes that are left over are hidden."""
    columns = min(panels, most)
    drawn, axes = figure(results, title, -(-panels // columns), columns, size)
    for axis in axes[panels:]:
        axis.set_visible(False)
    return drawn, axes[:panels]
