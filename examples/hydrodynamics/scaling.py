"""`python -m examples.hydrodynamics.scaling --ranks 1,2,4`: weak and strong scaling of a step over ranks.

Weak: every rank has a mesh of its own size, stacked on that of the rank below. Strong: one mesh is divided. The command
starts mpiexec for each number of ranks; each launch appends its rows to `scaling.jsonl`. Every sample is the same few
steps from time zero. Beside each sample of weak scaling every rank runs one mesh alone, all of them at the same time:
what these lose is the machine's doing (memory bandwidth, cores that are not there), the rest is that of messages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from mansard import __version__, settings
from mansard.backends.select import select
from mansard.bench.scale.launch import counts_of, launch
from mansard.bench.table import Table
from mansard.distributed import Communicator
from mansard.errors import MansardError

from .arrays import ENGINES, LIBRARIES, Arrays
from .problems import PROBLEMS
from .ranks import RankStepper, divided
from .start import prepare
from .steps import Progress

ROWS = "scaling.jsonl"
_SECONDS = 900.0  # of a launch, at most
_WARM = 1  # steps before the first sample: kernels are compiled
_SOLVER = ("cfl", "cg_tolerance", "cg_iterations")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m examples.hydrodynamics.scaling", description=str(__doc__).splitlines()[0]
    )
    add = made.add_argument
    add("--ranks", default="1,2,4", help="comma list of numbers of ranks")
    add("--problem", choices=sorted(PROBLEMS), default="sedov")
    add("--dim", type=int, choices=(2, 3), default=3)
    add("--order", type=int, choices=(1, 2, 3, 4), default=2)
    add("--refine", type=int, default=2, help="times that intervals of the mesh are halved: of a rank's, or of all")
    add("--steps", type=int, default=5, help="in a sample (default: 5, as the thesis counts cycles)")
    add("--samples", type=int, default=5)
    add("--cfl", type=float, default=0.5)
    add("--cg-tolerance", type=float, default=1e-8)
    add("--cg-iterations", type=int, default=300)
    add("--backend", choices=LIBRARIES, default="numpy", help="several ranks may share a GPU")
    add("--engine", choices=ENGINES, default="mansard", help="library: the array library alone")
    add("--note", default="", help="what else the rows should say, such as that the machine was busy")
    add("--commit", default="", help="the commit that these sources are from")
    add("--out", type=Path, default=Path("report") / "hydro", help=f"folder of {ROWS}, which is appended to")
    add("--table", action="store_true", help="measure nothing, show the rows of the folder")
    return made


class Run:
    """A flow on the ranks of a communicator; a call takes the steps of one sample from time zero."""

    def __init__(self, given: argparse.Namespace, comm: Communicator, stacked: int) -> None:
        with comm.call("hydrodynamics"):
            arrays = Arrays(given.backend, given.engine)
            whole = prepare(PROBLEMS[given.problem], given.dim, given.refine, given.order, arrays, stacked=stacked)
            self.flow, self.first = divided(whole, comm)
        self.comm, self.zones = comm, len(whole.mesh.zones)
        self.unknowns = 2 * whole.mesh.nodes.size + int(whole.state.e.size)
        self.options = [getattr(given, name) for name in _SOLVER]
        self.iterations = self.messages = 0

    def __call__(self, steps: int) -> list[float]:
        """Seconds of so many steps: all of them, those of waiting for messages, those of conjugate gradients."""
        stepper = RankStepper(self.flow, self.comm, self.first, "rk4", *self.options)
        progress, before = Progress(self.flow.state), sum(self.comm.messages[kind] for kind in ("gather", "halo"))
        waited, begin = self.comm.waiting, time.perf_counter()
        for _ in stepper.run(progress, float("inf"), steps):
            pass
        self.flow.arrays.wait()
        took = time.perf_counter() - begin
        self.iterations = stepper.forces.solver.iterations
        self.messages = sum(self.comm.messages[kind] for kind in ("gather", "halo")) - before
        return [took, self.comm.waiting - waited, stepper.clock.seconds["conjugate gradients"]]


def measure(given: argparse.Namespace, world: Any, own: Any) -> list[dict[str, Any]]:
    """Rows of weak and of strong scaling on the ranks of `world`; `own` is a communicator of this rank alone."""
    comm, single = Communicator.of(world), Communicator.of(own)
    with comm.call("hydrodynamics"):
        Arrays(given.backend, given.engine).use_device(comm.rank)
    weak, alone = Run(given, comm, comm.size), Run(given, single, 1)
    strong = Run(given, comm, 1)
    for run in (weak, alone, strong):
        run(_WARM)
    taken: dict[str, list[np.ndarray]] = {"weak": [], "alone": [], "strong": []}
    turn = (("weak", weak), ("alone", alone), ("strong", strong))
    for sample in range(given.samples):
        for name, run in turn[:: -1 if sample % 2 else 1]:  # in turn: what disturbs the machine disturbs all of them
            world.Barrier()
            taken[name].append(comm.gather(np.array(run(given.steps)) / given.steps, "seconds").max(axis=0))
    rows = []
    for name, run in (("weak", weak), ("strong", strong)):
        found = np.array(taken[name])
        row = {"scaling": name, "ranks": comm.size, "zones": run.zones, "unknowns": run.unknowns,
               "seconds": found[:, 0].tolist(), "waiting": found[:, 1].tolist(), "gradients": found[:, 2].tolist(),
               "cg_iterations": run.iterations / given.steps, "messages": run.messages / given.steps}  # fmt: skip
        rows.append(row | ({"alone": [float(one[0]) for one in taken["alone"]]} if name == "weak" else {}))
    return rows


def _facts(given: argparse.Namespace) -> dict[str, Any]:
    """The columns that all rows of one launch share: the problem, the machine, the date."""
    where = "cuda" if given.backend == "cupy" else "cpu"
    return {
        "problem": given.problem, "dim": given.dim, "order": given.order, "refine": given.refine, "steps": given.steps,
        "backend": given.backend, "engine": given.engine,
        "device": select((where, 0), None).device.name, "cores": os.cpu_count(), "system": platform.machine(),
        "threads": settings.current().threads, "load": round(os.getloadavg()[0], 2), "note": given.note,
        "date": time.strftime("%Y-%m-%d"), "version": __version__, "commit": given.commit,
    }  # fmt: skip


def _arrays(row: dict[str, Any]) -> str:
    return f"{row.get('backend', 'numpy')}, {row.get('engine', 'mansard')}"


def _kind(row: dict[str, Any]) -> tuple[Any, ...]:
    """What rows share that are measured against the same single rank."""
    return row["scaling"], _arrays(row), *(row.get(name) for name in ("problem", "dim", "order", "refine", "device"))


def table(rows: list[dict[str, Any]]) -> Table:
    """A line per kind of scaling and number of ranks: the best sample, and efficiencies by medians."""
    base = {_kind(row): median(row["seconds"]) for row in reversed(rows) if row["ranks"] == 1}
    cells = []
    for row in rows:
        took, ranks = median(row["seconds"]), row["ranks"]
        ideal = base.get(_kind(row), float("nan")) / (1 if row["scaling"] == "weak" else ranks)
        alone = f"{median(row['alone']) / took:.0%}" if "alone" in row else ""
        cells.append((row["scaling"], _arrays(row), str(ranks), f"{row['zones']:,}", f"{1e3 * took:.0f}",
                      f"{1e3 * min(row['seconds']):.0f} to {1e3 * max(row['seconds']):.0f}",
                      f"{1e3 * median(row['waiting']):.0f}", f"{row['cg_iterations']:.0f}", f"{row['messages']:.0f}",
                      f"{ideal / took:.0%}", alone))  # fmt: skip
    columns = ("scaling", "arrays", "ranks", "zones", "ms a step, median", "least to most", "of which waiting",
               "iterations of CG a step", "messages of a rank a step", "efficiency over 1 rank",
               "over ranks that run alone at the same time")  # fmt: skip
    return Table("Hydrodynamics over ranks (ms of the slowest rank)", columns, cells)


def _as_rank(given: argparse.Namespace) -> None:
    from mpi4py import MPI

    rows, facts = measure(given, MPI.COMM_WORLD, MPI.COMM_SELF), _facts(given)
    if MPI.COMM_WORLD.rank == 0:
        given.out.mkdir(parents=True, exist_ok=True)
        with (given.out / ROWS).open("a") as file:
            file.writelines(json.dumps(row | facts) + "\n" for row in rows)


def main(arguments: list[str] | None = None) -> int:
    """Launch every number of ranks, or be one of the ranks; then show the table of all rows of the folder."""
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser().parse_args(arguments)
    try:
        if settings.current().launched_ranks:
            _as_rank(given)
            return 0
        for count in [] if given.table else counts_of(given.ranks):
            print(f"{count} rank{'s' * (count > 1)}", flush=True)
            launch(count, [sys.executable, "-m", "examples.hydrodynamics.scaling", *arguments], _SECONDS)
    except (MansardError, ValueError) as error:
        print(f"hydrodynamics: {error}", file=sys.stderr)
        return 1
    path = given.out / ROWS
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    print(table(rows).markdown() if rows else f"no rows in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
