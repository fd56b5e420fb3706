"""Who answers instead of one kernel: rules that hold on every device, and records of the device at hand.

A rule's reason does not depend on the device: how often an element is used, what a launch or a compilation costs, what
fits into a cache. What was measured on one GPU is a record (`route_records.py`, and numbers of `measured.py`). A GPU
without records is judged by the model, or by assumptions that say so. `dispatch.candidates` asks these functions; calls
and `mansard explain` ask dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..backends import cpu
from ..kernels.batched.trsm import spec as trsm_spec
from . import few_matrices, first_calls, route_records
from .batched_rules import blocks, inverted_blocks, many_unknowns, updates, wide_batch, wide_triangles
from .factor_rules import beyond_tiny, few_tiny, large_or_few, may_divide, steps
from .libraries import FACTORS, is_tuned, library
from .problem import Problem
from .route import REFERENCE, Choice, Request
from .tall_skinny_rules import is_rivalled


def settled(problem: Problem, request: Request) -> Iterator[Choice]:
    """Routes that neither pins nor records nor the caller's choice of a backend change."""
    if request.operation == "matmul" and problem.operation == "gemm":
        yield library(problem, request, "neither operand is tall and skinny")
    if problem.operation != "trsm" or not request.operation:
        return
    if request.inverts and request.backend != REFERENCE:
        yield inverted_blocks(problem)
    wide = trsm_spec.too_wide(problem.N, trsm_spec.WIDEST)
    if wide and request.device.backend == "cpu":
        yield library(problem, request, wide)


def not_worth_compiling(problem: Problem, request: Request) -> Iterator[Choice]:
    """The library for work too little to earn a compilation, unless a record speaks for a kernel."""
    reason = first_calls.too_little(problem, request)
    if reason and not is_tuned(problem, request):
        yield library(problem, request, reason)


def faster_than_kernel(problem: Problem, request: Request) -> Iterator[Choice]:
    """Libraries and steps that a record of the device, or a rule, prefers to one kernel."""
    found = route_records.find(problem, request.device) if _has_records(problem, request) else None
    if found is not None and (found.is_final or not is_tuned(problem, request)):
        if found.route == route_records.LIBRARY:
            yield library(problem, request, found.reason, "tuned")
        elif found.route == route_records.STEPS:
            yield steps(problem, found.reason, "tuned")
        else:
            return
    if problem.operation in _RULES:
        yield from _RULES[problem.operation](problem, request)


_RULES: dict[str, Callable[[Problem, Request], Iterator[Choice]]] = {
    "gemm": wide_batch, "rank_k": updates, "trsm": many_unknowns, "trmm": wide_triangles,
    "jacobi": few_tiny, "systems": beyond_tiny, **dict.fromkeys(FACTORS, large_or_few),
}  # fmt: skip


def _has_records(problem: Problem, request: Request) -> bool:
    """Whether records of routes answer such requests. The emulator has blocks, but no library as a rival."""
    if problem.operation in ("trsm", "trmm"):
        return request.device.backend != "cpu"
    return is_rivalled(problem, request) or (request.backend == "cuda" and problem.operation in (*FACTORS, "gemm"))


def without_kernel(problem: Problem, choice: Choice, request: Request) -> Choice:
    """The route where a family has no kernel: steps, if they are known and nobody named a library, or the library."""
    refused = choice.origin not in ("pinned", "tuned") and bool(request.operation)
    if refused and request.may_divide and problem.operation in FACTORS and may_divide(problem, request):
        if reason := few_matrices.too_few(problem, request):
            return library(problem, request, f"{choice.reason}; {reason}")
        return steps(problem, choice.reason, choice.origin)
    if refused and problem.operation == "trsm" and request.device.backend != "cpu":
        widest = trsm_spec.widest(problem)
        if widest < problem.N:
            return blocks(problem, f"{problem.N} unknowns, beyond {widest} no kernel takes them at once")
    return library(problem, request, choice.reason, choice.origin)


def without_compiler(problem: Problem, request: Request) -> Choice:
    """The library, where the backend has no kernels."""
    return library(problem, request, (cpu.unavailable() if request.on_cpu else None) or "the reference was asked for")
