"""Factorizations of tensors in the CPU's memory by PyTorch's own routines, where NumPy's loops over LAPACK are slower.

A stack with a bad matrix is none for these routines: libraries differ in what they leave of it. LAPACK looks at its
matrices one after the other (`lapack.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...arrays.types import Array, Kind
from . import lapack, library
from .face import first_bad
from .task import Found, Task

# Rows or columns from which PyTorch's routine is faster. NumPy's loops call LAPACK at less cost: four systems of 8 x 8
# took 7 us beside 28, inverses of 24 x 24 164 beside 130, of 128 x 128 863 beside 371 (Xeon, one thread, 2026-11-19).
_LEAST = {
    ("cholesky", "factor"): 1, ("lu", "factor"): 1, ("qr", "r"): 1, ("qr", "reduced"): 1, ("qr", "complete"): 1,
    ("lu", "inverse"): 24, ("lu", "solve"): 96,
}  # fmt: skip


def bound(kind: Kind, task: Task, shape: tuple[int, ...]) -> Callable[[Array, Array], Found | None] | None:
    """A function of stacks A of this shape and right-hand sides that gives the parts of the task's result, or None for
    a stack that LAPACK is to look at; None where NumPy's loops answer."""
    least = _LEAST.get((task.family, task.want))
    if kind.on_host_alone or least is None or not task.pivot or max(shape[-2:]) < least or lapack.shared(task, shape):
        return None

    checked = task.family != "qr"  # LAPACKs differ in what their pivots make of NaN
    routine = by(kind, task) if task.family == "cholesky" else partial(library.answer, kind, task)

    def run(A: Array, B: Array) -> Found | None:
        if checked and not is_tame(kind, A):
            return None
        found = routine(A, B)
        return None if "INFO" in found and first_bad(found["INFO"]) is not None else found

    return run


def by(kind: Kind, task: Task) -> Callable[[Array, Array], Found]:
    """Cholesky factors, without detours: of tiny matrices each costs as much as the factor."""
    cholesky, upper = kind.linalg.cholesky, task.upper

    def answer(A: Array, B: Array) -> Found:
        factor, info = cholesky(A, upper)
        return {"F": factor, "INFO": info}

    return answer


def is_tame(kind: Kind, A: Array) -> bool:
    """Whether the entries of a stack in the CPU's memory are finite, and not so large that their squares are not."""
    here = kind.download(A)
    return bool(abs(np.vdot(here, here)) < np.inf)
