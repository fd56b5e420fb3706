"""Factorizations by LAPACK, on NumPy stacks: NumPy's loops in C where they do, SciPy's wrappers one by one otherwise.

Threads share a stack, as long as the BLAS below does not start threads of its own, which would get in each other's way
(Cholesky factors of 128 rows took 24 times as long); SciPy's getrf and getrs bear it.

NumPy raises for a whole stack if one matrix is bad. Then, and only then, the matrices are done one after the other, so
that each gets its `info` and none is affected by its neighbours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ... import settings
from ...arrays.types import Array
from ...plan.problem import Options
from ..run import together
from .task import Found, Task


def answer(task: Task, A: Array, B: Array = None) -> Found:
    """The parts of the task's result for a stack A (..., m, n) and right-hand sides B with the same leading dimensions;
    no size is zero."""
    return planned(task, A.shape, np.iscomplexobj(A))(A, B)


def planned(task: Task, shape: tuple[int, ...], is_complex: bool) -> Callable[[Array, Array], Found]:
    """`answer` for stacks A of this shape: whether threads share the matrices is found out once."""
    one = partial(_ANSWERS[task.family, task.want], task)
    if not shared(task, shape, is_complex):
        return one
    most = _most(task, is_complex)
    return lambda A, B: in_shares(one, [A, B], most)


def shared(task: Task, shape: tuple[int, ...], is_complex: bool = False) -> bool:
    """Whether threads share the matrices of a stack of this shape."""
    return len(shares_of(shape, _most(task, is_complex))) > 1


def _most(task: Task, is_complex: bool) -> int:
    """Rows or columns up to which threads may share a stack."""
    if task.family == "cholesky" and is_complex:
        return _SINGLE // 2
    return _SAFE.get((task.family, task.want), _SINGLE) if task.pivot else _SINGLE


def in_shares(run: Callable[..., Found], stacks: list[Array], most: int) -> Found:
    """`run(*stacks)`, by as many threads as may work at once on shares of the matrices. `most` is the number of rows or
    columns up to which the BLAS below keeps to one thread."""
    shares = shares_of(stacks[0].shape, most)
    if len(shares) < 2:
        return run(*stacks)
    lead, flat = stacks[0].shape[:-2], [None if x is None else x.reshape(-1, *x.shape[-2:]) for x in stacks]
    found = together([partial(run, *(None if x is None else x[share] for x in flat)) for share in shares])
    return {part: np.concatenate([each[part] for each in found]).reshape(*lead, *found[0][part].shape[1:])
            for part in found[0]}  # fmt: skip


_SINGLE = 96  # rows or columns up to which OpenBLAS keeps to one thread (its complex Cholesky to fewer)
_WORTH = 1 << 22  # operations that are worth starting threads


def shares_of(shape: tuple[int, ...], most: int) -> list[slice]:
    """Of the matrices, for as many threads as may work at once."""
    *lead, M, N = shape
    count = prod(lead)
    threads = min(settings.current().threads, count)
    if threads < 2 or max(M, N) > most or count * M * N * min(M, N) < _WORTH:
        return [slice(0, count)]
    return [slice(i * count // threads, (i + 1) * count // threads) for i in range(threads)]


_SAFE = {("lu", "factor"): 192, ("lu", "solve"): 1 << 30}  # the same for those that SciPy's getrf and getrs do


_RAISING: Options = {"all": "ignore", "invalid": "raise"}  # for numpy.errstate


class _Quiet(threading.local):
    """Contexts in which NumPy's loops report a singular matrix as FloatingPointError and nothing else: one for each
    thread, made once. Entering `numpy.errstate` takes as long as a small matrix. Before 2.0, NumPy does not keep its
    error state in contexts: there it is entered."""

    def __init__(self) -> None:
        with np.errstate(**_RAISING):
            context = copy_context()
        self.run = context.run if context.run(np.geterr)["invalid"] == "raise" else _raising


def _raising(loop: Callable[..., Array], *given: Array, **options: str) -> Array:
    with np.errstate(**_RAISING):
        return loop(*given, **options)


_QUIET = _Quiet()


def loop_of(name: str) -> Callable[..., Array] | None:
    """NumPy's loop over the matrices of a stack by its name; None: this version has none."""
    found: Callable[..., Array] | None = getattr(_LOOPS, name, None)
    return found


def quietly(loop: Callable[..., Array], *given: Array, signature: str) -> Array:
    """Call a loop of NumPy's without the checks of `numpy.linalg`, which take as long as ten small matrices; None where
    a matrix is bad: then those checks decide."""
    try:
        return _QUIET.run(loop, *given, signature=signature)
    except FloatingPointError:
        return None


