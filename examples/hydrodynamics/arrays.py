"""The switch between array libraries (NumPy, CuPy, PyTorch) and between engines: Mansard, or the library alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mansard as ms

Array = Any
Product = Callable[[Array], Array]
ENGINES = ("mansard", "library")


class Arrays:
    """Operations of one run. Elementwise functions are the library's; products and factorizations the engine's."""

    def __init__(self, library: str = "numpy", engine: str = "mansard") -> None:
        if engine not in ENGINES:
            raise ValueError(f"engine {engine!r}: it is one of {', '.join(ENGINES)}")
        self.library, self.engine = library, engine
        self.xp: Any = _module(library)
        own = engine == "mansard"
        linalg = self.xp.linalg
        self.matmul: Callable[[Array, Array], Array] = ms.matmul if own else self.xp.matmul
        self.inv: Callable[[Array], Array] = ms.linalg.inv if own else linalg.inv
        self.det: Callable[[Array], Array] = ms.linalg.det if own else linalg.det
        self.cholesky: Callable[[Array], Array] = ms.linalg.cholesky if own else linalg.cholesky

    # ---- arrays -------------------------------------------------------------------------------------------

    def array(self, values: np.ndarray) -> Array:
        """Values from the host, where the library keeps its arrays."""
        if self.library == "torch":
            return self.xp.as_tensor(np.ascontiguousarray(values), device=_torch_device(self.xp))
        return self.xp.asarray(values)

    def numpy(self, array: Array) -> np.ndarray:
        """Values on the host."""
        if self.library == "cupy":
            return array.get()
        return np.asarray(array.cpu() if self.library == "torch" else array)

    def zeros_like(self, array: Array) -> Array:
        return self.xp.zeros_like(array)

    def at_least(self, array: Array, least: float) -> Array:
        return array.clip(least, None)

    def between(self, array: Array, least: float, most: float) -> Array:
        return array.clip(least, most)

    def wait(self) -> None:
        """Until the device has done what it was asked for, so that clocks tell the truth."""
        if self.library == "cupy":
            self.xp.cuda.get_current_stream().synchronize()
        elif self.library == "torch" and self.xp.cuda.is_available():
            self.xp.cuda.synchronize()

    # ---- factorizations and products ----------------------------------------------------------------------

    def smallest_eigenpair(self, a: Array) -> tuple[Array, Array]:
        """Smallest eigenvalue (...) and its unit eigenvector (..., dim) of symmetric matrices (..., dim, dim)."""
        eigh = ms.linalg.eigh if self.engine == "mansard" else self.xp.linalg.eigh
        values, vectors = eigh(a)
        return values[..., 0], vectors[..., 0]

    def smallest_singular_value(self, a: Array) -> Array:
        """Smallest singular value (...) of square matrices (..., dim, dim)."""
        if self.engine == "mansard":
            return ms.linalg.svdvals(a)[..., -1]
        if self.library == "torch":
            return self.xp.linalg.svdvals(a)[..., -1]
        return self.xp.linalg.svd(a, compute_uv=False)[..., -1]

    def solver(self, a: Array) -> Product:
        """b (..., n) -> x with a x = b, of symmetric positive definite a (..., n, n) that stay."""
        factor = self.cholesky(a)
        if self.engine == "mansard":
            return lambda b: ms.linalg.cho_solve((factor, True), b[..., None])[..., 0]
        inverse = self.inv(a)  # a product is what these libraries do fastest
        return lambda b: self.matmul(inverse, b[..., None])[..., 0]

    def sparse(self, matrix: Any) -> Product:
        """x (n, columns) -> A x, for a matrix that is given in SciPy's CSR format."""
        held = self._on_device(matrix)
        if self.engine == "mansard":
            held = ms.sparse.matrix(held)
        return lambda x: held @ x

    def _on_device(self, matrix: Any) -> Any:
        if self.library == "cupy":
            from cupyx.scipy.sparse import csr_matrix

            return csr_matrix(matrix)
        if self.library == "torch":
            starts, columns = (self.array(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
            return self.xp.sparse_csr_tensor(starts, columns, self.array(matrix.data), size=matrix.shape)
        return matrix


def _module(library: str) -> Any:
    if library == "numpy":
        return np
    if library == "cupy":
        import cupy

        return cupy
    if library == "torch":
        import torch

        return torch
    raise ValueError(f"backend {library!r}: it is one of numpy, cupy, torch")


def _torch_device(torch: Any) -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
