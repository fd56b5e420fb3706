"""The table and the picture of a scaling run. Measured ranks are points; lines beyond them are a prediction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..plots import COLOURS, MARKERS, figure
from ..table import Table
from .model import fitted, predicted

MOST_RANKS = 4096
# Weak scaling of BLAST on Titan, one K20 and 512 zones per node, seconds of 5 cycles: the two times that the text of
# Dong's thesis gives (section 5.3.3); it calls the curve from 8 to 512 nodes almost flat.
TITAN = {512: 1.05, 4096: 1.83}
_WITHIN = 0.15  # of the measured time that the model is to be


def load(folder: Path) -> dict[int, dict[str, Any]]:
    """Results by number of ranks."""
    found = (json.loads(path.read_text()) for path in folder.glob("ranks-*.json"))
    return dict(sorted((int(one["ranks"]), one) for one in found))


def table(runs: dict[int, dict[str, Any]]) -> Table:
    """A line per operation, kind of scaling and number of ranks; bad are those that the model misses."""
    cells: list[tuple[str, ...]] = []
    bad: set[int] = set()
    for ranks, run in runs.items():
        network = fitted(run["network"])
        for row in run["rows"]:
            model = predicted(row, network, ranks, run["network"].get("gather_bytes", 0))
            off = model / row["seconds"] - 1
            bad |= {len(cells)} if abs(off) > _WITHIN else set()
            times = (row["seconds"], row["kernel"], row["message"], row["waiting"])
            cells.append((
                row["operation"], row["scaling"], str(ranks), *(f"{1e3 * one:.3f}" for one in times),
                f"{100 * row['share']:.1f} %", f"{1e3 * model:.3f}", f"{100 * off:+.1f} %",
            ))  # fmt: skip
    names = ("operation", "scaling", "ranks", "ms", "kernel", "message", "waiting", "of kernels alone", "model", "off")
    title = "Scaling over ranks (ms, slowest rank, best of the samples; shares: medians)"
    return Table(title, names, cells, frozenset(bad))


def network_text(runs: dict[int, dict[str, Any]]) -> str:
    """Latency and bandwidth as measured."""
    lines = []
    for ranks, run in runs.items():
        if ranks > 1:
            net = fitted(run["network"])
            rate = f"{1e-9 / net.gap:.3g} GB/s" if net.gap else "not limited by bytes"
            lines.append(f"{ranks} ranks: ping-pong {1e6 * net.latency:.2f} us and {rate}; "
                         f"gather {1e6 * run['network']['gather']:.1f} us; exchange {1e6 * net.exchange:.1f} us")
    return "\n".join(lines)


def picture(runs: dict[int, dict[str, Any]], path: Path) -> None:
    """Weak and strong scaling: efficiency and speedup, measured to the ranks at hand and predicted to 4096."""
    first = next(iter(runs.values()))
    drawn, axes = figure(first, "Scaling over ranks: measured points, predicted lines", 1, 2)
    pair = runs.get(2) or next((run for ranks, run in runs.items() if ranks > 1), first)
    network, size = fitted(pair["network"]), pair["network"].get("gather_bytes", 0)
    ranks = [2**k for k in range(13)]
    for axis, scaling in zip(axes, ("weak", "strong"), strict=True):
        for number, row in enumerate(one for one in first["rows"] if one["scaling"] == scaling):
            share = {count: row["kernel"] / (1 if scaling == "weak" else count) for count in ranks}
            line = [row["kernel"] / predicted(_spread(row, count, pair, scaling), network, count, size, share[count])
                    for count in ranks]  # fmt: skip
            colour, marker = COLOURS[number], MARKERS[number]
            axis.plot(ranks, line, "--", color=colour, linewidth=1.2, label=f"{row['operation']}, predicted")
            points = [(count, _gain(run, row, scaling)) for count, run in runs.items()]
            axis.plot(*zip(*points, strict=True), marker, color=colour, label=f"{row['operation']}, measured")
        axis.set(xscale="log", xlabel="ranks")
        axis.set_xticks(ranks[::2], [str(one) for one in ranks[::2]])
        axis.minorticks_off()
        axis.axvspan(max(runs), MOST_RANKS, color="#F4F4F4", zorder=0)
        axis.text(MOST_RANKS, 0.02, "PREDICTION, not measured", ha="right", transform=axis.get_xaxis_transform(),
                  fontsize=9, color="#A33A00")  # fmt: skip
    axes[0].plot([8, 512], [1, 1], ":", color="#000000", linewidth=1)
    axes[0].plot(list(TITAN), [TITAN[512] / one for one in TITAN.values()], "-X", color="#000000",
                 label="BLAST on Titan (Dong, fig. 5.5)")  # fmt: skip
    axes[0].set(ylabel="kernel time of one rank / time", ylim=(0, 1.15), title="weak: the same work on each rank")
    axes[1].plot(ranks, ranks, color="#999999", linewidth=0.8)
    axes[1].set(yscale="log", ylabel="kernel time of one rank / time", title="strong: the same work in all")
    drawn.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside right center")
    drawn.savefig(path, dpi=130)


def _spread(row: dict[str, Any], count: int, pair: dict[str, Any], scaling: str) -> dict[str, Any]:
    """The row of one rank with what several ranks add: messages of the run on two, and ghost zones by their share."""
    other = next(one for one in pair["rows"] if (one["operation"], one["scaling"]) == (row["operation"], scaling))
    two_sided = 2 if count > 2 else 1  # ranks in the middle have neighbours on both sides
    share = count / pair["ranks"] if scaling == "strong" else 1.0
    return {**row, "halo": other["halo"], "repeated": other["repeated"] * two_sided * share}


def _gain(run: dict[str, Any], row: dict[str, Any], scaling: str) -> float:
    """Time of one rank's kernels over that of a run."""
    other = next(one for one in run["rows"] if (one["operation"], one["scaling"]) == (row["operation"], scaling))
    return float(row["kernel"] / other["seconds"])