def _loop(name: str, *given: Array) -> Array | None:
    """The one result of a loop on stacks of one dtype; None where a matrix is bad, or where there is no such loop."""
    loop, letter = loop_of(name), given[0].dtype.char
    return None if loop is None else quietly(loop, *given, signature=f"{letter * len(given)}->{letter}")


_LOOPS = getattr(np.linalg, "_umath_linalg", None)


def _has_nan(array: Array) -> bool:
    """Whether an entry is NaN; what overflows is none."""
    with_itself = abs(np.vdot(array, array))
    return bool(with_itself != with_itself)


def _cholesky(task: Task, A: Array, B: Array) -> Found:
    info = np.zeros(A.shape[:-2], np.int32)
    found = None if task.upper else _loop("cholesky_lo", A)
    if found is not None and not _has_nan(found):
        return {"F": found, "INFO": info}
    try:
        factor = np.linalg.cholesky(A.swapaxes(-1, -2) if task.upper else A)
        factor = np.ascontiguousarray(factor.swapaxes(-1, -2)) if task.upper else factor
    except np.linalg.LinAlgError:
        factor = np.empty(A.shape, A.dtype)
        potrf = _function("potrf", A.dtype.name)
        for at in np.ndindex(A.shape[:-2]):
            factor[at], info[at] = potrf(A[at], lower=not task.upper, clean=1)
    return {"F": factor, "INFO": _first_nan(factor, info)}


def _first_nan(factor: Array, info: Array) -> Array:
    """NaN is no positive pivot, whatever a LAPACK makes of it."""
    bad = np.isnan(factor.diagonal(0, -2, -1).real)
    return np.where((info == 0) & bad.any(-1), bad.argmax(-1) + 1, info).astype(np.int32) if bad.any() else info


def _positive(task: Task, A: Array, B: Array) -> Found:
    found = _cholesky(task, A, B)
    return {"X": cholesky_solve(found["F"], not task.upper, B), "INFO": found["INFO"]}


def cholesky_solve(C: Array, lower: bool, B: Array) -> Array:
    """With the factor C, of which one triangle is read."""
    X, potrs = np.empty(B.shape, B.dtype), _function("potrs", C.dtype.name)
    for x, c, b in _matrices(X, C, B):
        x[...] = potrs(c, b, lower=lower)[0]
    return X


def _matrices(X: Array, *others: Array) -> Iterator[tuple[Array, ...]]:
    """The matrices of X beside those, or vectors, of other stacks. `numpy.ndindex` costs as much as a small system."""
    if X.ndim == 2:
        yield X, *others
    elif X.ndim == 3:
        yield from zip(X, *others, strict=True)
    else:
        for at in np.ndindex(X.shape[:-2]):
            yield X[at], *(one[at] for one in others)


def _lu(task: Task, A: Array, B: Array) -> Found:
    lead, K = A.shape[:-2], min(A.shape[-2:])
    F, pivots, info = np.empty(A.shape, A.dtype), np.empty((*lead, K), np.int32), np.zeros(lead, np.int32)
    if not task.pivot:
        pivots[...] = np.arange(K)
        F[...] = A
        return {"F": F, "PIVOTS": pivots, "INFO": _eliminate(F)}
    getrf = _function("getrf", A.dtype.name)
    for at in np.ndindex(lead):
        F[at], pivots[at], info[at] = getrf(A[at])
    return {"F": F, "PIVOTS": pivots, "INFO": info}


def _eliminate(F: Array) -> Array:
    """Without exchanges, all matrices of the stack at once; LAPACK has no such routine."""
    info = np.zeros(F.shape[:-2], np.int32)
    with np.errstate(all="ignore"):
        for k in range(min(F.shape[-2:])):
            pivot = F[..., k, k]
            info = np.where((info == 0) & (pivot == 0), np.int32(k + 1), info)
            F[..., k + 1 :, k] /= pivot[..., None]
            F[..., k + 1 :, k + 1 :] -= F[..., k + 1 :, k, None] * F[..., k, None, k + 1 :]
    return info


def lu_solve(F: Array, pivots: Array, B: Array, trans: int = 0) -> Array:
    """With the factors F and the exchanges of rows."""
    X, getrs = np.empty(B.shape, B.dtype), _function("getrs", F.dtype.name)
    for x, f, exchanged, b in _matrices(X, F, pivots, B):
        x[...] = getrs(f, exchanged, b, trans=trans)[0]
    return X


def _solve(task: Task, A: Array, B: Array) -> Found:
    if not task.pivot:
        found = _lu(task, A, B)
        return {"X": lu_solve(found["F"], found["PIVOTS"], B), "INFO": found["INFO"]}
    if A.shape[-1] > _SINGLE:
        return _one_by_one(A, B)
    quick = _loop("solve", A, B)
    if quick is not None:
        return {"X": quick, "INFO": np.zeros(A.shape[:-2], np.int32)}
    try:
        return {"X": np.linalg.solve(A, B), "INFO": np.zeros(A.shape[:-2], np.int32)}
    except np.linalg.LinAlgError:
        return _one_by_one(A, B)


