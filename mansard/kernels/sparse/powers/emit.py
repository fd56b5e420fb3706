"""Instantiation text and launch geometry of `powers`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source, instantiate
from ....machine.roofline import Work
from ....plan.problem import Problem
from ...common import sources, team
from ...common.configs import up
from ...common.sources import integers
from . import spec, work
from .space import Config, Groups, Persistent

_BLOCK, _PER_SM = 256, 8  # of the small kernels that fill and permute
_MATRIX = (
    Field("MATRIX", "const unsigned char*", "pointer"),
    Field("STARTS", "const int*", "pointer"),
    Field("WIDTHS", "const int*", "pointer"),
    Field("LENGTHS", "const int*", "pointer"),
    Field("COEFFICIENTS", "const Params::T*", "pointer"),
)
_VECTORS = (
    Field("X", "const Params::T*", "pointer"),
    Field("VECTORS", "Params::T*", "pointer"),
    Field("RESULT", "Params::T*", "pointer"),
)
_BEFORE = Field("BEFORE", "const Params::T*", "pointer")
_REACH = Field("REACH", "const int*", "pointer")
_FLAGS = Field("FLAGS", "mansard::u32*", "pointer")
_FAILED = Field("FAILED", "mansard::u32*", "pointer")
_RANGE = tuple(Field(name, "double", "real") for name in ("first", "last", "power"))


def kernel(problem: Problem, config: Config, device: Device, sizes: tuple[int, ...] = ()) -> Kernel:
    """Everything a backend needs.

    Pointers: MATRIX, STARTS, WIDTHS, LENGTHS, COEFFICIENTS, X, VECTORS, RESULT; `persistent` also BEFORE (v_-1 or 0),
    FLAGS, FAILED; `simd` COMMON, RANGES, REACH. Scalars: of `groups` alone, first and last row, power. `sizes`: rows of
    a launch (groups), tiles that are read ahead and nanoseconds until waiting is given up (persistent), ranges of rows
    and their lag (simd).
    """
    step = problem.ROWS * problem.NVECS
    if isinstance(config, Groups):
        rows = sizes[0] if sizes else problem.ROWS
        fixed: tuple[int, ...] = (problem.ROWS, step)
        geometry = Geometry((max(1, up(rows + spec.CHUNK - 1, config.BLOCK)), 1, 1), config.BLOCK)
    elif isinstance(config, Persistent):
        count = tiles(problem, config)
        far, limit = sizes if sizes else (count, 2_000_000_000)
        fixed = (problem.ROWS, step, count, limit, far)
        geometry = Geometry(
            (work.blocks(config, device, count), 1, 1), work.threads(problem, config),
            work.shared_bytes(problem, config), cooperative=True,
        )  # fmt: skip
    else:
        fixed = (problem.ROWS, step, *sizes, team.size(work.work(problem), device))
        geometry = Geometry((1, 1, 1), 1)
    return Kernel(source(problem, config, device), geometry, fixed)


def tiles(problem: Problem, config: Persistent) -> int:
    return up(problem.ROWS, spec.CHUNK * config.TILE)


def flags(problem: Problem, device: Device) -> int:
    """Words that blocks of a persistent launch tell each other by."""
    return int(problem.P * device.multiprocessors + 1)


def source(problem: Problem, config: Config, device: Device | str) -> Source:
    """The kernel's text for a device, or for `cuda`, `emulated` or `cpu`."""
    target = device if isinstance(device, str) else device.backend
    blocks = 132 if isinstance(device, str) else device.multiprocessors
    return sources.source(
        problem, config, target, work=work, folder="sparse/powers", constants=_constants(problem, config, blocks),
        title=f"v_0 .. v_{problem.P}, {problem.dtype}, {problem.NVECS} columns", types=_types(problem),
        arguments=_arguments(config), without=("RETAIN",), cooperative=isinstance(config, Persistent),
    )  # fmt: skip


def _types(problem: Problem) -> dict[str, str]:
    return {"T": CPP_TYPES[problem.dtype], "V": CPP_TYPES[problem.values]}


def _traits(problem: Problem) -> dict[str, Any]:
    return {
        "INDEX": problem.index, "C": problem.C, "NVECS": problem.NVECS, "P": problem.P, "SHIFTED": problem.shifted,
        "THREE_TERM": problem.three_term, "OUTPUT": problem.output, "SETS": problem.sets, "RAGGED": problem.ragged,
    }  # fmt: skip


