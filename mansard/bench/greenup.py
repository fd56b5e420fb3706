"""Energy columns of rows: joules per call, GFLOP per joule, and speedup, powerup and greenup over a peer.

Dong defines greenup = energy of the other / energy of this = powerup * speedup, where powerup is the ratio of average
powers and speedup that of times. All three are from the same windows and include idle power, as his do; `net_greenup`
is the ratio of joules net of idle.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from ..machine.meter import net_joules, own, spread
from .factor.operations import FACTORS
from .operations import work_of
from .table import Table

Row = dict[str, Any]
COLUMNS = ("joules", "joules_spread", "gross_joules", "gflop_per_joule", "average_watts", "idle_watts", "call_seconds",
           "speedup", "powerup", "greenup", "net_greenup", "green_peer", "energy_window")  # fmt: skip
TITLE = "Energy"
OVER = "GPU over CPU"


def fields(row: Row) -> Row:
    """Energy columns from the windows that a row stores; none where it has none."""
    used = row.get("energy") or {}
    if not used.get("trials"):
        return {}
    found = of_call(used)
    joules = found["joules"]
    return found | {"gflop_per_joule": work_of(row).flops / joules / 1e9 if joules > 0 else None}


def of_call(used: Row) -> Row:
    """Joules, watts and seconds of a call from stored windows."""
    net, gross, seconds = (_per_call(used, quantity) for quantity in (_net, _gross, _seconds))
    joules, total, taken = map(statistics.median, (net, gross, seconds))
    return {
        "joules": joules,
        "joules_spread": spread(net),
        "gross_joules": total,
        "average_watts": total / taken,
        "idle_watts": own(used["idle"]),
        "call_seconds": taken,
        "energy_window": used["window"],
    }


def _net(trial: Row, idle: dict[str, float]) -> float:
    return net_joules(trial, idle)


def _gross(trial: Row, idle: dict[str, float]) -> float:
    return float(own(trial["joules"]) / trial["calls"])


def _seconds(trial: Row, idle: dict[str, float]) -> float:
    return float(trial["seconds"] / trial["calls"])


def _all_parts(trial: Row, idle: dict[str, float]) -> float:
    return float(sum(trial["joules"].values()) / trial["calls"])


def _per_call(used: Row, quantity: Any) -> list[float]:
    """A quantity per call of the case, in each trial, less what restoring operands took."""
    restored = used.get("restore") or []
    less = statistics.median(quantity(trial, used["idle"]) for trial in restored) if restored else 0.0
    factor = used["scale"] / used["calls"]
    return [factor * (quantity(trial, used["idle"]) - less) for trial in used["trials"]]


def ratios(own_row: Row, other: Row) -> Row:
    """Speedup, powerup and greenup of a row over another one, whose energy columns both have."""
    found = {
        "speedup": other["call_seconds"] / own_row["call_seconds"],
        "powerup": other["average_watts"] / own_row["average_watts"],
        "greenup": other["gross_joules"] / own_row["gross_joules"],
        "green_peer": other["contender"],
    }
    if own_row["joules"] > 0 and other["joules"] > 0:
        found["net_greenup"] = other["joules"] / own_row["joules"]
    return found


def compare(rows: list[Row], ours: str) -> None:
    """Add to our rows the ratios over the right peer that uses the least energy."""
    best: dict[str, Row] = {}
    for row in rows:
        is_peer = not row["contender"].startswith(ours) and row["status"] == "ok"
        if is_peer and row.get("gross_joules"):
            held = best.get(row["case"])
            if held is None or row["gross_joules"] < held["gross_joules"]:
                best[row["case"]] = row
    for row in rows:
        if row["contender"] == ours and row.get("gross_joules") and row["case"] in best:
            row |= ratios(row, best[row["case"]])


def table(results: dict[str, Any], missed: set[int]) -> Table:
    """A line per contender whose energy was read."""
    cells = [
        (
            *_named(row), str(row["K"]), row["contender"], *_joule_cells(row), f"{row['gflop_per_joule'] or 0:.3g}",
            *_ratio_cells(row), _effort(row),
        )
        for row in results["rows"]
        if row.get("joules") is not None and row["status"] == "ok"
    ]  # fmt: skip
    columns = ("operation", "dtype", "size", "K", "contender", "ms", "J, net", "+- %", "J", "W", "idle W", "GFLOP/J",
               "speedup", "powerup", "greenup", "windows")  # fmt: skip
    return Table(TITLE, columns, cells)


def table_of_calls(rows: Iterable[Row]) -> Table:
    """A line per contender of applications, whose calls are steps or solves."""
    cells = [
        (row["case"], row["contender"], *_joule_cells(row), *_ratio_cells(row), _effort(row))
        for row in rows
        if row.get("joules") is not None
    ]
    columns = ("case", "contender", "ms", "J, net", "+- %", "J", "W", "idle W", "speedup", "powerup", "greenup",
               "windows")  # fmt: skip
    return Table(f"{TITLE} of a step or a solve", columns, cells)


def _joule_cells(row: Row) -> tuple[str, ...]:
    return (
        f"{row['call_seconds'] * 1e3:.4g}", f"{row['joules']:.4g}", _spread(row), f"{row['gross_joules']:.4g}",
        f"{row['average_watts']:.0f}", f"{row['idle_watts']:.0f}",
    )  # fmt: skip


def _named(row: Row) -> tuple[str, str, str]:
    """Operation, dtype and size; a factored matrix is square."""
    operation = str(row.get("operation", "gram"))
    columns = row["M"] if operation in FACTORS else row["N"]
    return operation, row["dtype"], f"{row['M']} x {columns}"


def _spread(row: Row) -> str:
    return f"{100 * row['joules_spread']:.1f}" if len(row["energy"]["trials"]) > 1 else ""


def _ratio_cells(row: Row) -> tuple[str, ...]:
    return tuple(f"{row[name]:.2f}" if name in row else "" for name in ("speedup", "powerup", "greenup"))


def _effort(row: Row) -> str:
    return f"{len(row['energy']['trials'])} x {row['energy_window']:g} s"


def over(gpu: dict[str, Any], cpu: dict[str, Any]) -> Table:
    """Speedup, powerup and greenup of our GPU rows over our CPU rows, per matrix: batches differ in length.

    A GPU's energy is that of the GPU and its CPU, as Dong defines it; where the CPU's cannot be read the line
    counts the GPU alone, and says so.
    """
    known = {_problem(row): row for row in _ours(cpu)}
    cells = []
    for row in _ours(gpu):
        other = known.get(_problem(row))
        if other is None:
            continue
        ours, theirs = (statistics.median(_per_call(one["energy"], _all_parts)) / one["K"] for one in (row, other))
        speedup = other["call_seconds"] / other["K"] * row["K"] / row["call_seconds"]
        greenup = theirs / ours
        whole = "GPU and CPU" if len(row["energy"]["idle"]) > 1 else "GPU alone"
        cells.append((*_named(row), *(f"{ratio:.3g}" for ratio in (greenup / speedup, speedup, greenup)), whole))
    columns = ("operation", "dtype", "size", "powerup", "speedup", "greenup", "energy of")
    return Table(OVER, columns, cells)


def _ours(results: dict[str, Any]) -> Iterable[Row]:
    return (row for row in results["rows"] if row["contender"] == "Mansard" and row.get("gross_joules"))


def _problem(row: Row) -> tuple[Any, ...]:
    """The key by which rows of two devices are compared: the problem without its long size."""
    names = ("operation", "dtype", "M", "N", "inner", "layout", "same", "mode", "form", "accumulate")
    return tuple(row.get(name) for name in names)
