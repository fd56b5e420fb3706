"""Power and energy of the application's two parts, corner forces and conjugate gradients (Dong, figure 5.8, table 5.4).

    python -m papers.dong.application_power --out results/h200-energy/application.jsonl [--seconds 5] [--trials 3]

Sedov's blast in three dimensions with Q2-Q1 elements, by Mansard's operations and by the array library alone. Each part
is repeated on the state at time zero, where the gas is at rest, for a window of some seconds, as often as there are
trials. A call of corner forces is one evaluation of all points, the load of the nodes and the heating; one of conjugate
gradients solves for that load, from zero. Both engines do the same calls. Windows that the file has already,
of the same commit and length, are not measured again: an interrupted run continues.
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
PARTS = ("corner forces", "conjugate gradients")
_REST = 1.0  # seconds before a window: the board cools down a little, clocks recover
_STEPS = 2  # of the flow before anything is measured: kernels are compiled


def parts(flow: Flow) -> dict[str, Callable[[], Any]]:
    """The two parts of a step, each as a call on the state that the flow begins with."""
    forces = Forces(flow)
    points = evaluate(flow, flow.state)
    load = forces.load(points)

    def corner_forces() -> None:
        found = evaluate(flow, flow.state)
        forces.load(found)
        forces.heating(flow.state, found)

    return dict(zip(PARTS, (corner_forces, lambda: forces.acceleration(load)), strict=True))


def windows(rows: list[dict[str, Any]], about: dict[str, Any]) -> set[tuple[str, int]]:
    """Part and trial of the rows that were measured in the same way: engine, mesh, window and commit agree."""
    return {(row["part"], row["trial"]) for row in rows if all(row.get(name) == about[name] for name in about)}


def measure(given: argparse.Namespace, engine: str, keep: Callable[[dict[str, Any]], None],
            known: list[dict[str, Any]]) -> None:  # fmt: skip
    """Rows of both parts, one per window, each kept as soon as it is there; those that are known are left out."""
    library, refine = "cupy" if given.device == "cuda" else "numpy", given.refine
    about = {"case": f"sedov Q2-Q1, {2 ** (refine + 1)}^3 zones", "library": library, "engine": engine,
             "window": given.seconds, "commit": given.commit}  # fmt: skip
    done = windows(known, about)
    if len(done) >= len(PARTS) * given.trials:
        return
    flow = prepare(PROBLEMS["sedov"], 3, refine, 2, Arrays(library, engine))
    taken = Stepper(flow).run(Progress(flow.state), float("inf"))
    for _ in range(_STEPS):
        next(taken)
    for part, call in parts(flow).items():
        call()
        for trial in (trial for trial in range(given.trials) if (part, trial) not in done):
            flow.arrays.wait()
            time.sleep(_REST)
            with metered(given.device) as used:
                calls, begin = 0, time.perf_counter()
                while time.perf_counter() - begin < given.seconds:
                    call()
                    calls += 1
                    flow.arrays.wait()
            keep({
                **about, "part": part, "trial": trial, "calls": calls, "seconds": used.seconds, "joules": used.joules,
                "net_joules": used.net_joules, "watts": used.watts, "idle_watts": used.idle_watts, "why": used.why,
                "state": used.state, "date": str(date.today()),
            })  # fmt: skip


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
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []

    def keep(row: dict[str, Any]) -> None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        each = row["joules"] / row["calls"]
        print(f"{row['part']}, {row['engine']}: {row['watts']:.0f} W, {each:.3g} J a call {row['why']}", flush=True)

    for engine in given.engines.split(","):
        measure(given, engine, keep, known)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
