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

On CPUs LAPACK answers, matrix by matrix: no kernel is compiled for sizes that few matrices have.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from ....arrays.kinds import KINDS
from ....arrays.types import Matrices
from ....backends.select import select
from ....plan import pin
from ...ragged import Ragged
from ...ragged_indices import Indices
from ...ragged_kernel import Runs, held_by
from ...ragged_lists import ragged_of
from ...ragged_vectors import Vectors
from ..plan import as_numpy
from ..task import Found, zeros
from . import library
from .ragged_chains import MATRICES, ClassChains
from .task import Task

_RUNS: Runs = WeakKeyDictionary()


def two_sided_ragged(task: Task, backend: str | None, A: Ragged, out: None) -> tuple[Matrices, ...] | None:
    """The parts of the task's result; None where sizes are answered one after the other."""
    if "D" in task.parts:  # reductions
        return None
    chosen = select(A._view.device, backend)
    if chosen.name == "cpu" and backend is None and not pin.pins():
        return _by_lapack(task, A)
    if chosen.name not in ("cuda", "emulated") or pin.pins():
        return None
    runs = held_by(_RUNS, A.layout)
    key = (task, backend, chosen.name, A._kind, A._view.dtype, A._view.device)
    if key not in runs:
        runs[key] = ClassChains(task, backend, chosen, A) if _is_usable(task, A) else None
    return None if runs[key] is None else runs[key](A)


def _by_lapack(task: Task, A: Ragged) -> tuple[Matrices, ...] | None:
    """The parts by LAPACK; None where a matrix is empty, not finite or does not converge."""
    one, buffer, kind = library.each(task), as_numpy(A.buffer), A._kind
    rows, columns, _ = A.layout.host()
    if one is None or not len(rows) or not min(rows.min(), columns.min()):
        return None
    if task.is_hermitian and (rows != columns).any():
        return None
    if not np.isfinite(buffer).all() and not np.isfinite(buffer[Indices.of(A.layout).place]).all():  # or gaps are not
        return None
    shapes, places = A.layout.pieces()
    try:
        found = [one(task, buffer[place].reshape(shape)) for place, shape in zip(places, shapes, strict=True)]
    except np.linalg.LinAlgError:
        return None
    parts = dict(zip(task.parts, zip(*found, strict=True), strict=False))
    made: Found = {part: ragged_of(KINDS["numpy"], list(parts[part]), part) for part in parts if part in MATRICES}
    made = {part: Ragged._of(kind, kind.upload(one.buffer, A.buffer), one.layout) for part, one in made.items()}
    made["W"] = Vectors.of(kind, parts["W"], A.buffer)
    return tuple(made[part] if part in made else zeros(kind, (len(rows),), "int32", A.buffer) for part in task.parts)


def _is_usable(task: Task, A: Ragged) -> bool:
    rows, columns, _ = A.layout.host()
    is_square = not (rows != columns).any()
    return bool(len(rows)) and (is_square or not (task.is_hermitian or task.full))
