"""Numbers of Dong's figures 4.13 and 5.8 and of table 5.4, from rows with joules. Idle power is included, unless a name
says net."""

from __future__ import annotations

from collections.abc import Callable

from mansard.bench.rows import operation_of

from ..found import Line, Number, column, lines, median, results

_ENERGY = "h200-energy/factor"
_WINDOW = 4.5  # seconds: windows of the protocol in docs/energy.md take 5, earlier ones are not counted


def qr_joules() -> Number:
    """Figure 4.13, as far as a GPU alone can answer it: joules and power of QR factorizations, ours and the peer's.

    Joules, watts and their ratios include idle power, as his do; joules net of idle have columns of their own.
    """
    found = [row for row in results(_ENERGY)["rows"] if operation_of(row) == "qr" and row.get("joules")]
    mine = {row["M"]: row for row in found if row.get("greenup")}
    peers = {row["M"]: row for row in found if not row.get("greenup")}
    cells = tuple((str(n), f"{row['K']:,}", f"{row['gross_joules']:.2f}", f"{peers[n]['gross_joules']:.2f}",
                   f"{row['greenup']:.1f}", f"{row['average_watts']:.0f}", f"{peers[n]['average_watts']:.0f}",
                   f"{row['joules']:.2f}", f"{peers[n]['joules']:.2f}", f"{row['net_greenup']:.1f}")
                  for n, row in sorted(mine.items()))  # fmt: skip
    largest = max(mine)
    values = {"n": largest, "count": mine[largest]["K"], "joules": mine[largest]["gross_joules"],
              "peer": peers[largest]["gross_joules"], "saved": mine[largest]["greenup"],
              "watts": mine[largest]["average_watts"], "peer_watts": peers[largest]["average_watts"],
              "least": min(column(mine.values(), "greenup")),
              "least_net": min(column(mine.values(), "net_greenup"))}  # fmt: skip
    columns = ("n", "matrices", "J, Mansard", "J, fastest peer", "times less", "W, Mansard", "W, peer",
               "J net of idle, Mansard", "J net of idle, peer", "times less, net")  # fmt: skip
    return Number(min(values["least"], values["least_net"]) > 1, values, columns, cells)


_PARTS, _ENGINES = ("corner forces", "conjugate gradients"), {"mansard": "Mansard", "library": "CuPy alone"}


def _windows() -> list[Line]:
    """Windows of the protocol of the application's two parts."""
    return [row for row in lines("results/h200-energy/application.jsonl") if row["seconds"] > _WINDOW]


def _of_application(value: Callable[[Line], float]) -> dict[tuple[str, str], float]:
    """The median over the windows of a part, by part and engine."""
    found = _windows()
    return {(part, engine): median(value(row) for row in found if (row["part"], row["engine"]) == (part, engine))
            for part in _PARTS for engine in _ENGINES}  # fmt: skip


def powers_drawn() -> Number:
    """Power of the application's two parts, by Mansard and by the array library alone; power and energy of
    factorizations, ours over the peer's. The number holds if ours draw more everywhere and take less energy."""
    watts, joules = _of_application(_watts), _of_application(_joules)
    found = [row for row in results(_ENERGY)["rows"] if row.get("greenup")]
    power, saved = [1 / row["powerup"] for row in found], column(found, "greenup")
    values = {"least": min(power), "most": max(power), "saved_least": min(saved), "saved_most": max(saved)}
    for name, part in zip(("forces", "gradients"), _PARTS, strict=True):
        values |= {name: watts[part, "mansard"], f"{name}_library": watts[part, "library"],
                   f"{name}_saved": joules[part, "library"] / joules[part, "mansard"]}  # fmt: skip
    values["idle"] = median(row["idle_watts"] for row in _windows())
    cells = tuple((row["part"], _ENGINES[row["engine"]], row["commit"][:8], f"{row['watts']:.0f}",
                   f"{row['idle_watts']:.0f}", f"{1000 * _joules(row):.0f}", f"{1000 * _net(row):.0f}",
                   f"{row['seconds']:.1f}") for row in _windows())  # fmt: skip
    columns = ("part of a step, 32^3 zones Q2-Q1", "by", "commit", "W", "W, idle", "mJ a call", "mJ net of idle",
               "seconds of the window")  # fmt: skip
    more = min(power) > 1 and all(watts[part, "mansard"] > watts[part, "library"] for part in _PARTS)
    less = min(values["saved_least"], values["forces_saved"], values["gradients_saved"]) > 1
    return Number(more and less, values, columns, cells)


def greenup_of_application() -> Number:
    """Table 5.4 as far as a GPU alone can answer it: the application's parts by Mansard over the array library's."""
    seconds, watts, joules, net = (_of_application(value) for value in (_seconds, _watts, _joules, _net))
    values: dict[str, float] = {}
    cells = []
    for name, part in zip(("forces", "gradients"), _PARTS, strict=True):
        ours, library = (part, "mansard"), (part, "library")
        speedup, powerup = seconds[library] / seconds[ours], watts[library] / watts[ours]
        greenup, net_greenup = joules[library] / joules[ours], net[library] / net[ours]
        values |= {name: greenup, f"{name}_net": net_greenup}
        cells.append((part, f"{1e3 * seconds[ours]:.2f}", f"{1e3 * seconds[library]:.2f}", f"{joules[ours]:.2f}",
                      f"{joules[library]:.2f}", f"{powerup:.2f}", f"{speedup:.2f}", f"{greenup:.2f}",
                      f"{net_greenup:.2f}"))  # fmt: skip
    columns = ("part of a step, 32^3 zones Q2-Q1", "ms a call, Mansard", "CuPy alone", "J a call, Mansard",
               "CuPy alone", "powerup", "speedup", "greenup", "greenup, net of idle")  # fmt: skip
    return Number(min(values.values()) > 1, values, columns, tuple(cells))


def _seconds(row: Line) -> float:
    return float(row["seconds"] / row["calls"])


def _watts(row: Line) -> float:
    return float(row["watts"])


def _joules(row: Line) -> float:
    return float(row["joules"] / row["calls"])


def _net(row: Line) -> float:
    return float(row["net_joules"] / row["calls"])
