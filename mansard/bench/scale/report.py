"""The table and the picture of a scaling run. Measured ranks are points; lines beyond them are a prediction."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from ..plots import COLOURS, MARKERS, figure
from ..table import Table
from .model import fitted, predicted, shared_of

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
    """A line per operation, kind of scaling and number of ranks; bad are those that the model misses.

    The model knows the kernels of one rank alone, so that rank's lines have no prediction.
    """
    cells: list[tuple[str, ...]] = []
    bad: set[int] = set()
    cores = _cores(runs)
    for ranks, run in runs.items():
        name = f"{ranks}, on {cores} core{'s' * (cores > 1)}" if cores and ranks > cores else str(ranks)
        for row in run["rows"]:
            model = _model(runs, ranks, row)
            off = model / row["seconds"] - 1 if model else 0.0
            bad |= {len(cells)} if abs(off) > _WITHIN else set()
            times = (row["seconds"], row["kernel"], row["message"], row["waiting"])
            cells.append((
                row["operation"], row["scaling"], name, *(f"{1e3 * one:.3f}" for one in times),
                f"{100 * row['share']:.1f} %", *((f"{1e3 * model:.3f}", f"{100 * off:+.1f} %") if model else ("", "")),
            ))  # fmt: skip
    names = ("operation", "scaling", "ranks", "ms", "kernel", "message", "waiting", "of kernels alone", "model", "off")
    title = "Scaling over ranks (ms, slowest rank, best of the samples; shares: medians)"
    return Table(title, names, cells, frozenset(bad))


def _cores(runs: dict[int, dict[str, Any]]) -> int:
    """Cores of the machine, as the run on one rank found them; 0 without it."""
    shared = shared_of(runs[1]["network"]) if 1 in runs else None
    return shared.cores if shared else 0


def _row(run: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """The row of another run that has the same operation and kind of scaling."""
    key = ("operation", "scaling")
    found: dict[str, Any] = next(one for one in run["rows"] if all(one[name] == like[name] for name in key))
    return found


def _model(runs: dict[int, dict[str, Any]], ranks: int, row: dict[str, Any]) -> float | None:
    """Predicted seconds of a row, from one rank's kernels; None where they, or the machine, were not measured."""
    shared = shared_of(runs[1]["network"]) if 1 in runs else None
    if ranks == 1 or shared is None:
        return None
    measured = runs[ranks]["network"]
    return predicted(row, _row(runs[1], row), shared, fitted(measured), ranks, measured.get("gather_bytes", 0))


def misses(runs: dict[int, dict[str, Any]]) -> str:
    """How far the model is off, by number of ranks: median and most, in percent of the measured time."""
    lines = []
    for ranks, run in runs.items():
        found = [(row, _model(runs, ranks, row)) for row in run["rows"]]
        off = [100 * abs(model / row["seconds"] - 1) for row, model in found if model]
        if off:
            within = sum(one <= 100 * _WITHIN for one in off)
            lines.append(f"{ranks} ranks: model off by {median(off):.0f} % in the median, {max(off):.0f} % at most; "
                         f"{within} of {len(off)} within {100 * _WITHIN:.0f} %")  # fmt: skip
    return "\n".join(lines)


def network_text(runs: dict[int, dict[str, Any]]) -> str:
    """Latency and bandwidth of messages, and bandwidth of memory, as measured."""
    lines = []
    for ranks, run in runs.items():
        if ranks > 1:
            net = fitted(run["network"])
            rate = f"{1e-9 / net.gap:.3g} GB/s" if net.gap else "not limited by bytes"
            lines.append(f"{ranks} ranks: ping-pong {1e6 * net.latency:.2f} us and {rate}; "
                         f"gather {1e6 * run['network']['gather']:.1f} us; exchange {1e6 * net.exchange:.1f} us")
        elif shared := shared_of(run["network"]):
            pairs = ((name, *(1e-9 * one for one in getattr(shared, name))) for name in ("read", "copy"))
            rates = "; ".join(f"{name} {one:.1f} GB/s by one, {every:.1f} by all" for name, one, every in pairs)
            lines.append(f"machine: {shared.cores} cores; {rates}")
    return "\n".join(lines)


