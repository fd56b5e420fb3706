"""Instantiation text and launch geometry of `rank_k`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from . import space_cpu, work
from .shapes import adjacent, is_turned, oriented, tensor_shape, tiles_shape
from .space import Config

_SIDES = "abc"


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
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
    return (*pointers, *WORKSPACE, *sources.integers(("BATCH", *steps), config), *SCALARS)


def _constants(problem: Problem, config: Any) -> dict[str, Any]:
    conj_alpha, problem = problem.conj_a, oriented(problem)
    constants: dict[str, Any] = {"N": problem.N, "K": problem.K, "UPLO": problem.part, "TWO": problem.two}
    constants |= {"CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b, "CONJ_ALPHA": conj_alpha}
    constants |= {"LAYOUT_A": problem.layout_a, "LAYOUT_B": problem.layout_b, "ACCUMULATE": problem.accumulate}
    if config.TARGET == "cpu":
        return constants | {"LAYOUT_C": problem.layout_c} | batches.stacks(problem, _SIDES)
    constants |= {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
    if config.VARIANT == "tensor":
        shape = tensor_shape(problem, config)
        images = batches.images(shape, "ac") | batches.image("b", shape.a)
        return constants | images | {"SLACK": shape.slack, "PLACE": shape.place, "ADJACENT": adjacent(problem)}
    return constants | batches.images(tiles_shape(problem, config), _SIDES)


launch_geometry = partial(batches.launch_geometry, work, space_cpu)
kernel = partial(batches.kernel, work, source, launch_geometry)
