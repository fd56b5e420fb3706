"""Eigenvalues and singular values of small stacks by NumPy's loops over LAPACK, without the checks around them.

Those checks take as long as LAPACK for a few small matrices. A stack with an entry that is not finite, or for which an
iteration does not converge, is none for these loops: whoever asked looks at it closely (`library.py`). Like
`numpy.linalg`, which does look closely, they compute in double precision and round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ....arrays.types import Array
from ..lapack import loop_of, quietly
from ..task import Found
from .task import Task

_NAMES = {
    ("eigh", False): "eigh_lo", ("eigh", True): "eigh_up",
    ("eigvalsh", False): "eigvalsh_lo", ("eigvalsh", True): "eigvalsh_up",
    ("svd", False): "svd_s", ("svd", True): "svd_f", ("svdvals", False): "svd",
}  # fmt: skip
_WIDE = {"float32": "d", "float64": "d", "complex64": "D", "complex128": "D"}  # what LAPACK computes in


def bound(task: Task, dtype: str) -> Callable[[Array], Found | None] | None:
    """A function of NumPy stacks that gives the parts of the task's result, or None for a stack that is to be looked at
    closely; None where NumPy has no such loop."""
    loop = loop_of(_NAMES.get((task.want, task.upper if task.is_hermitian else task.full), ""))
    if loop is None or task.driver != "auto":
        return None
    wide, given = np.dtype(_WIDE[dtype]), np.dtype(dtype)
    computed, parts = wide.char + "->", {}
    for name in task.parts[:-1]:
        is_real = name == "W"
        computed += wide.char.lower() if is_real else wide.char
        parts[name] = np.dtype(given.char.lower()) if is_real else given
    return partial(_answer, loop, computed, parts)


def _answer(loop: Callable[..., Array], signature: str, dtypes: dict[str, np.dtype[Any]], A: Array) -> Found | None:
    if not abs(np.vdot(A, A)) < np.inf:  # not finite, or so large that its square is not
        return None
    found = quietly(loop, A, signature=signature)
    if found is None:
        return None
    each = zip(dtypes.items(), found if len(dtypes) > 1 else (found,), strict=True)
    parts: Found = {name: one.astype(dtype, copy=False) for (name, dtype), one in each}
    parts["INFO"] = np.zeros(A.shape[:-2], np.int32)
    return parts
