"""Operands of different dtypes, nested lists of numbers and subclasses of ndarray: what NumPy takes, by NumPy's rules.

Matrices of small integers make every product exact; solutions are compared with those of operands that were converted
before the call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from boundary_cases import COUNT
from conftest import needs_cpu
from sparing import sliced

import mansard as ms

pytestmark = needs_cpu
RNG = np.random.default_rng(3)
TALL, OTHER, SMALL = (RNG.integers(-3, 4, shape).astype(float) for shape in ((50, 2), (50, 2), (2, 2)))
STACK = RNG.integers(-3, 4, (COUNT, 2, 2)) + 8.0 * np.eye(2)
RIGHT, VECTORS = RNG.integers(-3, 4, (COUNT, 2, 2)).astype(float), RNG.integers(-3, 4, (COUNT, 2)).astype(float)
LOWER = np.tril(STACK)
BASIS = np.eye(50)[:, :1]


def unmoved(lu: Any) -> Any:
    """Pivots that exchange nothing, in the array library of the factors."""
    pivots = np.tile(np.arange(2, dtype=np.int32), (COUNT, 1))
    return pivots if isinstance(lu, np.ndarray) else sys.modules["jax"].numpy.asarray(pivots)


# name -> operands, the call, and whether the result is exact
PRODUCTS: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "gram": ({"A": TALL, "B": OTHER}, ms.gram),
    "matmul": ({"A": TALL, "B": SMALL}, ms.matmul),
    "matmul of stacks": ({"A": STACK, "B": RIGHT}, ms.matmul),
    "gemm": ({"a": STACK, "b": RIGHT}, ms.blas.gemm),
    "gemm of lists": ({"a": STACK, "b": RIGHT}, lambda a, b: np.stack(ms.blas.gemm(list(a), list(b)))),
    "gemm of matrices": ({"a": TALL, "b": SMALL}, ms.blas.gemm),
    "gemv": ({"a": STACK, "x": VECTORS}, ms.blas.gemv),
    "trmm": ({"a": LOWER, "b": RIGHT}, ms.blas.trmm),
    "matmul_gram": ({"V": TALL, "S": SMALL}, ms.matmul_gram),
    "project": ({"V": BASIS, "W": TALL}, ms.project),
}
SYSTEMS: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "trsm": ({"a": LOWER, "b": RIGHT}, ms.blas.trsm),
    "trsv": ({"a": LOWER, "x": VECTORS}, ms.blas.trsv),
    "solve_triangular": ({"a": LOWER, "b": RIGHT}, lambda a, b: ms.linalg.solve_triangular(a, b, lower=True)),
    "solve": ({"a": STACK, "b": RIGHT}, ms.linalg.solve),
    "solve for vectors": ({"a": STACK, "b": VECTORS[0]}, ms.linalg.solve),
    "lstsq": ({"a": TALL, "b": OTHER}, lambda a, b: ms.linalg.lstsq(a, b)[0]),
    "cho_solve": ({"c": LOWER, "b": RIGHT}, lambda c, b: ms.linalg.cho_solve((c, True), b)),
    "lu_solve": (
        {"lu": STACK, "b": RIGHT},
        lambda lu, b: ms.linalg.lu_solve((lu, unmoved(lu)), b),
    ),
    "procrustes": ({"a": TALL, "b": OTHER}, lambda a, b: ms.linalg.procrustes(a, b)[0]),
    "orthogonalize": ({"V": TALL, "against": BASIS}, lambda V, against: ms.orthogonalize(V, against)[0]),
}
PAIRS = [("float64", "complex128"), ("float32", "float64"), ("int64", "float64")]


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize(("first", "second"), [*PAIRS, *(pair[::-1] for pair in PAIRS)])
@pytest.mark.parametrize("name", [*PRODUCTS, *SYSTEMS])
def test_dtypes_are_promoted(name: str, first: str, second: str) -> None:
    """The result is that of operands in their common dtype, in every bit."""
    operands, call = (PRODUCTS | SYSTEMS)[name]
    common = np.result_type(first, second)
    values = [one.astype(common) for one in operands.values()]
    mixed = [one.astype(dtype) for one, dtype in zip(operands.values(), (first, second), strict=True)]
    if "complex128" in (first, second):  # a complex operand has imaginary parts
        i = (first, second).index("complex128")
        values[i] = mixed[i] = mixed[i] * (1 + 1j)
    expected = parts(call(**dict(zip(operands, values, strict=True))))
    for _ in range(2):
        found = parts(call(**dict(zip(operands, mixed, strict=True))))
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", sliced([*PRODUCTS, *SYSTEMS], 3))
def test_jax_arrays_are_promoted_by_the_rules_of_jax(name: str, traced: bool) -> None:
    """Without x64 there is no double precision: integers beside float32 become float32."""
    jax = pytest.importorskip("jax")
    operands, call = (PRODUCTS | SYSTEMS)[name]
    if traced and name in ("gemm of lists", "orthogonalize"):
        pytest.skip("lists, and what decides by values, are not traced")
    for dtypes in (("float32", "complex64"), ("int32", "float32")):
        given = [jax.numpy.asarray(one, dtype) for one, dtype in zip(operands.values(), dtypes, strict=True)]
        common = jax.numpy.result_type(*given)
        assert common == dtypes[1]
        same = dict(zip(operands, (one.astype(common) for one in given), strict=True))
        mixed = dict(zip(operands, given, strict=True))
        expected, found = ((jax.jit(call) if traced else call)(**them) for them in (same, mixed))
        for one, other in zip(parts(found), parts(expected), strict=True):
            assert one.dtype == other.dtype == common
            if name in PRODUCTS:
                assert np.array_equal(one, other)
            else:  # integers beside float32 may be solved in double precision, and rounded
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_vectors_are_promoted_and_places_are_not() -> None:
    x, y = VECTORS, VECTORS[::-1].astype("f4")
    assert np.array_equal(ms.blas.axpy(y, x, alpha=2.0), 2 * y + x)
    assert np.array_equal(ms.blas.dot(y, 1j * x), (y * 1j * x).sum(-1))
    before = y.copy()
    with pytest.raises(ValueError, match=r"x is float64 .* and y float32"):
        ms.blas.swap(x.copy(), y)
    with pytest.raises(TypeError, match=r"x\[0\] is a"):
        ms.blas.swap([1.0, 2.0], y[0])
    assert np.array_equal(y, before)


def test_ragged_batches_are_promoted() -> None:
    a = ms.Ragged.from_list([one[:rows] for one, rows in zip(STACK[:4], (2, 1, 2, 1), strict=True)])
    b = ms.Ragged.from_list(list(RIGHT[:4].astype("f4")))
    for one, i in zip(ms.matmul(a, b).to_list(), range(4), strict=True):
        assert one.dtype == np.float64 and np.array_equal(one, a[i] @ RIGHT[i])
    for one, i in zip(ms.matmul(b, SMALL * 1j).to_list(), range(4), strict=True):
        assert one.dtype == np.complex128 and np.array_equal(one, RIGHT[i] @ SMALL * 1j)
    x = ms.linalg.solve(ms.Ragged.from_list(list(STACK[:4])), b).to_list()
    assert all(one.dtype == np.float64 and np.allclose(STACK[i] @ one, RIGHT[i]) for i, one in enumerate(x))


def test_results_into_given_places() -> None:
    out = np.full((2, 2), np.nan, complex)
    assert ms.gram(TALL, OTHER * 1j, out=out) is out and np.array_equal(out, TALL.T @ OTHER * 1j)
    narrow = np.full((2, 2), np.nan)
    with pytest.raises(TypeError, match="out"):
        ms.gram(TALL, OTHER * 1j, out=narrow)
    assert np.isnan(narrow).all()


def test_operands_that_need_nothing_are_not_copied() -> None:
    seen: list[Any] = []
    from mansard.frameworks import numpy as of_numpy

    def call(A: Any, B: Any) -> None:
        seen.extend((A, B))

    of_numpy.answer("gram", call, (TALL, OTHER.astype("f4")), {}, TypeError())
    assert seen[0] is TALL and seen[1].dtype == np.float64


@pytest.mark.parametrize("pair", [("float16", "float64"), ("longdouble", "float64"), ("int64", "int32"), (">f8", "f8")])
def test_dtypes_that_no_kernel_knows_are_refused_beside_others(pair: tuple[str, str]) -> None:
    with pytest.raises((TypeError, ValueError), match="dtype"):
        ms.gram(TALL.astype(pair[0]), OTHER.astype(pair[1]))


def test_pytorch_keeps_its_rules() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.tensor(TALL), torch.tensor(OTHER, dtype=torch.complex128)
    for call in (ms.gram, lambda a, b: ms.blas.gemm(a[None], b.T[None]), ms.linalg.lstsq):
        with pytest.raises(TypeError, match="convert one of them"):
            call(a, b)


# ---- numbers in lists -----------------------------------------------------------------------------------------------

PAIR, VECTOR = [[4.0, 2.0], [2.0, 5.0]], [8.0, 12.0]
LISTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gram": (ms.gram, (PAIR,)),
    "matmul": (ms.matmul, (PAIR, PAIR)),
    "gemv": (ms.blas.gemv, (PAIR, VECTOR)),
    "trsm": (ms.blas.trsm, (PAIR, PAIR)),
    "solve": (ms.linalg.solve, (PAIR, VECTOR)),
    "solve_ex": (ms.linalg.solve_ex, (PAIR, PAIR)),
    "cholesky": (ms.linalg.cholesky, (PAIR,)),
    "eigh": (ms.linalg.eigh, (PAIR,)),
    "lstsq": (lambda a, b: ms.linalg.lstsq(a, b)[:3], (PAIR, VECTOR)),
    "norm of a vector": (ms.linalg.norm, (VECTOR,)),
    "norm of a number": (ms.linalg.norm, (-3,)),
    "rank with a tolerance each": (lambda A: ms.linalg.matrix_rank(A, tol=[1.0, 9.0]), ([PAIR, PAIR],)),
    "det of a stack": (ms.linalg.det, ([PAIR, PAIR],)),
}


@pytest.mark.parametrize("name", LISTS)
def test_nested_lists_of_numbers_are_arrays(name: str) -> None:
    call, given = LISTS[name]
    expected, found = parts(call(*map(np.asarray, given))), parts(call(*given))
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other) and np.array_equal(one, other)


def test_lists_of_arrays_stay_batches() -> None:
    a, b = (np.array(PAIR), np.eye(2)), [np.ones((2, 1)), np.array([[2.0], [4.0]])]
    found = ms.linalg.solve(a, b)
    assert isinstance(found, list) and np.allclose(a[0] @ found[0], b[0]) and np.array_equal(found[1], b[1])
    assert ms.linalg.solve([], []) == []


@pytest.mark.parametrize("wrong", ["text", object(), {"a": 1}, [["a", "b"]], [[1, 2], [3]]])
def test_what_is_no_array_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        ms.linalg.det(wrong)
    with pytest.raises(TypeError, match=r"\bA\b"):
        ms.gram(object())


def test_wrong_calls_say_what_python_says() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        ms.linalg.solve(STACK)
    with pytest.raises(TypeError, match="unexpected keyword"):
        ms.gram(TALL, transposed=True)


# ---- subclasses -----------------------------------------------------------------------------------------------------


class Tagged(np.ndarray):
    """Numbers with a name that nobody needs."""


class Framed(np.ndarray):
    """Results say whose class they took."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return SimpleNamespace(array=array)


