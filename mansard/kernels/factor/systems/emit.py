"""Instantiation text and launch geometry of `systems`, for GPUs and their emulation."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source
from ....plan.problem import REAL, Problem
from ...common import batches, sources
from . import spec, work
from .space import Config

_STEPS = tuple(step for name in spec.SHAPES for step in batches.steps(name))


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and X: matrices, rows, columns, in elements."""
    grid = (work.blocks(problem, config, device), 1, 1)
    geometry = Geometry(grid, work.threads(problem, config), work.shared_bytes(problem, config))
    more = {"columns": (work.sides(problem, config, device),), "residuals": (problem.M, problem.N)}
    fixed = (problem.BATCH, problem.NRHS, *more.get(config.VARIANT, (problem.N,)), *strides)
    return Kernel(source(problem, config, device.backend), geometry, fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated): the same for all sizes in `spec.LONG`."""
    of_columns = {
        "N": problem.N, "PIVOT": problem.pivot, "UPLO": problem.uplo, "SHARED_BYTES": work.shared_bytes(problem, config)
    }  # fmt: skip
    constants = {"columns": {"WANT": problem.want, **of_columns}, "determinants": {"WANT": problem.want}}
    order = f"A[{problem.N}], " if config.VARIANT == "columns" else ""
    sizes = {"columns": ("SIDES",), "residuals": ("M", "N"), "determinants": ("N",), "check": ("N",)}[config.VARIANT]
    return sources.source(
        problem, config, target, work=work, folder="factor/systems", constants=constants.get(config.VARIANT, {}),
        title=f"{order}{problem.want}, {problem.dtype}",
        arguments=(*_pointers(problem), *WORKSPACE, *sources.integers(("BATCH", "NRHS", *sizes, *_STEPS))),
    )  # fmt: skip


def _pointers(problem: Problem) -> tuple[Field, ...]:
    """A, PIVOTS, B, X, SQUARES and INFO, as `batches.POINTERS` has them."""
    residuals = problem.want == "residuals"
    types = {
        "A": "const Params::T*", "PIVOTS": "const int*", "B": "const Params::T*",
        "X": "const Params::T*" if residuals else "Params::T*", "SQUARES": f"{CPP_TYPES[REAL[problem.dtype]]}*",
        "INFO": "int*",
    }  # fmt: skip
    return tuple(Field(name, types[name], "pointer") for name in batches.POINTERS["systems"])
