"""PyTorch's own linear algebra: factorizations of stacks, and products with factors in the place of the result. Nothing
here waits for the device."""

from __future__ import annotations

from typing import Any

from .gemm import Gemm, Product, scalars


class TorchLinalg:
    """torch.linalg on stacks (..., m, n), with pivots that count from zero."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def cholesky(self, A: Any, upper: bool) -> tuple[Any, Any]:
        """The factor and `info`."""
        source = A.mT if upper else A  # that the upper triangle is read must not depend on torch's habits
        factor, info = self.torch.linalg.cholesky_ex(source)
        return (factor.mT if upper else factor), info

    def lu(self, A: Any, pivot: bool) -> tuple[Any, Any, Any]:
        """Factors, pivots and `info`."""
        F, pivots, info = self.torch.linalg.lu_factor_ex(A, pivot=pivot)
        return F, pivots.sub_(1), info

    def lu_solve(self, F: Any, pivots: Any, B: Any) -> Any:
        """The solution of A X = B by the factors of A."""
        return self.torch.linalg.lu_solve(F, pivots + 1, B)

    def solve(self, A: Any, B: Any, pivot: bool) -> tuple[Any, Any]:
        """The solution of A X = B, and `info`."""
        if pivot:
            X, info = self.torch.linalg.solve_ex(A, B)
            return X, info
        F, pivots, info = self.torch.linalg.lu_factor_ex(A, pivot=False)
        return self.torch.linalg.lu_solve(F, pivots, B), info

    def inverse(self, A: Any, pivot: bool) -> tuple[Any, Any]:
        """The inverse, and `info`."""
        if pivot:
            X, info = self.torch.linalg.inv_ex(A)
            return X, info
        identity = self.torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        return self.solve(A, identity.expand_as(A), False)

    def solve_positive(self, A: Any, B: Any) -> tuple[Any, Any]:
        """The solution of A X = B by Cholesky, from the lower triangle of A, and `info`."""
        factor, info = self.torch.linalg.cholesky_ex(A)
        return self.torch.cholesky_solve(B, factor), info

    def solve_triangular(self, A: Any, B: Any, lower: bool) -> Any:
        """The solution of A X = B, A a triangle."""
        return self.torch.linalg.solve_triangular(A, B, upper=not lower)

    def geqrf(self, A: Any) -> tuple[Any, Any]:
        """R above the reflectors, and the reflectors' factors."""
        F, tau = self.torch.geqrf(A)
        return F, tau

    def qr(self, A: Any, mode: str) -> tuple[Any, Any]:
        """Q (None with mode `r`) and R."""
        Q, R = self.torch.linalg.qr(A, mode=mode)
        return (None if mode == "r" else Q), R


def gemm(torch: Any, dtype: str) -> Product:
    """addmm, for single matrices of any strides."""

    def run(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        alpha, beta = scalars(dtype, alpha, beta)
        torch.addmm(C, A, B, alpha=alpha, beta=beta, out=C)

    return run


def strided_gemm(torch: Any, gemm: Gemm) -> Product:
    """baddbmm, which hands the strides of its operands to cuBLAS."""
    conj = (*gemm.conjugated, False)

    def view(array: Any, side: int, start: int) -> Any:
        shape, strides = (gemm.batch, *gemm.shapes[side]), (gemm.steps[side], *gemm.strides[side])
        found = array.as_strided(shape, strides, array.storage_offset() + start)
        return found.conj() if conj[side] else found

    def run(A: Any, B: Any, C: Any, alpha: complex, beta: complex) -> None:
        alpha, beta = scalars(gemm.dtype, alpha, beta)
        for start in gemm.starts:
            a, b, c = (view(array, side, start[side]) for side, array in enumerate((A, B, C)))
            torch.baddbmm(c, a, b, alpha=alpha, beta=beta, out=c)

    return run
