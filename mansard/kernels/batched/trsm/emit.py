"""Instantiation text and launch geometry of `trsm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from . import space_cpu, work
from .space import Config
from .systems import system
from .work_shapes import blocked_shape, lanes_shape, stream_shape
from .work_tensor import tensor_shape

_OPERANDS = {"a": "a", "b": "b", "x": "c"}  # and what gemm's images call them
launch_geometry = partial(batches.launch_geometry, work, space_cpu)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and X, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides, *sources.threads(config, device, work.work(problem)))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    more = batches.stacks(problem, _OPERANDS) if config.TARGET == "cpu" else _images(problem, config)
    return sources.source(
        problem, config, target, work=work, folder="batched/trsm", constants=_constants(problem) | more,
        title=f"A[{problem.N},{problem.N}] X[{problem.N},{problem.NRHS}] = B, {problem.dtype}",
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars. In a transposed system rows are called columns."""
    what = system(problem)
    turned = {"a": what.a_turned, "b": what.x_turned, "x": what.x_turned}
    pointers = (batches.pointer(problem, config, name, written=name == "x") for name in _OPERANDS)
    integers = ["BATCH", *(step for name in _OPERANDS for step in batches.steps(name, turned[name]))]
    return (*pointers, *WORKSPACE, *sources.integers(integers, config), *SCALARS)


def _constants(problem: Problem) -> dict[str, Any]:
    what = system(problem)
    layouts = {f"LAYOUT_{name.upper()}": getattr(what.operands, f"layout_{gemm}") for name, gemm in _OPERANDS.items()}
    sizes: dict[str, Any] = {"N": problem.N, "NRHS": problem.NRHS}
    return sizes | {"UPPER": what.upper, "UNIT": what.unit, "CONJ": what.conj} | layouts


def _images(problem: Problem, config: Any) -> dict[str, Any]:
    constants = {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
    if config.VARIANT == "blocked":
        block = blocked_shape(problem, config).a
        return constants | {"FEED_A": block.feed, "PITCH_A": block.pitch}
    if config.VARIANT == "stream":
        return constants | {"FEED_A": stream_shape(problem, config).feed}
    if config.VARIANT == "tensor":
        vectors = tensor_shape(problem, config).vectors
        return constants | {f"VECTOR_{name}": vector for name, vector in vectors.items()}
    return constants | batches.images(lanes_shape(problem, config), _OPERANDS) | batches.shared(problem, "ab")
