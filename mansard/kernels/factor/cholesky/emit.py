"""Instantiation text and launch geometry of `cholesky`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from ...common import batches
from . import space_cpu, spec, work
from .shapes import band, block_shape, images_shape, piece, run, slab, whole, wide
from .space import Config
from .space_cpu import Rowwise, Simd
from .views import conjugated, turned, view


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, F, B and X, matrices, rows, columns, in elements."""
    fixed = (problem.BATCH, *strides)
    if isinstance(config, Simd | Rowwise):
        fixed += (device.multiprocessors,)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    on_cpu = isinstance(config, Simd | Rowwise)
    constants = _constants(problem) | (batches.stacks(problem, spec.SHAPES) if on_cpu else _images(problem, config))
    bounds = None if isinstance(config, Simd | Rowwise) else (work.threads(problem, config), config.BLOCKS_PER_SM)
    suffix = "hpp" if on_cpu else "cuh"
    right = f", B[{problem.N},{problem.NRHS}]" if problem.want == "solve" else ""
    return instantiate(
        title=f"cholesky: {problem.want} A[{problem.N},{problem.N}]{right}, {problem.dtype}, {config.VARIANT}",
        header="kernels/factor/cholesky/"
        + ("kernel.hpp" if isinstance(config, Simd) else f"kernel_{config.VARIANT}.{suffix}"),
        function=f"cholesky_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=_arguments(problem, on_cpu),
        bounds=bounds,
        cooperative=False,
    )


def _arguments(problem: Problem, on_cpu: bool) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides. Rows of what is turned are called columns."""
    pointers, integers = [], ["BATCH"]
    for name in spec.SHAPES:
        many = not on_cpu and getattr(problem, f"stack_{name}") == "pointers" and name in spec.operands(problem)
        pointers.append(batches.pointer(name, written=name in "fx", many=many))
        lines = ("col", "row") if turned(problem, name) else ("row", "col")
        integers += [f"{name}_{what}" for what in ("matrix", *lines)]
    integers += ["threads"] if on_cpu else []
    pointers.append(Field("INFO", "int*", "pointer"))
    if spec.is_ragged(problem):
        pointers.append(Field("ITEMS", "const long long*", "pointer"))
    return (*pointers, *WORKSPACE, *batches.integers(integers))


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
    for name in spec.SHAPES:
        image = getattr(shape, name)
        constants |= batches.image(name, image)
    return constants | {"COLUMN": shape.column}


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the batch."""
    return batches.launch_geometry(work, space_cpu, problem, config, device)
