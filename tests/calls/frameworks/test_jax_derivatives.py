"""Derivatives of public functions under JAX: against differences, against their own transposition, against JAX's.

The rules are the same for every backend: these tests run them on `reference`, which compiles no kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import needs_cpu
from sparing import sliced

import mansard as ms

jax = pytest.importorskip("jax", reason="jax is not installed")
pytestmark = needs_cpu
jnp = jax.numpy
_RNG = np.random.default_rng(11)
BY: dict[str, Any] = {"backend": "reference"}


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable(True), jax.default_device(jax.devices("cpu")[0]):
        jax.config.update("jax_disable_most_optimizations", True)  # halves what the tests take
        yield
        jax.config.update("jax_disable_most_optimizations", False)


def _real(*shape: int) -> Any:
    return _RNG.standard_normal(shape)


def _complex(*shape: int) -> Any:
    return _RNG.standard_normal(shape) + 1j * _RNG.standard_normal(shape)


def _shifted(array: Any) -> Any:
    return array + 3 * np.eye(array.shape[-1])


def _h(a: Any) -> Any:
    return a.conj().swapaxes(-1, -2)


def _hermitian(a: Any) -> Any:
    return (a + _h(a)) / 2


def _positive(a: Any) -> Any:
    return a @ _h(a) + 2 * np.eye(a.shape[-1])


def _spectral(w: Any, z: Any) -> Any:
    """Eigenvalues and what phases of eigenvectors do not change."""
    return w, abs(z), (z * w[..., None, :] ** 2) @ _h(z)


def _singular(U: Any, S: Any, Vh: Any) -> Any:
    return abs(U), S, abs(Vh), U @ Vh


class Case(NamedTuple):
    call: Callable[..., Any]
    operands: tuple[Any, ...]


STACK, PAIR, TALL, WIDE = _shifted(_complex(2, 2, 2)), _complex(2, 2, 2), _complex(3, 2), _complex(2, 3)
RIGHT, VECTOR = _complex(2, 3), _complex(2)
_L = ms.linalg

CASES: dict[str, Case] = {
    "gram": Case(lambda a: ms.gram(a, **BY), (TALL,)),
    "gram of two": Case(lambda a, b: ms.gram(a, b, alpha=2.0, **BY), (TALL, _complex(3, 2))),
    "gram without conj": Case(lambda a, b: ms.gram(a, b, conj=False, **BY), (TALL, _complex(3, 2))),
    "matmul": Case(lambda a, b: ms.matmul(a, b, **BY), (STACK, RIGHT)),
    "matmul of vectors": Case(lambda a, b: ms.matmul(a, b, **BY), (VECTOR, STACK)),
    "gemm NC": Case(lambda a, b: ms.blas.gemm(a, b, trans_b="C", **BY), (STACK, TALL)),
    "gemm CT": Case(lambda a, b: ms.blas.gemm(a, b, trans_a="C", trans_b="T", **BY), (STACK, TALL)),
    "gemm TN": Case(lambda a, b: ms.blas.gemm(a, b, trans_a="T", **BY), (RIGHT, PAIR)),
    "gemv N": Case(lambda a, x: ms.blas.gemv(a, x, **BY), (STACK, VECTOR)),
    "gemv C": Case(lambda a, x: ms.blas.gemv(a, x, trans="C", **BY), (STACK, VECTOR)),
    "syrk": Case(lambda a: ms.blas.syrk(a, trans="T", **BY), (STACK,)),
    "her2k": Case(lambda a, b: ms.blas.her2k(a, b, alpha=1 + 2j, trans="C", **BY), (STACK, PAIR)),
    "trsm": Case(lambda a, b: ms.blas.trsm(a, b, **BY), (STACK, RIGHT)),
    "trsm RUC": Case(lambda a, b: ms.blas.trsm(a, b, side="R", uplo="U", trans="C", **BY), (STACK, TALL)),
    "trsm of unit triangles": Case(lambda a, b: ms.blas.trsm(a, b, trans="T", diag="U", **BY), (STACK, RIGHT)),
    "trmm": Case(lambda a, b: ms.blas.trmm(a, b, uplo="U", trans="C", **BY), (STACK, RIGHT)),
    "solve": Case(lambda a, b: _L.solve(a, b, **BY), (STACK, RIGHT)),
    "solve for a vector": Case(lambda a, b: _L.solve(a, b, **BY), (STACK, VECTOR)),
    "solve pos": Case(lambda a, b: _L.solve(_positive(a), b, assume_a="pos", **BY), (STACK, RIGHT)),
    "inv": Case(lambda a: _L.inv(a, **BY), (STACK,)),
    "det": Case(lambda a: _L.det(a, **BY), (STACK,)),
    "slogdet": Case(lambda a: tuple(_L.slogdet(a, **BY)), (STACK,)),
    "cholesky": Case(lambda a: _L.cholesky(_positive(a), **BY), (STACK,)),
    "cholesky upper": Case(lambda a: _L.cholesky(_positive(a), upper=True, **BY), (STACK,)),
    "solve refined": Case(lambda a, b: _L.solve(a, b, refine=True, **BY), (STACK, RIGHT)),
    "cho_solve": Case(lambda c, b: _L.cho_solve((c, True), b, **BY), (STACK, RIGHT)),
    "lu_factor": Case(lambda a: _L.lu_factor(a, **BY)[0], (PAIR,)),
    "lu_solve": Case(lambda a, b: _L.lu_solve(_L.lu_factor(a, **BY), b, 2, **BY), (PAIR, RIGHT)),
    "qr": Case(lambda a: tuple(_L.qr(a, **BY)), (TALL,)),
    "qr of wide matrices": Case(lambda a: tuple(_L.qr(a, **BY)), (WIDE,)),
    "lstsq": Case(lambda a, b: _L.lstsq(a, b, **BY)[:2], (TALL, _complex(3, 2))),
    "lstsq of wide matrices": Case(lambda a, b: _L.lstsq(a, b, **BY).x, (WIDE, RIGHT)),
    "pinv": Case(lambda a: _L.pinv(a, **BY), (TALL,)),
    "eigh": Case(lambda a: _spectral(*_L.eigh(_hermitian(a), **BY)), (STACK,)),
    "eigvalsh": Case(lambda a: _L.eigvalsh(_hermitian(a), **BY), (STACK,)),
    "svd": Case(lambda a: _singular(*_L.svd(a, full_matrices=False, **BY)), (WIDE,)),
    "svdvals": Case(lambda a: _L.svdvals(a, **BY), (TALL,)),
    "polar": Case(lambda a: tuple(_L.polar(a, **BY)), (TALL,)),
    "polar left": Case(lambda a: tuple(_L.polar(a, "left", **BY)), (TALL,)),
    "procrustes": Case(lambda a, b: tuple(_L.procrustes(a, b, **BY)), (TALL, _complex(3, 2))),
    "nuclear norm": Case(lambda a: _L.norm(a, "nuc", **BY), (WIDE,)),
}  # fmt: skip


def _flat(result: Any) -> Any:
    """All entries of a result, real and imaginary parts apart."""
    found = [np.asarray(one).ravel() for one in jax.tree.leaves(result)]
    return np.concatenate([np.concatenate([one.real, one.imag]) for one in found])


@pytest.mark.parametrize("name", sliced(list(CASES), 2))
def test_tangents_are_limits_of_differences_and_cotangents_their_transposes(name: str) -> None:
    """One compiled program has the value, a tangent t' and the cotangents: t' is what the NumPy results approach, and
    <c, t'> = <c', t>, with JAX's pairing, which does not conjugate."""
    call, operands = CASES[name]
    tangents = tuple((_complex if np.iscomplexobj(one) else _real)(*one.shape) for one in operands)

    def everything(operands: Any, tangents: Any) -> Any:
        value, tangent = jax.jvp(call, operands, tangents)
        seeds = jax.tree.map(lambda one: jnp.cos(jnp.arange(one.size, dtype=one.dtype)).reshape(one.shape), value)
        return value, tangent, seeds, jax.vjp(call, *operands)[1](seeds)

    value, tangent, seeds, cotangents = jax.jit(everything)(operands, tangents)
    step = 1e-5
    ahead, behind = (
        _flat(call(*(one + sign * step * t for one, t in zip(operands, tangents, strict=True)))) for sign in (1, -1)
    )
    np.testing.assert_allclose(_flat(value), _flat(call(*operands)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(_flat(tangent), (ahead - behind) / (2 * step), rtol=1e-7, atol=1e-7)
    pairs = zip(jax.tree.leaves(seeds), jax.tree.leaves(tangent), strict=True)
    left = sum(np.sum(np.asarray(c) * np.asarray(t)).real for c, t in pairs)
    right = sum(np.sum(np.asarray(c) * t).real for c, t in zip(cotangents, tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-10)


# Functions, JAX's own, and what both are called with: first and second order must agree.
SYMMETRIC = _real(3, 3) + np.diag([5.0, 7.0, 9.0])
PEERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "solve": (lambda a, b: _L.solve(a, b, **BY), jnp.linalg.solve, (_shifted(_real(2, 2, 2)), _real(2, 2, 3))),
    "cholesky": (lambda a: _L.cholesky(a + a.T, **BY), lambda a: jnp.linalg.cholesky(a + a.T), (SYMMETRIC,)),
    "eigvalsh": (lambda a: _L.eigvalsh(a + a.T, **BY), lambda a: jnp.linalg.eigvalsh(a + a.T), (SYMMETRIC,)),
    "qr": (lambda a: abs(_L.qr(a, **BY).R), lambda a: abs(jnp.linalg.qr(a).R), (_real(3, 2),)),
    "slogdet": (lambda a: _L.slogdet(a, **BY).logabsdet, lambda a: jnp.linalg.slogdet(a).logabsdet, (SYMMETRIC,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PEERS)
def test_gradients_of_both_orders_are_those_of_jax(name: str) -> None:
    ours, theirs, operands = PEERS[name]

    def twice(call: Callable[..., Any]) -> Callable[..., Any]:
        def squared(*them: Any) -> Any:
            slopes = jax.grad(lambda *them: jnp.sum(call(*them) ** 3), tuple(range(len(them))))(*them)
            return sum(jnp.sum(slope**2) for slope in slopes)

        return jax.jit(jax.value_and_grad(squared))

    found, expected = (twice(call)(*operands) for call in (ours, theirs))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-8 * np.abs(expected[1]).max())


def test_check_grads_of_second_order() -> None:
    from jax.test_util import check_grads

    a, b = _shifted(_real(2, 2)), _real(2, 1)
    call = jax.jit(lambda a, b: ms.matmul(_L.solve(a, b, **BY), ms.gram(b, **BY), **BY))
    check_grads(call, (a, b), order=2, modes=("fwd", "rev"), rtol=1e-4, atol=1e-4)


def test_cotangents_of_operands_that_broadcast_are_sums() -> None:
    a, b = _shifted(_real(1, 2, 2)), _real(3, 2, 2)
    inverse, ones = np.linalg.inv(a[0]), np.ones((2, 2))
    found = jax.jit(jax.grad(lambda a, b: (ms.matmul(a, b, **BY) + _L.solve(a, b, **BY)).sum()))(a, b)
    total = b.sum(0)
    np.testing.assert_allclose(found[0], ones @ total.T - inverse.T @ ones @ (inverse @ total).T, rtol=1e-10)


def test_solve_is_transposed_in_the_right_hand_side() -> None:
    a, b = STACK, _complex(2, 2, 1)
    (found,) = jax.linear_transpose(lambda x: _L.solve(jnp.asarray(a), x, **BY), jnp.asarray(b))(jnp.asarray(b))
    np.testing.assert_allclose(found, np.linalg.solve(a.swapaxes(-1, -2), b), rtol=1e-12)


def test_equal_eigenvalues_have_gradients_and_their_vectors_none() -> None:
    unit = jnp.eye(2)
    values = jax.jit(jax.grad(lambda a: _L.eigvalsh(a, **BY).sum()))(unit)
    np.testing.assert_allclose(values, np.eye(2), atol=1e-14)
    vectors = jax.jit(jax.grad(lambda a: _L.eigh(a, **BY).eigenvectors[0].sum()))(unit)
    assert np.isnan(np.asarray(vectors)).any()
    rotation = jax.jit(jax.grad(lambda a: _L.polar(a, **BY).u[0, 1]))(unit)  # needs s_i + s_j alone
    np.testing.assert_allclose(rotation, [[0, 0.5], [-0.5, 0]], atol=1e-14)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda a: _L.svd(a, **BY).U, "full_matrices=False"),
        (lambda a: _L.qr(a, "complete", **BY).Q, "mode='reduced'"),
        (lambda a: _L.lu_factor(a, **BY)[0], "square"),
    ],
)
def test_what_has_no_derivative_says_so(call: Callable[[Any], Any], remedy: str) -> None:
    with pytest.raises(NotImplementedError, match=remedy):
        jax.eval_shape(jax.grad(lambda a: call(a).sum()), jnp.ones((3, 2)))
