"""Instantiation text and launch geometry of `qr`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from . import shapes, space_cpu, spec, work
from .space import Config

launch_geometry = partial(batches.launch_geometry, work, space_cpu)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, F, Q, B, X, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides, *sources.threads(config, device, work.work(problem)))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    more = batches.stacks(problem, spec.OPERANDS) if config.TARGET == "cpu" else _images(problem, config)
    return sources.source(
        problem, config, target, work=work, folder="factor/qr", constants=_constants(problem) | more,
        title=f"A[{problem.M},{problem.N}], {problem.want}, {problem.dtype}",
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides."""
    pointers = {"TAU": Field("TAU", "Params::T*", "pointer")}
    for name in spec.OPERANDS:
        present = any(spec.shape(problem, name))
        pointers[name.upper()] = batches.pointer(problem, config, name, written=name not in "ab", present=present)
    integers = ["BATCH", *(step for name in spec.OPERANDS for step in batches.steps(name))]
    return (*map(pointers.__getitem__, batches.POINTERS["qr"]), *WORKSPACE, *sources.integers(integers, config))


def _constants(problem: Problem) -> dict[str, Any]:
    sizes: dict[str, Any] = {"M": problem.M, "N": problem.N, "NRHS": problem.NRHS, "WANT": problem.want}
    return sizes | {f"LAYOUT_{name.upper()}": getattr(problem, f"layout_{name}") for name in spec.OPERANDS}


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    if config.VARIANT == "tensor":
        return {"SHARED_BYTES": work.shared_bytes(problem, config)}
    shape = shapes.shape(problem, config)
    return {
        "ALIGNED": problem.aligned,
        "FEED_A": shape.a.feed,
        "PITCH_A": shape.a.pitch,
        "MATRIX_A": shape.a.matrix,
        "TWIN": shape.twin,
        "FEED_F": shape.feed_f,
        "SHARED_BYTES": shape.shared_bytes,
    }
