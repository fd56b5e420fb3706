"""Instantiation text and launch geometry of `gemv`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from ..gemm import runtime
from . import shapes, space_cpu, work
from .space import Config
from .space_cpu import Runtime
from .spec import canonical

_SIDES = "abc"
launch_geometry = partial(batches.launch_geometry, work, space_cpu)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, x and y, matrices, rows, columns, in elements."""
    if isinstance(config, Runtime):
        return runtime.kernel(problem, device, strides)
    fixed = (problem.BATCH, *_canonical_strides(problem, strides), *sources.threads(config, device, work.work(problem)))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def _canonical_strides(problem: Problem, strides: tuple[int, ...]) -> tuple[int, ...]:
    """A matrix of one column has no step along its rows, one of one row none along its columns: both have one here."""
    canon = canonical(problem)
    if canon.layout_a == problem.layout_a:
        return strides
    return (strides[0], *canon.strides("a"), *strides[3:])


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    if isinstance(config, Runtime):
        return runtime.source(problem)
    return sources.source(
        problem, config, target, work=work, folder="batched/gemv", constants=_constants(problem, config),
        title=f"y[{problem.M}] = A[{problem.M},{problem.K}] x[{problem.K}], {problem.dtype}",
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars."""
    pointers = (batches.pointer(problem, config, side, written=side == "c") for side in _SIDES)
    integers = ["BATCH", *(step for side in _SIDES for step in batches.steps(side))]
    return (*pointers, *WORKSPACE, *sources.integers(integers, config), *SCALARS)


def _constants(problem: Problem, config: Any) -> dict[str, Any]:
    canon = canonical(problem)
    constants: dict[str, Any] = {"M": problem.M, "K": problem.K, "CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b}
    constants["ACCUMULATE"] = problem.accumulate
    if config.TARGET == "cpu":
        stacks = batches.stacks(problem, _SIDES)
        units = {f"UNIT_{side.upper()}": getattr(canon, f"layout_{side}") == "col" for side in "bc"}
        return constants | {"ROW_MAJOR_A": canon.layout_a == "row"} | stacks | units
    constants |= {"LAYOUT_A": canon.layout_a, "ALIGNED": problem.aligned}
    constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    if config.VARIANT == "stream":
        return constants | {"VECTOR": shapes.adjacent(problem)}
    shape = shapes.lanes_shape(problem, config)
    for side, image in zip(_SIDES, (shape.a, shape.x, shape.y), strict=True):
        constants |= batches.image(side, image)
    return constants | batches.shared(problem, "ab")
