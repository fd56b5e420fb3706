"""Chapter 5 of Dong's dissertation on our devices: tables 5.1 and 5.3, figures 5.4 to 5.6, from rows of an application.

    python -m papers.dong.hydro results/h200/hydro [results/xeon-avx512-2-cores/hydro ...]

reads `hydro.jsonl` (rows of `mansard bench hydro`), `triple-point.jsonl` (last lines of runs of the triple point) and
`verify.jsonl` (`examples.hydrodynamics.verify`) in each folder, and writes `summary.md` and `plots/hydro.png` into the
first one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mansard.bench.plots import COLOURS, style
from mansard.bench.table import Table

Row = dict[str, Any]

CORNER_FORCE = ("points", "time step", "forces")  # phases that the dissertation counts as corner force
# method -> seconds of corner force, of conjugate gradients and in all: its table 5.1, on a Xeon
PROFILE = {"2-D Q4-Q3": (198.6, 53.6, 262.7), "2-D Q3-Q2": (72.6, 26.2, 103.7), "3-D Q2-Q1": (90.0, 56.7, 164.0)}
# processor -> kinetic, internal and total energy, and how the total changed: its table 5.3
TRIPLE_POINT = {
    "its CPU": (5.04235968e-01, 9.54576403e00, 1.00500000e01, -9.2192919e-13),
    "its GPU": (5.04186180e-01, 9.54581381e00, 1.00500000e01, -4.9382720e-13),
}


def read(folder: Path, name: str) -> list[Row]:
    """Rows of a file of a folder; the folder's name says where they were measured."""
    path = folder / name
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [{**row, "device": folder.parent.name} for row in rows]


def latest(rows: list[Row]) -> list[Row]:
    """Of several measurements of a case by one contender on one device the last one, in the order of the first."""
    names = ("case", "device", "library", "engine")
    return list({tuple(row.get(name) for name in names): row for row in rows}.values())


def method(row: Row) -> str:
    return f"{row['dim']}-D Q{row['order']}-Q{row['order'] - 1}"


def profile(rows: list[Row]) -> Table:
    """Table 5.1: shares of corner force and conjugate gradients in a step."""
    cells = [(f"{name}, its Xeon", "", f"{force:.1f} s", f"{solver:.1f} s", f"{total:.1f} s", f"{force / total:.0%}",
              f"{solver / total:.0%}") for name, (force, solver, total) in PROFILE.items()]  # fmt: skip
    for row in (row for row in rows if row["engine"] == "mansard"):
        force, solver = sum(row["phases"][name] for name in CORNER_FORCE), row["phases"]["conjugate gradients"]
        total = sum(row["phases"].values())
        cells.append((f"{method(row)}, {row['device']} ({row['library']})", str(row["zones"]), f"{force * 1e3:.2f} ms",
                      f"{solver * 1e3:.2f} ms", f"{total * 1e3:.2f} ms", f"{force / total:.0%}",
                      f"{solver / total:.0%}"))  # fmt: skip
    columns = ("method", "zones", "corner force", "conjugate gradients", "in all", "share of forces", "of CG")
    return Table("Profile of a step (Dong, table 5.1: of a whole run)", columns, cells)


def conservation(rows: list[Row]) -> Table:
    """Table 5.3: energies of the triple point, Q3-Q2, and how much the total changed."""
    cells = [(name, f"{kinetic:.8e}", f"{internal:.8e}", f"{total:.8e}", f"{change:.2e}")
             for name, (kinetic, internal, total, change) in TRIPLE_POINT.items()]  # fmt: skip
    for row in rows:
        kinetic, internal = row["kinetic_energy"], row["internal_energy"]
        cells.append((row["device"], f"{kinetic:.8e}", f"{internal:.8e}", f"{kinetic + internal:.8e}",
                      f"{row['total_energy_drift']:.2e}"))  # fmt: skip
    columns = ("device", "kinetic", "internal", "total", "change")
    return Table("Triple point, Q3-Q2, energies (Dong, table 5.3)", columns, cells)


def products(rows: list[Row]) -> Table:
    """Tall products of the corner forces, each alone, beside the roofline of the device."""
    cells = []
    for row in rows:
        for one in row["products"]:
            moved = (one["read"] + one["written"]) / one["seconds"]
            cells.append((row["case"], row["device"], row["library"], one["name"], f"{one['seconds'] * 1e6:.1f}",
                          f"{moved / 1e9:.0f}", f"{one['flops'] / one['seconds'] / 1e12:.2f}",
                          f"{one['bound'] / one['seconds']:.0%}"))  # fmt: skip
    columns = ("case", "device", "library", "product", "us", "GB/s", "TFLOP/s", "of roofline")
    return Table("Products of the corner forces", columns, cells)


