"""Instantiation text and launch geometry of `jacobi`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....codegen.geometry import Device, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source
from ....plan.problem import REAL, Problem
from ...common import batches, sources
from . import space_cpu, spec, work
from .space import Config

launch_geometry = partial(batches.launch_geometry, work, space_cpu)


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A: matrices, rows, columns, in elements."""
    threads = sources.threads(config, device, work.work(problem))
    fixed = (problem.BATCH, *(() if config.VARIANT == "ragged" else strides), *threads)
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    if config.VARIANT == "ragged":
        return _ragged(problem, config, target)
    on_cpu = config.TARGET == "cpu"
    constants = {"N": problem.N, "WANT": problem.want}
    if config.VARIANT != "block":
        constants["UPLO"] = problem.uplo
    return sources.source(
        problem, config, target, work=work, folder="factor/jacobi",
        constants=constants | (_on_cpu(problem) if on_cpu else _on_gpu(problem, config)),
        title=f"A[{problem.N},{problem.N}], {problem.want}, {problem.dtype}", arguments=_arguments(problem, config),
    )  # fmt: skip


def _ragged(problem: Problem, config: Config, target: str) -> Source:
    """The kernel for matrices of all sizes, whose text none of them changes."""
    entry, real = "Params::T*", f"{CPP_TYPES[REAL[problem.dtype]]}*"
    types = {"A": f"const {entry}", "W": real, "Z": entry, "VH": entry, "INFO": "int*", "ITEMS": "const long long*"}
    return sources.source(
        problem, config, target, work=work, folder="factor/jacobi", constants={"N": 0, "WANT": problem.want},
        title=f"all sizes, {problem.want}, {problem.dtype}",
        arguments=(
            *(Field(name, kind, "pointer") for name, kind in types.items()),
            *WORKSPACE, *sources.integers(("BATCH",), config),
        ),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides."""
    real = CPP_TYPES[REAL[problem.dtype]]
    types = {"W": f"{real}*", "Z": "Params::T*", "VH": "Params::T*", "INFO": "int*"}
    results = (Field(name, types[name], "pointer") for name in spec.POINTERS[1:])
    integers = sources.integers(("BATCH", *batches.steps("a")), config)
    return (batches.pointer(problem, config, "a", written=False), *results, *WORKSPACE, *integers)


def _on_cpu(problem: Problem) -> dict[str, Any]:
    return {"LAYOUT_A": problem.layout_a, "STACK_A": problem.stack_a, "RELATIVE": spec.is_relative(problem)}


def _on_gpu(problem: Problem, config: Any) -> dict[str, Any]:
    staged = {} if config.VARIANT == "block" else {"STAGED": spec.is_staged(problem)}
    return staged | {
        "TRANSPOSED": problem.layout_a == "col",
        "POINTERS": problem.stack_a == "pointers",
        "SHARED_BYTES": work.shared_bytes(problem, config),
    }
