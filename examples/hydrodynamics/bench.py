"""Time per step and by phase, for `mansard bench hydro`: the same code with Mansard's engine and with the library's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from statistics import median
from typing import Any, NamedTuple

from mansard.bench.table import Table

from .arrays import Arrays
from .forces import Forces
from .points import derivatives, evaluate
from .problems import PROBLEMS
from .start import Flow, prepare
from .steps import Progress, Stepper

PHASES = ("points", "time step", "forces", "conjugate gradients")
_WARM_UP = 2  # steps before the clock: kernels are compiled, graphs recorded
_AGAIN = 100  # steps of a flow in windows of joules: all windows have steps of the same times
_CALLS, _SAMPLES = 8, 5  # of a product: calls between two looks at the clock, and how often


class Case(NamedTuple):
    """A problem on a mesh: zones along an axis are 2^(refine + 1) on the unit square and cube."""

    problem: str
    dim: int
    order: int
    refine: int

    @property
    def name(self) -> str:
        return f"{self.problem} Q{self.order}-Q{self.order - 1}, {2 ** (self.refine + 1)}^{self.dim} zones"


SETS = {
    "quick": "Sedov's blast, 3-D Q2-Q1: 8^3 zones on a CPU, 16^3 on a GPU",
    "sedov": "Sedov's blast, 3-D Q2-Q1 and Q3-Q2: 8^3 zones on a CPU, 32^3 on a GPU",
    "methods": "Sedov's blast by several methods: 2-D Q3-Q2, 2-D Q4-Q3, 3-D Q2-Q1, 3-D Q4-Q3",
    "zones": "Sedov's blast, 3-D Q2-Q1, from 4^3 zones on",
}


def cases(name: str, device: str) -> list[Case]:
    """The cases of a set; GPUs get larger meshes."""
    gpu = device == "cuda"
    if name == "quick":
        return [Case("sedov", 3, 2, 3 if gpu else 2)]
    if name == "sedov":
        return [Case("sedov", 3, order, 4 if gpu else 2) for order in (2, 3)]
    if name == "methods":
        flat, solid = (5, 3) if gpu else (3, 1)
        return [Case("sedov", 2, 3, flat), Case("sedov", 2, 4, flat), Case("sedov", 3, 2, solid),
                Case("sedov", 3, 4, solid)]  # fmt: skip
    return [Case("sedov", 3, 2, refine) for refine in range(1, 5 if gpu else 3)]


def contenders(device: str, peers: bool) -> list[tuple[str, str]]:
    """Array library and engine; without peers only Mansard's engine."""
    libraries = ("cupy", "torch", "numpy") if device == "cuda" else ("numpy", "torch")
    engines = ("mansard", "library") if peers else ("mansard",)
    found = [(library, engine) for library in libraries for engine in engines if _is_there(library)]
    return [one for one in found if device == "cpu" or one != ("numpy", "mansard")]


def _is_there(library: str) -> bool:
    try:
        __import__(library)
    except ImportError:
        return False
    return True


def measure(case: Case, contender: tuple[str, str], steps: int = 7, seconds: float = 20.0) -> dict[str, Any]:
    """A row: median and spread of the time of a step, its phases, and rates as the field reports them.

    At least one step is measured; more follow until there are `steps` of them or `seconds` have passed.
    """
    arrays, started = Arrays(*contender), time.perf_counter()
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
        "products": list(_products(flow)) if arrays.engine == "mansard" else [],
    }  # fmt: skip


def work(case: Case, contender: tuple[str, str]) -> Callable[[], Any]:
    """One step as a call, for windows of joules; after `_AGAIN` steps the flow begins again at time zero."""
    flow = prepare(PROBLEMS[case.problem], case.dim, case.refine, case.order, Arrays(*contender))
    stepper = Stepper(flow)
    stepper.clock.runs = False
    steps = (step for _ in count() for step in stepper.run(Progress(flow.state), float("inf"), _AGAIN))
    return lambda: next(steps)


