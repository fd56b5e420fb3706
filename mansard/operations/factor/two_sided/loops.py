"""Eigenvalues and singular values of small stacks by NumPy's loops over LAPACK, without the checks around them.

Those checks take as long as LAPACK for a few small matrices. A stack with an entry that is not finite, or for which an
iteration does not converge, is none for these loops: whoever asked looks at it closely (`library.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
_LETTERS = {"float32": "f", "float64": "d", "complex64": "F", "complex128": "D"}


def bound(task: Task, dtype: str) -> Callable[[Array], Found | None] | None:
    """A function of NumPy stacks that gives the parts of the task's result, or None for a stack that is to be looked at
    closely; None where NumPy has no such loop."""
    loop = loop_of(_NAMES.get((task.want, task.upper if task.is_hermitian else task.full), ""))
    if loop is None or task.driver != "auto":
        return None
    letter, names = _LETTERS[dtype], task.parts[:-1]
    results = "".join(letter.lower() if name == "W" else letter for name in names)
    return partial(_answer, loop, f"{letter}->{results}", names)


def _answer(loop: Callable[..., Array], signature: str, names: tuple[str, ...], A: Array) -> Found | None:
    if not abs(np.vdot(A, A)) < np.inf:  # not finite, or so large that its square is not
        return None
    found = quietly(loop, A, signature=signature)
    if found is None:
        return None
    parts: Found = dict(zip(names, found if len(names) > 1 else (found,), strict=True))
    parts["INFO"] = np.zeros(A.shape[:-2], np.int32)
    return parts
