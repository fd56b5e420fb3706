"""Eigenvalues and singular values of stacks by NumPy's loops over LAPACK, without the checks around them.

Those checks take as long as LAPACK for a few small matrices. A stack with an entry that is not finite, or for which an
iteration does not converge, is none for these loops: whoever asked looks at it closely (`library.py`). Like
`numpy.linalg`, which does look closely, they compute small matrices in double precision and round; larger ones in the
precision that they have, which is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ....arrays.types import Array
from ..lapack import loop_of, quietly
from ..task import Found
from .task import Sizes, Task

_NAMES = {
    ("eigh", False): "eigh_lo", ("eigh", True): "eigh_up",
    ("eigvalsh", False): "eigvalsh_lo", ("eigvalsh", True): "eigvalsh_up",
    ("svd", False): "svd_s", ("svd", True): "svd_f", ("svdvals", False): "svd",
}  # fmt: skip
_WIDE = {"float32": "d", "float64": "d", "complex64": "D", "complex128": "D"}  # what LAPACK computes small ones in
_SINGLE = 1 << 16  # entries times the smaller side from which single precision is a sixth faster or more
Parts = tuple[Array, ...]


def routine(task: Task, dtype: str, sizes: Sizes) -> Callable[[Array], Parts | None] | None:
    """A function of NumPy stacks of finite entries that gives the parts without `info`, or None where an iteration does
    not converge; None where NumPy has no such loop."""
    loop = loop_of(_NAMES.get((task.want, task.upper if task.is_hermitian else task.full), ""))
    if loop is None or task.driver != "auto":
        return None
    is_large = sizes.M * sizes.N * min(sizes) >= _SINGLE
    given, computed = np.dtype(dtype).char, np.dtype(dtype).char if is_large else _WIDE[dtype]
    letters = ["".join(one.lower() if part == "W" else one for part in task.parts[:-1]) for one in (computed, given)]
    return partial(_parts, loop, f"{computed}->{letters[0]}", letters[1])


def _parts(loop: Callable[..., Array], signature: str, dtypes: str, A: Array) -> Parts | None:
    found = quietly(loop, A, signature=signature)
    if found is None:
        return None
    each = zip(dtypes, found if len(dtypes) > 1 else (found,), strict=True)
    return tuple(one.astype(dtype, copy=False) for dtype, one in each)


def bound(task: Task, dtype: str, sizes: Sizes) -> Callable[[Array], Found | None] | None:
    """A function of NumPy stacks that gives the parts of the task's result, or None for a stack that is to be looked at
    closely; None where NumPy has no such loop."""
    run = routine(task, dtype, sizes)
    return None if run is None else partial(_answer, run, task.parts[:-1])


def _answer(run: Callable[[Array], Parts | None], names: tuple[str, ...], A: Array) -> Found | None:
    if not abs(np.vdot(A, A)) < np.inf:  # not finite, or so large that its square is not
        return None
    found = run(A)
    if found is None:
        return None
    return dict(zip(names, found, strict=True)) | {"INFO": np.zeros(A.shape[:-2], np.int32)}
