"""Derivatives of products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mansard as ms

from .rule import Given, Gradients, Rule, Tensor


def gemm(a: Tensor, b: Tensor, alpha: float = 1.0) -> Tensor:
    """alpha a b for matrices and stacks of them."""
    return ms.matmul(a, b) if alpha == 1.0 else ms.matmul(a, b, alpha=alpha)


def right_gradient(a: Tensor, G: Tensor, single: bool) -> Tensor:
    """a^H G, summed over the leading dimensions by the product itself if the right operand is a single matrix."""
    if single and a.ndim == G.ndim > 2:
        a, G = a.reshape(-1, a.shape[-1]), G.reshape(-1, G.shape[-1])
    return gemm(a.mH, G)


def _matmul(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """C = A B: dA = G B^H, dB = A^H G."""
    (A, B), (G,) = given.operands, cotangents
    dA = gemm(G, B.mH) if needed[0] else None
    return dA, right_gradient(A, G, len(given.shapes[1]) == 2) if needed[1] else None


_OTHER = ((1,), (0,))  # operands that the gradients of a product need


def _matmul_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    (A, B), (dA, dB) = given.operands, tangents
    return (total(None if dA is None else gemm(dA, B), None if dB is None else gemm(A, dB)),)


def total(*terms: Tensor | None) -> Tensor:
    """The sum of the terms that are not zero."""
    present = [term for term in terms if term is not None]
    return sum(present[1:], present[0]) if present else None


def _gram(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """C = A^H B: dA = B G^H, dB = A G; C = A^H A: dA = A (G + G^H)."""
    (G,) = cotangents
    if len(given.operands) == 1:
        return (gemm(given.operands[0], G + G.mH),)
    A, B = given.operands
    return gemm(B, G.mH) if needed[0] else None, gemm(A, G) if needed[1] else None


def _gram_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    if len(given.operands) == 1:
        half = ms.gram(given.operands[0], tangents[0])
        return (half + half.mH,)
    (A, B), (dA, dB) = given.operands, tangents
    return (total(None if dA is None else ms.gram(dA, B), None if dB is None else ms.gram(A, dB)),)


def _like_gram(A: Tensor, B: Tensor = None, **_: Any) -> Tensor:
    return A.mH @ (A if B is None else B)


def _update_rules(hermitian: bool) -> tuple[Rule, Rule]:
    """Rules of C = a a' and C = a b' + b a', where ' is the adjoint of a Hermitian update, else the transposed."""
    prefix = "he" if hermitian else "sy"

    def turned(x: Tensor) -> Tensor:
        return x.mH if hermitian else x.mT

    def twice(half: Tensor) -> Tensor:
        return half + turned(half)

    def factor(x: Tensor) -> Tensor:
        return x if hermitian else x.conj()

    def one(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
        """C = a a^T: da = (G + G^T) conj(a); C = a a^H: da = (G + G^H) a."""
        return (gemm(twice(cotangents[0]), factor(given.operands[0])),)

    def one_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
        return (twice(gemm(tangents[0], turned(given.operands[0]))),)

    def two(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
        """C = a b^T + b a^T: da = (G + G^T) conj(b), and db with a; C = a b^H + b a^H: da = (G + G^H) b."""
        (a, b), S = given.operands, twice(cotangents[0])
        return gemm(S, factor(b)) if needed[0] else None, gemm(S, factor(a)) if needed[1] else None

    def two_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
        (a, b), (da, db) = given.operands, tangents
        half = total(None if da is None else gemm(da, turned(b)), None if db is None else gemm(a, turned(db)))
        return (twice(half),)

    names = f"blas.{prefix}rk", f"blas.{prefix}r2k"
    return (
        Rule(names[0], names[0], one, lambda a, **_: a @ turned(a), (0,), tangent=one_tangent),
        Rule(names[1], names[1], two, lambda a, b, **_: a @ turned(b), (0, 1), tangent=two_tangent, uses=_OTHER),
    )


def _matmul_gram(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """W = V S, C = W^H W: what C says of W is W (G + G^H)."""
    (V, S), (W,), (GW, GC) = given.operands, given.results[:1], cotangents
    G = total(GW, None if GC is None else gemm(W, GC + GC.mH))
    return gemm(G, S.mH) if needed[0] else None, gemm(V.mH, G) if needed[1] else None


def _like_matmul_gram(V: Tensor, S: Tensor, **_: Any) -> Sequence[Tensor]:
    W = V @ S
    return W, W.mH @ W


def _stacked_matmul_gram(V: Tensor, S: Tensor, **_: Any) -> Sequence[Tensor]:
    W = gemm(V, S)
    return W, gemm(W.mH, W)


def _project(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """Z = W - V V^H W, C = Z^H Z. With H = GZ + Z (GC + GC^H): dW = H - V V^H H, dV = -(H (V^H W)^H + W (V^H H)^H)."""
    (V, W), (Z,), (GZ, GC) = given.operands, given.results[:1], cotangents
    H = total(GZ, None if GC is None else gemm(Z, GC + GC.mH))
    VH = ms.gram(V, H)
    dV = -(gemm(H, ms.gram(W, V)) + gemm(W, VH.mH)) if needed[0] else None
    return dV, H - gemm(V, VH) if needed[1] else None


def _like_project(V: Tensor, W: Tensor, **_: Any) -> Sequence[Tensor]:
    return W + V @ (V.mH @ W), W.mH @ W


def _stacked_project(V: Tensor, W: Tensor, **_: Any) -> Sequence[Tensor]:
    Z = W - gemm(V, gemm(V.mH, W))
    return Z, gemm(Z.mH, Z)



RULES = (
    Rule("matmul", "matmul", _matmul, lambda A, B, **_: A @ B, (0, 1), tangent=_matmul_tangent, uses=_OTHER),
    Rule("blas.gemm", "blas.gemm", _matmul, lambda A, B, **_: A @ B, (0, 1), tangent=_matmul_tangent, uses=_OTHER),
    Rule(
        "gram", "gram", _gram, _like_gram, (0, 1), tangent=_gram_tangent, stacks=False, uses=_OTHER,
        stacked=lambda A, B=None, **_: gemm(A.mH, A if B is None else B),
    ),
    *_update_rules(hermitian=False),
    *_update_rules(hermitian=True),
    Rule(
        "matmul_gram", "matmul_gram", _matmul_gram, _like_matmul_gram, (0, 1), (0,), stacks=False,
        stacked=_stacked_matmul_gram,
    ),
    Rule("project", "project", _project, _like_project, (0, 1), (0,), stacks=False, stacked=_stacked_project),
)  # fmt: skip
