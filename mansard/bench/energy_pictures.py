"""Pictures of energy: joules against seconds of the tuner's trials, and power over time of rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..records.trials import Store, Trial
from ..tune.table import grouped
from .plots import COLOURS, MARKERS, grid
from .rows import Row

TRIALS = "trials.jsonl"  # in a folder of results: lines of the tuner's store whose goal is energy
_RINGS = {"fastest": (13, "#555555"), "least energy": (19, "#009E73")}  # size and colour


def tradeoff(folder: Path) -> Path | None:
    """Draw joules against seconds of a call, a panel per problem, from a folder's trials; None where there are none."""
    problems = grouped(trial for trial in Store(folder / TRIALS) if trial.joules)
    if not problems:
        return None
    first = next(iter(problems.values()))[0]
    about = {"environment": {"device": first.device, "date": first.date}, "rows": []}
    drawn, axes = grid(about, "Time against energy: configurations of one problem", len(problems), 3, (5.4, 4.4))
    for axis, (problem, trials) in zip(axes, problems.items(), strict=True):
        _panel(axis, trials)
        sizes = ", ".join(f"{name} = {size}" for name, size in problem.sizes)
        axis.set(title=f"{problem.operation} {problem.dtype}, {sizes}")
    path = folder / "tradeoff.png"
    drawn.savefig(path, dpi=130)
    return path


def _panel(axis: Any, trials: list[Trial]) -> None:
    """One problem: marks by variant, bars from the least to the most joules, rings around the best of both goals."""
    for number, variant in enumerate(sorted({trial.config["VARIANT"] for trial in trials})):
        mine = [trial for trial in trials if trial.config["VARIANT"] == variant]
        low, high = ([1e3 * abs(pick(one.joules) - one.cost) for one in mine] for pick in (min, max))
        axis.errorbar(
            [1e6 * trial.median for trial in mine], [1e3 * trial.cost for trial in mine], yerr=(low, high),
            label=variant, linestyle="none", color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
        )  # fmt: skip
    own = [trial for trial in trials if not trial.is_vendor] or trials
    best = (min(own, key=lambda trial: trial.median), min(own, key=lambda trial: trial.cost))
    for (name, (size, colour)), trial in zip(_RINGS.items(), best, strict=True):
        axis.plot(1e6 * trial.median, 1e3 * trial.cost, "o", ms=size, fillstyle="none", color=colour, label=name)
    axis.set(xlabel="us per call", ylabel="mJ per call, net of idle")
    axis.legend(fontsize=8)


def power(axis: Any, rows: Iterable[Row], calls: float = 0.0) -> None:
    """Draw power over time, a line per row and part, each until its contender has done `calls` calls (0: all)."""
    for number, row in enumerate(rows):
        used, end = row["energy"], calls * row["call_seconds"] or float("inf")
        for part, curve in used["trials"][0]["power"].items():
            kept = [point for point in curve if point[0] <= end] or curve[:1]
            label = f"{row['contender']}, {part}: {row['gross_joules']:.3g} J per call"
            axis.plot(*zip(*kept, strict=True), label=label, color=COLOURS[number % len(COLOURS)],
                      linestyle="-" if part == next(iter(used["idle"])) else ":")  # fmt: skip
        axis.axhline(row["idle_watts"], color="#888888", linewidth=0.8, linestyle="--")
    axis.set(xlabel="s", ylabel="W", ylim=(0, None))
    axis.legend(fontsize=8)
