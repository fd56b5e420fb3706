"""Numbers of Dong's figures 4.13 and 5.8, from rows with joules. Idle power is included, unless a name says net."""

from __future__ import annotations

from mansard.bench.rows import operation_of

from ..found import Number, column, lines, median, results

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


def powers_drawn() -> Number:
    """Power of the application's two parts; power and energy of factorizations, ours over the peer's."""
    parts = [row for row in lines("results/h200-energy/application.jsonl") if row["seconds"] > _WINDOW]
    watts = {part: median(row["watts"] for row in parts if row["part"] == part and row["engine"] == "mansard")
             for part in ("corner forces", "conjugate gradients")}  # fmt: skip
    found = [row for row in results("h200-energy/factor")["rows"] if row.get("greenup")]
    power, saved = [1 / row["powerup"] for row in found], column(found, "greenup")
    values = {"least": min(power), "most": max(power), "saved_least": min(saved), "saved_most": max(saved),
              "forces": watts["corner forces"], "gradients": watts["conjugate gradients"],
              "idle": median(row["idle_watts"] for row in parts)}  # fmt: skip
    cells = tuple((row["part"], row["engine"], f"{row['watts']:.0f}", f"{row['idle_watts']:.0f}",
                   f"{1000 * row['joules'] / row['calls']:.0f}", f"{row['seconds']:.1f}") for row in parts)  # fmt: skip
    columns = ("part of a step, 32^3 zones Q2-Q1", "engine", "W", "W, idle", "mJ a call", "seconds of the window")
    return Number(min(power) > 1 and min(saved) > 1, values, columns, cells)
