"""Factorizations by the array library (cuSOLVER and cuBLAS behind CuPy and PyTorch), for arrays on GPUs. Nothing here
waits for the device."""

from __future__ import annotations

from math import prod

import numpy as np

from ...arrays.types import Array, Kind
from ...plan.problem import Options
from .task import Found, Task, broadcast, identity, library, triangle


def answer(kind: Kind, task: Task, A: Array, B: Array = None) -> Found:
    """The parts of the task's result for a stack A (..., m, n) and right-hand sides B with the same leading dimensions;
    no size is zero."""
    if task.family == "qr":
        return _qr(kind, task, A, B)
    by = _torch if kind.name == "PyTorch" else _cupy
    if task.family == "cholesky":
        factor, info = by(kind).cholesky(A, task.upper)
        if task.want == "factor":
            return {"F": factor, "INFO": info}
        return {"X": _substitute(kind, factor, not task.upper, B), "INFO": info}
    return _lu(kind, task, by(kind), A, B)


def _lu(kind: Kind, task: Task, by: _torch | _cupy, A: Array, B: Array) -> Found:
    F, pivots, info = by.lu(A, task.pivot)
    if task.want == "factor":
        return {"F": F, "PIVOTS": pivots, "INFO": info}
    if task.want == "solve":
        return {"X": by.lu_solve(F, pivots, B), "INFO": info}
    if task.want == "inverse":
        dtype = kind.view(A, "a").dtype
        return {"F": by.lu_solve(F, pivots, identity(kind, tuple(A.shape), dtype, A)), "INFO": info}
    return determinants(kind, task, F, pivots)


def determinants(kind: Kind, task: Task, F: Array, pivots: Array) -> Found:
    """From the factors: products of diagonals, and whether the number of exchanges is odd."""
    module = library(kind)
    odd = (pivots != module.arange(pivots.shape[-1], **_beside(kind, pivots))).sum(-1) % 2
    diagonal = F.diagonal(0, -2, -1)
    sign = 1 - 2 * odd.to(diagonal.dtype) if kind.name == "PyTorch" else (1 - 2 * odd).astype(diagonal.dtype)
    if task.want == "determinant":
        return {"F": diagonal.prod(-1) * sign}
    size = abs(diagonal)
    phase = diagonal / module.where(size == 0, module.ones_like(size), size)  # NaN stays NaN
    with np.errstate(divide="ignore"):  # of NumPy arrays: minus infinity is the answer for singular matrices
        return {"F": phase.prod(-1) * sign, "X": module.log(size).sum(-1)}


def _beside(kind: Kind, array: Array) -> Options:
    return {"device": array.device} if kind.name == "PyTorch" else {}


def _substitute(kind: Kind, factor: Array, lower: bool, B: Array) -> Array:
    """L L^H X = B, or U^H U X = B."""
    turned = kind.conj(factor).swapaxes(-1, -2)
    first, second = (factor, turned) if lower else (turned, factor)
    if kind.name == "PyTorch":
        solve = library(kind).linalg.solve_triangular
        return solve(second, solve(first, B, upper=False), upper=True)
    solve = library(kind).linalg.solve  # CuPy has no triangular solver for stacks
    return solve(second, solve(first, B))


def _qr(kind: Kind, task: Task, A: Array, B: Array) -> Found:
    module = library(kind)
    if task.want == "raw":
        if kind.name == "PyTorch":
            F, tau = module.geqrf(A)
            return {"F": F, "TAU": tau}
        turned, tau = module.linalg.qr(A, mode="raw")
        return {"F": turned.swapaxes(-1, -2), "TAU": tau}
    if task.want == "r":
        R = module.linalg.qr(A, mode="r")
        return {"F": R[1] if isinstance(R, tuple) else R}
    Q, R = module.linalg.qr(A, mode="complete" if task.want == "complete" else "reduced")
    if task.want != "solve":
        return {"Q": Q, "F": R}
    right = kind.matmul(kind.conj(Q).swapaxes(-1, -2), B)
    if kind.name == "PyTorch":
        return {"X": module.linalg.solve_triangular(R, right, upper=True)}
    return {"X": module.linalg.solve(R, right)}


