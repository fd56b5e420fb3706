"""Calls under jit, vmap and shard_map: the results of eager calls, shapes without execution, errors with remedies."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boundary_cases as cases
import numpy as np
import pytest
from boundary_cases import CASES, Case, given, parts
from conftest import needs_cpu
from sparing import crossed

import mansard as ms
from mansard.operations.sparse.powers.run import Powers

jax = pytest.importorskip("jax", reason="jax is not installed")
pytestmark = needs_cpu
jnp = jax.numpy
ROOT = Path(__file__).resolve().parents[3]
BY: dict[str, Any] = {"backend": "reference"}  # compiles no kernels


@pytest.fixture
def double_precision() -> Iterator[None]:
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable(True), jax.default_device(jax.devices("cpu")[0]):
        yield


# Functions without a twin under tracing, and why
NOT_TRACED = {
    "cholesky_qr": "decides by values", "orthogonalize": "decides by values", "linalg.tridiagonalize": "no derivative",
    "linalg.bidiagonalize": "no derivative",
    **dict.fromkeys(("linalg.ormqr", "linalg.larfb", "linalg.larft", "linalg.laswp"), "not known"),
}  # fmt: skip


VALUES = {"trsm, checked", "Matrix.with_values"}  # look at values; multiplies a NumPy vector


def _is_traced(case: Case) -> bool:
    known = not set(case.functions) & set(NOT_TRACED) and case.name not in VALUES
    iterates = case.functions[0].startswith("sparse.linalg.")  # until values say that it is enough
    return case.jax and known and not iterates and "list" not in case.name


TRACED = [case for case in CASES if _is_traced(case)]


@pytest.mark.parametrize("case", TRACED, ids=lambda case: case.name)
def test_jit_gives_what_numpy_arrays_give(case: Case, double_precision: None) -> None:
    expected = parts(case.call(given(case, lambda array: array)))
    operands = given(case, jnp.asarray)
    names = list(vars(operands))
    call = jax.jit(lambda *them: case.call(type(operands)(**dict(zip(names, them, strict=True)))))
    found = parts(call(*vars(operands).values()))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_twins_have_the_parameters_of_the_functions() -> None:
    from mansard.frameworks.jax import TWINS

    methods = ("sparse.Matrix", "Powers")
    for name, twin in TWINS.items():
        if name != "sparse.Matrix.__matmul__":  # which shares the twin of `product`
            home: Any = SimpleNamespace(Powers=Powers) if name.startswith("Powers") else ms
            for part in name.split("."):
                home = getattr(home, part)
            known = [one for one in inspect.signature(home).parameters if one not in ("out", "self")]
            own = list(inspect.signature(twin).parameters)
            assert own[name.startswith(methods) :] == known, name


def test_integers_are_exact() -> None:
    rng = np.random.default_rng(3)
    A, B = (rng.integers(-3, 4, (50, 2)).astype("float32") for _ in range(2))
    found = jax.jit(lambda a, b: (ms.gram(a), ms.gram(a, b), ms.matmul(a, b.T)))(A, B)
    for one, expected in zip(found, (A.T @ A, A.T @ B, A @ B.T), strict=True):
        assert one.dtype == "float32" and (np.asarray(one) == expected).all()
    L, right = np.array([[1, 0], [2, 1]], "float32"), np.array([[1, 2], [3, 4]], "float32")
    solution = np.array([[1, 2], [1, 0]])
    assert (jax.jit(ms.linalg.solve)(L, right) == solution).all()
    assert jax.jit(ms.linalg.det)(L) == 1 and (jax.jit(ms.linalg.inv)(L) == np.array([[1, 0], [-2, 1]])).all()
    integers = jax.jit(ms.linalg.solve)(L.astype("int32"), right.astype("int32"))
    assert integers.dtype == "float32" and (integers == solution).all()


def test_shapes_are_found_without_execution() -> None:
    tall = jax.ShapeDtypeStruct((10**9, 32), "float32")
    assert jax.eval_shape(ms.gram, tall).shape == (32, 32)
    assert jax.eval_shape(jax.grad(lambda a: ms.gram(a).sum()), tall).shape == tall.shape
    stack = jax.ShapeDtypeStruct((10**6, 8, 5), "complex64")
    U, S, Vh = jax.eval_shape(ms.linalg.svd, stack)
    assert (U.shape, S.shape, S.dtype, Vh.shape) == ((10**6, 8, 8), (10**6, 5), np.float32, (10**6, 5, 5))
    assert type(jax.eval_shape(ms.linalg.qr, stack)).__name__ == "QRResult"
    assert jax.eval_shape(ms.linalg.lstsq, stack, stack).x.shape == (10**6, 5, 5)
    assert "mansard.gram" in str(jax.make_jaxpr(lambda a: ms.gram(a, a + 1))(jnp.ones((4, 2))))


MAPPED: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "gram": (lambda a, b: ms.gram(a, b, **BY), lambda a, b: a.T @ b, (5, 2), (5, 3)),
    "matmul": (lambda a, b: ms.matmul(a, b, **BY), lambda a, b: a @ b, (4, 2), (2, 3)),
    "matmul of stacks": (lambda a, b: ms.matmul(a, b, **BY), lambda a, b: a @ b, (2, 4, 2), (2, 3)),
    "gemv": (lambda a, x: ms.blas.gemv(a, x, **BY), lambda a, x: a @ x, (4, 2), (2,)),
    "solve": (lambda a, b: ms.linalg.solve(a + 4 * jnp.eye(2), b, **BY),
              lambda a, b: np.linalg.solve(a + 4 * np.eye(2), b), (2, 2), (2, 3)),
    "trsm": (lambda a, b: ms.blas.trsm(a + 4 * jnp.eye(2), b, **BY),
             lambda a, b: np.linalg.solve(np.tril(a) + 4 * np.eye(2), b), (2, 2), (2, 3)),
    "lu_solve": (lambda a, b: ms.linalg.lu_solve(ms.linalg.lu_factor(a, **BY), b, **BY), np.linalg.solve,
                 (2, 2), (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize(("name", "axes"), crossed(list(MAPPED), [(0, 0), (-1, None), (None, 1)]), ids=str)
def test_vmap_is_a_loop(name: str, axes: tuple[int | None, int | None]) -> None:
    """Over every axis, of one operand or both; the result's mapped dimension anywhere."""
    call, reference, *shapes = MAPPED[name]
    rng = np.random.default_rng(5)
    plain = [rng.standard_normal((3, *shape) if axis is not None else shape).astype("float32")
             for shape, axis in zip(shapes, axes, strict=True)]  # fmt: skip
    moved = [one if axis is None else np.moveaxis(one, 0, axis) for one, axis in zip(plain, axes, strict=True)]
    found = jax.jit(jax.vmap(call, axes, out_axes=1))(*moved)
    each = [[one if axis is None else one[i] for one, axis in zip(plain, axes, strict=True)] for i in range(3)]
    expected = np.stack([reference(*them) for them in each], 1)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


