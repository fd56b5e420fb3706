"""Time per step and by phase, for `mansard bench hydro`: the same code with Mansard's engine and with the library's."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, NamedTuple

from .arrays import Arrays
from .problems import PROBLEMS
from .start import Flow, prepare
from .steps import Progress, Stepper

PHASES = ("points", "time step", "forces", "conjugate gradients")
_WARM_UP = 2  # steps before the clock: kernels are compiled, graphs recorded


class Case(NamedTuple):
    """A problem on a mesh: zones along an axis are 2^(refine + 1) on the unit square and cube."""

    problem: str
    dim: int
    order: int
    refine: int

    @property
    def name(self) -> str:
        return f"{self.problem} {self.dim}-D Q{self.order}-Q{self.order - 1}"


class Clocked(NamedTuple):
    """Times of tries of a step (accepted or rejected), in seconds."""

    steps: list[float]
    phases: dict[str, float]  # per try
    iterations: float  # of conjugate gradients, per solve


def measure(case: Case, arrays: Arrays, steps: int = 7, seconds: float = 20.0) -> dict[str, Any]:
    """A row: median and spread of the time of a step, its phases, and rates as the field reports them."""
    started = time.perf_counter()
    flow = prepare(PROBLEMS[case.problem], case.dim, case.refine, case.order, arrays)
    prepared = time.perf_counter() - started
    clocked = _clocked(flow, steps, seconds)
    one = median(clocked.steps)
    unknowns = 2 * flow.mesh.nodes.size + flow.state.e.shape[0] * flow.state.e.shape[1]
    return {
        "case": case.name, "problem": case.problem, "dim": case.dim, "order": case.order, "zones": len(flow.mesh.zones),
        "library": arrays.library, "engine": arrays.engine, "steps": len(clocked.steps),
        "median": one, "fastest": min(clocked.steps), "slowest": max(clocked.steps),
        "phases": clocked.phases, "cg_iterations": clocked.iterations, "unknowns": unknowns,
        "unknowns_steps_per_second": unknowns / one, "preparation": prepared,
    }  # fmt: skip


def _clocked(flow: Flow, steps: int, seconds: float) -> Clocked:
    """Steps without a look at phases, as a run takes them, then as many with."""
    stepper, progress = Stepper(flow), Progress(flow.state)
    taken = stepper.run(progress, float("inf"))
    for _ in range(_WARM_UP):
        next(taken)
    stepper.clock.runs = False
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < steps and (len(times) < 1 or time.perf_counter() - begin < seconds):
        before, started = stepper.rejected, time.perf_counter()
        next(taken)
        flow.arrays.wait()
        times.append((time.perf_counter() - started) / (1 + stepper.rejected - before))
    stepper.clock.runs, rejected, iterations = True, stepper.rejected, stepper.forces.solver.iterations
    stepper.clock.seconds.clear()
    for _ in times:
        next(taken)
    tries = len(times) + stepper.rejected - rejected
    phases = {name: stepper.clock.seconds[name] / tries for name in PHASES}
    return Clocked(times, phases, (stepper.forces.solver.iterations - iterations) / (4 * tries))
