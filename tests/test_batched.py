"""Batches of small products from the outside: every form of stacks and lists against numpy.matmul, BLAS's options,
results in place, bad input by name, plans and tuning."""

from __future__ import annotations

import ctypes
import doctest
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from batched_cases import DTYPES, Played, arranged, integers
from test_api import wanted

import mansard as ms
from mansard import testing
from mansard.api import call, gemm_call, stacks
from mansard.errors import LaunchError, UnsupportedProblem

FORMS = [  # leading dimensions of A and B
    ((7,), (7,)),
    ((7,), ()),
    ((), (7,)),
    ((1,), (7,)),
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),  # two launches
    ((12, 1), (1, 12)),  # addresses
    ((70, 1), (2,)),  # two launches of 70
]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels played by NumPy, and no plan of before."""
    found = Played()
    monkeypatch.setattr(call, "prepare", found)
    return found


@pytest.fixture(autouse=True)
def no_plans() -> None:
    gemm_call._PLANS.clear()
    ms.api.matmul._RUNS.clear()


def moved(array: Any, backend: str) -> Any:
    """A copy where the backend wants it."""
    return testing.array_module(backend).array(array)


def turned(array: Any, trans: bool, conj: bool) -> Any:
    array = array.swapaxes(-1, -2) if trans else array
    return array.conj() if conj else array


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


# ---- the description of operands --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_any_stacks(seed: int, played: Played) -> None:
    """Shapes, strides, dtypes and results at random; the played kernel refuses a description that is not true."""
    rng = np.random.default_rng(seed)
    for backend in ("cpu", "emulated") * 4:
        m, k, n = (int(size) for size in rng.integers(1, 6, 3))
        dtype = str(rng.choice(DTYPES))
        full = tuple(int(size) for size in rng.integers(1, 5, rng.integers(0, 4)))
        lead = [tuple(1 if rng.random() < 0.3 else s for s in full)[rng.integers(0, len(full) + 1) :] for _ in "ab"]
        form = gemm_call.Form(*(bool(flag) for flag in rng.integers(0, 2, 4)))
        A = arranged(rng, integers(rng, (*lead[0], *((k, m) if form.trans_a else (m, k))), dtype))
        B = arranged(rng, integers(rng, (*lead[1], *((n, k) if form.trans_b else (k, n))), dtype))
        if rng.random() < 0.2 and len(lead[1]) <= len(lead[0]):
            A = np.broadcast_to(A, (3, *A.shape))
        expected = turned(A, form.trans_a, form.conj_a) @ turned(B, form.trans_b, form.conj_b)
        assert (gemm_call.multiply(A, B, None, 1.0, 0.0, backend, form) == expected).all()
        out = arranged(rng, integers(rng, expected.shape, dtype))
        alpha, beta = (2 - 1j, 3j) if dtype.startswith("complex") else (2, -3)
        expected = alpha * expected + beta * out
        assert gemm_call.multiply(A, B, out, alpha, beta, backend, form) is out and (out == expected).all()


@pytest.mark.parametrize("seed", range(10))
def test_any_lists(seed: int, played: Played) -> None:
    rng = np.random.default_rng(seed)
    for backend in ("cpu", "emulated"):
        m, k, n, count = (int(size) for size in rng.integers(1, 6, 4))
        dtype = str(rng.choice(DTYPES))
        A, B, out = (list(integers(rng, (count, *s), dtype)) for s in ((m, k), (k, n), (m, n)))
        if seed % 2:
            A, B, out = ([arranged(rng, x) for x in many] for many in (A, B, out))
        expected = [a @ b for a, b in zip(A, B, strict=True)]
        result = gemm_call.multiply(A, tuple(B), None, 1.0, 0.0, backend)
        assert type(result) is list and all((x == y).all() for x, y in zip(result, expected, strict=True))
        for one in (B[0], np.stack(B), np.stack(B)[:1]):
            found = gemm_call.multiply(A, one, None, 1.0, 0.0, backend)
            assert (np.stack(found) == np.stack(A) @ one).all()
        expected = [2 * x - y for x, y in zip(expected, out, strict=True)]
        assert gemm_call.multiply(A, B, out, 2, -1, backend) is out
        assert all((x == y).all() for x, y in zip(out, expected, strict=True))
        stack = np.empty((count, m, n), dtype)
        assert gemm_call.multiply(A, B, stack, 1, 0, backend) is stack and (stack == np.stack(A) @ np.stack(B)).all()


def test_launches_are_few(played: Played) -> None:
    for a, b, launches in (
        ((7,), (7,), 1),
        ((2, 3), (2, 3), 1),
        ((2, 3), (), 1),
        ((5, 2, 3), (2, 3), 5),
        ((12, 1), (12,), 1),
        ((100, 1), (1, 30), 30),
        ((20, 20), (20, 1), 1),
    ):
        played.launches = 0
        A, B = np.ones((*a, 2, 3)), np.ones((*b, 3, 2))
        assert gemm_call.multiply(A, B, None, 1, 0, "cpu").shape == (*np.broadcast_shapes(a, b), 2, 2)
        assert played.launches == launches, (a, b)


def test_what_serves_all_is_read_once(played: Played) -> None:
    A, B = np.ones((9, 2, 3)), np.ones((3, 2))
    for b in (B, B[None], np.broadcast_to(B, (9, 3, 2))):
        problem = gemm_call.plan_gemm(A, b, None, "cpu").problem
        assert (problem.stack_a, problem.stack_b, problem.BATCH) == ("packed", "shared", 9)


def test_copies_do_not_repeat_what_broadcasting_repeats() -> None:
    A = np.broadcast_to(np.ones((4, 6))[::-2, ::-2], (1000, 2, 3))
    kind = stacks.kind_of(A, "A")
    operand = stacks.operand_of(kind, A, "A")
    copy = stacks.copy(kind, A, operand)
    assert copy.shape == (1, 2, 3) == (*operand.copied().shape, 2, 3) and operand.copied().layout == ("row", 3)


def test_alignment(played: Played) -> None:
    A, B = np.ones((9, 3, 3)), np.ones((9, 3, 3))
    assert gemm_call.plan_gemm(A, B, None, "cpu").problem.aligned
    assert not gemm_call.plan_gemm(A[1:], B[1:], None, "cpu").problem.aligned  # 72 bytes off
    assert gemm_call.plan_gemm(A[2:], B[2:], None, "cpu").problem.aligned
    assert not gemm_call.plan_gemm(np.ones((9, 3, 5))[:, :, :3], B, None, "cpu").problem.aligned  # matrices at 15 i


# ---- the kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_broadcasting(form: tuple[Any, Any], backend: str) -> None:
    rng = np.random.default_rng(1)
    A, B = integers(rng, (*form[0], 3, 4)), integers(rng, (*form[1], 4, 5))
    result = ms.matmul(moved(A, backend), moved(B, backend), backend=backend)
    assert result.shape == (A @ B).shape and (host(result) == A @ B).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, backend: str) -> None:
    rng = np.random.default_rng(2)
    A, B = integers(rng, (30, 4, 4), dtype), integers(rng, (30, 4, 4), dtype)
    a, b = moved(A, backend), moved(B, backend)
    result = ms.matmul(a, b, backend=backend)
    assert result.dtype == dtype and (host(result) == A @ B).all()
    random = [testing.random_matrix(np, 120, 4, dtype, seed).reshape(30, 4, 4) for seed in (0, 1)]
    result = host(ms.matmul(*(moved(x, backend) for x in random), backend=backend))
    wide = [x.astype("complex128" if dtype.startswith("complex") else "float64") for x in random]
    bound = 2 * testing.gamma(dtype, 4) * (abs(wide[0]) @ abs(wide[1]))
    assert (abs(result - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2), lambda x: x),
        (lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]], lambda x: x[::-1].copy()[::-1]),
        (lambda x: x[:, ::-1].copy()[:, ::-1], lambda x: np.repeat(x, 2, 2)[:, :, ::2]),
        (lambda x: np.asfortranarray(x), lambda x: x),
    ],
    ids=["transposed", "padded", "backwards", "fortran"],
)
def test_layouts(left: Any, right: Any, backend: str) -> None:
    if backend == "cuda":
        pytest.skip("arrays keep their strides only on the CPU; gemm's own tests have them all")
    rng = np.random.default_rng(3)
    A, B = integers(rng, (8, 4, 4)), integers(rng, (8, 4, 4))
    a, b = left(A), right(B)
    assert (ms.matmul(a, b, backend=backend) == a @ b).all()


def test_rows_that_overlap(backend: str) -> None:
    """Hankel matrices, one row for all, rows backwards: views of little memory."""
    if backend == "cuda":
        pytest.skip("arrays keep their strides only on the CPU; gemm's own tests have them all")
    rng = np.random.default_rng(15)
    line, B = integers(rng, (40,)), integers(rng, (8, 4, 4))
    hankel = np.lib.stride_tricks.as_strided(line, (8, 4, 4), (32, 8, 8))
    for A in (hankel, np.broadcast_to(line[:4], (8, 4, 4)), B[:, ::-1]):
        assert (ms.matmul(A, B, backend=backend) == A @ B).all()
        assert (ms.matmul(B, A.swapaxes(1, 2), backend=backend) == B @ A.swapaxes(1, 2)).all()


def test_out_and_scaling(backend: str) -> None:
    rng = np.random.default_rng(4)
    A, B, C = (integers(rng, (9, 4, 4)) for _ in range(3))
    a, b, out = (moved(x, backend) for x in (A, B, C))
    assert ms.matmul(a, b, out=out, alpha=2, beta=-3, backend=backend) is out
    assert (host(out) == 2 * (A @ B) - 3 * C).all()
    out.fill(np.nan)
    assert (host(ms.matmul(a, b, out=out, alpha=-1, backend=backend)) == -(A @ B)).all()
    wide = moved(np.full((9, 4, 6), 7.0), backend)
    ms.matmul(a, b, out=wide[:, :, 1:5], backend=backend)
    expected = np.full((9, 4, 6), 7.0)
    expected[:, :, 1:5] = A @ B
    assert (host(wide) == expected).all()


def test_lists(backend: str) -> None:
    rng = np.random.default_rng(5)
    A, B = [integers(rng, (4, 4)) for _ in range(6)], [integers(rng, (4, 4)) for _ in range(6)]
    a, b = [moved(x, backend) for x in A], [moved(x, backend) for x in B]
    result = ms.matmul(a, b, backend=backend)
    assert type(result) is list and type(result[0]) is type(a[0])
    assert all((host(x) == y @ z).all() for x, y, z in zip(result, A, B, strict=True))
    out = [moved(np.zeros((4, 4)), backend) for _ in range(6)]
    assert ms.matmul(tuple(a), b, out=out, backend=backend) is out
    assert all((host(x) == y @ z).all() for x, y, z in zip(out, A, B, strict=True))
    assert (host(ms.matmul(a, b[0], backend=backend)[5]) == A[5] @ B[0]).all()
    assert ms.matmul([], [], backend=backend) == []


@pytest.mark.parametrize("options", ["NC", "CT"])
def test_blas_gemm(options: str, backend: str) -> None:
    rng = np.random.default_rng(6)
    apply = {"N": lambda x: x, "T": lambda x: x.swapaxes(-1, -2), "C": lambda x: x.swapaxes(-1, -2).conj()}
    A, B, C = (integers(rng, (5, 3, 3), "complex128") for _ in range(3))
    a, b, out = (moved(x, backend) for x in (A, B, C))
    how = dict(trans_a=options[0], trans_b=options[1], alpha=1 + 1j, beta=2j, backend=backend)
    expected = (1 + 1j) * (apply[options[0]](A) @ apply[options[1]](B)) + 2j * C
    assert ms.blas.gemm(a, b, out=out, **how) is out
    assert (host(out) == expected).all()
    outs = [moved(x, backend) for x in C]
    ms.blas.gemm(list(a), list(b), out=outs, **how)
    assert all((host(x) == y).all() for x, y in zip(outs, expected, strict=True))


@pytest.mark.parametrize("shape", [(6, 3, 4), (3, 4)], ids=str)
@pytest.mark.parametrize("name", ["syrk", "herk"])
def test_rank_k(name: str, shape: tuple[int, ...], backend: str) -> None:
    rng, function = np.random.default_rng(7), getattr(ms.blas, name)
    A = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if len(shape) == 2 and backend != "cpu":
        pytest.skip("one matrix is the array library's")
    other = A.conj() if name == "herk" else A
    a, options = moved(A, backend), dict(backend=backend)
    for trans, expected in (("N", A @ other.swapaxes(-1, -2)), ("TC"[name == "herk"], other.swapaxes(-1, -2) @ A)):
        result = host(function(a, trans=trans, **options))
        assert np.allclose(result, expected)
        mirrored = result.swapaxes(-1, -2)
        assert (result == (mirrored.conj() if name == "herk" else mirrored)).all()
    n = shape[-2]
    lower = np.tril(np.ones((n, n), bool))
    old = rng.standard_normal((*shape[:-1], n)) + 0j
    for uplo, triangle in (("L", lower), ("U", lower.T)):
        out = moved(np.where(triangle, old, 77), backend)
        assert function(a, alpha=2.0, beta=-1.0, uplo=uplo, out=out, **options) is out
        assert (host(out)[..., ~triangle] == 77).all()
        product = 2 * (A @ other.swapaxes(-1, -2)) - old
        assert np.allclose(host(out)[..., triangle], product[..., triangle])


def test_rank_k_of_lists() -> None:
    A = [integers(np.random.default_rng(i), (3, 4)) for i in range(4)]
    assert all((x == a @ a.T).all() for x, a in zip(ms.blas.syrk(A), A, strict=True))
    out = [np.full((3, 3), 9.0) for _ in A]
    assert ms.blas.syrk(A, out=out, uplo="U") is out
    assert all((np.triu(x) == np.triu(a @ a.T)).all() and x[1, 0] == 9 for x, a in zip(out, A, strict=True))


# ---- what numpy.matmul does -------------------------------------------------------------------------------


def test_vectors(played: Played) -> None:
    rng = np.random.default_rng(8)
    A, v, w = integers(rng, (6, 3, 4)), integers(rng, (4,)), integers(rng, (3,))
    for left, right in ((A, v), (w, A), (A, v[::-1]), (w, A[:, :, 1:])):
        assert (ms.matmul(left, right) == left @ right).all()
        out = np.zeros((left @ right).shape)
        assert ms.matmul(left, right, out=out, alpha=2) is out and (out == 2 * (left @ right)).all()
    assert played.launches == 8
    with pytest.raises(ValueError, match="out has shape"):
        ms.matmul(A, v, out=np.zeros((6, 3, 1)))
    with pytest.raises(ValueError, match="4 columns and B 3 rows"):
        ms.matmul(A, w)


@pytest.mark.parametrize(
    ("a", "b"), [((0, 3, 4), (0, 4, 5)), ((6, 3, 0), (6, 0, 5)), ((6, 0, 4), (4, 5)), ((2, 3, 4), (2, 4, 0))]
)
def test_nothing_to_multiply(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for dtype in ("float32", "complex128"):
        A, B = np.ones(a, dtype), np.ones(b, dtype)
        result = ms.matmul(A, B)
        assert result.shape == (A @ B).shape and result.dtype == dtype and (result == 0).all()
        out = np.ones((A @ B).shape, dtype)
        assert (ms.matmul(A, B, out=out, beta=2.0) == 2).all()
        assert "nothing to multiply" in ms.plan("gemm", A, B).explain()
    assert ms.matmul([np.ones((2, 0))] * 3, [np.ones((0, 2))] * 3)[2].tolist() == [[0, 0], [0, 0]]


def test_other_dtypes_are_the_array_librarys() -> None:
    A, B = np.ones((5, 2, 3), int), np.ones((3, 2), "float16")
    assert ms.matmul(A, A.swapaxes(1, 2)).dtype == A.dtype
    assert (ms.matmul(A, B) == A @ B).all()
    with pytest.raises(UnsupportedProblem, match="A has dtype int64"):
        ms.blas.gemm(A, A, trans_b="T")


def test_wide_ones_are_the_array_librarys(played: Played) -> None:
    rng = np.random.default_rng(9)
    A, B = integers(rng, (3, 161, 5)), integers(rng, (3, 5, 2))
    assert (ms.matmul(A, B) == A @ B).all() and played.launches == 0
    out = np.ones((3, 161, 2))
    assert ms.matmul(A, B, out=out) is out and (out == A @ B).all()
    assert (ms.matmul(A, B, out=out, alpha=2, beta=1) == 3 * (A @ B)).all()
    assert all((x == y).all() for x, y in zip(ms.matmul(list(A), B[0]), A @ B[0], strict=True))
    assert (ms.blas.gemm(A, A, trans_a="C") == A.swapaxes(1, 2) @ A).all()
    assert played.launches == 0
    A = A.real.copy()
    assert (ms.matmul(A, B, backend="cpu") == A @ B).all() and played.launches == 1  # but who asks, gets


# ---- memory -----------------------------------------------------------------------------------------------


def test_overlap(played: Played) -> None:
    X = np.ones((6, 8, 4))
    B = np.ones((6, 4, 4))
    assert (ms.matmul(X[:, :4], B, out=X[:, 4:])[0] == 4).all()  # in one region, but apart
    for out in (X[:, :4], X[:, 2:6]):
        with pytest.raises(ValueError, match="out overlaps A"):
            ms.matmul(X[:, :4], B, out=out)
    with pytest.raises(ValueError, match="out overlaps B"):
        ms.matmul(X[:, :4], B, out=B)
    many = list(np.ones((3, 2, 2)))
    with pytest.raises(ValueError, match="out overlaps B"):
        ms.matmul(list(np.ones((3, 2, 2))), many, out=many)
    with pytest.raises(ValueError, match="an array twice"):
        ms.matmul(many, many, out=[np.ones((2, 2))] * 3)


def test_addresses_travel_to_the_device() -> None:
    """A driver played by host memory: the kernel of the emulator reads what was uploaded."""
    copied: list[int] = []

    def copy(to: Any, source: Any, size: Any, stream: Any) -> int:
        copied.append(size.value)
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    library = SimpleNamespace(cuMemcpyHtoDAsync_v2=copy)
    driver = SimpleNamespace(lib=library, capture_id=lambda stream: 0, check=lambda status, what: None)
    rng = np.random.default_rng(10)
    A, B = [integers(rng, (4, 4)) for _ in range(5)], [integers(rng, (4, 4)) for _ in range(5)]
    run = gemm_call.plan_gemm(A, B, None, "emulated").run
    run.__self__.backend = SimpleNamespace(name="cuda", driver=driver)  # type: ignore[attr-defined]
    assert all((x == a @ b).all() for x, a, b in zip(run(A, B), A, B, strict=True))
    assert copied == [80]
    driver.capture_id = lambda stream: 5
    with pytest.raises(LaunchError, match="a graph cannot hold"):
        run(A, B)


# ---- bad input --------------------------------------------------------------------------------------------

ONES = np.ones((5, 3, 3))


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: ms.matmul(ONES, ONES[:4]), ValueError, r"leading dimensions \(5,\) and B \(4,\)"),
        (lambda: ms.matmul(ONES, ONES[:, :2]), ValueError, "3 columns and B 2 rows"),
        (lambda: ms.matmul(ONES, ONES, out=np.ones((5, 3, 2))), ValueError, r"out has shape \(5, 3, 2\), the result"),
        (lambda: ms.matmul(ONES, ONES, out=np.ones((1, 5, 3, 3))), ValueError, "out has shape"),
        (lambda: ms.matmul(ONES, ONES, out=np.broadcast_to(1.0, (5, 3, 3))), ValueError, "read-only|share one place"),
        (lambda: ms.matmul(ONES, ONES, out=np.ones((5, 3, 3), "float32")), TypeError, "A has dtype float64 and out"),
        (lambda: ms.matmul(ONES, ONES, beta=1.0), ValueError, "pass out"),
        (lambda: ms.matmul(ONES, ONES, alpha=1j), TypeError, "must be real"),
        (lambda: ms.matmul([ONES[0], ONES[1, :2]], ONES[0]), ValueError, r"A\[1\] has shape \(2, 3\).*ms.Ragged"),
        (lambda: ms.matmul([ONES[0], ONES[1].astype("f4")], ONES[0]), TypeError, r"A\[1\] float32"),
        (lambda: ms.matmul([ONES[0], 3], ONES[0]), TypeError, r"A\[1\] is a builtins.int"),
        (lambda: ms.matmul([ONES, ONES], ONES), ValueError, r"A\[0\] has shape \(5, 3, 3\)"),
        (lambda: ms.matmul(list(ONES), list(ONES[:1])), ValueError, "A is a list of 5 arrays and B is a list of 1"),
        (lambda: ms.matmul(list(ONES), ONES[:2]), ValueError, "A is a list of 5 arrays and B has leading dimensions"),
        (lambda: ms.matmul(list(ONES), []), ValueError, "A is a list of 5 arrays, and of B there are none"),
        (lambda: ms.matmul(list(ONES), list(ONES), out=list(np.ones((4, 3, 3)))), ValueError, "out has 4 arrays"),
        (lambda: ms.blas.gemm(ONES, ONES, trans_a="H"), ValueError, "trans_a='H'"),
        (lambda: ms.blas.gemm(ONES[0, 0], ONES), ValueError, r"a has shape \(3,\)"),
        (lambda: ms.blas.syrk(ONES, uplo="X"), ValueError, "uplo='X'"),
        (lambda: ms.blas.herk(ONES, trans="T"), ValueError, "neither 'N' nor 'C'"),
        (lambda: ms.blas.herk(ONES, alpha=1j), TypeError, "alpha must be real"),
        (lambda: ms.blas.syrk(ONES, out=np.ones((5, 3, 2))), ValueError, "the result"),
        (lambda: ms.blas.syrk(ONES, out=np.ones((5, 3, 3), "f4")), TypeError, "a has dtype float64"),
        (lambda: ms.blas.syrk(list(ONES), out=ONES), ValueError, "out is an array and a a list of 5"),
        (lambda: ms.plan("gemm", ONES), TypeError, "pass B"),
        (lambda: ms.plan("gemm", [], []), ValueError, "an empty list"),
    ],
)
def test_errors(run: Any, error: type[Exception], message: str, played: Played) -> None:
    with pytest.raises(error, match=message):
        run()
    assert played.launches == 0


# ---- other libraries, plans, tuning -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_torch(dtype: str) -> None:
    torch = wanted("torch")
    rng = np.random.default_rng(11)
    a, b = (torch.tensor(integers(rng, (2, 6, 4, 4), dtype)) for _ in range(2))
    result = ms.matmul(a, b)
    assert isinstance(result, torch.Tensor) and result.is_contiguous() and torch.equal(result, a @ b)
    assert torch.equal(ms.matmul(a.conj(), b.mH), a.conj() @ b.mH)
    assert torch.equal(ms.blas.gemm(a.conj(), b, trans_a="C"), a.mT @ b)
    assert torch.equal(ms.matmul(a[0], b[0, 0]), a[0] @ b[0, 0])
    out = torch.zeros_like(a)
    assert ms.matmul(a, b, out=out, alpha=2) is out and torch.equal(out, 2 * (a @ b))
    lists = ms.matmul(list(a[0]), [b[0, 0].conj(), *b[0, 1:]])
    assert torch.equal(torch.stack(lists)[1:], (a[0] @ b[0])[1:]) and torch.equal(lists[0], a[0, 0] @ b[0, 0].conj())
    assert torch.equal(ms.blas.herk(a), torch.tensor(ms.blas.herk(a.numpy())))
    with pytest.raises(ValueError, match="lazily conjugated" if "complex" in dtype else "read-only|overlaps"):
        ms.matmul(a, b, out=out.conj() if "complex" in dtype else b)
    with pytest.raises(TypeError, match="A has PyTorch arrays and B NumPy"):
        ms.matmul(list(a[0]), list(b[0].numpy()))
    with pytest.raises(TypeError, match="detach"):
        ms.matmul(a.requires_grad_(), b)


def test_jax() -> None:
    jnp = wanted("jax.numpy")
    A = integers(np.random.default_rng(12), (6, 4, 4), "float32").astype("float32")
    a = jnp.asarray(A)
    result = ms.matmul(a, a)
    assert type(result) is type(a) and (np.asarray(result) == A @ A).all()
    assert all((np.asarray(x) == y).all() for x, y in zip(ms.matmul(list(a), list(a)), A @ A, strict=True))
    assert (np.asarray(ms.blas.gemm(a, a, trans_a="T")) == A.swapaxes(1, 2) @ A).all()


@pytest.mark.gpu
def test_gpu_streams_and_graphs() -> None:
    from conftest import usable

    usable("cuda")
    cupy, torch = wanted("cupy"), wanted("torch")
    A, B = (integers(np.random.default_rng(seed), (500, 7, 7)) for seed in (13, 14))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        many = ms.matmul(list(cupy.asarray(A)), list(cupy.asarray(B)))  # the addresses are used after they are let go
        again = ms.matmul(list(cupy.asarray(B)), list(cupy.asarray(A)))
    stream.synchronize()
    assert (cupy.stack(many).get() == A @ B).all() and (cupy.stack(again).get() == B @ A).all()
    a, b = torch.tensor(A, device="cuda"), torch.tensor(B, device="cuda")
    out = ms.matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ms.matmul(a, b, out=out)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.cpu(), torch.tensor(A @ B))


def test_plan() -> None:
    A, B = np.ones((5, 4, 4)), np.full((5, 4, 4), 2.0)
    plan = ms.plan("gemm", A, B)
    assert "M=4 N=4 K=4 BATCH=5" in plan.explain() and "gemm_simd" in plan.source()
    assert (plan(A, B) == 8).all() and (plan(B, A) == 8).all()
    with pytest.raises(ValueError, match="make another plan"):
        plan(A[:4], B[:4])
    listed = ms.plan("gemm", list(A), list(B))
    assert (listed(list(B), list(A))[4] == 8).all()
    with pytest.raises(ValueError, match="A differs"):
        listed(list(A[:4]), list(B))
    with ms.pin(VARIANT="vendor"):
        assert "vendor" in ms.plan("gemm", A, B).explain() and (ms.matmul(A, B) == 8).all()
    with ms.pin(TILE_M=2):
        assert ms.plan("gemm", A, B).choice.config.TILE_M == 2


def test_plans_are_kept(played: Played) -> None:
    A = [np.ones((4, 4)) for _ in range(3)]
    for _ in range(3):
        ms.matmul(A, A)
        ms.matmul(np.ones((5, 4, 4)), np.ones((5, 4, 4)))
    assert len(played.problems) == 2


def test_tune(own_cache: Any) -> None:
    A = np.ones((200, 3, 3))
    ms.matmul(list(A), list(A))
    result = ms.tune("gemm", A, A[0].T, limit=2)
    assert not gemm_call._PLANS  # what is planned from now on may use the winner
    assert result.winner and not [trial for trial in result.trials if trial.status != "ok"]
    assert "measured at BATCH=200" in ms.plan("gemm", A, A[0].T).explain()


def test_commands(own_cache: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--k is the number of products."""
    from mansard.cli import main

    assert main(["tune", "gemm", "--m", "2", "--n", "3", "--k", "50", "--backend", "emulated", "--limit", "1"]) == 0
    assert "M=2 N=3 K=2 BATCH=50" in capsys.readouterr().out
    assert main(["explain", "gemm", "--m", "4", "--k", "1e6", "--device", "emulated", "--source"]) == 0
    text = capsys.readouterr().out
    assert "BATCH=1000000" in text and "gemm_lanes" in text and "P_max" in text


