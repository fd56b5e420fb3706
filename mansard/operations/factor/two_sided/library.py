"""Two-sided factorizations by NumPy's, CuPy's and PyTorch's own routines: LAPACK on CPUs, cuSOLVER on GPUs.

Every matrix gets its `info`: N + 1 if it has an entry that is not finite, 1 if the iteration did not converge. The
parts of such a matrix are NaN, and its neighbours are not disturbed. Libraries raise for a whole stack if one matrix is
bad; then, and only then, the stack is divided until the bad ones are found.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ....arrays.types import Array, Kind
from ..lapack import in_shares
from ..task import Found, zeros
from . import loops
from .task import Sizes, Task, dtype_of

ONE_CORE = 96  # rows or columns up to which OpenBLAS keeps to one core


def answer(kind: Kind, task: Task, A: Array) -> Found:
    """The parts of the task's result for a stack A (..., m, n) of NumPy, CuPy or PyTorch; no size is zero."""
    lead, (M, N) = tuple(A.shape[:-2]), A.shape[-2:]
    flat, one = A.reshape(-1, M, N), partial(answer_alone, kind, task)
    if kind.on_host_alone:
        found = in_shares(one, [flat], ONE_CORE)
    else:
        most = kind.most_eigenproblems
        found = _joined(kind, [one(flat[i : i + most]) for i in range(0, len(flat), most)])
    return {part: found[part].reshape((*lead, *found[part].shape[1:])) for part in task.parts}


def answer_alone(kind: Kind, task: Task, A: Array) -> Found:
    """The parts for a stack (batch, m, n), by the calling thread alone."""
    finite, bad = _finite(kind, task, A)
    found = _guarded(kind, partial(routine(kind, task), task), task, finite)
    if bad is not None:
        _spoil(kind, found, bad, min(A.shape[-2:]) + 1)
    return found


def refusal(kind: Kind, on_cpu: bool, task: Task, dtype: str) -> str | None:
    """Why the array library, or LAPACK on CPUs, has no Jacobi method, where that was asked for, or None."""
    if task.driver != "jacobi":
        return None
    if task.is_hermitian:
        has_one = kind.has_numpy_methods and not on_cpu  # CuPy
        return None if has_one else "no library here has Jacobi's method for Hermitian matrices"
    lacking = on_cpu and dtype.startswith("complex")
    return "SciPy has Jacobi's method (gejsv) for real matrices only" if lacking else None


# ---- bad matrices -----------------------------------------------------------------------------------------


def _finite(kind: Kind, task: Task, A: Array) -> tuple[Array, Array]:
    """The stack with zeros in place of matrices that are not finite, and which these are; None: none. Only the
    triangle that is read counts. Nothing waits for a GPU: there the second result is always an array."""
    module = kind.module
    if kind.on_host_alone and np.isfinite(A).all():
        return A, None
    read = A if not task.is_hermitian else (module.triu if task.upper else module.tril)(A)
    bad = ~module.isfinite(read).reshape(len(A), -1).all(-1)
    return module.where(bad[:, None, None], 0 * module.ones_like(read), read), bad


def _spoil(kind: Kind, found: Found, bad: Array, info: int) -> None:
    """NaN for the parts of bad matrices, and their info."""
    for part, one in found.items():
        value = info if part == "INFO" else float("nan")
        shape = (len(bad), *(1 for _ in one.shape[1:]))
        found[part] = kind.module.where(bad.reshape(shape), kind.module.full_like(one, value), one)


def _guarded(kind: Kind, run: Callable[[Array], tuple[Array, ...]], task: Task, A: Array) -> Found:
    """The parts of a flat stack; where the library raises, those of its halves."""
    names = task.parts[:-1]
    try:
        made = run(A)
    except errors(kind):
        if len(A) > 1:
            half = len(A) // 2
            return _joined(kind, [_guarded(kind, run, task, A[:half]), _guarded(kind, run, task, A[half:])])
        sizes, dtype = Sizes(*A.shape[-2:]), kind.view(A, "a").dtype
        made = tuple(zeros(kind, (1, *sizes.shape(task, part)), dtype_of(part, dtype), A) for part in names)
        for one in made:
            one[...] = float("nan")
        return dict(zip(names, made, strict=True)) | {"INFO": zeros(kind, (1,), "int32", A) + 1}
    return dict(zip(names, made, strict=True)) | {"INFO": zeros(kind, (len(A),), "int32", A)}


def errors(kind: Kind) -> tuple[type[Exception], ...]:
    return (np.linalg.LinAlgError, getattr(kind.module.linalg, "LinAlgError", np.linalg.LinAlgError))


