"""Instantiation text and launch geometry of `gemm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, images, sources
from . import runtime, space_cpu, work
from .runtime import Runtime
from .space import Config
from .work_lanes import lanes_shape
from .work_panels import adjacent, panel_shape
from .work_stream import stream_shape

_SIDES = "abc"
launch_geometry = partial(batches.launch_geometry, work, space_cpu)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C, matrices, rows, columns, in elements."""
    if isinstance(config, Runtime):
        return runtime.kernel(problem, device, strides)
    threads = sources.threads(config, device, work.work(problem))
    fixed = (problem.BATCH, *strides, *((1, *threads) if threads else ()))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    if isinstance(config, Runtime):
        return runtime.source(problem)
    constants = _cpu_constants(problem) if config.TARGET == "cpu" else _gpu_constants(problem, config)
    title = f"C[{problem.M},{problem.N}] = A[{problem.M},{problem.K}] B[{problem.K},{problem.N}], {problem.dtype}"
    return sources.source(
        problem, config, target, work=work, folder="batched/gemm", title=title, constants=constants,
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars. On GPUs a column-major C is that of the transposed product: then
    what comes first is called B, and rows are called columns."""
    turned = config.TARGET == "cuda" and images.is_turned(problem)
    names = dict(zip(_SIDES, "bac" if turned else _SIDES, strict=True))
    pointers = (batches.pointer(problem, config, side, written=side == "c", name=name) for side, name in names.items())
    integers = ["BATCH", *(step for name in names.values() for step in batches.steps(name, turned))]
    return (*pointers, *WORKSPACE, *sources.integers(integers, config, ("parts", "threads")), *SCALARS)


def _cpu_constants(problem: Problem) -> dict[str, Any]:
    sides = {f"ROW_MAJOR_{side.upper()}": getattr(problem, f"layout_{side}") == "row" for side in _SIDES}
    return _sizes(problem) | sides | batches.stacks(problem, _SIDES)


def _sizes(problem: Problem) -> dict[str, Any]:
    constants: dict[str, Any] = {"M": problem.M, "N": problem.N, "K": problem.K}
    return constants | {"CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b, "ACCUMULATE": problem.accumulate}


def _gpu_constants(problem: Problem, config: Any) -> dict[str, Any]:
    problem = images.oriented(problem)
    constants = _sizes(problem) | {"LAYOUT_A": problem.layout_a, "LAYOUT_B": problem.layout_b}
    constants |= {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
    if config.VARIANT == "readonly":
        return constants
    if config.VARIANT == "stream":
        return constants | _stream_constants(problem, config)
    shape: Any = lanes_shape(problem, config) if config.VARIANT == "lanes" else panel_shape(problem, config)
    constants |= batches.images(shape, _SIDES)
    if config.VARIANT == "lanes":
        return constants | batches.shared(problem, "ab")
    return constants | {"SLACK": shape.slack, "ADJACENT": adjacent(problem)}


def _stream_constants(problem: Problem, config: Any) -> dict[str, Any]:
    shape = stream_shape(problem, config)
    feeds = {f"{what}_{side.upper()}": getattr(getattr(shape, side), what.lower())
             for side in "ab" for what in ("FEED", "PITCH")}  # fmt: skip
    # distances of lines, where kernels need not be told them
    pitches = {f"LINE_{side.upper()}": 0 if getattr(problem, f"layout_{side}") == "any" else
               getattr(problem, f"pitch_{side}") for side in _SIDES}  # fmt: skip
    return feeds | pitches | batches.shared(problem, "ab") | {"SLACK": shape.slack, "ADJACENT": adjacent(problem)}
