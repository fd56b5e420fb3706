"""Instantiation text of `ragged_factor`, and its workspace."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source
from ....plan.problem import REAL, Problem
from ...common import sources
from ...common.configs import up
from . import work
from .space import Config, Copy, Unpad

_POINTERS = (
    *sources.matrices("A", "B", "F", "X", written="FX"),
    Field("NUMBERS", "void*", "pointer"),  # pivots or tau
    Field("INFO", "int*", "pointer"),
    Field("ITEMS", "const long long*", "pointer"),
)
_COPIED = (*sources.matrices("A", "F", written="F"), _POINTERS[-1])
PADDING = ("last", "nearest", "vectors")  # which values are those of the padding (kernel_unpad.cuh)


def kernel(problem: Problem, config: Config, device: Device, fixed: tuple[int, ...]) -> Kernel:
    """Everything a backend needs. `fixed`: what is wanted, flags, reals of a thread's workspace, and multiply-adds,
    which say how many threads are worth their while. Copies need none of it; `unpad` has the rows of the stack's
    matrices, and which of `PADDING` it is."""
    if isinstance(config, Copy):
        grid = (up(problem.BATCH, config.WARPS), 1, 1)
        geometry = Geometry(grid, work.threads(problem, config))
        return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH,))
    if isinstance(config, Unpad):
        geometry = Geometry((max(1, problem.BATCH), 1, 1), work.threads(problem, config))
        return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH, *fixed))
    want, flags, reals, products = fixed
    real = problem.itemsize // (2 if problem.is_complex else 1)
    geometry = Geometry((1, 1, 1), 1, partial_bytes=device.multiprocessors * reals * real)
    integers = (problem.BATCH, want, flags, reals, products, device.multiprocessors)
    return Kernel(source(problem, config, device.backend), geometry, integers)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text, which is the same for all sizes and for all that is wanted of a method."""
    if isinstance(config, Copy):
        return sources.source(
            problem, config, target, work=work, folder="factor/ragged_factor", title=problem.dtype, constants={},
            arguments=(*_COPIED, *WORKSPACE, *sources.integers(("BATCH",))),
        )  # fmt: skip
    if isinstance(config, Unpad):
        real = CPP_TYPES[REAL[problem.dtype]]
        kinds = {"W": f"const {real}*", "Z": "const Params::T*", "INFO": "const int*", "VALUES": f"{real}*",
                 "F": "Params::T*", "INFOS": "int*"}  # fmt: skip
        unpadded = (*(Field(name, kind, "pointer") for name, kind in kinds.items()), _POINTERS[-1])
        return sources.source(
            problem, config, target, work=work, folder="factor/ragged_factor", title=problem.dtype, constants={},
            arguments=(*unpadded, *WORKSPACE, *sources.integers(("BATCH", "BOUND", "PADDING"))),
        )  # fmt: skip
    integers = sources.integers(("BATCH", "want", "flags", "reals", "products"), config)
    return sources.source(
        problem, config, target, work=work, folder="factor/ragged_factor", title=f"{problem.method}, {problem.dtype}",
        constants={"METHOD": problem.method}, arguments=(*_POINTERS, *WORKSPACE, *integers, *SCALARS),
        without=("WIDEST",),
    )  # fmt: skip
