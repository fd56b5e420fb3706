"""Instantiation text and launch geometry of `trsm`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import batches
from . import space_cpu, work
from .space import Config
from .space_cpu import Simd
from .systems import system
from .work_shapes import blocked_shape, lanes_shape, stream_shape
from .work_tensor import tensor_shape

_OPERANDS = {"a": "a", "b": "b", "x": "c"}  # and what gemm's images call them


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and X, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides)
    if isinstance(config, Simd):
        fixed += (device.multiprocessors,)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    on_cpu = isinstance(config, Simd)
    constants = _constants(problem) | (batches.stacks(problem, _OPERANDS) if on_cpu else _images(problem, config))
    bounds = None if isinstance(config, Simd) else (work.threads(problem, config), config.BLOCKS_PER_SM)
    return instantiate(
        title=f"trsm: A[{problem.N},{problem.N}] X[{problem.N},{problem.NRHS}] = B, {problem.dtype}, {config.VARIANT}",
        header=f"kernels/batched/trsm/{'kernel.hpp' if on_cpu else f'kernel_{config.VARIANT}.cuh'}",
        function=f"trsm_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=_arguments(problem, on_cpu),
        bounds=bounds,
        cooperative=False,
    )


def _arguments(problem: Problem, on_cpu: bool) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars. In a transposed system rows are called columns."""
    turned = {"a": system(problem).a_turned, "b": system(problem).x_turned, "x": system(problem).x_turned}
    pointers, integers = [], ["BATCH"]
    for name in _OPERANDS:
        many = not on_cpu and getattr(problem, f"stack_{name}") == "pointers"
        pointers.append(batches.pointer(name, written=name == "x", many=many))
        integers += [f"{name}_{what}" for what in ("matrix", *(("col", "row") if turned[name] else ("row", "col")))]
    integers += ["threads"] if on_cpu else []
    return (*pointers, *WORKSPACE, *batches.integers(integers), *SCALARS)


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
    shape = lanes_shape(problem, config)
    for name in _OPERANDS:
        image = getattr(shape, name)
        constants |= batches.image(name, image)
    return constants | {f"SHARED_{name.upper()}": getattr(problem, f"stack_{name}") == "shared" for name in "ab"}


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the batch."""
    return batches.launch_geometry(work, space_cpu, problem, config, device)
