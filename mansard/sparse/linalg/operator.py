"""Matrices and preconditioners as solvers multiply by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...operations.sparse.matrix import Matrix, matrix
from ...plan.problem import DTYPES
from .checks import check_operator
from .space import WHOLE, has_rows, space_of

LARGE = 1 << 17  # rows times vectors from which products by our kernels pay for storing the matrix, and for a compile


def stored(A: Any, vectors: int = 1, small_on_gpus: bool = False) -> Any:
    """A large sparse matrix of SciPy's or CuPy's, copied once for products by our kernels; anything else as it is.
    `small_on_gpus`: on GPUs small ones too, whose products Python would otherwise launch more slowly than they run."""
    is_sparse = hasattr(A, "tocsr") and hasattr(A, "nnz") and not isinstance(A, Matrix) and space_of(A) is WHOLE
    if not is_sparse or np.dtype(A.dtype).name not in DTYPES or not A.nnz:
        return A
    on_host, is_small = not type(A).__module__.startswith("cupy"), A.shape[0] * vectors < LARGE
    if is_small and (on_host or not small_on_gpus):
        return A
    # CSR is copied in the time of a few products; SELL takes hundreds on a CPU, which one solve does not earn back
    return matrix(A, format="csr" if on_host or is_small else None)


def applied(M: Any, name: str) -> Callable[[Any], Any] | None:
    """The function x -> M x of a matrix, a LinearOperator, or a function; None of None."""
    if M is None:
        return None
    check_operator(M, name)
    if hasattr(M, "__matmul__"):
        if len(M.shape) != 2 or M.shape[0] != M.shape[1]:
            raise ValueError(f"{name} has shape {tuple(M.shape)}: a square matrix is needed")
        inner = stored(M)
        return lambda x: inner @ x
    if not callable(M):
        raise TypeError(f"{name} is a {type(M).__name__}: pass a matrix, a LinearOperator or a function of a vector")

    def checked(x: Any) -> Any:
        found = M(x)
        if getattr(found, "shape", None) != x.shape:
            raise ValueError(f"{name}(x) has shape {np.shape(found)} and x {x.shape}: both need the same")
        return found

    return checked


def sample(A: Any) -> Any:
    """An array of one column where a matrix lives."""
    if type(A).__module__.startswith("cupy") or getattr(A, "device", ("cpu", 0))[0] == "cuda":
        import cupy

        return cupy.zeros((int(A.shape[0]), 1), np.float32)
    return np.zeros((int(A.shape[0]), 1), np.float32)


def rows_of(A: Any) -> Any:
    """A as a matrix whose entries can be read; None of a LinearOperator."""
    if has_rows(A):
        return A
    if not isinstance(A, Matrix):
        return None
    return A.to_scipy() if A.device[0] == "cpu" else A.to_cupy()


def multiply_into(A: Any, x: Any, out: Any) -> Any:
    """out = A x."""
    if isinstance(A, Matrix):
        return A.product(x, out=out)
    out[...] = A @ x
    return out


def check_whole(A: Any, name: str) -> None:
    """Refuse matrices whose rows live in several processes."""
    if space_of(A) is not WHOLE:
        raise TypeError(f"{name} takes matrices of one process: of distributed ones gmres, cg, minres, expm_multiply")


def check_hermitian(H: Any, remedy: str) -> None:
    """Refuse an A whose products X^H A X = H are far from Hermitian: more than rounding explains."""
    if np.isfinite(H).all() and np.abs(H - H.conj().T).max() > np.finfo(H.dtype).eps ** 0.5 * np.abs(H).max():
        raise ValueError(f"A is not Hermitian: {remedy}")


def square(A: Any, rows: int, what: str) -> None:
    """Refuse a matrix that does not multiply `what`, which has `rows` rows."""
    check_operator(A, "A")
    if not hasattr(A, "__matmul__"):
        raise TypeError(f"A is a {type(A).__name__}: pass a matrix or a LinearOperator")
    if len(A.shape) != 2 or A.shape[0] != A.shape[1] or A.shape[0] != rows:
        raise ValueError(f"A has shape {tuple(A.shape)} and {what} {rows} rows: they do not match")


def dtype_of(*parts: Any) -> Any:
    """The dtype that arrays and operators are computed in: NumPy's promotion, at least to what kernels know."""
    dtypes = [part.dtype for part in parts if getattr(part, "dtype", None) is not None]
    dtype = np.result_type(*dtypes)
    return dtype if dtype.name in DTYPES else np.result_type(dtype, np.float64)
