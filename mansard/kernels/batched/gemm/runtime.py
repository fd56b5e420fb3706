"""The CPU kernel of products whose sizes are arguments (`kernel_runtime.hpp`): its configuration, which problems
it takes, and how it is launched. It serves `gemv` as well, whose vectors are matrices of one column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Source, instantiate
from ....plan.problem import Problem
from ...common import sources
from ...common.configs import OnCpu
from ...common.vectors import words_of
from . import work

WIDEST = 32  # rows, columns, depth: operands of a few products fit the first cache
_CHUNK_BYTES, _LINE = 1 << 14, 64  # of right operands in rows, as the kernel has it; of a cache line
_INTEGERS = ("BATCH", "a_matrix", "a_row", "a_col", "b_matrix", "b_row", "b_col", "c_matrix", "c_row", "c_col",
             "M", "N", "K", "swap", "dots", "conj_a", "conj_b", "accumulate")  # fmt: skip


@dataclass(frozen=True)
class Runtime(OnCpu):
    """Tiles of C in registers, sizes and layouts as arguments: one kernel for all products of a dtype."""

    VARIANT: ClassVar[str] = "runtime"
    HEADER = "kernel_runtime.hpp"


def illegal(problem: Problem) -> str | None:
    """Why the kernel cannot be used, or None if it can."""
    stacks = [getattr(problem, f"stack_{side}") for side in "abc"]
    vectors = ("b", "c") if problem.operation == "gemv" else ()  # entries of vectors may lie anywhere
    if any(getattr(problem, f"layout_{side}") == "any" for side in "abc" if side not in vectors):
        return "arbitrary strides are copied to rows first"
    if stacks[2] == "shared":
        return "the matrices of C need a place each"
    if {"pointers", "interleaved"} & set(stacks):
        return "matrices that follow each other at equal distances alone"
    if max(problem.M, problem.N, problem.K) > WIDEST:
        return f"{problem.M} x {problem.N} x {problem.K}: beyond {WIDEST} operands leave the first cache"
    return None


def kernel(problem: Problem, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C, matrices, rows, columns, in elements."""
    sizes = (problem.M, problem.N, problem.K)
    steps = [list(strides[i : i + 3]) for i in (0, 3, 6)]
    for side, step in zip("abc", steps, strict=True):
        if getattr(problem, f"stack_{side}") == "shared":
            step[0] = 0
    dots = problem.operation == "gemv" and not problem.is_complex and steps[0][2] == steps[1][1] == 1
    flags = (_swaps(problem, steps) and not dots, dots, problem.conj_a, problem.conj_b, problem.accumulate)
    fixed = (problem.BATCH, *chain.from_iterable(steps), *sizes, *map(int, flags))
    threads = sources.threads(Runtime(), device, work.work(problem))
    geometry = Geometry((1, 1, 1), 1, partial_bytes=workspace_bytes(problem, device.multiprocessors))
    return Kernel(source(problem), geometry, (*fixed, *threads))


def _swaps(problem: Problem, steps: list[list[int]]) -> bool:
    """Whether C^T = B^T A^T is computed: lanes run along what is adjacent in C."""
    _, row, column = steps[2]
    return row == 1 if problem.N == 1 else column != 1


def source(problem: Problem) -> Source:
    """The kernel's text, which is the same for all problems of a dtype."""
    pointers = sources.matrices("A", "B", "C", written="C")
    return instantiate(
        title=f"gemm: sizes as arguments, {problem.dtype}, runtime",
        header="kernels/batched/gemm/kernel_runtime.hpp",
        function="gemm_runtime",
        target="cpu",
        types={"T": CPP_TYPES[problem.dtype]},
        constants={},
        arguments=(*pointers, *WORKSPACE, *sources.integers((*_INTEGERS, "threads")), *SCALARS),
    )


def workspace_bytes(problem: Problem, threads: int) -> int:
    """For each thread the right operands of a chunk of matrices, or of one, in rows."""
    words, real = words_of(problem)
    row = -(-words * max(problem.M, problem.N) * real // _LINE) * _LINE
    return int(threads * max(_CHUNK_BYTES, problem.K * row))
