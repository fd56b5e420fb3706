"""Two-sided factorizations of ragged batches, one chain of kernels per size class (`ragged_classes`).

The matrices of a class are gathered into a stack of its largest size and padded with zeros,

    [A 0]   [Z 0] [W 0] [Z 0]^H         [A 0]   [U 0] [S 0] [V 0]^H
    [0 0] = [0 I] [0 0] [0 I]     and   [0 0] = [0 I] [0 0] [0 I]

Reflections and rotations of the padding are identities, so that A's part is what it would be alone, and nothing is
scaled by what the padding holds. Singular values of the padding are zeros and come last; of equal values the first
column comes first, which is A's. Eigenvalues of the padding stand between negative and positive ones and are left out:
by their eigenvectors, which lie in the rows of the padding, or, without vectors, as the values nearest to zero
(`unpadded.py`).

Jacobi's method completes U with the unit vectors farthest from its columns, which would be those of the padding where A
is deficient: singular vectors of so small matrices are computed by a kernel for each shape.

CPUs have one kernel for matrices of all sizes (`ragged_lanes.py`).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ....arrays.types import Matrices
from ....backends.select import select
from ....plan import pin
from ...ragged import Ragged
from ...ragged_kernel import Runs, held_by
from . import library
from .ragged_chains import ClassChains
from .ragged_lanes import by_lanes
from .task import Task

_RUNS: Runs = WeakKeyDictionary()


def two_sided_ragged(task: Task, backend: str | None, A: Ragged, out: None) -> tuple[Matrices, ...] | None:
    """The parts of the task's result; None where sizes are answered one after the other."""
    if "D" in task.parts:  # reductions
        return None
    chosen = select(A._view.device, backend)
    if chosen.name == "cpu" and not pin.pins():
        has_one = library.refusal(A._kind, True, task, A._view.dtype) is None  # a routine of LAPACK's
        is_taken = task.driver == "auto" or (backend is None and has_one)
        return by_lanes(task, chosen, A, backend is not None) if is_taken else None
    if chosen.name not in ("cuda", "emulated") or pin.pins():
        return None
    runs = held_by(_RUNS, A.layout)
    key = (task, backend, chosen.name, A._kind, A._view.dtype, A._view.device)
    if key not in runs:
        runs[key] = ClassChains(task, backend, chosen, A) if _is_usable(task, A) else None
    return None if runs[key] is None else runs[key](A)


def _is_usable(task: Task, A: Ragged) -> bool:
    rows, columns, _ = A.layout.host()
    is_square = not (rows != columns).any()
    return bool(len(rows)) and (is_square or not (task.is_hermitian or task.full))