def test_results_take_the_class_that_numpy_gives_them() -> None:
    a, b = STACK[0], RIGHT[0]
    symmetric = a + a.T
    calls: dict[str, Callable[[Any, Any, Any], Any]] = {
        "solve": lambda by, a, b: by.solve(a, b), "inv": lambda by, a, b: by.inv(a),
        "pinv": lambda by, a, b: by.pinv(a), "qr": lambda by, a, b: by.qr(a), "r": lambda by, a, b: by.qr(a, mode="r"),
        "raw": lambda by, a, b: by.qr(a, mode="raw"), "svd": lambda by, a, b: by.svd(a),
        "values": lambda by, a, b: by.svd(a, compute_uv=False), "eigh": lambda by, a, b: by.eigh(a),
        "cholesky": lambda by, a, b: by.cholesky(a), "lstsq": lambda by, a, b: by.lstsq(a, b, rcond=None),
        "det": lambda by, a, b: by.det(a), "slogdet": lambda by, a, b: by.slogdet(a),
        "cond": lambda by, a, b: by.cond(a), "norm": lambda by, a, b: by.norm(a),
        "rank": lambda by, a, b: by.matrix_rank(a),
    }  # fmt: skip
    for name, call in calls.items():
        given = symmetric + 20 * np.eye(2) if name in ("eigh", "cholesky") else a
        for kind in (np.matrix, Tagged):
            ours, numpys = (parts(call(by, given.view(kind), b.view(kind))) for by in (ms.linalg, np.linalg))
            assert [type(one) is kind for one in ours] == [type(one) is kind for one in numpys], (name, kind)
            assert all(np.shape(one) == np.shape(other) for one, other in zip(ours, numpys, strict=True)), name
    assert isinstance(ms.linalg.inv(a.view(Framed)), SimpleNamespace)
    mixed = ms.linalg.solve(a.view(np.matrix), b)
    assert type(mixed) is np.ndarray and np.array_equal(mixed, ms.linalg.solve(a, b))


def test_subclasses_with_protocols_are_refused() -> None:
    class Quantity(np.ndarray):
        def __array_function__(self, *arguments: Any, **options: Any) -> Any:
            return NotImplemented

    for wrong in (STACK[0].view(Quantity), np.ma.masked_array(STACK[0], mask=False)):
        with pytest.raises(TypeError, match=r"\ba\b"):
            ms.linalg.inv(wrong)
    with pytest.raises(TypeError, match=r"numpy\.asarray"):
        ms.linalg.lu_factor(STACK[0].view(np.matrix))
