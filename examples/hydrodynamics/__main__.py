"""`python -m examples.hydrodynamics`: run one of the problems."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import output
from .arrays import ENGINES, LIBRARIES, Arrays
from .problems import PROBLEMS
from .start import Flow, energies, norm, prepare
from .steps import Progress, Stepper, summary


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m examples.hydrodynamics", description="Lagrangian hydrodynamics on batched kernels."
    )
    add = made.add_argument
    add("--problem", choices=sorted(PROBLEMS), default="sedov")
    add("--dim", type=int, choices=(1, 2, 3), default=2)
    add("--refine", type=_whole(0), default=2, help="times that every interval of the mesh is halved")
    text = "degree k of positions and velocities; energies have k - 1"
    add("--order", type=int, choices=(1, 2, 3, 4), default=2, help=text)
    add("--final-time", type=_positive, help="default: the problem's own")
    add("--steps", type=_whole(0), help="stop after so many")
    add("--integrator", choices=("rk4", "rk2avg"), default="rk4", help="rk2avg keeps the total energy")
    add("--cfl", type=_positive, default=0.5)
    add("--cg-tolerance", type=_positive, default=1e-8)
    add("--cg-iterations", type=_whole(1), default=300)
    add("--blast-energy", type=_positive, default=1.0, help="of sedov")
    add("--backend", choices=LIBRARIES, default="numpy")
    add("--engine", choices=ENGINES, default="mansard", help="library: the array library alone, to compare with")
    add("--checkpoint", type=Path, help="written every --every steps and at the end; continued from if it is there")
    add("--every", type=_whole(1), default=100, help="steps between lines of progress and checkpoints")
    add("--plot", type=Path, help="picture of density and mesh at the end")
    add("--json", action="store_true", help="a last line of JSON")
    return made


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return int(text)

    return number


def main(arguments: list[str] | None = None) -> int:
    """Run, tell how it goes, and say what came out."""
    options = parser().parse_args(arguments)
    try:
        flow = prepare(
            PROBLEMS[options.problem], options.dim, options.refine, options.order,
            Arrays(options.backend, options.engine), blast_energy=options.blast_energy,
        )  # fmt: skip
        return _run(flow, options)
    except (ValueError, RuntimeError, ImportError, OSError, MemoryError) as error:
        print(f"hydrodynamics: {error}", file=sys.stderr)
        return 1


def _run(flow: Flow, options: argparse.Namespace) -> int:
    names = ("problem", "dim", "refine", "order", "integrator", "cfl", "cg_tolerance", "blast_energy")
    settings = json.dumps({name: getattr(options, name) for name in names})
    resumes = options.checkpoint is not None and options.checkpoint.exists()
    progress = output.load(options.checkpoint, flow, settings) if resumes else Progress(flow.state)
    stepper = Stepper(
        flow,
        options.integrator,
        options.cfl,
        options.cg_tolerance,
        options.cg_iterations,
        lambda line: print(line, flush=True),
    )
    before, started = sum(energies(flow, flow.state)), time.perf_counter()
    final = flow.problem.final_time if options.final_time is None else options.final_time
    interrupted = False
    try:
        for _ in stepper.run(progress, final, options.steps):
            if progress.step % options.every == 0:
                print(summary(progress, flow), flush=True)
                if options.checkpoint:
                    output.save(options.checkpoint, progress, flow, settings)
    except KeyboardInterrupt:
        interrupted = True
    finally:  # whatever ended the run, the last step that was accepted is kept
        if options.checkpoint and progress.step:
            output.save(options.checkpoint, progress, flow, settings)
    seconds = time.perf_counter() - started
    if options.plot:
        output.plot(options.plot, flow, progress)
    print(f"{summary(progress, flow)}{'  (interrupted)' if interrupted else ''}", flush=True)
    if options.json:
        print(json.dumps(_found(flow, progress, stepper, before, seconds)), flush=True)
    return 130 if interrupted else 0


def _found(flow: Flow, progress: Progress, stepper: Stepper, before: float, seconds: float) -> dict[str, object]:
    internal, kinetic = energies(flow, progress.state)
    return {
        "steps": progress.step, "dt": progress.dt, "time": progress.time, "energy_norm": norm(flow, progress.state),
        "total_energy_drift": internal + kinetic - before, "internal_energy": internal, "kinetic_energy": kinetic,
        "rejected": stepper.rejected, "cg_iterations": stepper.forces.solver.iterations, "zones": len(flow.mesh.zones),
        "unknowns": 2 * flow.mesh.nodes.size + int(flow.state.e.shape[0] * flow.state.e.shape[1]),
        "seconds": {**stepper.clock.seconds, "all": seconds},
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
