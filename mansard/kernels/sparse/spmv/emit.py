"""Instantiation text and launch geometry of `spmv`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import sources
from . import work
from .space import Config

_COLUMNS = {"int32": "int", "int64": "long long", "delta16": "unsigned short"}
_GAMMA = tuple(Field(name, "double", "real") for name in ("gamma_re", "gamma_im"))
# In front of X, Y and Z: SELL has its buffer as MATRIX; CSR its entries as MATRIX and COLUMNS, rows' places as STARTS,
# and as WIDTHS the rows at which the blocks of `merge` begin. What a format lacks is not read.
POINTERS = ("MATRIX", "COLUMNS", "STARTS", "WIDTHS", "LENGTHS", "COMMON", "PERMUTATION", "X", "Y", "Z")


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are the distances between rows of X, Y and Z in elements, then ELLPACK's
    pitch and width."""
    fixed = (problem.ROWS, problem.NNZ, *strides, *sources.threads(config, device, work.work(problem)))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    return sources.source(
        problem, config, target, work=work, folder="sparse/spmv", constants=_constants(problem, config),
        title=f"{problem.format} {problem.values} {problem.index}, {problem.NVECS} vectors in {problem.dtype}",
        types={"V": CPP_TYPES[problem.values]}, arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars."""
    place = "long long" if problem.wide else "int"
    matrix = "unsigned char" if problem.format == "sell" else "Params::V"
    types = {"MATRIX": matrix, "COLUMNS": _COLUMNS[problem.index], "STARTS": place, "X": "Params::T", "Z": "Params::T"}
    pointers = [
        Field(name, "Params::T*" if name == "Y" else f"const {types.get(name, 'int')}*", "pointer") for name in POINTERS
    ]
    integers = sources.integers(("ROWS", "NNZ", "x_pitch", "y_pitch", "z_pitch", "pitch", "width"), config)
    gamma = _GAMMA if problem.recurrence else ()
    return (*pointers, *WORKSPACE, *integers, *SCALARS, *gamma)


def _constants(problem: Problem, config: Config) -> dict[str, Any]:
    constants: dict[str, Any] = {
        "FORMAT": problem.format, "INDEX": problem.index, "C": problem.C, "RAGGED": problem.ragged,
        "PERMUTED": problem.permuted, "ACCUMULATE": problem.accumulate, "RECURRENCE": problem.recurrence,
        "CONJ": problem.conj and problem.values.startswith("complex"), "NVECS": problem.NVECS,
        "VECTOR": problem.vector,
    }  # fmt: skip
    if config.VARIANT == "merge":
        constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    if config.VARIANT == "block":
        constants["CHUNKS"] = 1
    return constants


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace."""
    if config.TARGET == "cpu":
        return Geometry((1, 1, 1), 1)
    grid = work.grid(problem, config)
    parts = grid[0] * grid[1] if config.VARIANT == "merge" else 0  # of rows that go through several blocks
    return Geometry(
        grid, config.BLOCK, work.shared_bytes(problem, config),
        partial_bytes=2 * parts * problem.itemsize, sum_bytes=4 * parts,
    )  # fmt: skip
