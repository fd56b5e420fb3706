"""Products under JAX's transformations: `gram`, `matmul`, `gemm`, `gemv`, `matmul_gram`, `project`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import mansard as ms

from . import launches
from .checks import is_complex, matrices, same_dtype, scaled
from .primitive import Apply, Array, Result, Rules, Shape, aligned, conj, define, h, lead, reduced, t

# ---- op(a) op(b), op: nothing (N), transposed (T), transposed and conjugated (C) -----------------------------


def product(a: Array, b: Array, trans_a: str = "N", trans_b: str = "N", backend: str | None = None) -> Array:
    """op(a) op(b) of stacks; a stack times one matrix is a product of one tall matrix."""
    if b.ndim == 2 and a.ndim > 2 and trans_a == "N" and a.size:
        tall = a.reshape(-1, a.shape[-1])
        found = _gemm(tall, b, trans_a="N", trans_b=trans_b, backend=backend)[0]
        return found.reshape(*a.shape[:-1], found.shape[-1])
    return _gemm(a, b, trans_a=trans_a, trans_b=trans_b, backend=backend)[0]


def _sizes(matrix: Any, trans: str) -> Shape:
    rows, columns = matrix.shape[-2:]
    return (rows, columns) if trans == "N" else (columns, rows)


def _product_shapes(a: Any, b: Any, *, trans_a: str, trans_b: str, backend: str | None) -> list[Result]:
    return [((*lead((a, 2), (b, 2)), _sizes(a, trans_a)[0], _sizes(b, trans_b)[1]), a.dtype)]


def _product_host(out: Any, a: Any, b: Any, *, trans_a: str, trans_b: str, backend: str | None) -> None:
    ms.blas.gemm(a, b, trans_a=trans_a, trans_b=trans_b, out=out[0], backend=backend)


def _bilinear(apply: Any) -> Any:
    """The tangent of an operation that is linear in each of two operands; `apply` returns its one result."""

    def tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
        (a, b), (da, db) = primals, tangents
        parts = [apply(da, b, **options)] if da is not None else []
        parts += [apply(a, db, **options)] if db is not None else []
        return [sum(parts[1:], parts[0]) if parts else None]

    return tangent


def _product_transpose(
    cts: Any, operands: Any, shape: Shape, *, trans_a: str, trans_b: str, backend: str | None
) -> Array:
    (a, b), ct = operands, cts[0]
    if a is None:  # op(a) has the cotangent ct op(b)^T
        if trans_a == "N":
            found = _times_transposed(ct, b, trans_b, backend)
        else:  # and a that of its transposed, op(b) ct^T
            found = product(b, ct, trans_b, "T", backend)
            found = conj(found) if trans_a == "C" else found
    elif trans_b == "N":  # op(b) has the cotangent op(a)^T ct
        found = _transposed_times(a, trans_a, ct, backend)
    else:
        found = product(ct, a, "T", trans_a, backend)
        found = conj(found) if trans_b == "C" else found
    return reduced(found, shape)


def _times_transposed(ct: Array, b: Array, trans_b: str, backend: str | None) -> Array:
    if trans_b == "C":
        return product(ct, conj(b), "N", "N", backend)
    return product(ct, b, "N", "T" if trans_b == "N" else "N", backend)


def _transposed_times(a: Array, trans_a: str, ct: Array, backend: str | None) -> Array:
    if trans_a == "C":
        return product(conj(a), ct, "N", "N", backend)
    return product(a, ct, "T" if trans_a == "N" else "N", "N", backend)


def _product_batch(operands: Any, mapped: Any, *, trans_a: str, trans_b: str, backend: str | None) -> Any:
    a, b = aligned(operands, mapped, (2, 2))
    return [product(a, b, trans_a, trans_b, backend)]


def _product_by_xla(a: Any, b: Any, *, trans_a: str, trans_b: str, backend: str | None) -> list[Array]:
    return [_times(_op(a, trans_a), _op(b, trans_b))]


def _op(a: Array, trans: str) -> Array:
    return a if trans == "N" else h(a) if trans == "C" else t(a)


def _times(a: Array, b: Array) -> Array:
    """A product by XLA with all digits of the operands."""
    return jnp.matmul(a, b, precision="highest")


_gemm = define(
    Rules(
        "gemm", _product_shapes, _product_host, (2, 2), _bilinear(
            lambda a, b, trans_a, trans_b, backend: product(a, b, trans_a, trans_b, backend)
        ), _product_transpose, _product_batch, describe=launches.gemm, by_xla=_product_by_xla,
    )
)  # fmt: skip


# ---- A^H B of tall A and B, A^H A ---------------------------------------------------------------------------


def _gram_shapes(A: Any, B: Any = None, *, conj: bool, backend: str | None) -> list[Result]:
    return [((A.shape[1], (A if B is None else B).shape[1]), A.dtype)]


def _gram_host(out: Any, A: Any, B: Any = None, *, conj: bool, backend: str | None) -> None:
    ms.gram(A, B, out=out[0], conj=conj, backend=backend)


def _gram_transpose(cts: Any, operands: Any, shape: Shape, *, conj: bool, backend: str | None) -> Array:
    (A, B), ct = operands, cts[0]
    if B is None:
        return product(_conj_if(conj, A), ct, backend=backend)
    return _conj_if(conj, product(B, ct, "N", "T", backend))


def _conj_if(wanted: bool, array: Array) -> Array:
    return conj(array) if wanted else array


def _gram_batch(operands: Any, mapped: Any, *, conj: bool, backend: str | None) -> Any:
    """Stacks of matrices go to `gemm`."""
    A, B = (operands * 2)[:2]
    return [product(A, B, "C" if conj and is_complex(A) else "T", "N", backend)]


def _own_tangent(results: Any, primals: Any, tangents: Any, *, conj: bool, backend: str | None) -> list[Array | None]:
    half = _gram(primals[0], tangents[0], conj=conj, backend=backend)[0]
    return [half + (h(half) if conj else t(half))]


def _gram_by_xla(A: Any, B: Any = None, *, conj: bool, backend: str | None) -> list[Array]:
    product = _times(_op(A, "C" if conj else "T"), A if B is None else B)
    if B is None:  # rounding may have told the triangles apart
        product = (product + (h(product) if conj else t(product))) / 2
    return [product]


_gram: Apply = define(
    Rules(
        "gram", _gram_shapes, _gram_host, (2, 2), _bilinear(lambda A, B, **options: _gram(A, B, **options)[0]),
        _gram_transpose, _gram_batch, describe=launches.gram, by_xla=_gram_by_xla,
    )
)  # fmt: skip
_own_gram = define(
    Rules(
        "own_gram", _gram_shapes, _gram_host, (2,), _own_tangent, None, _gram_batch, describe=launches.gram,
        by_xla=_gram_by_xla,
    )
)  # fmt: skip


def gram(
    A: Array, B: Array = None, *, alpha: Any = 1.0, beta: Any = 0.0, conj: bool = True, deterministic: bool = True,
    backend: str | None = None,
) -> Array:  # fmt: skip
    for name, one in (("A", A), ("B", A if B is None else B)):
        matrices(one, name, exactly=2)
    conj = bool(conj)
    if B is None or B is A:
        found = _own_gram(A, conj=conj, backend=backend)[0]
    else:
        same_dtype(A=A, B=B)
        if A.shape[0] != B.shape[0]:
            raise ValueError(f"A has {A.shape[0]} rows and B {B.shape[0]}: both need the same number")
        found = _gram(A, B, conj=conj, backend=backend)[0]
    return scaled(found, alpha, beta)


# ---- matrices and vectors -----------------------------------------------------------------------------------


def _vector_shapes(a: Any, x: Any, *, trans: str, backend: str | None) -> list[Result]:
    return [((*lead((a, 2), (x, 1)), _sizes(a, trans)[0]), a.dtype)]


def _vector_host(out: Any, a: Any, x: Any, *, trans: str, backend: str | None) -> None:
    ms.blas.gemv(a, x, trans=trans, out=out[0], backend=backend)


def _vector_transpose(cts: Any, operands: Any, shape: Shape, *, trans: str, backend: str | None) -> Array:
    (a, x), ct = operands, cts[0]
    if x is None:
        a = conj(a) if trans == "C" else a
        return reduced(_gemv(a, ct, trans="T" if trans == "N" else "N", backend=backend)[0], shape)
    outer = ct[..., :, None] * x[..., None, :] if trans == "N" else x[..., :, None] * ct[..., None, :]
    return reduced(conj(outer) if trans == "C" else outer, shape)


def _vector_by_xla(a: Any, x: Any, *, trans: str, backend: str | None) -> list[Array]:
    return [_times(_op(a, trans), x[..., None])[..., 0]]


_gemv: Apply = define(
    Rules(
        "gemv", _vector_shapes, _vector_host, (2, 1), _bilinear(lambda a, x, **options: _gemv(a, x, **options)[0]),
        _vector_transpose, describe=launches.gemv, by_xla=_vector_by_xla,
    )
)  # fmt: skip


def gemv(
    a: Array, x: Array, *, alpha: Any = 1.0, beta: Any = 0.0, trans: str = "N", backend: str | None = None
) -> Array:
    matrices(a, "a")
    form("trans", trans)
    same_dtype(a=a, x=x)
    if x.ndim < 1 or x.shape[-1] != _sizes(a, trans)[1]:
        raise ValueError(f"a has shape {a.shape} and x {x.shape}: op(a) needs vectors of {_sizes(a, trans)[1]} entries")
    return scaled(_gemv(a, x, trans=trans, backend=backend)[0], alpha, beta, 1)


# ---- public products ----------------------------------------------------------------------------------------


def form(name: str, value: str) -> None:
    if value not in ("N", "T", "C"):
        raise ValueError(f"{name}={value!r} is not one of 'N', 'T' and 'C'")


def gemm(
    a: Array, b: Array, *, alpha: Any = 1.0, beta: Any = 0.0, trans_a: str = "N", trans_b: str = "N",
    backend: str | None = None,
) -> Array:  # fmt: skip
    form("trans_a", trans_a)
    form("trans_b", trans_b)
    return scaled(_checked_product(("a", a), ("b", b), trans_a, trans_b, backend), alpha, beta, 2)


def _checked_product(
    first: tuple[str, Array], second: tuple[str, Array], trans_a: str, trans_b: str, backend: str | None
) -> Array:
    (name, a), (other, b) = first, second
    matrices(a, name)
    matrices(b, other)
    same_dtype(**{name: a, other: b})
    columns, rows = _sizes(a, trans_a)[1], _sizes(b, trans_b)[0]
    if columns != rows:
        raise ValueError(f"{name} has {columns} columns and {other} {rows} rows: both need the same number")
    return product(a, b, trans_a, trans_b, backend)


def matmul(A: Array, B: Array, *, alpha: Any = 1.0, beta: Any = 0.0, backend: str | None = None) -> Array:
    row, column = A.ndim == 1, B.ndim == 1
    a, b = A[None, :] if row else A, B[:, None] if column else B
    found = _checked_product(("A", a), ("B", b), "N", "N", backend)
    found = found[..., 0] if column else found
    found = (found[..., 0] if column else found[..., 0, :]) if row else found
    return scaled(found, alpha, beta, 2 - row - column)


def matmul_gram(
    V: Array, S: Array, *, alpha: Any = 1.0, beta: Any = 0.0, backend: str | None = None
) -> tuple[Array, Array]:
    matrices(V, "V", exactly=2)
    matrices(S, "S", exactly=2)
    W = scaled(_checked_product(("V", V), ("S", S), "N", "N", backend), alpha, beta)
    return W, _own_gram(W, conj=True, backend=backend)[0]


def project(V: Array, W: Array, *, backend: str | None = None) -> tuple[Array, Array]:
    left = W - _checked_product(("V", V), ("V^H W", gram(V, W, backend=backend)), "N", "N", backend)
    return left, _own_gram(left, conj=True, backend=backend)[0]


PUBLIC = {
    "gram": gram, "matmul": matmul, "matmul_gram": matmul_gram, "project": project,
    "blas.gemm": gemm, "blas.gemv": gemv,
}  # fmt: skip
