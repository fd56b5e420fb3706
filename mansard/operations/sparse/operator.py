"""A stored sparse matrix as SciPy sees it: a LinearOperator that also multiplies sparse matrices and numbers.

Products with arrays are the matrix's own, of whatever array library. SciPy's solvers take it as it is; cupyx's take it
through their `aslinearoperator`, which asks for `shape`, `dtype`, `matvec` and `rmatvec` alone.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ...arrays.types import Array, SparseMatrix

# What is multiplied with a matrix, and the product: numbers, arrays, sparse matrices, operators.
Operand: TypeAlias = Any


def _is_number(x: Operand) -> bool:
    return bool(np.isscalar(x))


class Operator(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """What `Matrix` has beside its own products. Sums and powers are LinearOperator's, and lazy."""

    shape: tuple[int, int]
    dtype: np.dtype[np.generic]

    @abstractmethod
    def __matmul__(self, x: Operand) -> Operand:
        """The product with an array, or with another operand through `times`."""

    @abstractmethod
    def _scaled(self, factor: complex) -> Operator:
        """The matrix with every entry multiplied by a number."""

    @abstractmethod
    def tocsr(self) -> SparseMatrix:
        """As CSR of SciPy or CuPy, where the matrix lives."""

    @abstractmethod
    def _stored_like(self, A: SparseMatrix) -> Operator:
        """Store a matrix of SciPy or CuPy with this one's backend."""

    # ---- LinearOperator -----------------------------------------------------------------------------------

    def matvec(self, x: Array) -> Array:
        """A x of a vector (n,) or a column (n, 1)."""
        return self @ x

    def matmat(self, X: Array) -> Array:
        """A X of vectors side by side (n, k)."""
        return self @ X

    def rmatvec(self, x: Array) -> Array:
        """A^H x of a vector (m,) or a column (m, 1)."""
        return self.H @ x

    def rmatmat(self, X: Array) -> Array:
        """A^H X of vectors side by side (m, k)."""
        return self.H @ X

    # SciPy's own classes call these after checking the shape
    _matvec, _matmat, _rmatvec, _rmatmat = matvec, matmat, rmatvec, rmatmat

    def _adjoint(self) -> Operand:
        return self.H

    def _transpose(self) -> Operand:
        return self.T

    def dot(self, x: Operand) -> Operand:
        """A x, or A multiplied by a number."""
        return self * x

    def __mul__(self, x: Operand) -> Operand:
        return self._scaled(x) if _is_number(x) else self @ x

    def __rmul__(self, x: Operand) -> Operand:
        return self._scaled(x) if _is_number(x) else self.__rmatmul__(x)

    def __truediv__(self, number: complex) -> Operator:
        if not _is_number(number):
            raise TypeError("a sparse matrix is divided by numbers only")
        return self._scaled(1 / number)

    def __neg__(self) -> Operator:
        return self._scaled(-1)

    def __rmatmul__(self, x: Operand) -> Operand:
        if hasattr(x, "tocsr"):
            return x @ self.tocsr()
        if isinstance(x, list | tuple):
            x = np.asarray(x)
        turned = self.T @ (x.swapaxes(-1, -2) if len(x.shape) > 1 else x)
        return turned.swapaxes(-1, -2) if len(x.shape) > 1 else turned

    def times(self, x: Operand) -> Operand:
        """The product with what is no array that was seen before: a sparse matrix (by the library, sparse as well),
        another operator (a LinearOperator that applies both), a list of numbers, the first array of a library."""
        if isinstance(x, Operator):
            return self._stored_like(self.tocsr() @ x.tocsr())
        if isinstance(x, LinearOperator):
            return super().dot(x)
        if hasattr(x, "tocsr"):
            return self.tocsr() @ x
        if _is_number(x):
            raise ValueError("@ multiplies with vectors and matrices: use * for numbers")
        return self.product(np.asarray(x) if isinstance(x, list | tuple) else x)

    @abstractmethod
    def product(self, x: Array) -> Array:
        """A x of an array of any library."""

    # ---- conversions --------------------------------------------------------------------------------------

    def toarray(self) -> Array:
        """As a dense array of NumPy or CuPy, where the matrix lives."""
        return self.tocsr().toarray()
