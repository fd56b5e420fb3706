"""`mansard explain`: which kernel a problem gets, why, and what limits it, without arrays and without the device."""

from __future__ import annotations

import argparse
from typing import Any

from ..backends import cpu, cuda, emulated
from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source
from ..compile import nvrtc
from ..errors import MansardError
from ..families import family_of, names
from ..model import occupancy
from . import dispatch
from .plan import Plan
from .problem import DTYPES, Problem

# Devices that can be explained without having one: the data sheet's facts, under the name the driver gives them, so
# that ceilings and tuning records of a real one apply.
NOMINAL = {
    "sm_90a": Device("cuda", "NVIDIA H200", "sm_90a", 132, 232448, 233472, 65536, 2048, 60 << 20),
    "sm_80": Device("cuda", "NVIDIA A100-SXM4-80GB", "sm_80", 108, 166912, 167936, 65536, 2048, 40 << 20),
}


class Absent:
    """A device that is described but not here: kernels for it can be written and compiled, not run."""

    def __init__(self, device: Device) -> None:
        self.name, self.device = device.backend, device

    def log(self, source: Source) -> str:
        return nvrtc.compile_cuda(source, self.device.arch).log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operation", choices=names())
    parser.add_argument("--m", type=_size, required=True, help="columns of A (tsm2r: its rows)")
    parser.add_argument("--n", type=_size, help="columns of B, or of the small matrix (default: those of A)")
    parser.add_argument("--k", type=_size, required=True, help="rows (tsm2r: columns of A); 1e6 is understood")
    parser.add_argument("--dtype", choices=DTYPES, default="float64")
    parser.add_argument("--layout", choices=("row", "col"), default="row", help="whether rows or columns are adjacent")
    parser.add_argument("--same", action="store_true", help="B is A")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--arch", choices=tuple(NOMINAL), help="a GPU of this architecture that need not be here")
    here = "default: the GPU if there is one, else the CPU"
    where.add_argument("--device", choices=("cpu", "cuda", "emulated"), help=here)
    parser.add_argument("--source", action="store_true", help="show the generated text too")


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 2 if the problem makes no sense."""
    if args.same and args.n not in (None, args.m):
        print(f"--same means B is A: leave out --n or give --n {args.m}")
        return 2
    N = args.m if args.n is None else args.n
    problem = family_of(args.operation).spec.from_options(args.dtype, args.m, N, args.k, args.layout, args.same)
    plan = plan_without_arrays(problem, where(args.arch, args.device))
    print(plan.explain())
    resources = resources_text(plan)
    if resources:
        print(resources)
    if args.source and plan.source():
        print("\n" + plan.source(), end="")
    return 0


def where(arch: str | None, device: str | None) -> Any:
    """The backend to explain for; one that is not here is described by its data sheet."""
    if arch:
        return Absent(NOMINAL[arch])
    if device == "emulated":
        return emulated.backend()
    if device == "cpu":
        return cpu.backend()
    if cuda.unavailable() is None:
        return cuda.backend()
    return Absent(NOMINAL["sm_90a"]) if device == "cuda" else cpu.backend()


def plan_without_arrays(problem: Problem, backend: Any) -> Plan:
    """What the same call with arrays would plan, as far as it can be known without them; it cannot be run."""
    choice = dispatch.choose(problem, backend.device)
    kernel: Kernel | None = None
    if choice.config is not None:
        kernel = choice.family.emit.kernel(problem, choice.config, backend.device, choice.family.spec.strides(problem))
    return Plan(problem, choice, backend, kernel, _needs_arrays, _needs_arrays)


def resources_text(plan: Plan) -> str:
    """What the assembler reports of the kernel, where NVRTC is here; empty otherwise."""
    if plan.kernel is None or plan.backend.name != "cuda" or nvrtc.available():
        return ""
    found = nvrtc.resources(plan.log())
    geometry, device = plan.kernel.geometry, plan.backend.device
    blocks = occupancy.blocks_per_multiprocessor(device, geometry.block, found.registers, geometry.shared_bytes)
    return (
        f"compiled {found.registers} registers, {found.spill_bytes} bytes spilled; "
        f"{blocks} blocks ({blocks * geometry.block // 32} warps) per multiprocessor"
    )


def _needs_arrays(*_: Any, **__: Any) -> None:
    """Stands where a plan keeps its fast path."""
    raise MansardError("this plan was made without arrays, only to be read: mansard.plan makes one that runs")


def _size(text: str) -> int:
    """A size; 1e6 and 1_000_000 are understood."""
    value = float(text)
    if value < 0 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text} is no size: a whole number of at least 0 is needed")
    return int(value)
