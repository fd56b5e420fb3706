"""Numbers of Dong's chapter 5 from rows of the application: tables 5.1 and 5.3, figures 5.4 and 5.6."""

from __future__ import annotations

from ..found import Number, experiment, lines, median
from .hydro import PROFILE, latest, method
from .rank_profile import parts
from .scaling import shared, strong

_H200, _XEON = (f"results/{device}/hydro" for device in ("h200", "xeon-avx512-2-cores"))
_CLAIMED = (0.545, 0.765)  # share of corner forces: 55 to 75 % by his text, 76 % in his table


def profile() -> Number:
    """Table 5.1: shares of corner forces, of his methods on a CPU beside his; other rows are in the table alone."""
    cells, cpu = [], dict[str, tuple[int, float]]()
    for device, folder in (("H200", _H200), ("two Xeon cores", _XEON)):
        for row in latest(lines(f"{folder}/hydro.jsonl")):
            if row["engine"] != "mansard" or not row.get("phases"):
                continue
            whole = sum(row["phases"].values())
            cg = row["phases"]["conjugate gradients"]
            share = 1 - cg / whole
            if folder == _XEON and row["library"] == "numpy":  # the largest mesh of a method
                cpu[method(row)] = max(cpu.get(method(row), (0, 0.0)), (row["zones"], share))
            cells.append((row["case"], f"{device}, {row['library']}", f"{1000 * (whole - cg):.1f}", f"{1000 * cg:.1f}",
                          f"{share:.0%}"))  # fmt: skip
    theirs = {name: force / total for name, (force, _, total) in PROFILE.items() if name in cpu}
    shares = ", ".join(f"{cpu[name][1]:.0%} with {name} (his {share:.0%})" for name, share in theirs.items())
    values = {"shares": shares, "least": min(cpu[name][1] for name in theirs)}
    columns = ("case", "device", "corner forces, ms a step", "conjugate gradients, ms", "share of forces")
    holds = all(_CLAIMED[0] <= cpu[name][1] <= _CLAIMED[1] for name in theirs)
    return Number(holds, values, columns, tuple(cells))


def energies() -> Number:
    theirs = {"kinetic": 5.04235968e-01, "internal": 9.54576403}
    (ours,) = lines(f"{_H200}/triple-point.jsonl")
    total = ours["kinetic_energy"] + ours["internal_energy"]
    values = {"total": total, "drift": abs(ours["total_energy_drift"]),
              "apart": abs(ours["kinetic_energy"] / theirs["kinetic"] - 1)}  # fmt: skip
    found = verification()
    return Number(values["drift"] < 1e-12 and abs(total - 10.05) < 1e-12 * 10.05 and found.holds, values | found.values)


def application() -> Number:
    """Figure 5.4: a GPU's step over NumPy's on its host, over CuPy's, and over our own kernels on CPU cores.

    Those were measured on two cores and 8^3 zones. Eight cores are four times as fast at most, and 16^3 zones are eight
    times the work.
    """
    found = {(row["library"], row["engine"]): row["median"] for row in lines(f"{_H200}/hydro.jsonl")
             if row["case"] == "sedov Q2-Q1, 16^3 zones"}  # fmt: skip
    gpu, host, library = found["cupy", "mansard"], found["numpy", "library"], found["cupy", "library"]
    kernels = ("sedov Q2-Q1, 8^3 zones", "numpy", "mansard")
    two = [row["median"] for row in lines(f"{_XEON}/hydro.jsonl")
           if (row["case"], row["library"], row["engine"]) == kernels]  # fmt: skip
    eight = two[-1] * 16**3 / 8**3 / 4
    values = {"host": host / gpu, "library": library / gpu, "ms": 1000 * gpu, "eight": eight / gpu}
    return Number(values["eight"] > 1.9, values)


def verification() -> Number:
    found = lines(f"{_H200}/verify.jsonl")
    right = sum(bool(row["matches"]) for row in found)
    return Number(right == len(found), {"right": right, "count": len(found)})


def gpu_shared() -> Number:
    """Products of Q2-Q1 and Q4-Q3 divided among ranks that share a GPU, and, by later rows, what eight processes take
    beside one that queues the same steps."""
    found = {(row["case"], row["mode"], row["mps"], row["ranks"]): median(row["seconds"])
             for row in lines("results/ranks-h200.jsonl")}  # fmt: skip
    shares = {(case, mode): seconds / found[case, mode, mps, 1]
              for (case, mode, mps, ranks), seconds in found.items() if mps and ranks == 8}  # fmt: skip
    alone = [share for (_, mode), share in shares.items() if mode != "time steps"]
    queued = {row["processes"]: parts(row)["all"] for row in experiment("dong-rank-profile", way="calls")
              if row["name"] != "one rank's part"}  # fmt: skip
    values = {"least": min(alone), "most": max(alone), "agreed": max(shares.values()),
              "queued": queued[max(queued)] / queued[1]}  # fmt: skip
    return Number(values["queued"] > 1.1, values)


def strong_scaling() -> Number:
    """Figure 5.6: one mesh over ranks of a CPU and over ranks that share a GPU, and products over ranks of a GPU."""
    cpu, gpu, products = strong(), shared(), gpu_shared()
    cells = (*(("two Xeon cores", "strong", *line) for line in cpu.cells), *(("one H200", *line) for line in gpu.cells))
    return Number(cpu.holds and gpu.holds and products.holds, cpu.values | gpu.values | products.values,
                  ("device", *gpu.columns), cells)  # fmt: skip
