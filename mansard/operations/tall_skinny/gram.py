"""Products of tall, skinny matrices: `gram`."""

from __future__ import annotations

from typing import Any

from ...arrays import kinds as arrays
from ...plan import pin
from ...plan.plan import Plan
from .gram_call import plan_gram

_PLANS: dict[Any, Plan] = {}
_MOST_PLANS = 4096


def gram(
    A: Any,
    B: Any = None,
    *,
    out: Any = None,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    conj: bool = True,
    deterministic: bool = True,
    backend: str | None = None,
) -> Any:
    """A^H B for tall, skinny A and B: all inner products of two block vectors, in one pass over them.

    Parameters
    ----------
    A : (K, M) array, K any size, of float32, float64, complex64 or complex128; any strides
    B : (K, N) array of the same kind, dtype and device. Left out, it is A: read once, half the work, and the result
        is exactly Hermitian
    out : (M, N) array that receives alpha A^H B + beta out; with beta = 0 its content is not read
    conj : with False, A^T B
    deterministic : the same bits every time (default); False admits reductions whose order varies
    backend : None chooses by where the arrays live; "emulated" runs the GPU kernel on the CPU, "reference" the
        array library's own product

    Returns
    -------
    (M, N) array of the same kind, on the same device; `out` if it was given.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = np.arange(6.0).reshape(3, 2)
    >>> ms.gram(V)
    array([[20., 26.],
           [26., 35.]])

    Notes
    -----
    Moves K (M + N) elements and nothing else; for M = N below about 60 (float64, H200) that is the limit.

    On GPUs, float32 and complex64 products are summed in float64, or, from K = 4096 on where that is faster, formed as
    three TF32 products each (22 of float32's 24 bits) and summed in float32 chunk by chunk, then in float64: an error
    like that of a plain float32 product. `with ms.pin(UNIT="float64")` insists on the former.

    Wide complex products may be formed from three real products instead of four. Entries have the same kind of error
    bound, a small multiple of |A|^T |B|, but a small imaginary part beside a large real one (or the reverse) is not
    more accurate than the large one. `with ms.pin(VARIANT="ring")` insists on four.
    """
    if B is A:
        B = None
    kind = arrays.known_kind(A)
    if kind is None or (B is not None and type(B) is not type(A)):
        kind = arrays.common_kind(
            [("A", A), *((("B", B),) if B is not None else ()), *((("out", out),) if out is not None else ())]
        )
        if kind.name == "JAX":
            return _gram_jax(
                kind, A, B, out, dict(alpha=alpha, beta=beta, conj=conj, deterministic=deterministic, backend=backend)
            )
    key = (
        kind.signature(A),
        None if B is None else kind.signature(B),
        None if out is None else (type(out), kind.signature(out) if type(out) is type(A) else None),
        type(A), conj, deterministic, backend,
    )  # fmt: skip
    plan = _PLANS.get(key)
    if plan is None or pin.pins():
        plan = plan_gram(A, B, out, conj, deterministic, backend)
        if not pin.pins():
            if len(_PLANS) >= _MOST_PLANS:
                _PLANS.clear()
            _PLANS[key] = plan
    return plan.run(A, B, out, alpha, beta)


def _gram_jax(kind: Any, A: Any, B: Any, out: Any, options: dict[str, Any]) -> Any:
    if out is not None:
        raise TypeError("out is a JAX array, which cannot be written to: leave it out and use the result")
    inner = None if B is None else kind.unwrap(B, "B")
    return kind.wrap(gram(kind.unwrap(A, "A"), inner, **options))