class Clocked(NamedTuple):
    """Times of tries of a step (accepted or rejected), in seconds."""

    steps: list[float]
    phases: dict[str, float]  # per try
    iterations: float  # of conjugate gradients, per solve


def _clocked(flow: Flow, steps: int, seconds: float) -> Clocked:
    """Steps by the clock. On a GPU phases are timed in other steps, for each of them has to wait for the device."""
    stepper, progress = Stepper(flow), Progress(flow.state)
    taken = stepper.run(progress, float("inf"))
    apart = flow.arrays.on_gpu
    for _ in range(_WARM_UP if flow.arrays.engine == "mansard" else int(apart)):
        next(taken)  # the library alone compiles nothing; on a GPU its first step records graphs
    stepper.clock.runs = not apart
    stepper.clock.seconds.clear()
    rejected, iterations, times = stepper.rejected, stepper.forces.solver.iterations, []
    begin = time.perf_counter()
    while len(times) < steps and (not times or time.perf_counter() - begin < seconds):
        before, started = stepper.rejected, time.perf_counter()
        next(taken)
        flow.arrays.wait()
        times.append((time.perf_counter() - started) / (1 + stepper.rejected - before))
    if apart:
        stepper.clock.runs, rejected, iterations = True, stepper.rejected, stepper.forces.solver.iterations
        for _ in times:
            next(taken)
    tries = len(times) + stepper.rejected - rejected
    phases = {name: stepper.clock.seconds[name] / tries for name in PHASES}
    return Clocked(times, phases, (stepper.forces.solver.iterations - iterations) / (4 * tries))


def _products(flow: Flow) -> Iterator[dict[str, Any]]:
    """The products of the corner forces, each alone: seconds, least traffic in bytes, flops."""
    points, forces = evaluate(flow, flow.state), Forces(flow)
    zones, nodes = flow.mesh.zones.shape
    rows = flow.tables.gradients.shape[0]
    small, large = 8 * zones * nodes * flow.dim, 8 * zones * rows * flow.dim  # bytes at nodes and at points
    flops = 2 * zones * rows * nodes * flow.dim
    calls: tuple[tuple[str, Callable[[], Any], int, int], ...] = (
        ("derivatives", lambda: derivatives(flow, flow.state.x), small, large),
        ("corner forces", lambda: forces.of_zones(points), large, small),
    )
    for name, call, read, written in calls:
        yield {"name": name, "seconds": _median(call, flow), "read": read, "written": written, "flops": flops}


def _median(call: Callable[[], Any], flow: Flow) -> float:
    times = []
    for _ in range(1 + _SAMPLES):
        flow.arrays.wait()
        started = time.perf_counter()
        for _ in range(_CALLS):
            call()
        flow.arrays.wait()
        times.append((time.perf_counter() - started) / _CALLS)
    return median(times[1:])


def table(rows: list[dict[str, Any]]) -> Table:
    """A line per case and contender: a step, its phases, and how much faster Mansard's engine is."""
    ours = {row["case"]: row["median"] for row in reversed(rows) if row["engine"] == "mansard"}
    cells = []
    for row in rows:
        phases = (f"{row['phases'][name] * 1e3:.2f}" for name in PHASES)
        shares = (f"{product['name']} {product['bound'] / product['seconds']:.0%}" for product in row["products"])
        rate, times = row["unknowns_steps_per_second"] / 1e6, row["median"] / ours[row["case"]]
        cells.append((row["case"], f"{row['library']}, {row['engine']}", f"{row['median'] * 1e3:.2f}", *phases,
                      f"{rate:.3g}", f"{times:.2f}", "; ".join(shares)))  # fmt: skip
    columns = ("case", "engine", "ms a step", *PHASES, "10^6 unknowns x steps / s", "x ours", "of roofline")
    return Table("Hydrodynamics: time of a step and of its phases (ms)", columns, cells)
