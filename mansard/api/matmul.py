"""`matmul`: any operands; tall & skinny ones by our kernels, the rest by the array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..plan import pin
from ..plan.problem import DTYPES
from . import arrays
from .gram_call import plan_gram
from .tsm2r_call import plan_tsm2r
from .tsmm_call import plan_tsmm

Run = Callable[[Any, Any, Any, complex, complex], Any]

_RUNS: dict[Any, Run] = {}
_MOST_RUNS = 4096
_WIDEST = 128  # columns of a skinny matrix
_TALL = 16  # times as many rows
_SKINNY, _LARGE = 32, 2048  # columns of B, rows and columns of A, from where tsm2r may be asked


def matmul(
    A: Any, B: Any, *, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0, backend: str | None = None
) -> Any:
    """alpha A B + beta out, for operands of any shape.

    A tall matrix times a small one, a transposed tall one times a tall one (`matmul(V.T, W)`) and, on GPUs, a large one
    times a skinny one are computed by kernels made for the shape; everything else is handed to the array library.

    Parameters
    ----------
    A : (K, M) array of any strides; more or fewer dimensions are the array library's
    B : (M, N) array of the same kind, dtype and device
    out : (K, N) array that receives the result; it may be A if A is tall and B square: the product is formed in place
    backend : None chooses by where the arrays live; "emulated" runs the GPU kernel on the CPU

    Returns
    -------
    (K, N) array of the same kind, on the same device; `out` if it was given.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.arange(6.0).reshape(3, 2)
    >>> ms.matmul(V, np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[1., 0.],
           [3., 2.],
           [5., 4.]])
    """
    kind = arrays.known_kind(A) or arrays.kind_of(A, "A")
    if kind.name == "JAX":
        return _matmul_jax(kind, A, B, out, dict(alpha=alpha, beta=beta, backend=backend))
    given = [("A", A), ("B", B)] + ([("out", out)] if out is not None else [])
    arrays.common_kind(given)
    of_out = None if out is None else kind.signature(out)
    in_place = out is not None and kind.address(out) == kind.address(A)
    key = (type(A), kind.signature(A), kind.signature(B), of_out, in_place, backend)
    run = _RUNS.get(key)
    if run is None or pin.pins():
        run = _choose(kind, A, B, out, backend)
        if not pin.pins():
            if len(_RUNS) >= _MOST_RUNS:
                _RUNS.clear()
            _RUNS[key] = run
    return run(A, B, out, alpha, beta)


def _choose(kind: Any, A: Any, B: Any, out: Any, backend: str | None) -> Run:
    """By shape alone: which family, or the array library."""
    a, b = kind.view(A), kind.view(B)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.dtype not in DTYPES or a.dtype != b.dtype:
        return _vendor(kind)
    (m, k), n = a.shape, b.shape[1]
    if k != b.shape[0]:
        raise ValueError(f"A has {k} columns and B {b.shape[0]} rows: both need the same number")
    if max(m, n) <= _WIDEST and k >= _TALL * max(m, n):
        gram = plan_gram(A.T, B, out, False, True, backend)
        return lambda A, B, out, alpha, beta: gram.run(A.T, B, out, alpha, beta)
    if max(k, n) <= _WIDEST and m >= _TALL * max(k, n):
        return plan_tsmm(A, B, out, backend).run
    if n <= _SKINNY and min(m, k) >= _LARGE:
        return plan_tsm2r(A, B, out, backend).run
    return _vendor(kind)


def _vendor(kind: Any) -> Run:
    def run(A: Any, B: Any, out: Any, alpha: complex, beta: complex) -> Any:
        if out is None and beta != 0.0:
            raise ValueError("beta scales the content of out: pass out")
        product = kind.matmul(A, B)
        if alpha != 1.0:
            product = product * alpha
        if out is None:
            return product
        out[...] = product if beta == 0.0 else product + out * beta
        return out

    return run


def _matmul_jax(kind: Any, A: Any, B: Any, out: Any, options: dict[str, Any]) -> Any:
    if out is not None:
        raise TypeError("out is a JAX array, which cannot be written to: leave it out and use the result")
    if arrays.kind_of(B, "B") is not kind:
        raise TypeError("A is a JAX array and B is not: convert one of them")
    return kind.wrap(matmul(kind.unwrap(A), kind.unwrap(B), **options))
