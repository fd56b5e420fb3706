"""Who answers a two-sided factorization, with the reason: one kernel, a chain of them, or a library."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from ....arrays.types import Kind
from ....backends.select import ReferenceBackend
from ....errors import UnsupportedProblem
from ....kernels import family_of
from ....kernels.factor import divide, jacobi
from ....kernels.factor.two_sided.reductions import MOST_OF_BLOCK, fits_registers
from ....kernels.family import Family
from ....plan import dispatch, pin
from ....plan.problem import Problem
from ....plan.route import Choice, Library, Request, Steps
from ....plan.route import Kernel as KernelRoute
from ...stacks import Operand
from . import library as by_library
from .chain import chain_of, methods
from .chunked import Layout, layout_of, problems_of
from .task import Sizes, Task

PHASES = "phases"  # the name of the chain among routes of steps
_ROUTINE = "the array library, or LAPACK"
_REDUCTIONS = "LAPACK's sytrd, hetrd and gebrd"
_REFLECTIONS = "reflections, made of the array library's products"
_CHAIN = "reduction, iteration and back transformation, a kernel each"


class Decision(NamedTuple):
    """The route, and the task as the kernels take it (its driver is the method); None: a library answers."""

    choice: Choice
    method: Task | None = None
    layout: Layout | None = None


def problem_of(task: Task, dtype: str, sizes: Sizes, count: int, on_cpu: bool) -> tuple[Family, Problem]:
    """The family of the first kernel that might answer, and its problem for packed square matrices."""
    found = chain_of(task, dtype, min(sizes), count, on_cpu)[0]
    return family_of(found.operation), found


def decide(task: Task, a: Operand, chosen: Any, kind: Kind, backend: str | None) -> Decision:
    """The route for matrices like those of A, of which the smaller size counts."""
    order, count = min(a.rows, a.columns), prod(a.shape)
    square = a._replace(rows=order, columns=order)
    family, _ = problem_of(task, a.view.dtype, Sizes(order, order), count, chosen.device.backend == "cpu")
    reason = _no_kernel(chosen) or (no_lanes(task, a.view.dtype, order) if chosen.name == "cpu" else None)
    if backend is None and chosen.name == "cuda":
        reason = reason or too_few(task, order, count)
    if reason is None:
        may_hand_over = backend is None and task.driver != "jacobi"
        request = Request.of(chosen, task.want, may_hand_over=may_hand_over)
        layout = layout_of(square, chosen.name == "cpu")
        few = count < divide.defaults.fewest_of_sweeps(task.want, a.view.dtype, order, chosen.device)
        rotates = count < jacobi.defaults.fewest_of_chains(task.want, a.view.dtype, order, chosen.device)
        for method in methods(task, a.view.dtype, order, chosen.name == "cpu", few, rotates):
            decision, refused = _by_kernels(method, square, layout, count, request)
            if decision is not None:
                return decision
            reason = reason or refused
    return Decision(_library(task, family, reason or f"{order} rows: no kernel of ours takes them", kind, a))


def _no_kernel(chosen: Any) -> str | None:
    """Why a library answers before kernels are asked, or None."""
    if isinstance(chosen, ReferenceBackend):
        return "the reference was asked for, or nothing can be compiled here"
    if pin.pins().get("VARIANT") == "vendor":
        return "the vendor's routine was pinned"
    return None


def no_lanes(task: Task, dtype: str, order: int) -> str | None:
    """Why CPUs have no kernel for matrices of so many rows, or None: a matrix per SIMD lane, or none."""
    if "D" in task.parts:
        return "CPUs have no kernels for reductions alone"
    if task.driver == "qr":
        return "driver='qr' is LAPACK's on CPUs"
    method = "jacobi" if task.driver == "jacobi" else "any"
    problem = jacobi.spec.problem(dtype, order, 1, want=task.want, method=method)
    return jacobi.spec.too_large(problem, jacobi.spec.largest_on_cpu(problem))


def too_few(task: Task, order: int, count: int) -> str | None:
    """Why a library answers for few large matrices on a GPU, or None: our iteration takes as long for one as for many
    (256 rows: 16 ms with eigenvectors, 31 ms with singular vectors; PyTorch takes 2 and 10 ms for each matrix)."""
    enough = count * (32 if task.is_hermitian else 128) >= order
    if enough or order <= MOST_OF_BLOCK or "D" in task.parts or task.driver != "auto":
        return None
    return f"no more than {count} of {order} rows: an iteration of ours takes longer than a library does for all"


def _by_kernels(
    method: Task, a: Operand, layout: Layout, count: int, request: Request
) -> tuple[Decision | None, str | None]:  # fmt: skip
    """The decision for kernels, or why one of them is missing."""
    chain = problems_of(method, a, layout, count)
    choices = [dispatch.decide(link.problem, request) for link in chain]
    for choice in choices:
        if not isinstance(choice.route, KernelRoute):
            return None, choice.reason
    if len(choices) == 1:
        return Decision(_said(choices[0], count, a.columns), method, layout), None
    how = "" if fits_registers(a.view.dtype, a.columns) else ", more than registers hold: by panels, in global memory"
    reason = f"{a.columns} rows{how}: reflections to condensed form, then a thread per matrix iterates on it"
    if method.driver in ("divide", "bisect"):
        way = "divide and conquer" if (method.driver, method.want) == ("divide", "eigh") else "multisection"
        reason = f"{count} matrices of {a.columns} rows{how}: reflections to condensed form, then {way} by a block each"
        reason += ", whose values are shifts of a thread per matrix" if method.driver == "bisect" else ""
    if "D" in method.parts:
        reason = f"{a.columns} rows{how}: the reduction, then its reflections as matrices"
    return Decision(Choice(choices[0].family, Steps(PHASES, _CHAIN, reason), "rule"), method, layout), None


def _said(choice: Choice, count: int, order: int) -> Choice:
    """The choice of a single launch, with the reason where a block has a matrix."""
    if not isinstance(choice.route, KernelRoute) or not isinstance(choice.config, jacobi.space.Block):
        return choice
    reason = f"{count} matrices of {order} rows: a block each rotates pairs of columns, in shared memory; "
    return replace(choice, route=replace(choice.route, reason=reason + choice.reason))


def _library(task: Task, family: Family, reason: str, kind: Kind, a: Operand) -> Choice:
    if "D" in task.parts:
        on_cpu = a.view.device[0] == "cpu"
        return Choice(family, Library(_REDUCTIONS if on_cpu else _REFLECTIONS, reason), "rule")
    refused = by_library.refusal(kind, a.view.device[0] == "cpu", task, a.view.dtype)
    if refused:
        raise UnsupportedProblem(f"driver='jacobi': {reason}, and {refused}: use driver='auto' or 'qr'")
    return Choice(family, Library(_ROUTINE, reason), "rule")
