"""Power and energy of Dong's sections 4.4 and 5.4: figures 4.13, 5.7 and 5.8 and table 5.4, from rows with windows.

`mansard bench --energy` measures such rows; others draw nothing. Blocks of code that `mansard.bench.energy.metered` has
measured (a whole application) are drawn by `bars` and `of_blocks`.
"""

from __future__ import annotations

from typing import Any

from mansard.bench.energy import Metered
from mansard.bench.energy_pictures import power
from mansard.bench.plots import COLOURS, figure, grid
from mansard.bench.rows import OURS, Row, operation_of
from mansard.bench.table import Table

GREENUP = "Powerup, speedup and greenup over the peer with the least energy"
_MOST_BARS = 24


def _metered(results: dict[str, Any]) -> list[Row]:
    return [row for row in results["rows"] if row["status"] == "ok" and row.get("gross_joules")]


def qr(results: dict[str, Any]) -> Any:
    """Dong's figure 4.13: power over time of QR factorizations, each contender until the same work is done."""
    rows = [row for row in _metered(results) if row["set"] == "power"]
    if not rows:
        return None
    first, calls = rows[0], min(row["energy"]["trials"][0]["seconds"] / row["call_seconds"] for row in rows)
    title = f"Power of QR factorizations of {first['K']} matrices of {first['M']} x {first['M']}, float64"
    drawn, axes = figure(results, title)
    power(axes[0], rows, calls)
    return drawn


def parts(results: dict[str, Any]) -> Any:
    """Dong's figure 5.7: power over time of a CPU's packages and memory, of our row with the most joules."""
    rows = [row for row in _metered(results) if row["contender"] == OURS and len(row["energy"]["idle"]) > 1]
    if not rows:
        return None
    row = max(rows, key=lambda one: float(one["gross_joules"]))
    drawn, axes = figure(results, f"Power of packages and memory: {operation_of(row)} {row['dtype']}, n = {row['M']}")
    power(axes[0], [row])
    return drawn


def components(results: dict[str, Any]) -> Any:
    """Dong's figure 5.8: average power of different computations, beside idle power."""
    rows = [row for row in _metered(results) if not row.get("pins")][:_MOST_BARS]
    if not rows:
        return None
    watts = {f"{operation_of(row)} n = {row['M']}, {row['contender']}": row["average_watts"] for row in rows}
    return bars(results, watts, rows[0]["idle_watts"])


def bars(results: dict[str, Any], watts: dict[str, float], idle: float) -> Any:
    """A bar of average power for each computation, and a line at idle power."""
    drawn, (axis,) = grid(results, "Average power of different computations", 1, size=(8.0, 1.2 + 0.34 * len(watts)))
    axis.barh(list(watts), list(watts.values()), color=[COLOURS[OURS not in name] for name in watts])
    axis.axvline(idle, color="#555555", linestyle="--", linewidth=1, label="idle")
    axis.tick_params(axis="y", labelsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="W")
    axis.legend(fontsize=8)
    return drawn


def greenup(results: dict[str, Any], missed: set[int]) -> Table:
    """Dong's table 5.4, for factorizations: ours over the peer that uses the least energy."""
    rows = [row for row in _metered(results) if "greenup" in row]
    cells = [
        (operation_of(row), row["dtype"], str(row["M"]), row["green_peer"], f"{row['powerup']:.2f}",
         f"{row['speedup']:.2f}", f"{row['greenup']:.2f}", f"{row.get('net_greenup', 0):.2f}")
        for row in rows
    ]  # fmt: skip
    columns = ("operation", "dtype", "n", "peer", "powerup", "speedup", "greenup", "greenup, net of idle")
    return Table(GREENUP, columns, cells)


def of_blocks(pairs: dict[str, tuple[Metered, Metered]]) -> Table:
    """Dong's table 5.4: for each method, the same run on the CPU and on the GPU; all parts that were read count."""
    cells = []
    for method, (cpu, gpu) in pairs.items():
        speedup, saved = cpu.seconds / gpu.seconds, sum(cpu.parts.values()) / sum(gpu.parts.values())
        cells.append((method, f"{saved / speedup:.2f}", f"{speedup:.2f}", f"{saved:.2f}"))
    return Table("GPU over CPU", ("method", "power efficiency", "speedup", "greenup"), cells)