def speedups(rows: list[Row]) -> Table:
    """Figure 5.4: a step of every contender over ours, where both ran the same case on the same machine."""
    ours = {(row["case"], row["device"]): row["median"] for row in reversed(rows) if row["engine"] == "mansard"}
    cells = []
    for row in rows:
        times, rate = row["median"] / ours[row["case"], row["device"]], row["unknowns_steps_per_second"] / 1e6
        cells.append((row["case"], row["device"], f"{row['library']}, {row['engine']}", f"{row['median'] * 1e3:.2f}",
                      f"{row['fastest'] * 1e3:.2f} to {row['slowest'] * 1e3:.2f}", str(row["steps"]), f"{rate:.3g}",
                      f"{times:.1f}", str(row.get("environment", {}).get("date", ""))[:10]))  # fmt: skip
    columns = ("case", "device", "engine", "ms a step", "fastest to slowest", "steps", "10^6 unknowns x steps / s",
               "x ours", "date")  # fmt: skip
    return Table("Time of a step (Dong, figures 5.4 and 5.6: one device instead of ranks)", columns, cells)


def published(rows: list[Row]) -> Table:
    """The nine published runs on every device, and how far their norms are from NumPy's."""
    runs = sorted((row for row in rows if "run" in row), key=lambda row: (row["run"], row["device"]))
    numpy = {row["run"]: row["norm"] for row in runs if row["backend"] == "numpy"}
    cells = []
    for row in runs:
        number, norm = row["run"], row["norm"]
        apart = f"{abs(norm / numpy[number] - 1):.1e}" if number in numpy else ""
        cells.append((str(number), f"{row['device']}, {row['backend']}", str(row["steps"]), f"{norm:.12e}",
                      f"{row['published']:.10e}", "yes" if row["matches"] else "no", str(row["cg_iterations"]),
                      apart))  # fmt: skip
    columns = ("run", "device", "steps", "norm", "published", "all digits and steps", "iterations of CG",
               "apart from NumPy, relatively")  # fmt: skip
    return Table("Published runs (Laghos)", columns, cells)


def figure_of(rows: list[Row]) -> Any:
    """Figures 5.4 to 5.6 in one: time of a step against unknowns, a line per device and engine of 3-D Q2-Q1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplots()
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if method(row) == "3-D Q2-Q1":
            name = f"{row['device']}: {row['library']}, {row['engine']}"
            lines.setdefault(name, []).append((row["unknowns"], row["median"]))
    for number, (name, points) in enumerate(sorted(lines.items())):
        x, y = zip(*sorted(points), strict=True)
        look = style(number) | {"linestyle": "-" if "mansard" in name else "--"}
        look |= {} if number < len(COLOURS) else {"color": "#882255", "marker": "*", "markersize": 8}
        axes.loglog(x, y, label=name, **look)
    axes.set(xlabel="unknowns", ylabel="seconds a step", title="Sedov's blast, 3-D Q2-Q1, RK4")
    axes.grid(True, which="both", alpha=0.3)
    if lines:
        figure.legend(loc="outside right upper", fontsize=8)
    return figure


def draw(rows: list[Row], path: Path) -> None:
    """Write the picture of steps to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure_of(rows).savefig(path, dpi=120)


def main(folders: list[Path]) -> int:
    """Write the page and the picture of the first folder."""
    rows = latest([row for folder in folders for row in read(folder, "hydro.jsonl")])
    energies = [row for folder in folders for row in read(folder, "triple-point.jsonl")]
    verified = [row for folder in folders for row in read(folder, "verify.jsonl")]
    if not rows:
        print(f"no rows in {', '.join(map(str, folders))}: `mansard bench hydro --out FOLDER` measures some")
        return 1
    tables = (speedups(rows), products(rows), profile(rows), conservation(energies), published(verified))
    parts = [f"## {table.title}\n\n{table.markdown()}\n" for table in tables]
    text = "# Hydrodynamics: chapter 5 of Dong's dissertation, measured again\n\n" + "\n".join(parts)
    (folders[0] / "summary.md").write_text(text + "\n![time of a step](plots/hydro.png)\n")
    draw(rows, folders[0] / "plots" / "hydro.png")
    return 0


if __name__ == "__main__":
    sys.exit(main([Path(one) for one in sys.argv[1:]]))
