"""Instantiation text and launch geometry of `trmm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, sources
from ..trsm.systems import system
from . import space_cpu, work
from .space import Config
from .work_shapes import block_shape, lanes_shape

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
        problem, config, target, work=work, folder="batched/trmm", constants=_constants(problem) | more,
        title=f"X[{problem.N},{problem.NRHS}] = A[{problem.N},{problem.N}] B, {problem.dtype}",
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars. In a transposed product rows are called columns."""
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
    if config.VARIANT == "lanes":
        return constants | batches.images(lanes_shape(problem, config), _OPERANDS) | batches.shared(problem, "ab")
    shape = block_shape(problem, config)
    windows = {f"{what}_{name}": getattr(getattr(shape, name.lower()), what.lower())
               for name in "AB" for what in ("FEED", "PITCH")}  # fmt: skip
    return constants | windows | {"ADJACENT": shape.adjacent}
