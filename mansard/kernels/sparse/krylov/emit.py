"""Instantiation text and launch geometry of `krylov`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from typing import Any

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import sources
from . import space_cpu, spec, work
from .space import Config

_SHARED = (Field("STATE", "double*", "pointer"), Field("BOX", "double*", "pointer"))
_CG = (*sources.matrices("X", "R", "P", "Q", "D", written="XRP"), *_SHARED)
_MINRES = (*sources.matrices("X", "V", "U", "V_BEFORE", "W", "W_BEFORE", written=("X", "V", "U", "W_BEFORE")), *_SHARED)
_REALS = {"cg": ("goal", "least"), "minres": ("goal", "roundoff", "small", "shift", "left")}


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` is the pass, by its number. All passes of a dtype are one text.

    Pointers of cg: X, R, P, Q, D (0: no preconditioner), STATE, BOX (64 bytes that the host reads). Scalars: the norm
    that the residual is to reach, and the share of the first rho below which it is rounding.
    Pointers of minres: X, V, U, V_BEFORE, W, W_BEFORE, STATE, BOX. Scalars: the goal; the roundoff, and its power that
    tells a singular column; the shift; and, for SCALE, the norm of the vector in U.
    """
    fixed = (spec.words(problem), *strides, *sources.threads(config, device))
    return Kernel(source(problem, config, device.backend), launch_geometry(problem, config, device), fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    is_cg = problem.solver == "cg"
    numbers: dict[str, Any] = {one.name: one.value for one in (*(spec.Phase if is_cg else spec.Lanczos), *spec.Status)}
    reals = (Field(name, "double", "real") for name in _REALS[problem.solver])
    pointers = _CG if is_cg else _MINRES
    return sources.source(
        problem, config, target, work=work, folder="sparse/krylov", constants=numbers,
        title=f"passes of {problem.solver}, {problem.dtype}", types={"T": CPP_TYPES[spec.real(problem.dtype).name]},
        arguments=(*pointers, *WORKSPACE, *sources.integers(("words", "phase"), config), *reals),
    )  # fmt: skip


def launch_geometry(problem: Problem, config: Any, device: Device) -> Geometry:
    """Grid, block and workspace for the problem's vectors."""
    if config.TARGET == "cpu":
        return Geometry((1, 1, 1), 1, partial_bytes=space_cpu.workspace_bytes(problem, config, device.multiprocessors))
    blocks = work.blocks(problem, config, device)
    return Geometry((blocks, 1, 1), work.threads(problem, config), partial_bytes=16 * blocks)