def test_gradients_are_mapped_and_mappings_nested() -> None:
    a = np.random.default_rng(5).standard_normal((3, 2, 2)).astype("float32") + 4 * np.eye(2, dtype="float32")
    b = np.array([1, 2], "float32")
    inner = jax.vmap(jax.grad(lambda a, b: ms.linalg.solve(a, b, **BY).sum()), (0, None))
    found = jax.jit(jax.vmap(inner, (None, 0)))(a, np.stack([b, 2 * b]))
    X = np.linalg.inv(a.astype(float))
    expected = -(X.sum(1)[:, :, None] * (X @ b)[:, None, :])
    np.testing.assert_allclose(found, np.stack([expected, 2 * expected]), rtol=1e-4)


def test_sparse_products_are_traced_mapped_and_transposed(double_precision: None) -> None:
    A, D = cases._MATRIX, cases.SPARSE.toarray()
    x = np.random.default_rng(5).standard_normal((3, 30))
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(lambda x: ((A.H @ x) ** 2).sum())))(x)
    np.testing.assert_allclose(value, ((x @ D) ** 2).sum(1), rtol=1e-12)
    np.testing.assert_allclose(slope, 2 * x @ D @ D.T, rtol=1e-12)
    half = jnp.ones(30, "float32")  # promoted as by jax.numpy, where there is double precision
    for found in (A @ half, jax.jit(lambda x: A @ x)(half)):
        assert found.dtype == "float64"
        np.testing.assert_allclose(found, D.sum(1), rtol=1e-12)