def picture(runs: dict[int, dict[str, Any]], path: Path) -> None:
    """Weak and strong scaling: efficiency and speedup, measured to the ranks at hand and predicted to 4096.

    Lines are of machines like this one with a rank on every core. Points of more ranks than cores are hollow, and
    their own prediction is a cross.
    """
    first = next(iter(runs.values()))
    drawn, axes = figure(first, "Scaling over ranks: measured points, predicted lines", 1, 2)
    ranks, cores = [2**k for k in range(13)], _cores(runs)
    for axis, scaling in zip(axes, ("weak", "strong"), strict=True):
        for number, row in enumerate(one for one in first["rows"] if one["scaling"] == scaling):
            colour, marker = COLOURS[number], MARKERS[number]
            if cores:
                line = _line(runs, row, ranks)
                axis.plot(ranks, line, "--", color=colour, linewidth=1.2, label=f"{row['operation']}, predicted")
            for count, run in runs.items():
                is_shared = bool(cores) and count > cores
                label = None if is_shared or count > 1 else f"{row['operation']}, measured"
                axis.plot(count, _gain(row, _row(run, row)["seconds"]), marker, color=colour, label=label,
                          fillstyle="none" if is_shared else "full")  # fmt: skip
                if is_shared and (model := _model(runs, count, _row(run, row))):
                    axis.plot(count, _gain(row, model), "x", color=colour, markersize=5)
        axis.set(xscale="log", xlabel="ranks")
        axis.set_xticks(ranks[::2], [str(one) for one in ranks[::2]])
        axis.minorticks_off()
        axis.axvspan(max(runs), MOST_RANKS, color="#F4F4F4", zorder=0)
        axis.text(MOST_RANKS, 0.02, "PREDICTION, not measured", ha="right", transform=axis.get_xaxis_transform(),
                  fontsize=9, color="#A33A00")  # fmt: skip
    axes[0].plot([8, 512], [1, 1], ":", color="#000000", linewidth=1)
    axes[0].plot(list(TITAN), [TITAN[512] / one for one in TITAN.values()], "-X", color="#000000",
                 label="BLAST on Titan (Dong, fig. 5.5)")  # fmt: skip
    if cores and max(runs) > cores:
        text = f"more ranks than the {cores} cores: measured"
        axes[0].plot([], [], "o", color="#555555", fillstyle="none", label=text)
        axes[0].plot([], [], "x", color="#555555", label="and predicted")
    axes[0].set(ylabel="kernel time of one rank / time", ylim=(0, 1.15), title="weak: the same work on each rank")
    axes[1].plot(ranks, ranks, color="#999999", linewidth=0.8)
    axes[1].set(yscale="log", ylabel="kernel time of one rank / time", title="strong: the same work in all")
    drawn.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside right center")
    drawn.savefig(path, dpi=130)


def _line(runs: dict[int, dict[str, Any]], row: dict[str, Any], ranks: list[int]) -> list[float]:
    """Predicted gain of an operation on machines like this one, as many ranks on each as it has cores."""
    pair = next((run for count, run in runs.items() if count > 1), runs[1])
    shared, network = shared_of(runs[1]["network"]), fitted(pair["network"])
    assert shared is not None
    size = pair["network"].get("gather_bytes", 0)
    return [
        _gain(row, predicted(_spread(row, count, pair), row, shared, network, count, size, min(count, shared.cores)))
        for count in ranks
    ]


def _spread(row: dict[str, Any], count: int, pair: dict[str, Any]) -> dict[str, Any]:
    """The row of one rank with what several ranks add: messages of the run on two, and ghost zones by their share."""
    other = _row(pair, row)
    two_sided = 2 if count > 2 else 1  # ranks in the middle have neighbours on both sides
    share = count / pair["ranks"] if row["scaling"] == "strong" else 1.0
    return {**row, "halo": other["halo"], "repeated": other["repeated"] * two_sided * share}


def _gain(one: dict[str, Any], seconds: float) -> float:
    """Time of one rank's kernels over that of a run."""
    return float(one["kernel"] / seconds)
