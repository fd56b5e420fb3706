"""The published values of the method, and whether they come out: `python -m examples.hydrodynamics.verify --help`.

Checks: eight problems on 2 x 2 (x 2) zones, at a step early and late; the values have 16 digits, 1e-13 is asked for.
Runs: the table that the public proxy application Laghos is verified by; 11 digits of the norm, and the number of steps.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .arrays import ENGINES, LIBRARIES, Arrays
from .mesh import UNIT
from .problems import PROBLEMS
from .start import norm, prepare
from .steps import Progress, Stepper

_CHECK_TOLERANCE = 1e-13

# problem -> (step, norm) twice in two dimensions, then in three
CHECKS: dict[str, tuple[tuple[int, float], ...]] = {
    "taylor-green": ((5, 6.546538624534384), (27, 7.588576357792927), (5, 1198.510951452527), (188, 1199.384410059154)),
    "sedov": ((5, 3.508254945225794), (15, 2.756444596823211), (5, 6.695818592962833), (20, 4.267902387082487)),
    "sod": ((5, 10.20745795651244), (59, 17.21590205901898), (5, 20.41491591302486), (59, 34.43180411803796)),
    "triple-point": ((5, 8.0), (16, 8.0), (5, 16.0), (16, 16.0)),
    "gresho": ((5, 34.46324942352448), (18, 34.46844033767240), (5, 68.92649884704898), (18, 68.93688067534482)),
    "riemann-12": ((5, 10.30899557252528), (36, 10.57362418574309), (5, 20.61984481890964), (36, 21.14519664792607)),
    "riemann-6": ((5, 8.039707010835693), (36, 8.316970976817373), (5, 16.07988713996459), (36, 16.62736010353023)),
    "rayleigh-taylor": (
        (5, 15.14929259650760), (25, 15.14931278155159), (5, 30.29858112572883), (24, 30.29858832743707),
    ),
}  # fmt: skip


class Run(NamedTuple):
    """A line of the published table."""

    problem: str
    dim: int
    refine: int
    final_time: float
    steps: int
    dt: float  # last one, six decimals
    norm: float
    order: int = 2
    integrator: str = "rk4"
    blast_energy: float = 1.0


RUNS = {
    1: Run("taylor-green", 2, 3, 0.75, 339, 0.000702, 4.9695537349e01),
    2: Run("taylor-green", 3, 1, 0.75, 1041, 0.000121, 3.3909635545e03),
    3: Run("sedov", 2, 3, 0.8, 1154, 0.001655, 4.6303396053e01),
    4: Run("sedov", 3, 2, 0.6, 560, 0.002449, 1.3408616722e02, blast_energy=2.0),
    5: Run("sod", 1, 5, 0.2, 413, 0.000470, 3.2012077410e01),
    6: Run("triple-point", 2, 2, 3.0, 2872, 0.000064, 5.6547039096e01),
    7: Run("triple-point", 3, 1, 5.0, 858, 0.000474, 5.6691500623e01),
    8: Run("gresho", 2, 3, 0.62831853, 776, 0.000045, 4.0982431726e02, order=3, integrator="rk2avg"),
    9: Run("rayleigh-taylor", 2, 1, 4.0, 2462, 0.000050, 1.1792848680e02, order=4),
}


def check(problem: str, dim: int, arrays: Arrays) -> list[tuple[int, float, float]]:
    """(step, norm here, published norm) of one problem, conjugate gradients to 1e-14."""
    flow = prepare(PROBLEMS[problem], dim, arrays=arrays, mesh=UNIT[dim])
    stepper, progress, found = Stepper(flow, tolerance=1e-14), Progress(flow.state), []
    wanted = dict(CHECKS[problem][2 * (dim - 2) : 2 * dim - 2])
    for _ in stepper.run(progress, 0.6, max(wanted)):
        if progress.step in wanted:
            found.append((progress.step, norm(flow, progress.state), wanted.pop(progress.step)))
    # A gas at rest allows exactly the step that it takes: the last bit decides how many there are.
    return found + [(progress.step, norm(flow, progress.state), size) for size in wanted.values()]


def run(number: int, arrays: Arrays) -> dict[str, Any]:
    """One line of the table, ours beside the published one."""
    wanted, started = RUNS[number], time.perf_counter()
    flow = prepare(
        PROBLEMS[wanted.problem], wanted.dim, wanted.refine, wanted.order, arrays, blast_energy=wanted.blast_energy
    )
    stepper, progress = Stepper(flow, wanted.integrator), Progress(flow.state)
    for _ in stepper.run(progress, wanted.final_time):
        pass
    found = norm(flow, progress.state)
    return {
        "run": number, "steps": progress.step, "dt": progress.dt, "norm": found, "published": wanted.norm,
        "apart": abs(found / wanted.norm - 1), "rejected": stepper.rejected,
        "matches": _printed(progress.step, progress.dt, found) == _printed(wanted.steps, wanted.dt, wanted.norm),
        "cg_iterations": stepper.forces.solver.iterations, "seconds": time.perf_counter() - started,
        "phases": dict(stepper.clock.seconds),
    }  # fmt: skip


def _printed(steps: int, dt: float, size: float) -> tuple[int, str, str]:
    """As the table is printed."""
    return steps, f"{dt:.6f}", f"{size:.10e}"


def checks(arrays: Arrays) -> Iterator[dict[str, Any]]:
    """The 32 values, one by one."""
    for problem in CHECKS:
        for dim in (2, 3):
            for step, ours, published in check(problem, dim, arrays):
                apart = abs(ours / published - 1)
                yield {"check": problem, "dim": dim, "step": step, "norm": ours, "published": published,
                       "apart": apart, "matches": apart < _CHECK_TOLERANCE}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m examples.hydrodynamics.verify", description=__doc__)
    made.add_argument("--runs", type=_numbers, default=(), help="lines of the table, 1 to 9: 1,3,5, or all")
    made.add_argument("--checks", action="store_true", help="the 32 check values (what is done without --runs)")
    made.add_argument("--backend", choices=LIBRARIES, default="numpy")
    made.add_argument("--engine", choices=ENGINES, default="mansard")
    made.add_argument("--out", type=Path, help="append the lines to this file, too")
    return made


def _numbers(text: str) -> tuple[int, ...]:
    if text == "all":
        return tuple(RUNS)
    try:
        numbers = tuple(int(one) for one in text.split(","))
    except ValueError:
        numbers = (0,)
    if not set(numbers) <= set(RUNS):
        raise argparse.ArgumentTypeError(f"{text!r}: runs are 1 to {max(RUNS)}, as in 1,3,5, or all")
    return numbers


def main(arguments: list[str] | None = None) -> int:
    """All that was asked for, a line of JSON each; 1 if something differs."""
    options = parser().parse_args(arguments)
    arrays, good = Arrays(options.backend, options.engine), True
    wants_checks = options.checks or not options.runs
    for found in chain(checks(arrays) if wants_checks else (), (run(number, arrays) for number in options.runs)):
        good &= found["matches"]
        line = json.dumps({"backend": options.backend, "engine": options.engine, **found})
        print(line, flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(line + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
