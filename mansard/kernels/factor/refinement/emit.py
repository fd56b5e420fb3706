"""Instantiation text and launch geometry of `refinement`, for GPUs and their emulation."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source
from ....plan.problem import REAL, Problem
from ...common import sources
from . import spec, work
from .space import Config

POINTERS = ("A", "B", "X", "R", "LOW", "SIZES", "PARTS", "STATE")
_SIZES = ("BATCH", "N", "NRHS", "CHUNKS", "a_matrix", "a_row", "a_col", "low_row", "low_col")


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A (matrices, rows, columns) and, without gaps between
    matrices, of A in single precision (rows, columns), in elements."""
    geometry = Geometry((work.blocks(problem, config, device), 1, 1), work.threads(problem, config))
    fixed = (problem.BATCH, problem.N, problem.NRHS, work.parts(problem, device), *strides)
    return Kernel(source(problem, config, device.backend), geometry, fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated): the same for all sizes."""
    low = CPP_TYPES[spec.NARROW[problem.dtype]]
    constants: dict[str, Any] = {} if problem.want == "update" else {"WANT": problem.want}
    if problem.want in spec.OF_MATRICES:
        constants["BY_COLUMNS"] = problem.layout_a == "col"
    return sources.source(
        problem, config, target, work=work, folder="factor/refinement", constants=constants,
        title=f"{problem.want}, {problem.dtype}", types={"S": low},
        arguments=(*_pointers(problem), *WORKSPACE, *sources.integers(_SIZES)),
    )  # fmt: skip


def _pointers(problem: Problem) -> tuple[Field, ...]:
    """A, B and what is computed, as `POINTERS` names them."""
    real = CPP_TYPES[REAL[problem.dtype]]
    types = {"LOW": "Params::S*", "SIZES": f"{real}*", "PARTS": f"{real}*", "STATE": "int*"}
    types |= {"A": "const Params::T*", "B": "const Params::T*", "X": "Params::T*", "R": "Params::T*"}
    return tuple(Field(name, types[name], "pointer") for name in POINTERS)