@pytest.mark.parametrize("stack", ["packed", "strided", "shared", "pointers"])
def test_tuned_operands_lie_as_the_problem_says(stack: str) -> None:
    from mansard.backends import cpu
    from mansard.families.gemm import spec
    from mansard.tune.cases.gemm import GemmCase
    from mansard.tune.verify import Verifier, Wrong

    for layout_c in ("row", "col"):
        options: dict[str, Any] = dict(stack_a=stack, layout_b="col", layout_c=layout_c, conj_b=True, aligned=False)
        options |= {"pitch_a": 6} if stack == "strided" else {}
        problem = spec.problem("complex128", 3, 2, 4, 20, **options)
        case = GemmCase(problem, cpu.backend())
        assert case.operands[0].shape == (20, 3, 4) and case.operands[0].ctypes.data % 16 == 8
        verifier, config = Verifier(case), case.family.defaults.default(problem, cpu.backend().device)
        verifier.exact(config, lambda: None)
        out = case.poisoned()
        case.call(cpu.backend().prepare(case.kernel(config)), out)()
        verifier.bounded(out)
        out[17, 1] += 1e-6
        with pytest.raises(Wrong, match=r"entry \[17,1\]"):
            verifier.bounded(out)


def test_doctests() -> None:
    failures, tried = doctest.testmod(ms.blas.products)
    assert tried >= 8 and failures == 0


def test_signature_of_lists_sees_every_array() -> None:
    kind, A = stacks.kind_of(ONES, "A"), list(ONES)
    assert stacks.signature(kind, A) == stacks.signature(kind, A[::-1])
    assert stacks.signature(kind, A) != stacks.signature(kind, [*A[:4], A[4].T])
