"""Instantiation text and launch geometry of `lu`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from . import runtime, shapes, space_cpu, spec, work
from .runtime import Runtime
from .space import Config

launch_geometry = partial(batches.launch_geometry, work, space_cpu)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, F, B and X, matrices, rows, columns, in elements."""
    if isinstance(config, Runtime):
        return runtime.kernel(problem, device, strides)
    fixed = (problem.BATCH, *strides, *sources.threads(config, device, work.work(problem)))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    if isinstance(config, Runtime):
        return runtime.source(problem)
    on_cpu = config.TARGET == "cpu"
    more = batches.stacks(problem, spec.SHAPES) if on_cpu else _images(problem, config)
    return sources.source(
        problem, config, target, work=work, folder="factor/lu", constants=_constants(problem, on_cpu) | more,
        title=f"A[{problem.M},{problem.N}], {problem.want}, {problem.dtype}",
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides."""
    exchanged = "const int*" if problem.want == "swap" else "int*"
    pointers = {"PIVOTS": Field("PIVOTS", exchanged, "pointer"), "INFO": Field("INFO", "int*", "pointer")}
    for name in spec.SHAPES:
        present = spec.present(problem, name)
        pointers[name.upper()] = batches.pointer(problem, config, name, written=name in "fx", present=present)
    integers = ["BATCH", *(step for name in spec.SHAPES for step in batches.steps(name))]
    return (*map(pointers.__getitem__, batches.POINTERS["lu"]), *WORKSPACE, *sources.integers(integers, config))


def _constants(problem: Problem, on_cpu: bool) -> dict[str, Any]:
    sizes: dict[str, Any] = {"M": problem.M, "N": problem.N, "NRHS": problem.NRHS}
    layouts = {}
    for name in spec.SHAPES:
        layout = getattr(problem, f"layout_{name}") if on_cpu else shapes.layout(problem, name)
        layouts[f"LAYOUT_{name.upper()}"] = layout
    return sizes | {"WANT": problem.want, "PIVOT": problem.pivot} | layouts


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    constants = {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
    if config.VARIANT == "swaps":
        return constants
    return constants | batches.images(shapes.shape(problem, config), spec.SHAPES)
