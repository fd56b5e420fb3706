"""Calls of two-sided factorizations: batches of any form in, the parts of the result in the same form out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ....arrays.types import Array, Kind, Matrices
from ....plan import pin
from ...batched.interleaved import Interleaved, deinterleave, interleave
from ...ragged import Ragged
from ...ragged_lists import differ
from ...stacks import is_list
from ..face import Operation, Part, answer, check_matrices, first_bad, named
from ..task import Found
from .plan import compute, quick, singular_of_hermitian
from .ragged import two_sided_ragged
from .task import DRIVERS, Sizes, Task

Compute = Callable[[Kind, Array], Sequence[Array]]


def parts_of(
    task: Task, a: Matrices, backend: str | None, hermitian: bool = False, name: str = "a"
) -> tuple[Matrices, ...]:
    """The parts of the task's result, in their order; `name` is the argument's in messages."""
    known = None if hermitian else quick(task, backend, a)
    if known is not None:
        return tuple([known[part] for part in task.parts])
    if task.driver not in DRIVERS:
        raise ValueError(f"driver={task.driver!r} is not one of {', '.join(map(repr, DRIVERS))}")

    differs = isinstance(a, Ragged) or differ(a)

    def run(kind: Kind, A: Array) -> list[Array]:
        check_matrices(A, name, square=hermitian or task.is_hermitian)
        find = singular_of_hermitian if hermitian else _compute
        spares = differs and task.driver != "jacobi"
        found = find(kind, task, A, _without_compiling(kind, A, backend) if spares else backend)
        return [found[part] for part in task.parts]

    ragged = None if hermitian else partial(two_sided_ragged, task, backend)
    return answer_parts(run, tuple(_part(task, part) for part in task.parts), a, name, ragged)


def _without_compiling(kind: Kind, A: Array, backend: str | None) -> str | None:
    """The backend for the matrices of one size among others: LAPACK on CPUs, unless one was named or pinned."""
    on_cpu = kind.view(A[0] if is_list(A) else A, "a").device[0] == "cpu"
    return "reference" if backend is None and on_cpu and not pin.pins() else backend


def _compute(kind: Kind, task: Task, A: Array, backend: str | None) -> Found:
    return compute(task, kind, A, backend)


def _part(task: Task, part: str) -> Part:
    what = {"INFO": "info", "W": "row", "D": "row", "E": "row"}.get(part, "matrix")
    return Part(what, lambda a: Sizes(*a).shape(task, part))  # type: ignore[arg-type, return-value]


def answer_parts(
    run: Compute, parts: tuple[Part, ...], a: Matrices, name: str = "a", ragged: Callable[..., Any] | None = None
) -> tuple[Matrices, ...]:
    """The results of `run` on the matrices of a stack, a list, a Ragged or an Interleaved: matrices take its form.
    `ragged` answers batches of different sizes; without it `run` is called for each size."""
    if isinstance(a, Interleaved):
        found = answer_parts(run, parts, deinterleave(a), name)
        return tuple(
            interleave(one, a.lanes) if part.what == "matrix" else one for part, one in zip(parts, found, strict=True)
        )

    def delivered(kind: Kind, given: list[Matrices], places: list[Matrices]) -> list[Matrices]:
        found = list(run(kind, given[0]))
        for i, place in enumerate(places):
            if place is not None:
                for target, value in zip(place, found[i], strict=True):
                    target[...] = value
                found[i] = place
        return found

    return answer(Operation(delivered, parts, (name,), ragged=ragged), [a])


def refuse_unconverged(info: Matrices, what: str) -> None:
    """LinAlgError for the first matrix without a result."""
    bad = first_bad(info)
    if bad:
        at, count = bad
        raise np.linalg.LinAlgError(
            f"{what} did not converge: {named('a', at)} has entries that are not finite, or the iteration stopped "
            f"(info = {count})"
        )
