"""Instantiation text and launch geometry of `cholesky`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from . import space_cpu, spec, work
from .shapes import band, block_shape, images_shape, piece, run, slab, whole, wide
from .space import Config
from .views import conjugated, turned, view

launch_geometry = partial(batches.launch_geometry, work, space_cpu)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, F, B and X, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides, *sources.threads(config, device, work.work(problem)))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    more = batches.stacks(problem, spec.SHAPES) if config.TARGET == "cpu" else _images(problem, config)
    right = f", B[{problem.N},{problem.NRHS}]" if problem.want == "solve" else ""
    return sources.source(
        problem, config, target, work=work, folder="factor/cholesky", constants=_constants(problem) | more,
        title=f"{problem.want} A[{problem.N},{problem.N}]{right}, {problem.dtype}",
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides. Rows of what is turned are called columns."""
    there = spec.operands(problem)
    pointers = [
        batches.pointer(problem, config, name, written=name in "fx", present=name in there) for name in spec.SHAPES
    ]
    pointers.append(Field("INFO", "int*", "pointer"))
    if spec.is_ragged(problem):
        pointers.append(Field("ITEMS", "const long long*", "pointer"))
    integers = ["BATCH", *(step for name in spec.SHAPES for step in batches.steps(name, turned(problem, name)))]
    return (*pointers, *WORKSPACE, *sources.integers(integers, config))


def _constants(problem: Problem) -> dict[str, Any]:
    layouts = {f"LAYOUT_{name.upper()}": view(problem, name).layout_c for name in spec.SHAPES}
    return {"N": problem.N, "NRHS": problem.NRHS, "CONJ_B": conjugated(problem)} | layouts


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    constants = {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
    constants["RAGGED"] = spec.is_ragged(problem)
    if config.VARIANT == "block":
        block = block_shape(problem, config)
        return constants | {"VECTOR_A": block.vector_a, "VECTOR_F": block.vector_f, "WORDS": block.words}
    shape = images_shape(problem, config)
    if config.VARIANT == "tile":
        constants |= {"RUN": run(problem, config), "WIDE_A": wide(problem, config, "a")}
        constants |= {"WIDE_F": wide(problem, config, "f"), "PIECE": piece(problem, config)}
        constants["ALONG"] = 64 // problem.itemsize
        constants |= {"SLAB": slab(problem, config), "BAND": band(problem), "WHOLE_F": whole(problem, config)}
    else:
        constants["DIRECT"] = False
    return constants | batches.images(shape, spec.SHAPES) | {"COLUMN": shape.column}
