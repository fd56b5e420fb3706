"""Reductions to real tridiagonal and bidiagonal form by LAPACK, on NumPy stacks: sytrd, hetrd and gebrd.

    A = Q T Q^H,  Q = H_0 H_1 ... H_{n-2}          A = U B V^H,  U = H_0 H_1 ...,  V = G_0 G_1 ...

SciPy has no wrapper of gebrd. Its table of LAPACK's routines for Cython is called by address, which lets other threads
run meanwhile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from scipy.linalg import cython_lapack, get_lapack_funcs

from ....arrays.types import Array
from ....plan.problem import REAL
from ..lapack import in_shares
from ..task import Found
from .task import Sizes, Task, dtype_of

_ONE_CORE = 96  # rows or columns up to which OpenBLAS keeps to one core


def answer(task: Task, A: Array) -> Found:
    """The parts of a reduction for a stack (..., m, n) with m >= n; no size is zero. Matrices with entries that are not
    finite give NaN."""
    return in_shares(partial(_one_by_one, task), [A], _ONE_CORE)


def _one_by_one(task: Task, A: Array) -> Found:
    lead, sizes = A.shape[:-2], Sizes(*A.shape[-2:])
    found = {
        part: np.empty((*lead, *sizes.shape(task, part)), dtype_of(part, A.dtype.name)) for part in task.parts
    }  # fmt: skip
    reduce = _tridiagonal if task.is_hermitian else _bidiagonal
    for at in np.ndindex(lead):
        parts = reduce(task, A[at]) if np.isfinite(_read(task, A[at])).all() else dict.fromkeys(task.parts, np.nan)
        for part in task.parts:
            found[part][at] = parts[part]
    return found


def _read(task: Task, A: Array) -> Array:
    """The matrix, or the triangle of it that is read."""
    return A if not task.is_hermitian else np.triu(A) if task.upper else np.tril(A)


def _tridiagonal(task: Task, A: Array) -> Found:
    """By sytrd or hetrd of the lower triangle, and for Q by the reflectors below T."""
    is_complex = np.iscomplexobj(A)
    name = "hetrd" if is_complex else "sytrd"
    reduce, room = _functions(name, f"{name}_lwork", dtype=A.dtype.name)
    most = int(room(len(A), lower=1)[0].real)
    F, d, e, tau, _ = reduce(A.conj().T if task.upper else A, lower=1, lwork=most)
    found: Found = {"D": d, "E": e}
    if "Q" in task.parts:
        Q = np.eye(len(A), dtype=A.dtype)
        if len(A) > 1:
            (build,) = _functions("ungqr" if is_complex else "orgqr", dtype=A.dtype.name)
            Q[1:, 1:] = build(F[1:, :-1], tau, lwork=most)[0]
        found["Q"] = Q
    return found


def _bidiagonal(task: Task, A: Array) -> Found:
    """By gebrd, and orgbr or ungbr for U and V^H."""
    (M, N), dtype, real = A.shape, A.dtype.name, REAL[A.dtype.name]
    F = np.array(A, order="F")
    d, e = np.empty(N, real), np.empty(max(1, N - 1), real)
    left, right, work = np.empty(N, dtype), np.empty(N, dtype), np.empty(64 * (M + N), dtype)
    _routine("gebrd", dtype)(M, N, F, M, d, e, left, right, work, len(work))
    found: Found = {"D": d, "E": e[: N - 1]}
    if "U" in task.parts:
        build = _routine("ungbr" if np.iscomplexobj(A) else "orgbr", dtype)
        V = np.array(F[:N], order="F")
        build(b"Q", M, N, N, F, M, left, work, len(work))
        build(b"P", N, N, M, V, N, right, work, len(work))
        found |= {"U": F, "VH": V}
    return found


@lru_cache(maxsize=32)
def _functions(*names: str, dtype: str) -> tuple[Callable[..., tuple[Array, ...]], ...]:
    """SciPy's wrappers of LAPACK's routines."""
    return tuple(get_lapack_funcs(names, dtype=np.dtype(dtype)))


_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}  # with which LAPACK's names begin


@lru_cache(maxsize=32)
def _routine(name: str, dtype: str) -> Callable[..., None]:
    """A routine of LAPACK that takes letters, integers and arrays, and at last `info`, which it must leave at zero."""
    capsule = cython_lapack.__pyx_capi__[_LETTERS[dtype] + name]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule))
    return partial(_called, name, address)


def _called(name: str, address: int, *given: bytes | int | Array) -> None:
    held = [np.array(one, np.intc) if isinstance(one, int) else np.asarray(one) for one in (*given, [np.intc(0)])]
    ctypes.CFUNCTYPE(None, *(ctypes.c_void_p for _ in held))(address)(*(one.ctypes.data for one in held))
    if held[-1][0]:
        raise ValueError(f"{name}: argument {-held[-1][0]} is not what LAPACK expects")
