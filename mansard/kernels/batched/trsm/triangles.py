"""Kernels of triangular systems (`trsm`) and triangular products (`trmm`): the text and the teams of lanes of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import batches, lanes, sources
from .systems import system

OPERANDS = {"a": "a", "b": "b", "x": "c"}  # and what gemm's images call them


def source(
    work: sources.Resources, images: Callable[[Problem, Any], dict[str, Any]], title: str, problem: Problem,
    config: Any, target: str,
) -> Source:  # fmt: skip
    """The kernel's text for `target` (cuda, emulated or cpu); `images` are constants of its shared memory."""
    more = batches.stacks(problem, OPERANDS)
    if config.TARGET != sources.ON_CPU:
        more = {"ALIGNED": problem.aligned, "SHARED_BYTES": work.shared_bytes(problem, config)}
        more |= images(problem, config)
    return sources.source(
        problem, config, target, work=work, folder=f"batched/{problem.operation}",
        constants=_constants(problem) | more, title=title.format(n=problem.N, k=problem.NRHS, dtype=problem.dtype),
        arguments=_arguments(problem, config),
    )  # fmt: skip


def _arguments(problem: Problem, config: Any) -> tuple[Field, ...]:
    """Pointers, scratch, sizes and strides, scalars. Where the problem is transposed, rows are called columns."""
    what = system(problem)
    turned = {"a": what.a_turned, "b": what.x_turned, "x": what.x_turned}
    pointers = (batches.pointer(problem, config, name, written=name == "x") for name in OPERANDS)
    integers = ["BATCH", *(step for name in OPERANDS for step in batches.steps(name, turned[name]))]
    return (*pointers, *WORKSPACE, *sources.integers(integers, config), *SCALARS)


def _constants(problem: Problem) -> dict[str, Any]:
    what = system(problem)
    layouts = {f"LAYOUT_{name.upper()}": getattr(what.operands, f"layout_{gemm}") for name, gemm in OPERANDS.items()}
    sizes: dict[str, Any] = {"N": problem.N, "NRHS": problem.NRHS}
    return sizes | {"UPPER": what.upper, "UNIT": what.unit, "CONJ": what.conj} | layouts


def illegal_lanes(widest: int, lanes_shape: Callable[[Problem, Any], Any], problem: Problem, c: Any) -> str | None:
    """Why a team of lanes does not fit a problem of at most `widest` rows, or None if it does; resources apart."""
    if widest < problem.N or c.WARPS > 32:
        return f"{problem.N} rows, {c.WARPS} warps: at most {widest} and 32"
    reason = lanes.illegal(
        c, "B", problem.stack_b == "shared", lambda: (lanes_shape(problem, c).b, lanes_shape(problem, c).x)
    )
    if reason is None and c.TRIANGLE and (problem.stack_a == "shared" or lanes_shape(problem, c).a.feed != "flat"):
        return "TRIANGLE: only of a packed stack"
    return reason