def test_sparse_matrices_of_double_precision_are_not_multiplied_without_it() -> None:
    for call in (lambda x: cases._MATRIX @ x, jax.jit(lambda x: cases._MATRIX @ x)):
        with pytest.raises(TypeError, match="convert x, or store A with values='float32'"):
            call(jnp.ones(30, "float32"))


SPARSE_REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "count": (lambda v: cases._MATRIX.with_values(v[1:]), "data has shape .*the pattern"),
    "dtype": (lambda v: cases._MATRIX.with_values(v.astype("complex64")), "data has dtype complex64 and A float64"),
    "NumPy": (lambda v: cases._MATRIX.with_values(v) @ np.ones(30), r"x is a ndarray.*jax\.numpy\.asarray\(x\)"),
    "vectors": (lambda v: cases._MATRIX.with_values(v) @ jnp.ones(7), r"x has shape \(7,\)"),
    "out": (lambda v: cases._MATRIX.with_values(v).product(jnp.ones(30), np.ones(30)), "out is given"),
    "turned": (lambda v: cases._MATRIX.with_values(v).T.with_values(v), "not of its transposed"),
    "powers of another shape": (lambda v: cases.powers().with_values(v)(v[:7]), r"x has shape \(7,\)"),
    "powers in another precision": (lambda v: cases.powers()(v[:30].astype("complex128")), "x has dtype complex128"),
    "transposed in values": (
        lambda v: jax.linear_transpose(lambda v: cases.powers().with_values(v)(jnp.ones(30)), v)(jnp.ones((3, 30))),
        "not linear in data",
    ),
}


@pytest.mark.parametrize("name", SPARSE_REFUSED)
def test_refusals_of_values_name_the_argument(name: str, double_precision: None) -> None:
    call, text = SPARSE_REFUSED[name]
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=text):
        jax.eval_shape(call, jnp.asarray(cases.SPARSE.data))


