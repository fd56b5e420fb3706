"""Sparse matrices of small integers, vectors to go with them, and where a backend wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


def made(rows: int, cols: int, mean: float, dtype: str = "float64", seed: int = 0, empty: bool = True) -> Any:
    """Small integers in rows of different lengths, some of them empty."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.integers(0 if empty else 1, round(2 * mean) + 1, rows), cols)
    indices = [np.sort(rng.choice(cols, length, replace=False)) for length in lengths]
    data = rng.integers(1, 4, lengths.sum()) * rng.choice([-1, 1], lengths.sum())
    if dtype.startswith("complex"):
        data = data + 1j * rng.integers(-3, 4, lengths.sum())
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_array(
        (data.astype(dtype), np.concatenate([*indices, []]).astype(int), indptr), (rows, cols)
    )


def vectors(shape: Any, dtype: str = "float64", seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    data = rng.integers(-3, 4, shape)
    return (data + 1j * rng.integers(-3, 4, shape) if dtype.startswith("complex") else data).astype(dtype)


def there(A: Any, backend: str) -> Any:
    """The matrix or the array where the backend works."""
    if backend != "cuda":
        return A
    import cupy
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse.csr_matrix(A) if scipy.sparse.issparse(A) else cupy.asarray(A)


def host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def same(one: Any, other: Any) -> bool:
    """The same pattern and values, entry by entry."""
    other = scipy.sparse.csr_array(other)
    parts = ("indptr", "indices", "data")
    return one.shape == other.shape and all(np.array_equal(getattr(one, p), getattr(other, p)) for p in parts)