class _torch:
    """torch.linalg, whose pivots count from one."""

    def __init__(self, kind: Kind) -> None:
        self.torch = library(kind)

    def cholesky(self, A: Array, upper: bool) -> tuple[Array, Array]:
        source = A.mT if upper else A  # that the upper triangle is read must not depend on torch's habits
        factor, info = self.torch.linalg.cholesky_ex(source)
        return (factor.mT if upper else factor), info

    def lu(self, A: Array, pivot: bool) -> tuple[Array, Array, Array]:
        F, pivots, info = self.torch.linalg.lu_factor_ex(A, pivot=pivot)
        return F, pivots - 1, info

    def lu_solve(self, F: Array, pivots: Array, B: Array) -> Array:
        return self.torch.linalg.lu_solve(F, pivots + 1, B)


class _cupy:
    """cuBLAS and cuSOLVER by CuPy's bindings: its own functions keep `info` to themselves."""

    def __init__(self, kind: Kind) -> None:
        import cupy
        from cupy_backends.cuda.libs import cublas, cusolver

        self.kind, self.cupy, self.cublas, self.cusolver = kind, cupy, cublas, cusolver

    def cholesky(self, A: Array, upper: bool) -> tuple[Array, Array]:
        """Libraries count columns first: they see the transpose, and the other triangle."""
        lead, n = A.shape[:-2], A.shape[-1]
        F, info = A.astype(A.dtype, order="C", copy=True), self._info(A)
        potrf = getattr(self.cusolver, f"{self._letter(A)}potrfBatched")
        fill = self.cublas.CUBLAS_FILL_MODE_LOWER if upper else self.cublas.CUBLAS_FILL_MODE_UPPER
        handle = self.cupy.cuda.device.get_cusolver_handle()
        potrf(handle, fill, n, self._pointers(F).data.ptr, n, info.data.ptr, prod(lead))
        return triangle(self.kind, F, not upper), info.reshape(lead)

    def lu(self, A: Array, pivot: bool) -> tuple[Array, Array, Array]:
        """Of square matrices; others are filled up with zeros, which are never chosen as pivots before the rest."""
        (M, N), lead = A.shape[-2:], A.shape[:-2]
        order, K = max(M, N), min(M, N)
        turned = self.cupy.zeros((*lead, order, order), A.dtype)
        turned[..., :N, :M] = A.swapaxes(-1, -2)
        pivots, info = self.cupy.empty((*lead, order), "int32"), self._info(A)
        getrf = getattr(self.cublas, f"{self._letter(A)}getrfBatched")
        handle, places = self.cupy.cuda.device.get_cublas_handle(), self._pointers(turned)
        getrf(handle, order, places.data.ptr, order, pivots.data.ptr if pivot else 0, info.data.ptr, prod(lead))
        if not pivot:
            pivots[...] = self.cupy.arange(1, order + 1, dtype="int32")
        F = self.cupy.ascontiguousarray(turned.swapaxes(-1, -2)[..., :M, :N])
        info = self.cupy.where(info > K, 0, info).astype("int32").reshape(lead)
        return F, self.cupy.ascontiguousarray(pivots[..., :K]) - 1, info

    def lu_solve(self, F: Array, pivots: Array, B: Array) -> Array:
        lead, n, columns = F.shape[:-2], F.shape[-1], B.shape[-1]
        factors, start = self.cupy.ascontiguousarray(F.swapaxes(-1, -2)), self.cupy.ascontiguousarray(pivots + 1)
        X = broadcast(self.kind, B, (*lead, n, columns)).swapaxes(-1, -2).astype(F.dtype, order="C", copy=True)
        getrs = getattr(self.cublas, f"{self._letter(F)}getrsBatched")
        places, targets, info = self._pointers(factors), self._pointers(X), np.empty(1, np.int32)
        handle, plain = self.cupy.cuda.device.get_cublas_handle(), self.cublas.CUBLAS_OP_N
        getrs(
            handle, plain, n, columns, places.data.ptr, n, start.data.ptr, targets.data.ptr, n, info.ctypes.data,
            prod(lead),
        )  # fmt: skip
        return self.cupy.ascontiguousarray(X.swapaxes(-1, -2))

    def _letter(self, A: Array) -> str:
        return {"f": "s", "d": "d", "F": "c", "D": "z"}[A.dtype.char]

    def _info(self, A: Array) -> Array:
        return self.cupy.empty(prod(A.shape[:-2]), "int32")

    def _pointers(self, array: Array) -> Array:
        """Addresses of the matrices of a stack without gaps."""
        step = prod(array.shape[-2:]) * array.itemsize
        start = array.data.ptr
        return self.cupy.arange(start, start + step * prod(array.shape[:-2]), step, dtype="uintp")
