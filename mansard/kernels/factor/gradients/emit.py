"""Instantiation text and launch geometry of `gradients`, for GPUs and their emulation."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import WORKSPACE, Source
from ....plan.problem import Problem
from ...common import batches, sources
from ..lu import shapes as lu_shapes
from . import shapes, spec, work
from .space import Config

_STEPS = tuple(step for name in spec.SHAPES for step in batches.steps(name))


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, G and Y: matrices, rows, columns, in elements."""
    grid = (work.blocks(problem, config, device), 1, 1)
    geometry = Geometry(grid, work.threads(problem, config), work.shared_bytes(problem, config))
    return Kernel(source(problem, config, device.backend), geometry, (problem.BATCH, *strides))


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    pointers = sources.matrices("A", "G", "Y", "W", "F", written=("W", "F"))
    return sources.source(
        problem, config, target, work=work, folder="factor/gradients", constants=_constants(problem, config),
        title=f"A[{problem.N}], {problem.want}, {problem.dtype}",
        arguments=(*pointers, *WORKSPACE, *sources.integers(("BATCH", *_STEPS))),
    )  # fmt: skip


def _constants(problem: Problem, config: Any) -> dict[str, Any]:
    shape = shapes.shape(problem, config)
    constants: dict[str, Any] = {"N": problem.N, "ALIGNED": problem.aligned, "SHARED_BYTES": shape.shared_bytes}
    if config.VARIANT != "products":
        constants["PAIRS"] = work.pairs(problem)
    if config.VARIANT in ("products", "tensor"):
        constants["GRADIENT"] = problem.want
    for name, image in shape.images:
        constants |= batches.image(name, image)
    if config.VARIANT != "solution":
        return constants | {f"LAYOUT_{name.upper()}": shapes.layout(problem, name) for name in "ag"}
    lu = shapes.of_lu(problem)
    constants |= {f"LAYOUT_{name.upper()}": lu_shapes.layout(lu, name) for name in "afbx"}
    constants |= {"LAYOUT_Y": shapes.layout(problem, "y"), "WANT": lu.want, "PIVOT": lu.pivot}
    return constants | {"M": lu.M, "NRHS": lu.NRHS}
