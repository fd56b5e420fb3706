"""Factorizations of CuPy arrays by cuSOLVER and cuBLAS, through CuPy's bindings, since its own functions do not return
`info`. Nothing here waits for the device.

cuSOLVER factors one matrix after the other, with all of the GPU at work on it: large matrices, and a few. cuBLAS and
cuSOLVER's own batches give each matrix a block of threads: small matrices (`_SMALL`), if there are several.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

_SMALL = 64  # rows: matrices of which a block of threads has a whole one in its shared memory, whatever the dtype


class CupyLinalg:
    """Factorizations of stacks (..., m, n); pivots count from zero. The libraries count columns first: they see the
    transpose, and the other triangle."""

    def __init__(self, cupy: Any) -> None:
        from cupy_backends.cuda.libs import cublas, cusolver

        self.cupy, self.cublas, self.cusolver = cupy, cublas, cusolver

    def cholesky(self, A: Any, upper: bool) -> tuple[Any, Any]:
        """The factor and `info`."""
        lead, n, info = A.shape[:-2], A.shape[-1], self._info(A)
        if self._one_by_one(A) and not upper:  # cuSOLVER is faster with the lower triangle of what it sees
            F = self._turned(A)
            self._potrf(F, True, info)
            return self.cupy.tril(self.cupy.ascontiguousarray(F.swapaxes(-1, -2))), info.reshape(lead)
        F = A.astype(A.dtype, order="C", copy=True)
        if self._one_by_one(A):
            self._potrf(F, True, info)
            return self.cupy.triu(F), info.reshape(lead)
        potrf = getattr(self.cusolver, f"{self._letter(A)}potrfBatched")
        fill = self.cublas.CUBLAS_FILL_MODE_LOWER if upper else self.cublas.CUBLAS_FILL_MODE_UPPER
        handle = self.cupy.cuda.device.get_cusolver_handle()
        potrf(handle, fill, n, self._pointers(F).data.ptr, n, info.data.ptr, prod(lead))
        return (self.cupy.triu if upper else self.cupy.tril)(F), info.reshape(lead)

    def lu(self, A: Any, pivot: bool) -> tuple[Any, Any, Any]:
        """Factors, pivots and `info`. Matrices that are not square are filled up with zeros, which are never chosen as
        pivots before the rest."""
        (M, N), lead = A.shape[-2:], A.shape[:-2]
        if self._one_by_one(A):
            turned, pivots, info = self._getrf(A, pivot)
            pivots = pivots - 1 if pivot else pivots
            return self.cupy.ascontiguousarray(turned.swapaxes(-1, -2)), pivots, info.reshape(lead)
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

    def solve(self, A: Any, B: Any, pivot: bool) -> tuple[Any, Any]:
        """The solution of A X = B, and `info`."""
        if not (pivot and self._one_by_one(A)):
            F, pivots, info = self.lu(A, pivot)
            return self.lu_solve(F, pivots, B), info
        (n, columns), lead = B.shape[-2:], A.shape[:-2]
        turned, pivots, info = self._getrf(A, True)
        X, unused = self._right(B, lead), self._info(A)
        getrs, handle = getattr(self.cusolver, f"{self._letter(A)}getrs"), self._handle()
        for i in range(prod(lead)):
            getrs(
                handle, self.cublas.CUBLAS_OP_N, n, columns, self._at(turned, i), n, self._at(pivots, i, 1),
                self._at(X, i), n, unused.data.ptr + 4 * i,
            )  # fmt: skip
        return self.cupy.ascontiguousarray(X.swapaxes(-1, -2)), info.reshape(lead)

    def inverse(self, A: Any, pivot: bool) -> tuple[Any, Any]:
        """The solution for the unit matrix, and `info`."""
        return self.solve(A, self.cupy.eye(A.shape[-1], dtype=A.dtype), pivot)

    def solve_positive(self, A: Any, B: Any) -> tuple[Any, Any]:
        """The solution of A X = B by Cholesky, from the lower triangle of A, and `info`."""
        (n, columns), lead = B.shape[-2:], A.shape[:-2]
        turned, info, unused = self._turned(A), self._info(A), self._info(A)
        self._potrf(turned, True, info)
        X = self._right(B, lead)
        potrs, handle = getattr(self.cusolver, f"{self._letter(A)}potrs"), self._handle()
        for i in range(prod(lead)):
            potrs(
                handle, self.cublas.CUBLAS_FILL_MODE_LOWER, n, columns, self._at(turned, i), n, self._at(X, i), n,
                unused.data.ptr + 4 * i,
            )  # fmt: skip
        return self.cupy.ascontiguousarray(X.swapaxes(-1, -2)), info.reshape(lead)

    def solve_triangular(self, A: Any, B: Any, lower: bool) -> Any:
        """The solution of A X = B, A a triangle: cuBLAS's trsm, one matrix after the other."""
        from cupyx.scipy.linalg import solve_triangular

        lead, X = A.shape[:-2], self.cupy.empty(B.shape, B.dtype)
        for at in np.ndindex(lead):
            X[at] = solve_triangular(A[at], B[at], lower=lower)
        return X

    def geqrf(self, A: Any) -> tuple[Any, Any]:
        """R above the reflectors, and the reflectors' factors."""
        turned, tau = self._geqrf(A)
        return turned.swapaxes(-1, -2), tau

    def qr(self, A: Any, mode: str) -> tuple[Any, Any]:
        """Q (None with mode `r`) and R, one matrix after the other."""
        (M, N), lead = A.shape[-2:], A.shape[:-2]
        turned, tau = self._geqrf(A)
        K = min(M, N)
        R = self.cupy.triu(turned.swapaxes(-1, -2)[..., : M if mode == "complete" else K, :])
        if mode == "r":
            return None, R
        columns = M if mode == "complete" else K
        if columns == N:
            Q = turned
        else:
            Q = self.cupy.zeros((*lead, columns, M), A.dtype)
            Q[..., :K, :] = turned[..., :K, :]
        name = f"{self._letter(A)}{'un' if A.dtype.kind == 'c' else 'or'}gqr"
        size, orgqr = (getattr(self.cusolver, name + end) for end in ("_bufferSize", ""))
        handle, info = self._handle(), self._info(A)
        room = size(handle, M, columns, K, Q.data.ptr, M, tau.data.ptr)
        work = self.cupy.empty(max(1, room), A.dtype)
        for i in range(prod(lead)):
            orgqr(
                handle, M, columns, K, self._at(Q, i), M, self._at(tau, i, 1), work.data.ptr, room,
                info.data.ptr + 4 * i,
            )  # fmt: skip
        return self.cupy.ascontiguousarray(Q.swapaxes(-1, -2)), R

    # ---- one matrix after the other ---------------------------------------------------------------------------

    def _one_by_one(self, A: Any) -> bool:
        return bool(max(A.shape[-2:]) > _SMALL or prod(A.shape[:-2]) == 1)

    def _handle(self) -> int:
        return self.cupy.cuda.device.get_cusolver_handle()  # type: ignore[no-any-return]

    def _turned(self, A: Any) -> Any:
        """A copy whose matrices lie column after column, as its transposes."""
        return A.swapaxes(-1, -2).astype(A.dtype, order="C", copy=True)

    def _right(self, B: Any, lead: tuple[int, ...]) -> Any:
        """Right-hand sides for every matrix, column after column, in memory of their own."""
        shape = (*lead, *B.shape[-2:])
        return self._turned(B if B.shape == shape else self.cupy.broadcast_to(B, shape))

    def _at(self, array: Any, i: int, dimensions: int = 2) -> int:
        """The address of matrix (or row) i of a stack without gaps."""
        return array.data.ptr + i * prod(array.shape[-dimensions:]) * array.itemsize  # type: ignore[no-any-return]

    def _getrf(self, A: Any, pivot: bool) -> tuple[Any, Any, Any]:
        """Factors, column after column, pivots that count from one (without exchanges, from zero), and `info`."""
        (M, N), lead = A.shape[-2:], A.shape[:-2]
        turned, pivots, info = self._turned(A), self.cupy.empty((*lead, min(M, N)), "int32"), self._info(A)
        size, getrf = (getattr(self.cusolver, f"{self._letter(A)}getrf{end}") for end in ("_bufferSize", ""))
        handle = self._handle()
        work = self.cupy.empty(max(1, size(handle, M, N, turned.data.ptr, M)), A.dtype)
        for i in range(prod(lead)):
            rows = self._at(pivots, i, 1) if pivot else 0
            getrf(handle, M, N, self._at(turned, i), M, work.data.ptr, rows, info.data.ptr + 4 * i)
        if not pivot:
            pivots[...] = self.cupy.arange(pivots.shape[-1], dtype="int32")
        return turned, pivots, info

    def _potrf(self, F: Any, lower: bool, info: Any) -> None:
        """Cholesky factors in place; `lower` is the triangle of matrices that lie column after column."""
        n, handle = F.shape[-1], self._handle()
        fill = self.cublas.CUBLAS_FILL_MODE_LOWER if lower else self.cublas.CUBLAS_FILL_MODE_UPPER
        size, potrf = (getattr(self.cusolver, f"{self._letter(F)}potrf{end}") for end in ("_bufferSize", ""))
        room = size(handle, fill, n, F.data.ptr, n)
        work = self.cupy.empty(max(1, room), F.dtype)
        for i in range(prod(F.shape[:-2])):
            potrf(handle, fill, n, self._at(F, i), n, work.data.ptr, room, info.data.ptr + 4 * i)

    def _geqrf(self, A: Any) -> tuple[Any, Any]:
        """R above the reflectors, column after column, and the reflectors' factors."""
        (M, N), lead = A.shape[-2:], A.shape[:-2]
        turned, tau, info = self._turned(A), self.cupy.empty((*lead, min(M, N)), A.dtype), self._info(A)
        size, geqrf = (getattr(self.cusolver, f"{self._letter(A)}geqrf{end}") for end in ("_bufferSize", ""))
        handle = self._handle()
        room = size(handle, M, N, turned.data.ptr, M)
        work = self.cupy.empty(max(1, room), A.dtype)
        for i in range(prod(lead)):
            geqrf(handle, M, N, self._at(turned, i), M, self._at(tau, i, 1), work.data.ptr, room, info.data.ptr + 4 * i)
        return turned, tau

    def _letter(self, A: Any) -> str:
        return {"f": "s", "d": "d", "F": "c", "D": "z"}[A.dtype.char]

    def _info(self, A: Any) -> Any:
        return self.cupy.empty(prod(A.shape[:-2]), "int32")

    def _pointers(self, array: Any) -> Any:
        """Addresses of the matrices of a stack without gaps."""
        step = prod(array.shape[-2:]) * array.itemsize
        start = array.data.ptr
        return self.cupy.arange(start, start + step * prod(array.shape[:-2]), step, dtype="uintp")
