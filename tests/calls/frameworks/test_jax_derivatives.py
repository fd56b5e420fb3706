"""Derivatives of public functions under JAX: against differences, against their own transposition, against JAX's.

The rules are the same for every backend: these tests run them on `reference`, which compiles no kernels.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import needs_cpu
from scipy.sparse import csr_array
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
PATTERN = np.array([[1, 0, 1], [0, 1, 1]])  # of sparse matrices, and with a row of its own below a square one
SPARSE = ms.sparse.matrix(csr_array(PATTERN * _complex(2, 3)), **BY)
REAL = ms.sparse.matrix(csr_array(PATTERN * _real(2, 3)), **BY)
SQUARE = csr_array(np.vstack([PATTERN, [0, 1, 0]]) * _real(3, 3))
CUBE = ms.sparse.matrix(SQUARE, **BY)
CHEBYSHEV = ms.matrix_powers(SQUARE, 3, ("chebyshev", -2.0, 3.0), columns=2, **BY)
NEWTON = ms.matrix_powers(
    SQUARE * (1 + 1j), 2, ("newton", [1j, 2.0]), output=("combination", [[1, 2j, 3], [0, 1, 1]]), **BY
)
LAST = ms.matrix_powers(SQUARE, 2, output="last", dtype="complex128", **BY)
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
    "sparse product": Case(lambda x: (SPARSE @ x, SPARSE.H @ x[:2]), (_complex(3, 2),)),
    "sparse values": Case(lambda v, x: SPARSE.with_values(v).product(x, alpha=2j), (_complex(4), _complex(3, 2))),
    "real values": Case(lambda v, x: REAL.with_values(v) @ x, (_real(4), _complex(3))),
    "values of H": Case(lambda v, x: SPARSE.with_values(v).H @ x, (_complex(4), PAIR[0])),
    "recurrence": Case(
        lambda v, x: CUBE.with_values(v).T.recurrence(x, x[::-1], None, 2.0, 3.0, 1j), (_real(5), _complex(3))
    ),
    "powers": Case(lambda x: CHEBYSHEV(x), (_real(3, 2),)),
    "powers of values": Case(lambda v, x: CHEBYSHEV.with_values(v)(x), (_real(5), _real(3, 2))),
    "combination of powers": Case(lambda v, x: NEWTON.with_values(v)(x), (_complex(5), _complex(3))),
    "last power": Case(lambda x: LAST(x), (_complex(3),)),
}  # fmt: skip


def _directions(name: str) -> tuple[Any, ...]:
    """A direction for every operand of a case: the same in every run, whichever cases it has."""
    rng, operands = np.random.default_rng(zlib.crc32(name.encode())), CASES[name].operands
    parts = [(rng.standard_normal(one.shape), rng.standard_normal(one.shape)) for one in operands]
    return tuple(x + 1j * y if np.iscomplexobj(one) else x for one, (x, y) in zip(operands, parts, strict=True))


def _flat(result: Any) -> Any:
    """All entries of a result, real and imaginary parts apart."""
    found = [np.asarray(one).ravel() for one in jax.tree.leaves(result)]
    return np.concatenate([np.concatenate([one.real, one.imag]) for one in found])


@pytest.mark.parametrize("name", sliced(list(CASES), 2))
def test_tangents_are_limits_of_differences_and_cotangents_their_transposes(name: str) -> None:
    """One compiled program has the value, a tangent t' and the cotangents: t' is what the NumPy results approach, and
    <c, t'> = <c', t>, with JAX's pairing, which does not conjugate."""
    call, operands = CASES[name]
    tangents = _directions(name)

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
    slopes = (ahead - behind) / (2 * step)  # whose error goes with the largest of them
    np.testing.assert_allclose(_flat(tangent), slopes, rtol=1e-7, atol=1e-7 * max(1, np.abs(slopes).max()))
    pairs = zip(jax.tree.leaves(seeds), jax.tree.leaves(tangent), strict=True)
    left = sum(np.sum(np.asarray(c) * np.asarray(t)).real for c, t in pairs)
    right = sum(np.sum(np.asarray(c) * t).real for c, t in zip(cotangents, tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-10)


def _scalar(call: Callable[..., Any]) -> Callable[..., Any]:
    """A real function of all entries of all results, none of whose derivatives is constant."""

    def total(*operands: Any) -> Any:
        parts = jax.tree.leaves(call(*operands))
        weights = (jnp.cos(jnp.arange(one.size)).reshape(one.shape) for one in parts)
        return sum((jnp.sin(one.real) * by + one.imag**2).sum() for one, by in zip(parts, weights, strict=True))

    return total


@pytest.mark.parametrize("name", sliced(list(CASES), 6))
def test_second_derivatives_are_limits_of_differences(name: str) -> None:
    """The change of the gradient along a direction, forwards over reverse mode, of real and complex operands."""
    call, operands = CASES[name]
    directions = _directions(name)
    slope = jax.grad(_scalar(call), tuple(range(len(operands))))
    both = jax.jit(lambda operands, directions: jax.jvp(slope, operands, directions))
    step = 1e-5
    _, found = both(operands, directions)
    ahead, behind = (
        both(tuple(one + sign * step * d for one, d in zip(operands, directions, strict=True)), directions)[0]
        for sign in (1, -1)
    )
    for one, high, low in zip(found, ahead, behind, strict=True):
        expected = (np.asarray(high) - np.asarray(low)) / (2 * step)
        np.testing.assert_allclose(one, expected, rtol=1e-6, atol=1e-6 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("name", sliced(list(CASES), 6))
def test_vmap_is_a_loop_over_every_function(name: str) -> None:
    """All operands mapped, the last one along its last dimension; then the first one alone."""
    call, operands = CASES[name]
    several = [np.stack([one, one + 0.1 * np.cos(np.arange(one.size)).reshape(one.shape)]) for one in operands]
    for mapped in {len(operands), 1}:
        axes = [0 if i < mapped else None for i in range(len(operands))]
        given = [some if axis == 0 else one for some, one, axis in zip(several, operands, axes, strict=True)]
        if mapped == len(operands) > 1:
            axes[-1], given[-1] = -1, np.moveaxis(given[-1], 0, -1)
        found = jax.tree.leaves(jax.jit(jax.vmap(call, tuple(axes)))(*given))
        for i in range(2):
            parts = zip(several, operands, axes, strict=True)
            expected = jax.tree.leaves(call(*(one if axis is None else some[i] for some, one, axis in parts)))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one[i], other, rtol=1e-9, atol=1e-10)


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
