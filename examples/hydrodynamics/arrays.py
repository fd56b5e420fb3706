"""The switch between array libraries (NumPy, CuPy, PyTorch) and between engines: Mansard, or the library alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import mansard as ms

Array = Any
LIBRARIES = ("numpy", "cupy", "torch")
ENGINES = ("mansard", "library")
_MOST = 32768  # matrices in one call of cuSOLVER's eigh: with 262,144 or more it reports errors


class Arrays:
    """Operations of one run. Elementwise functions are the library's; products and factorizations the engine's."""

    def __init__(self, library: str = "numpy", engine: str = "mansard") -> None:
        if engine not in ENGINES:
            raise ValueError(f"engine {engine!r}: it is one of {', '.join(ENGINES)}")
        self.library, self.engine = library, engine
        self.xp: Any = _module(library)
        self.on_gpu = library == "cupy" or (library == "torch" and self.xp.cuda.is_available())
        self.records_graphs = self.on_gpu  # iterations that need nothing from the host become CUDA graphs
        own = engine == "mansard"
        linalg = self.xp.linalg
        self.matmul: Callable[[Array, Array], Array] = ms.matmul if own else self.xp.matmul
        self.inv: Callable[[Array], Array] = ms.linalg.inv if own else linalg.inv
        self.det: Callable[[Array], Array] = ms.linalg.det if own else linalg.det

    # ---- arrays -------------------------------------------------------------------------------------------

    def use_device(self, number: int) -> None:
        """Put the arrays of this thread on GPU `number`, modulo the number of GPUs."""
        if self.library == "cupy":
            self.xp.cuda.Device(number % self.xp.cuda.runtime.getDeviceCount()).use()
        elif self.on_gpu:
            self.xp.cuda.set_device(number % self.xp.cuda.device_count())

    def array(self, values: np.ndarray) -> Array:
        """Values from the host, where the library keeps its arrays."""
        if self.library == "torch":
            return self.xp.as_tensor(np.ascontiguousarray(values), device="cuda" if self.on_gpu else "cpu")
        return self.xp.asarray(values)

    def numpy(self, array: Array) -> np.ndarray:
        """Values on the host."""
        if self.library == "cupy":
            return array.get()
        return np.asarray(array.cpu() if self.library == "torch" else array)

    def zeros_like(self, array: Array) -> Array:
        return self.xp.zeros_like(array)

    def copy(self, array: Array) -> Array:
        return array.clone() if self.library == "torch" else array.copy()

    def assign(self, target: Array, values: Array) -> None:
        """Overwrite an array that stays where it is."""
        target[...] = values

    def gather(self, array: Array, index: Array) -> Array:
        """Entries of an array at places in its flat order."""
        return self.xp.take(array, index)

    def matmul_into(self, a: Array, b: Array, out: Array) -> None:
        """out = a b, for an array that stays where it is; any strides."""
        if self.engine == "mansard":
            ms.matmul(a, b, out=out)
        else:
            self.assign(out, self.matmul(a, b))

    def at_least(self, array: Array, least: float) -> Array:
        return array.clip(least, None)

    def between(self, array: Array, least: float, most: float) -> Array:
        return array.clip(least, most)

    def wait(self) -> None:
        """Until the device has done what it was asked for, so that clocks tell the truth."""
        if self.library == "cupy":
            self.xp.cuda.get_current_stream().synchronize()
        elif self.on_gpu:
            self.xp.cuda.synchronize()

    # ---- sums of products ---------------------------------------------------------------------------------

    def row_dots(self, a: Array, b: Array) -> Array:
        """Sums over the last axis of a b: (..., n) and (..., n) to (...)."""
        if self.engine == "mansard":
            return ms.matmul(a[..., None, :], b[..., :, None])[..., 0, 0]
        return np.einsum("...i,...i->...", a, b) if self.library == "numpy" else (a * b).sum(-1)

    def column_dots(self, a: Array, b: Array) -> Array:
        """Inner products of the columns of a with those of b: (n, dim) and (n, dim) to (dim,)."""
        if self.library == "numpy":
            return np.vecdot(a.T, b.T)
        if self.engine == "mansard":
            return ms.gram(a, b).diagonal()  # all pairs of columns in one pass: memory is what it costs
        return (a * b).sum(0)

    def column_scaling(self) -> Callable[[Array, Array, Array], Array]:
        """(array, factors, out) -> out = array * factors, for factors of the few columns of an array (n, dim)."""
        if self.library != "numpy":
            return lambda array, factors, out: self.xp.multiply(array, factors, out=out)
        diagonals = {dim: np.zeros((dim, dim)) for dim in (1, 2, 3)}

        def scaled(array: Array, factors: Array, out: Array) -> Array:
            """By a product with a diagonal matrix: NumPy's loops over two or three columns take longer."""
            matrix = diagonals[len(factors)]
            matrix.flat[:: len(factors) + 1] = factors
            return np.dot(array, matrix, out=out)

        return scaled

    def plus_transposed(self, ab: Array, a: Array, b: Array) -> Array:
        """a b + (a b)^T of square matrices, ab = a b given; it may be overwritten."""
        if self.engine == "mansard":
            return ms.blas.gemm(b.swapaxes(-1, -2), a.swapaxes(-1, -2), out=ab, beta=1.0)
        return ab + ab.swapaxes(-1, -2)

    # ---- factorizations and products with matrices that stay ----------------------------------------------

    def smallest_eigenpair(self, a: Array) -> tuple[Array, Array]:
        """Smallest eigenvalue (...) and its unit eigenvector (..., dim) of symmetric matrices (..., dim, dim)."""
        if self.engine == "mansard":
            values, vectors = ms.linalg.eigh(a)
        elif self.on_gpu and len(a) > _MOST:
            pairs = [self.xp.linalg.eigh(a[at : at + _MOST]) for at in range(0, len(a), _MOST)]
            values, vectors = (self.xp.concatenate(parts) for parts in zip(*pairs, strict=True))
        else:
            values, vectors = self.xp.linalg.eigh(a)
        return values[..., 0], vectors[..., 0]

    def smallest_singular_value(self, a: Array) -> Array:
        """Smallest singular value (...) of square matrices (..., dim, dim)."""
        if self.engine == "mansard":
            return ms.linalg.svdvals(a)[..., -1]
        if self.library == "torch":
            return self.xp.linalg.svdvals(a)[..., -1]
        return self.xp.linalg.svd(a, compute_uv=False)[..., -1]

    def solver(self, a: Array) -> Callable[[Array], Array]:
        """b (..., n) -> x with a x = b, of symmetric positive definite a (..., n, n) that stay."""
        if self.engine == "mansard":
            factor, one = ms.linalg.cholesky(a), self.zeros_like(a)
            for i in range(a.shape[-1]):
                one[..., i, i] = 1
            inverse = ms.linalg.cho_solve((factor, True), one)
        else:
            inverse = self.xp.linalg.inv(a)
        return lambda b: self.matmul(inverse, b[..., None])[..., 0]  # a product is faster than two triangular solves

    def sparse(self, matrix: Any) -> Callable[[Array, Array], None]:
        """(x, y) -> y = A x of shapes (n, columns), for a matrix that is given in SciPy's CSR format."""
        stored = self._on_device(matrix)
        if self.engine == "mansard":
            product = ms.sparse.matrix(stored).product
            return lambda x, y: product(x, out=y)
        return lambda x, y: self.assign(y, stored @ x)

    def _on_device(self, matrix: Any) -> Any:
        if self.library == "cupy":
            from cupyx.scipy.sparse import csr_matrix

            return csr_matrix(matrix)
        if self.library == "torch":
            starts, columns = (self.array(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
            with warnings.catch_warnings():  # PyTorch says once that its sparse matrices are young
                warnings.simplefilter("ignore", UserWarning)
                return self.xp.sparse_csr_tensor(starts, columns, self.array(matrix.data), size=matrix.shape)
        return matrix


def _module(library: str) -> Any:
    if library not in LIBRARIES:
        raise ValueError(f"backend {library!r}: it is one of {', '.join(LIBRARIES)}")
    try:
        return import_module(library)
    except ImportError:
        raise ImportError(f"backend {library}: {library} is not installed; numpy always is") from None