def _inverse(task: Task, A: Array, B: Array) -> Found:
    if task.pivot:
        quick = _loop("inv", A)
        if quick is not None:
            return {"F": quick, "INFO": np.zeros(A.shape[:-2], np.int32)}
        try:
            return {"F": np.linalg.inv(A), "INFO": np.zeros(A.shape[:-2], np.int32)}
        except np.linalg.LinAlgError:
            pass
    identity = np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape)
    found = _solve(task, A, identity)
    return {"F": found["X"], "INFO": found["INFO"]}


def _one_by_one(A: Array, B: Array) -> Found:
    """The solutions of singular systems are NaN."""
    X, info = np.empty(B.shape, B.dtype), np.zeros(A.shape[:-2], np.int32)
    getrf, getrs = (_function(name, A.dtype.name) for name in ("getrf", "getrs"))
    for at in np.ndindex(A.shape[:-2]):
        F, pivots, info[at] = getrf(A[at])
        X[at] = np.nan if info[at] else getrs(F, pivots, B[at])[0]
    return {"X": X, "INFO": info}


def _determinant(task: Task, A: Array, B: Array) -> Found:
    quick = _loop("det", A)
    return {"F": np.asarray(np.linalg.det(A) if quick is None else quick)}


def _logdet(task: Task, A: Array, B: Array) -> Found:
    sign, logarithm = np.linalg.slogdet(A)
    return {"F": np.asarray(sign), "X": np.asarray(logarithm)}


_SINGLE_QR = 1 << 16  # entries times the smaller side from which LAPACK's single precision pays for calls from Python


def _qr(task: Task, A: Array, B: Array) -> Found:
    if A.dtype.char in "fF" and task.want in ("r", "reduced") and prod(A.shape[-2:]) * min(A.shape[-2:]) >= _SINGLE_QR:
        return _qr_one_by_one(task, A)
    if task.want == "r":
        return {"F": np.linalg.qr(A, mode="r")}
    if task.want == "raw":
        turned, tau = np.linalg.qr(A, mode="raw")
        return {"F": turned.swapaxes(-1, -2), "TAU": tau}
    Q, R = np.linalg.qr(A, mode="complete" if task.want == "complete" else "reduced")
    return {"Q": Q, "F": R}


def _qr_one_by_one(task: Task, A: Array) -> Found:
    """In the matrices' own precision: NumPy's loop computes in double precision, which takes twice as long."""
    *lead, M, N = A.shape
    K, form = min(M, N), "ungqr" if A.dtype.char == "F" else "orgqr"
    geqrf, build, room = (_function(name, A.dtype.name) for name in ("geqrf", form, "geqrf_lwork"))
    most, upper = int(room(M, N)[0].real), np.triu(np.ones((K, N), bool))
    R, Q = np.empty((*lead, K, N), A.dtype), np.empty((*lead, M, K), A.dtype) if task.want == "reduced" else None
    for at in np.ndindex(*lead):
        reflected, tau, _, _ = geqrf(A[at], lwork=most)
        np.multiply(reflected[:K], upper, out=R[at])
        if Q is not None:
            Q[at] = build(reflected[:, :K], tau, lwork=most, overwrite_a=1)[0]
    return {"F": R} if Q is None else {"Q": Q, "F": R}


def _least_squares(task: Task, A: Array, B: Array) -> Found:
    """By LAPACK's gels, for full rank."""
    M, N = A.shape[-2:]
    X, gels = np.empty((*A.shape[:-2], N, B.shape[-1]), A.dtype), _function("gels", A.dtype.name)
    for at in np.ndindex(A.shape[:-2]):
        padded = B[at] if M >= N else np.concatenate([B[at], np.zeros((N - M, B.shape[-1]), B.dtype)])
        found, info = gels(A[at], padded)[1:]
        X[at] = np.nan if info else found[:N]
    return {"X": X}


_ANSWERS: dict[tuple[str, str], Callable[[Task, Array, Array], Found]] = {
    ("cholesky", "factor"): _cholesky,
    ("cholesky", "solve"): _positive,
    ("lu", "factor"): _lu,
    ("lu", "solve"): _solve,
    ("lu", "inverse"): _inverse,
    ("lu", "determinant"): _determinant,
    ("lu", "logdet"): _logdet,
    ("qr", "raw"): _qr,
    ("qr", "r"): _qr,
    ("qr", "reduced"): _qr,
    ("qr", "complete"): _qr,
    ("qr", "solve"): _least_squares,
}


@lru_cache(maxsize=64)
def _function(name: str, dtype: str) -> Any:
    return get_lapack_funcs((name,), dtype=np.dtype(dtype))[0]
