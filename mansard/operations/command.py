"""`mansard explain solve --m 16 --batch 10000`: which kernels an operation gets, why, and what limits them."""

from __future__ import annotations

import argparse

from ..backends import cpu, cuda, emulated
from ..backends.base import Described
from ..options import add_sizes, size
from ..plan.explain import MACHINES, NOMINAL, Absent, plan_without_arrays, resources_text
from ..plan.plan import Plan
from ..plan.problem import DTYPES
from . import registry
from .sizes import Asked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, registry.help_text()
    parser.add_argument("operation", metavar="operation", help="one of those below")
    add_sizes(parser, size, "1e6 and 2^20 are understood")
    parser.add_argument("--dtype", choices=DTYPES, default="float64", metavar="dtype", help=", ".join(DTYPES))
    parser.add_argument("--layout", choices=("row", "col"), default="row", help="whether rows or columns are adjacent")
    parser.add_argument("--same", action="store_true", help="gram: B is A")
    where = parser.add_mutually_exclusive_group()
    here = "default: the GPU if there is one, else the CPU"
    where.add_argument("--device", choices=("cpu", "cuda", "emulated"), help=here)
    where.add_argument("--arch", choices=tuple(NOMINAL), help="describe a GPU of this architecture, here or not")
    where.add_argument("--machine", choices=tuple(MACHINES), help="describe this GPU by its data sheet, here or not")
    parser.add_argument("--source", action="store_true", help="show the generated text too")


def run(args: argparse.Namespace) -> int:
    """Print the explanation of every step."""
    registry.named(args.operation)
    backend = Absent(MACHINES[args.machine]) if args.machine else backend_of(args.arch, args.device)
    options = {name: getattr(args, name) for name in ("operation", "dtype", "m", "n", "k", "batch", "layout", "same")}
    steps = registry.problems_of(Asked(**options, on_cpu=backend.name == "cpu", device=backend.device))
    for number, (name, problem) in enumerate(steps, start=1):
        if name != args.operation and name != registry.named(args.operation).name:
            print(f"{args.operation}, step {number} of {len(steps)}: {name}")
        called = problem.operation if name == "matmul" and args.batch is not None else name  # a batch, even of one
        _print(plan_without_arrays(problem, backend, called), args.source)
    return 0


def _print(plan: Plan, with_source: bool) -> None:
    print(plan.explain())
    if isinstance(plan.backend, Absent):
        print(f"note     described for an {plan.backend.device.name}, which is not here")
    resources = resources_text(plan)
    if resources:
        print(resources)
    if with_source and plan.source():
        print("\n" + plan.source(), end="")


def backend_of(arch: str | None, device: str | None) -> Described:
    """The backend to explain for; one that is not here is described by its data sheet."""
    if arch:
        here = cuda.unavailable() is None and cuda.backend().device.arch == NOMINAL[arch].arch
        return cuda.backend() if here else Absent(NOMINAL[arch])
    if device == "emulated":
        return emulated.backend()
    if device == "cpu":
        return cpu.backend()
    if cuda.unavailable() is None:
        return cuda.backend()
    return Absent(NOMINAL["sm_90a"]) if device == "cuda" else cpu.backend()