def test_traced_values_of_stored_matrices_and_plans(double_precision: None) -> None:
    """What compiled kernels give, with values that a program computes; rows in the order of storage, too."""
    v, x = cases.SPARSE.data, cases.VECTOR
    A, P = cases._MATRIX, cases.powers()
    D = (2 * cases.SPARSE).toarray()
    expected = [D @ x, D.T @ x, 0.5 * D @ x + x, np.stack([x, D @ x, D @ D @ x])]
    order = np.asarray(P.permutation)

    @jax.jit
    def found(v: Any, x: Any) -> Any:
        T, Q = A.with_values(v).with_values(2 * v), P.with_values(v).with_values(2 * v)
        plain = [T @ x, T.H @ x, T.recurrence(x, alpha=0.5, beta=1.0), Q(x)]
        return [*plain, Q.permuted(x[order])], (T.shape == A.shape, T.nnz == A.nnz, Q.shape == P.shape)

    values, same = found(v, x)
    assert all(same)
    for one, other in zip(values, [*expected, expected[-1][:, order]], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_matrices_without_a_result_are_nan_and_their_neighbours_right() -> None:
    a = np.stack([np.eye(2), np.zeros((2, 2)), 2 * np.eye(2)]).astype("float32")
    for call in (
        lambda a: ms.linalg.solve(a, jnp.ones((2, 1)), **BY), lambda a: ms.linalg.inv(a, **BY),
        lambda a: ms.linalg.cholesky(a, **BY), lambda a: ms.linalg.solve(a, jnp.ones((2, 1)), assume_a="pos", **BY),
    ):  # fmt: skip
        bad = np.isnan(np.asarray(jax.jit(call)(a)))
        assert bad[1].all() and not bad[0].any() and not bad[2].any()
    a[1] = np.inf
    assert np.isnan(jax.jit(lambda a: ms.linalg.eigh(a, **BY).eigenvalues)(a)).any(-1).tolist() == [False, True, False]
    assert np.isnan(jax.jit(lambda a: ms.linalg.lstsq(a, a, **BY).x)(a))[1].all()


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "out": (lambda a: ms.gram(a, out=a), "out is given.*use the result"),
    "list": (lambda a: ms.linalg.inv([a, a]), r"a is a list.*jax\.numpy\.stack\(a\)"),
    "NumPy": (lambda a: ms.gram(a, np.ones((2, 2))), r"B is a ndarray.*jax\.numpy\.asarray\(B\)"),
    "Ragged": (lambda a: ms.matmul(ms.Ragged.zeros([2], [2]), a), "A is a Ragged.*pad"),
    "beta": (lambda a: ms.blas.gemm(a, a, beta=1.0), "beta scales the content of out"),
    "check": (lambda a: ms.blas.trsm(a, a, check=True), "check=True looks at values"),
    "shape": (lambda a: ms.gram(a, a[:1]), "A has 2 rows and B 1"),
    "square": (lambda a: ms.linalg.solve(a[:1], a), r"a has shape \(1, 2\).*square"),
    "rows": (lambda a: ms.linalg.solve(a, a[:1]), "a has 2 rows and b 1"),
    "dtype": (lambda a: ms.gram(a.astype("bfloat16")), "A has dtype bfloat16.*convert it first"),
    "dtypes": (lambda a: ms.gram(a, a.astype("float16")), "B has dtype float16.*convert it first"),
    "option": (lambda a: ms.linalg.eigh(a, "M"), "UPLO='M' is not one of"),
    "passes": (lambda a: ms.cholesky_qr(a), r"V is traced by JAX.*ms\.linalg\.qr"),
    "plan": (lambda a: ms.plan("gram", a), "A is traced by JAX"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_argument_and_the_remedy(name: str) -> None:
    call, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=text):
        jax.eval_shape(call, jnp.ones((2, 2)))


def test_versions_of_jax_without_buffers_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    from mansard.frameworks.tangents import primitive

    monkeypatch.setattr(primitive, "buffer_callback", None)
    a = np.arange(12, dtype="float32").reshape(6, 2)
    assert (jax.jit(lambda a: ms.gram(a, **BY) + 0)(a) == a.T @ a).all()


@pytest.mark.parametrize("name", ["syrk", "herk", "syr2k", "her2k"])
def test_updates_of_arrays_with_values(name: str) -> None:
    """The whole result, as traced; a JAX array is no place for a result, and lists may differ in shape."""
    update, two = getattr(ms.blas, name), name.endswith("2k")
    a = jnp.asarray(np.arange(12, dtype="float32").reshape(2, 2, 3))
    given = (a, 1 - a) if two else (a,)
    found = update(*given, **BY)
    assert isinstance(found, jax.Array) and (found == jax.jit(update)(*given)).all()
    with pytest.raises(TypeError, match="out is a JAX array, which cannot be written to"):
        update(*given, out=found, **BY)
    lists = [[one[0], one[1, :1]] for one in given]
    for one, matrix in zip(update(*lists, **BY), found, strict=True):
        assert isinstance(one, jax.Array) and (one == matrix[: len(one), : len(one)]).all()
    with pytest.raises(TypeError, match="cannot be written to"):
        update(*lists, out=[found[0], found[1, :1, :1]], **BY)


SHARDED = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, numpy as np, mansard as ms
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("rows",))
x = np.arange(100, dtype="float32").reshape(50, 2) % 7
xs = jax.device_put(x, NamedSharding(mesh, P("rows")))
S = np.array([[1, 2], [0, 1]], "float32")
local = lambda x, S: jax.lax.psum(ms.gram(ms.matmul(x, S)), "rows").sum()
value = jax.jit(jax.value_and_grad(jax.shard_map(local, mesh=mesh, in_specs=(P("rows"), P()), out_specs=P()), (0, 1)))
found, (dx, dS) = value(xs, S)
W, ones = x @ S, np.full((2, 2), 2)
print(found == (W.T @ W).sum(), (dx == W @ ones @ S.T).all(), (dS == x.T @ W @ ones).all())
print((jax.jit(ms.gram)(xs) == x.T @ x).all())
"""


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="jax.shard_map is not in this version")
def test_shard_map_and_sharded_operands() -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SHARDED], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.findall("True|False", done.stdout) == ["True"] * 4