def _joined(kind: Kind, found: list[Found]) -> Found:
    if len(found) == 1:
        return found[0]
    return {part: kind.module.concatenate([one[part] for one in found]) for part in found[0]}


# ---- routines ---------------------------------------------------------------------------------------------


def routine(kind: Kind, task: Task) -> Callable[[Task, Array], tuple[Array, ...]]:
    """The function that computes the parts without `info`."""
    if kind.on_host_alone and task.driver != "auto":
        return partial(_one_by_one, _EACH[task.driver, task.is_hermitian])
    if kind.on_host_alone:
        return _by_loop
    by: Any = kind.module.linalg
    return partial(_numpy if kind.has_numpy_methods else _torch, by)


def _by_loop(task: Task, A: Array) -> tuple[Array, ...]:
    """NumPy's loop; its public functions where it has no such loop."""
    run = loops.routine(task, A.dtype.name, Sizes(*A.shape[-2:]))
    if run is None:
        return _numpy(np.linalg, task, A)
    found = run(A)
    if found is None:
        raise np.linalg.LinAlgError("an iteration did not converge")
    return found


def _numpy(by: Any, task: Task, A: Array) -> tuple[Array, ...]:
    """NumPy's functions, and CuPy's of the same names."""
    if task.want == "eigh":
        return tuple(by.eigh(A, UPLO=_triangle(task)))
    if task.want == "eigvalsh":
        return (by.eigvalsh(A, UPLO=_triangle(task)),)
    if task.want == "svdvals":
        return (by.svd(A, compute_uv=False),)
    return tuple(by.svd(A, full_matrices=task.full))


def _torch(by: Any, task: Task, A: Array) -> tuple[Array, ...]:
    """PyTorch's functions; the drivers that cuSOLVER has are passed on."""
    if task.want == "eigh":
        return tuple(by.eigh(A, UPLO=_triangle(task)))
    if task.want == "eigvalsh":
        return (by.eigvalsh(A, UPLO=_triangle(task)),)
    driver = {"auto": None, "jacobi": "gesvdj", "qr": "gesvd"}[task.driver]
    if task.want == "svdvals":
        return (by.svdvals(A, driver=driver),)
    return tuple(by.svd(A, full_matrices=task.full, driver=driver))


def _triangle(task: Task) -> str:
    return "U" if task.upper else "L"


def _one_by_one(each: Callable[[Task, Array], tuple[Array, ...]], task: Task, A: Array) -> tuple[Array, ...]:
    made = [each(task, one) for one in A]
    return tuple(np.stack(parts) for parts in zip(*made, strict=True))


def _checked(info: int) -> None:
    if info:
        raise np.linalg.LinAlgError(f"info = {info}")


def _qr_hermitian(task: Task, A: Array) -> tuple[Array, ...]:
    """Implicit QL or QR of the tridiagonal matrix: LAPACK's syev and heev."""
    name = "heev" if np.iscomplexobj(A) else "syev"
    W, Z, info = _function(name, A.dtype.name)(A, compute_v=task.want == "eigh", lower=not task.upper)
    _checked(info)
    return (W, Z) if task.want == "eigh" else (W,)


def _qr_singular(task: Task, A: Array) -> tuple[Array, ...]:
    """Implicit QR of the bidiagonal matrix: LAPACK's gesvd."""
    vectors = task.want == "svd"
    U, W, VH, info = _function("gesvd", A.dtype.name)(A, compute_uv=vectors, full_matrices=task.full)
    _checked(info)
    return (U, W, VH) if vectors else (W,)


def _jacobi_singular(task: Task, A: Array) -> tuple[Array, ...]:
    """One-sided Jacobi: LAPACK's gejsv, whose small values are accurate to their last digits if columns are graded."""
    if A.shape[0] < A.shape[1]:
        parts = _jacobi_singular(task, A.T)
        return (parts[2].T, parts[1], parts[0].T) if len(parts) == 3 else parts
    vectors = task.want == "svd"
    left = (1 if task.full else 0) if vectors else 3  # F: all columns of U, U: the first, N: none
    values, U, V, scale, _, info = _function("gejsv", A.dtype.name)(
        A, joba=2, jobu=left, jobv=0 if vectors else 3, jobr=1, jobt=1, jobp=1
    )
    _checked(info)
    W = values * (scale[0] / scale[1])
    return (U, W, V.T) if vectors else (W,)


_EACH = {
    ("qr", True): _qr_hermitian,
    ("qr", False): _qr_singular,
    ("jacobi", False): _jacobi_singular,
}


@lru_cache(maxsize=32)
def _function(name: str, dtype: str) -> Any:
    return get_lapack_funcs((name,), dtype=np.dtype(dtype))[0]
