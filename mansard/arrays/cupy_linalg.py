"""Batched factorizations of CuPy arrays by cuBLAS and cuSOLVER, through CuPy's bindings: its own functions do not
return `info`. Nothing here waits for the device."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np


class CupyLinalg:
    """Factorizations of stacks (..., m, n); pivots count from zero. The libraries count columns first: they see the
    transpose, and the other triangle."""

    def __init__(self, cupy: Any) -> None:
        from cupy_backends.cuda.libs import cublas, cusolver

        self.cupy, self.cublas, self.cusolver = cupy, cublas, cusolver

    def cholesky(self, A: Any, upper: bool) -> tuple[Any, Any]:
        """The factor and `info`."""
        lead, n = A.shape[:-2], A.shape[-1]
        F, info = A.astype(A.dtype, order="C", copy=True), self._info(A)
        potrf = getattr(self.cusolver, f"{self._letter(A)}potrfBatched")
        fill = self.cublas.CUBLAS_FILL_MODE_LOWER if upper else self.cublas.CUBLAS_FILL_MODE_UPPER
        handle = self.cupy.cuda.device.get_cusolver_handle()
        potrf(handle, fill, n, self._pointers(F).data.ptr, n, info.data.ptr, prod(lead))
        return (self.cupy.triu if upper else self.cupy.tril)(F), info.reshape(lead)

    def lu(self, A: Any, pivot: bool) -> tuple[Any, Any, Any]:
        """Factors, pivots and `info`. Matrices that are not square are filled up with zeros, which are never chosen as
        pivots before the rest."""
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

    def lu_solve(self, F: Any, pivots: Any, B: Any) -> Any:
        """The solution of A X = B by the factors of A."""
        lead, n, columns = F.shape[:-2], F.shape[-1], B.shape[-1]
        factors, start = self.cupy.ascontiguousarray(F.swapaxes(-1, -2)), self.cupy.ascontiguousarray(pivots + 1)
        B = self.cupy.broadcast_to(B, (*lead, n, columns))
        X = B.swapaxes(-1, -2).astype(F.dtype, order="C", copy=True)
        getrs = getattr(self.cublas, f"{self._letter(F)}getrsBatched")
        places, targets, info = self._pointers(factors), self._pointers(X), np.empty(1, np.int32)
        handle, plain = self.cupy.cuda.device.get_cublas_handle(), self.cublas.CUBLAS_OP_N
        getrs(
            handle, plain, n, columns, places.data.ptr, n, start.data.ptr, targets.data.ptr, n, info.ctypes.data,
            prod(lead),
        )  # fmt: skip
        return self.cupy.ascontiguousarray(X.swapaxes(-1, -2))

    def solve_triangular(self, A: Any, B: Any, lower: bool) -> Any:
        """By LU: CuPy has no triangular solver for stacks."""
        return self.cupy.linalg.solve(A, B)

    def geqrf(self, A: Any) -> tuple[Any, Any]:
        """R above the reflectors, and the reflectors' factors."""
        turned, tau = self.cupy.linalg.qr(A, mode="raw")
        return turned.swapaxes(-1, -2), tau

    def _letter(self, A: Any) -> str:
        return {"f": "s", "d": "d", "F": "c", "D": "z"}[A.dtype.char]

    def _info(self, A: Any) -> Any:
        return self.cupy.empty(prod(A.shape[:-2]), "int32")

    def _pointers(self, array: Any) -> Any:
        """Addresses of the matrices of a stack without gaps."""
        step = prod(array.shape[-2:]) * array.itemsize
        start = array.data.ptr
        return self.cupy.arange(start, start + step * prod(array.shape[:-2]), step, dtype="uintp")
