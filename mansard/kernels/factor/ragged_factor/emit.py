"""Instantiation text of `ragged_factor`, and its workspace."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import sources
from . import work
from .space_cpu import Rows

_POINTERS = (
    *sources.matrices("A", "B", "F", "X", written="FX"),
    Field("NUMBERS", "void*", "pointer"),  # pivots or tau
    Field("INFO", "int*", "pointer"),
    Field("ITEMS", "const long long*", "pointer"),
)


def kernel(problem: Problem, config: Rows, device: Device, fixed: tuple[int, ...]) -> Kernel:
    """Everything a backend needs. `fixed`: what is wanted, flags, reals of a thread's workspace, and multiply-adds,
    which say how many threads are worth their while."""
    want, flags, reals, products = fixed
    real = problem.itemsize // (2 if problem.is_complex else 1)
    geometry = Geometry((1, 1, 1), 1, partial_bytes=device.multiprocessors * reals * real)
    integers = (problem.BATCH, want, flags, reals, products, device.multiprocessors)
    return Kernel(source(problem, config, device.backend), geometry, integers)


def source(problem: Problem, config: Rows, target: str) -> Source:
    """The kernel's text, which is the same for all sizes and for all that is wanted of a method."""
    integers = sources.integers(("BATCH", "want", "flags", "reals", "products"), config)
    return sources.source(
        problem, config, target, work=work, folder="factor/ragged_factor", title=f"{problem.method}, {problem.dtype}",
        constants={"METHOD": problem.method}, arguments=(*_POINTERS, *WORKSPACE, *integers, *SCALARS),
        without=("WIDEST",),
    )  # fmt: skip