def _constants(problem: Problem, config: Any, blocks: int) -> dict[str, Any]:
    constants = _traits(problem)
    if isinstance(config, Persistent):
        constants |= {"FIRSTS": work.firsts(config), "BLOCKS": blocks}
        constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    return constants


def _arguments(config: Config) -> tuple[Field, ...]:
    """Pointers, scratch, sizes, and what changes from launch to launch."""
    if isinstance(config, Groups):
        return (*_MATRIX, *_VECTORS, *WORKSPACE, *integers(("ROWS", "step")), *_RANGE)
    if isinstance(config, Persistent):
        sizes = integers(("ROWS", "step", "tiles", "limit", "far"))
        return (*_MATRIX, *_VECTORS, _BEFORE, _FLAGS, _FAILED, *WORKSPACE, *sizes)
    ranges = (*(Field(name, "const int*", "pointer") for name in ("COMMON", "RANGES")), _REACH)
    return (*_MATRIX, *_VECTORS, *ranges, *WORKSPACE, *integers(("ROWS", "step", "ranges", "lag", "threads")))


# ---- the small kernels ------------------------------------------------------------------------------------


def fill(problem: Problem, device: Device, copied: bool | int, passes: int = 1) -> Kernel:
    """What precedes persistent launches. Pointers: X, COPY, VECTORS, FLAGS; `copied`: x goes to COPY as well."""
    words = problem.ROWS * problem.NVECS * (2 if problem.is_complex else 1)
    pointers = (_VECTORS[0], Field("COPY", "Params::T*", "pointer"), _VECTORS[1], _FLAGS)
    text = _small("fill", problem, device, (*pointers, *WORKSPACE, *integers(("words", "flags", "copied"))))
    fixed = ((problem.P - 1) * words, passes * flags(problem, device), words if copied else 0)
    return Kernel(text, _spread((problem.P - 1) * words, device), fixed)


def permute(problem: Problem, device: Device, count: int) -> Kernel:
    """Pointers: FROM, TO, MAP. `count` vectors, one behind the other on both sides."""
    ends = (Field("FROM", "const Params::T*", "pointer"), Field("TO", "Params::T*", "pointer"))
    pointers = (*ends, Field("MAP", "const int*", "pointer"))
    names = ("ROWS", "count", "from_step", "to_step", *(("threads",) if device.backend == "cpu" else ()))
    step = problem.ROWS * problem.NVECS
    vector = step * problem.itemsize  # each of the `count` is a loop of its own
    least = Work(vector + 4 * problem.ROWS, vector, 0, problem.dtype)
    threads = (team.size(least, device),) if device.backend == "cpu" else ()
    fixed = (problem.ROWS, count, step, step, *threads)
    text = _small("permute", problem, device, (*pointers, *WORKSPACE, *integers(names)))
    return Kernel(text, _spread(problem.ROWS, device), fixed)


def combine(problem: Problem, device: Device) -> Kernel:
    """Pointers: COEFFICIENTS, X, VECTORS (all powers), RESULT."""
    text = _small("combine", problem, device, (_MATRIX[-1], *_VECTORS, *WORKSPACE, *integers(("ROWS", "step"))))
    return Kernel(text, _spread(problem.ROWS, device), (problem.ROWS, problem.ROWS * problem.NVECS))


def _small(name: str, problem: Problem, device: Device, arguments: tuple[Field, ...]) -> Source:
    on_cpu = device.backend == "cpu"
    return instantiate(
        title=f"powers: {name}, {problem.dtype}",
        header=f"kernels/sparse/powers/{'permute.hpp' if on_cpu else f'kernel_{name}.cuh'}",
        function=f"powers_{name}",
        target=device.backend,
        types=_types(problem),
        constants=_traits(problem) | {"BLOCK": _BLOCK},
        arguments=arguments,
        bounds=None if on_cpu else (_BLOCK, 1),
    )


def _spread(items: int, device: Device) -> Geometry:
    """As many blocks as are resident, and no more than there is work for."""
    if device.backend == "cpu":
        return Geometry((1, 1, 1), 1)
    return Geometry((max(1, min(device.multiprocessors * _PER_SM, up(items, _BLOCK))), 1, 1), _BLOCK)
