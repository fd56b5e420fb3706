"""The CPU kernel of lu whose sizes, and what is wanted, are arguments (`kernel_runtime.hpp`): its configuration, which
problems it takes, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import batches, sources
from ...common.configs import OnCpu
from ...common.vectors import words_of
from . import space_cpu, spec, work

WIDEST = 32  # rows, columns and right-hand sides: beyond, the matrices of a group leave the first cache

_INTEGERS = (
    "BATCH", *(step for name in spec.SHAPES for step in batches.steps(name)), "M", "N", "NRHS", "want", "pivot",
)  # fmt: skip


@dataclass(frozen=True)
class Runtime(OnCpu):
    """A matrix per lane, sizes as arguments: one kernel for all matrices of a dtype and all that is wanted of them."""

    VARIANT: ClassVar[str] = "runtime"
    HEADER = "kernel_runtime.hpp"


def illegal(problem: Problem) -> str | None:
    """Why the kernel cannot be used, or None if it can."""
    if problem.want not in space_cpu.WANTS:
        return f"want={problem.want!r} is not one of {', '.join(space_cpu.WANTS)}"
    present = [name for name in spec.SHAPES if spec.present(problem, name)]
    if any(getattr(problem, f"stack_{name}") == "pointers" for name in present):
        return "matrices that follow each other at equal distances alone"
    if any(getattr(problem, f"layout_{name}") == "any" for name in present):
        return "neither rows nor columns are adjacent"
    widest = max(problem.M, problem.N, space_cpu.right(problem))
    if widest > WIDEST:
        return f"{widest} rows or columns: beyond {WIDEST} a group of matrices leaves the first cache"
    return None


def kernel(problem: Problem, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, F, B and X, matrices, rows, columns, in elements."""
    steps = list(strides)
    for place, name in enumerate(spec.SHAPES):
        if getattr(problem, f"stack_{name}") == "shared":
            steps[3 * place] = 0
    want = space_cpu.WANTS.index(problem.want)
    fixed = (problem.BATCH, *steps, problem.M, problem.N, problem.NRHS, want, int(problem.pivot))
    geometry = Geometry((1, 1, 1), 1, partial_bytes=workspace_bytes(problem, device.multiprocessors))
    return Kernel(source(problem), geometry, (*fixed, *sources.threads(Runtime(), device, work.work(problem))))


def source(problem: Problem) -> Source:
    """The kernel's text, which is the same for all problems of a dtype."""
    numbers = {"PIVOTS": Field("PIVOTS", "int*", "pointer"), "INFO": Field("INFO", "int*", "pointer")}
    matrices = {field.name: field for field in sources.matrices("A", "F", "B", "X", written=("F", "X"))}
    pointers = (numbers.get(name) or matrices[name] for name in batches.POINTERS["lu"])
    return instantiate(
        title=f"lu: sizes as arguments, {problem.dtype}, runtime",
        header="kernels/factor/lu/kernel_runtime.hpp",
        function="lu_runtime",
        target="cpu",
        types={"T": CPP_TYPES[problem.dtype]},
        constants={},
        arguments=(*pointers, *WORKSPACE, *sources.integers((*_INTEGERS, "threads"))),
    )


def workspace_bytes(problem: Problem, threads: int) -> int:
    """For each thread the entries of a group of matrices, of right-hand sides, and the pivots."""
    words, real = words_of(problem)
    entries = problem.M * problem.N + problem.N * space_cpu.right(problem)
    lanes = _WIDEST_VECTOR // real
    return int(threads * (words * entries + min(problem.M, problem.N)) * lanes * real)


_WIDEST_VECTOR = 64  # bytes of the widest vectors of any CPU
