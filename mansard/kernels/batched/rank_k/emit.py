"""Instantiation text and launch geometry of `rank_k`, for GPUs and their emulation."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from . import work
from .shapes import is_turned, oriented, tiles_shape
from .space import Config

_SIDES = "abc"


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C, matrices, rows, columns, in elements."""
    geometry = Geometry(
        grid=(work.blocks(problem, config, device), 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
    )
    return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH, *strides))


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    what = "A B' + B A'" if problem.two else "A A'"
    return sources.source(
        problem, config, target, work=work, folder="batched/rank_k", constants=_constants(problem, config),
        title=f"C[{problem.N},{problem.N}] = {what}, A[{problem.N},{problem.K}], {problem.dtype}",
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers (B is A where there is one factor), scratch, sizes and strides, scalars. Of a column-major C, rows are
    called columns."""
    pointers = (batches.pointer(problem, config, side, written=side == "c") for side in _SIDES)
    steps = (step for side in _SIDES for step in batches.steps(side, side == "c" and is_turned(problem)))
    return (*pointers, *WORKSPACE, *sources.integers(("BATCH", *steps)), *SCALARS)


def _constants(problem: Problem, config: Config) -> dict[str, Any]:
    conj_alpha, problem = problem.conj_a, oriented(problem)
    shape = tiles_shape(problem, config)
    constants: dict[str, Any] = {"N": problem.N, "K": problem.K, "UPLO": problem.uplo, "TWO": problem.two}
    constants |= {"LAYOUT_A": problem.layout_a, "LAYOUT_B": problem.layout_b, "ALIGNED": problem.aligned}
    constants |= {"CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b, "CONJ_ALPHA": conj_alpha}
    constants |= {"ACCUMULATE": problem.accumulate, "SHARED_BYTES": work.shared_bytes(problem, config)}
    return constants | batches.images(shape, _SIDES)
