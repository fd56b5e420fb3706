"""Power and energy of the application's two parts, corner forces and conjugate gradients (Dong, figure 5.8, table 5.4).

    python -m papers.dong.application_power --out results/h200-energy/application.jsonl [--seconds 5] [--trials 3]

Sedov's blast in three dimensions with Q2-Q1 elements, by Mansard's operations and by the array library alone. Each part
is repeated on one state for a window of some seconds, as often as there are trials.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from examples.hydrodynamics.arrays import Arrays
from examples.hydrodynamics.forces import Forces
from examples.hydrodynamics.points import evaluate
from examples.hydrodynamics.problems import PROBLEMS
from examples.hydrodynamics.start import Flow, prepare
from examples.hydrodynamics.steps import Progress, Stepper
from mansard.bench.energy import metered

ENGINES = ("mansard", "library")
_REST = 1.0  # seconds before a window: the board cools down a little, clocks recover
_STEPS = 2  # of the flow before anything is measured: kernels are compiled, velocities are not zero


def parts(flow: Flow) -> dict[str, Callable[[], Any]]:
    """The two parts of a step, each as a call on the flow's present state."""
    forces = Forces(flow)
    points = evaluate(flow, flow.state)
    load = forces.load(points)

    def corner_forces() -> None:
        found = evaluate(flow, flow.state)
        forces.load(found)
        forces.heating(flow.state, found)

    return {"corner forces": corner_forces, "conjugate gradients": lambda: forces.acceleration(load)}


def measure(device: str, library: str, engine: str, refine: int, seconds: float, trials: int) -> list[dict[str, Any]]:
    """Rows of both parts, one per window."""
    flow = prepare(PROBLEMS["sedov"], 3, refine, 2, Arrays(library, engine))
    taken = Stepper(flow).run(Progress(flow.state), float("inf"))
    for _ in range(_STEPS):
        next(taken)
    rows = []
    for part, call in parts(flow).items():
        call()
        for trial in range(trials):
            flow.arrays.wait()
            time.sleep(_REST)
            with metered(device) as used:
                calls, begin = 0, time.perf_counter()
                while time.perf_counter() - begin < seconds:
                    call()
                    calls += 1
                    flow.arrays.wait()
            rows.append({
                "case": f"sedov Q2-Q1, {2 ** (refine + 1)}^3 zones", "library": library, "engine": engine, "part": part,
                "trial": trial, "calls": calls, "seconds": used.seconds, "joules": used.joules,
                "net_joules": used.net_joules, "watts": used.watts, "idle_watts": used.idle_watts, "why": used.why,
                "state": used.state, "date": str(date.today()),
            })  # fmt: skip
    return rows


def main(arguments: list[str] | None = None) -> int:
    program = "python -m papers.dong.application_power"
    parser = argparse.ArgumentParser(prog=program, description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--refine", type=int, default=4, help="zones along an axis are 2^(refine + 1) (default: 4)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a window (default: 5)")
    parser.add_argument("--trials", type=int, default=3, help="windows per part (default: 3)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma list of mansard and library")
    parser.add_argument("--commit", help="the commit that these sources are from")
    parser.add_argument("--out", type=Path, required=True, help="file that rows are appended to")
    given = parser.parse_args(arguments)
    library = "cupy" if given.device == "cuda" else "numpy"
    for engine in given.engines.split(","):
        for row in measure(given.device, library, engine, given.refine, given.seconds, given.trials):
            with given.out.open("a") as file:
                file.write(json.dumps(row | {"commit": given.commit}) + "\n")
            each = row["joules"] / row["calls"]
            print(f"{row['part']}, {engine}: {row['watts']:.0f} W, {each:.3g} J a call {row['why']}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
