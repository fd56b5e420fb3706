"""Triangular systems and products from the outside: every form of stacks and lists against SciPy and exact integers,
BLAS's options, results in place, singular matrices, blocks along the diagonal, bad input by name, plans, tuning."""

from __future__ import annotations

import ctypes
import doctest
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from batched_cases import DTYPES, Played, arranged, at, integers
from sparing import spared
from test_api import wanted

import mansard as ms
import mansard.blas.triangular
import mansard.linalg.triangular
from mansard import testing
from mansard.api import call, gemm_call, stacks, triangular_call
from mansard.api.triangular_run import masked
from mansard.backends import cpu, emulated
from mansard.backends.select import ReferenceBackend
from mansard.errors import UnsupportedProblem
from mansard.families import trsm
from mansard.families.trsm import lapack, spec
from mansard.plan import dispatch
from mansard.tune.cases.trsm import TrsmCase

OPTIONS = list(product("LR", "LU", "NTC", "NU"))  # side, uplo, trans, diag
OP = {"N": lambda x: x, "T": lambda x: x.swapaxes(-1, -2), "C": lambda x: x.swapaxes(-1, -2).conj()}


@pytest.fixture(autouse=True)
def no_plans() -> None:
    triangular_call._PLANS.clear()
    gemm_call._PLANS.clear()


class PlayedSolver(Played):
    """Kernels played by NumPy, of both families; descriptions of operands are taken at their word, and checked."""

    def __call__(self, emit: Any, problem: Any, backend: Any, strides: tuple[int, ...]) -> Any:
        if emit is not trsm.emit:
            return super().__call__(emit, problem, backend, strides)
        choice = dispatch.choose(problem, backend.device)
        if choice.config is None or isinstance(backend, ReferenceBackend):
            return None, choice, None
        self.problems.append(problem)

        def launch(pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
            self.launches += 1
            places = [
                self.triangular(problem, operand, pointer, strides[3 * i : 3 * i + 3])
                for i, (operand, pointer) in enumerate(zip("abx", pointers, strict=True))
            ]
            alpha = complex(*scalars[:2]) if problem.is_complex else scalars[0]
            traits = problem.side, problem.uplo, problem.trans, problem.unit
            with np.errstate(all="ignore"):
                for a, b, x in zip(*places, strict=True):
                    x[...] = spec.reference(a, b, alpha, *traits)

        return launch, choice, None

    @staticmethod
    def triangular(problem: Any, operand: str, pointer: int, strides: tuple[int, ...]) -> list[Any]:
        rows, columns = spec.shape(problem, operand)
        layout, stack, pitch = (getattr(problem, f"{trait}_{operand}") for trait in ("layout", "stack", "pitch"))
        matrix, row, column = strides
        if layout != "any":
            assert (row, column) == ((pitch, 1) if layout == "row" else (1, pitch))
            assert pitch >= (columns if layout == "row" else rows)
        if stack == "packed":
            assert layout != "any" and pitch == (columns if layout == "row" else rows)
            assert problem.BATCH == 1 or matrix == rows * columns
        assert stack != "shared" or (matrix == 0 and operand != "x")
        if stack == "pointers":
            addresses = list((ctypes.c_int64 * problem.BATCH).from_address(pointer))
        else:
            addresses = [pointer + i * matrix * problem.itemsize for i in range(problem.BATCH)]
        if problem.aligned:
            assert all(address % 16 == 0 for address in (addresses[:1] if stack == "packed" else addresses))
        return [at(address, (rows, columns), (row, column), problem.dtype) for address in addresses]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedSolver:
    found = PlayedSolver()
    monkeypatch.setattr(call, "prepare", found)
    return found


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks begin beyond four unknowns, also where a backend was asked for."""
    monkeypatch.setattr(triangular_call, "_order", lambda problem: 4)
    monkeypatch.setattr(triangular_call, "INVERTED", 4)
    monkeypatch.setattr(spec, "WIDEST", 4)


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def named(side: str, uplo: str, trans: str, diag: str) -> dict[str, str]:
    return {"side": side, "uplo": uplo, "trans": trans, "diag": diag}


def triangles(
    rng: Any, shape: tuple[int, ...], dtype: str = "float64", uplo: str = "L", diag: str = "N"
) -> tuple[Any, Any]:  # fmt: skip
    """Integer ones whose diagonals divide everything: with zeros and ones where nothing is referenced, and with NaN."""
    values, every = integers(rng, shape, dtype), range(shape[-1])
    beside = np.tri(shape[-1], k=-1, dtype=bool)
    beside = beside if uplo == "L" else beside.T
    clean, dirty = (np.where(beside, values, other).astype(dtype) for other in (0, np.nan))
    diagonal = rng.choice([1, -1, 2, -2, 4], shape[:-1])
    clean[..., every, every] = 1 if diag == "U" else diagonal
    if diag == "N":
        dirty[..., every, every] = diagonal
    return clean, dirty


def applied(clean: Any, X: Any, side: str, trans: str) -> Any:
    return OP[trans](clean) @ X if side == "L" else X @ OP[trans](clean)


def exact_case(rng: Any, lead: tuple[int, ...], n: int, k: int, dtype: str, options: Any) -> tuple[Any, Any, Any, Any]:
    """Triangles with zeros, with NaN, the solution and the right-hand side."""
    side, uplo, trans, diag = options
    clean, dirty = triangles(rng, (*lead, n, n), dtype, uplo, diag)
    X = integers(rng, (*lead, *((n, k) if side == "L" else (k, n))), dtype)
    return clean, dirty, X, applied(clean, X, side, trans)


def wide(array: Any) -> Any:
    return np.asarray(array).astype(np.clongdouble if np.iscomplexobj(array) else np.longdouble)


# ---- what the options mean --------------------------------------------------------------------------------


def solved_every_way(options: Any, backend: str) -> None:
    _, dirty, X, B = exact_case(np.random.default_rng(1), (9,), 5, 3, "complex128", options)
    a, b, x = (moved(values, backend) for values in (dirty, B, X))
    how: Any = named(*options) | {"backend": backend}
    assert (host(ms.blas.trsm(a, b, **how)) == X).all()
    out = moved(np.full(B.shape, np.nan + 0j), backend)
    assert ms.blas.trsm(a, b, alpha=2 - 1j, out=out, **how) is out and (host(out) == (2 - 1j) * X).all()
    assert ms.blas.trsm(a, b, out=b, **how) is b and (host(b) == X).all()
    assert (host(ms.blas.trmm(a, x, alpha=2j, **how)) == 2j * B).all()


@pytest.mark.parametrize("options", OPTIONS, ids="".join)
def test_options(options: Any, played: PlayedSolver) -> None:
    """Whatever is not referenced is NaN."""
    for backend in ("cpu", "emulated"):
        solved_every_way(options, backend)


@pytest.mark.parametrize("options", [("L", "U", "C", "N"), ("R", "L", "N", "U")], ids="".join)
def test_options_of_kernels(options: Any, backend: str) -> None:
    solved_every_way(options, backend)


@pytest.mark.parametrize("options", OPTIONS, ids="".join)
def test_library_and_lapack(options: Any) -> None:
    """Who answers where no kernel does."""
    _, dirty, X, B = exact_case(np.random.default_rng(2), (4,), 6, 3, "complex64", options)
    how: Any = named(*options) | {"backend": "reference"}
    assert (ms.blas.trsm(dirty, B, alpha=-1, **how) == -X).all()
    assert "SciPy's BLAS" in ms.plan("trmm", dirty, X, **named(*options)).explain()
    assert (ms.blas.trmm(dirty, X, alpha=2j, **named(*options)) == 2j * B).all()
    place = np.asfortranarray(X)
    assert ms.blas.trmm(dirty, place, out=place, **named(*options)) is place and (place == B).all()
    assert (ms.blas.trmm(list(dirty), list(X), **named(*options))[3] == B[3]).all()
    problem = triangular_call.plan_trsm(dirty, B, None, "reference", triangular_call.triangle(*options)).problem
    for a, b in ((dirty, B), (np.asfortranarray(dirty.T).T, B), (dirty.swapaxes(1, 2).copy().swapaxes(1, 2), B)):
        for place in (b.copy(), b.swapaxes(1, 2).copy().swapaxes(1, 2), np.repeat(b, 2, 2)[:, :, ::2]):
            lapack.solve_each(problem, a, place, 2.0)
            assert (place == 2 * X).all()
    conjugated = problem.replace(trans={"N": "R", "T": "C", "C": "T"}[options[2]])
    B = applied(np.where(np.isnan(dirty), 0, dirty), X, options[0], options[2]) if options[3] == "N" else B
    place = B.conj()
    lapack.solve_each(conjugated, dirty, place, 1.0)
    assert (place == X.conj()).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (13, 4), (70, 2)])
def test_against_scipy(n: int, k: int, dtype: str, backend: str) -> None:
    """Residuals within the bound of the error analysis, SciPy's next to ours."""
    if backend == "emulated" and n > 1 and dtype != "float64":
        pytest.skip("slow; the kernels' own tests have them")
    A = testing.random_matrix(np, 6 * n, n, dtype, 3).reshape(6, n, n) / n
    A[:, range(n), range(n)] = 1 + abs(A[:, range(n), range(n)])
    A, B = A.astype(dtype), testing.random_matrix(np, 6 * n, k, dtype, 4).reshape(6, n, k)
    for lower, trans in ((True, 0), (False, "C")):
        X = host(
            ms.linalg.solve_triangular(moved(A, backend), moved(B, backend), lower=lower, trans=trans, backend=backend)
        )
        assert X.dtype == dtype
        triangle = wide(np.tril(A) if lower else np.triu(A))
        op = OP[{0: "N", 1: "T"}.get(trans, trans)](triangle)  # type: ignore[call-overload]
        bound = 2 * testing.gamma(dtype, n) * (abs(op) @ abs(wide(X)))
        assert (abs(op @ wide(X) - wide(B)) <= bound).all()
        theirs = [scipy.linalg.solve_triangular(a, b, lower=lower, trans=trans) for a, b in zip(A, B, strict=True)]
        inverse = np.linalg.inv(op.astype("complex128" if "complex" in dtype else "float64"))
        assert (abs(X - np.stack(theirs)) <= 1.01 * 2 * abs(inverse) @ bound.astype("float64") + 1e-30).all()


def test_vectors(backend: str) -> None:
    clean, dirty = triangles(np.random.default_rng(5), (8, 6, 6), uplo="U")
    x = integers(np.random.default_rng(6), (8, 6))
    y = (clean @ x[..., None])[..., 0]
    a, b = moved(dirty, backend), moved(y, backend)
    assert (host(ms.blas.trsv(a, b, uplo="U", backend=backend)) == x).all()
    assert ms.blas.trsv(a, b, uplo="U", out=b, backend=backend) is b and (host(b) == x).all()
    one = moved(y[0], backend)
    assert (host(ms.linalg.solve_triangular(a[0], one, backend=backend)) == x[0]).all()
    same = ms.linalg.solve_triangular(a, moved((4.0 * np.eye(6))[5], backend), backend=backend)
    assert same.shape == (8, 6) and (host(same) == np.linalg.solve(clean, (4 * np.eye(6)[5])[:, None])[..., 0]).all()
    out = moved(np.full((8, 6), np.nan), backend)
    assert ms.linalg.solve_triangular(a, moved(np.zeros(6), backend), out=out, backend=backend) is out
    assert (host(out) == 0).all()
    lists = ms.blas.trsv(list(a), [moved(v, backend) for v in y], uplo="U", backend=backend)
    assert all(one.shape == (6,) and (host(one) == v).all() for one, v in zip(lists, x, strict=True))


@pytest.mark.parametrize(
    ("a", "b"), [((7,), (7,)), ((7,), ()), ((), (7,)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((12, 1), (1, 12))], ids=str
)
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...], played: PlayedSolver) -> None:
    broadcast(a, b, "cpu")
    broadcast(a, b, "emulated")


@pytest.mark.parametrize(("a", "b"), [((), (7,)), ((12, 1), (1, 12))], ids=str)
def test_broadcasting_of_kernels(a: tuple[int, ...], b: tuple[int, ...], backend: str) -> None:
    broadcast(a, b, backend)


def broadcast(a: tuple[int, ...], b: tuple[int, ...], backend: str) -> None:
    rng = np.random.default_rng(7)
    clean, dirty = triangles(rng, (*a, 4, 4))
    dirty[..., range(4), range(4)] = clean[..., range(4), range(4)] = 1
    B = integers(rng, (*b, 4, 2))  # integers have integer solutions, as all diagonals are ones
    expected = np.round(np.linalg.solve(np.broadcast_to(clean, (*np.broadcast_shapes(a, b), 4, 4)), B))
    result = ms.blas.trsm(moved(dirty, backend), moved(B, backend), backend=backend)
    assert result.shape == expected.shape and (host(result) == expected).all()
    result = ms.blas.trmm(moved(dirty, backend), moved(B, backend), backend=backend)
    assert result.shape == expected.shape and (host(result) == clean @ B).all()


def test_what_is_repeated_is_copied_once(played: PlayedSolver) -> None:
    clean, dirty = triangles(np.random.default_rng(19), (3, 3))
    a, B = np.broadcast_to(dirty, (40, 3, 3)), np.ones((3, 2))
    kind = stacks.kind_of(a, "a")
    assert masked(kind, a, "lower", False).strides[0] == 0
    found = ms.blas.trmm(a, B, backend="cpu")
    assert found.shape == (40, 3, 2) and (found == clean @ B).all()


def test_what_serves_all_is_read_once(played: PlayedSolver) -> None:
    A, B = np.ones((3, 3)), np.ones((9, 3, 2))
    for a in (A, A[None], np.broadcast_to(A, (9, 3, 3))):
        problem = ms.plan("trsm", a, B).problem
        assert (problem.stack_a, problem.stack_b, problem.BATCH) == ("shared", "packed", 9)


@pytest.mark.parametrize("seed", range(30))
def test_any_strides(seed: int, played: PlayedSolver) -> None:
    """Transposed, padded, backwards, in steps; whatever lies between the entries of out stays as it is."""
    rng = np.random.default_rng(seed)
    for backend in ("cpu", "emulated", "reference") * 3:
        options = OPTIONS[rng.integers(len(OPTIONS))]
        lead = tuple(int(size) for size in rng.integers(1, 4, rng.integers(0, 3)))
        n, k, dtype = *(int(size) for size in rng.integers(1, 5, 2)), str(rng.choice(DTYPES))
        _, dirty, X, B = exact_case(rng, lead, n, k, dtype, options)
        a, b, out = arranged(rng, dirty), arranged(rng, B), arranged(rng, np.full_like(B, 99))
        how: Any = named(*options) | {"backend": backend}
        for place in (out, b):  # in place last
            assert ms.blas.trsm(a, b, out=place, **how) is place and (place == X).all()
            place[...] = 99  # as everything around it is
            assert place.base is None or (place.base == 99).all()
    assert played.launches > 0


# ---- lists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [("L", "L", "N", "N"), ("R", "U", "C", "N"), ("L", "U", "T", "U")], ids="".join)
def test_lists(options: Any, played: PlayedSolver) -> None:
    solved_lists(options, "cpu")
    solved_lists(options, "emulated")


def test_lists_of_kernels(backend: str) -> None:
    solved_lists(("L", "L", "N", "N"), backend)


def solved_lists(options: Any, backend: str) -> None:
    _, dirty, X, B = exact_case(np.random.default_rng(8), (6,), 4, 3, "complex128", options)
    a, b = [moved(one, backend) for one in dirty], [moved(one, backend) for one in B]
    how: Any = named(*options) | {"backend": backend}
    result = ms.blas.trsm(a, tuple(b), **how)
    assert type(result) is list and all((host(one) == x).all() for one, x in zip(result, X, strict=True))
    assert all((host(one) == x).all() for one, x in zip(ms.blas.trsm(a, moved(B, backend), **how), X, strict=True))
    out = [moved(np.zeros_like(one), backend) for one in B]
    assert ms.blas.trsm(a, b, out=out, alpha=2, **how) is out
    assert all((host(one) == 2 * x).all() for one, x in zip(out, X, strict=True))
    assert ms.blas.trsm(a, b, out=b, **how) is b and all((host(one) == x).all() for one, x in zip(b, X, strict=True))
    found = ms.blas.trmm(a, b, **how)
    assert all((host(one) == y).all() for one, y in zip(found, B, strict=True))
    assert ms.blas.trmm(a, b, out=b, **how) is b and all((host(one) == y).all() for one, y in zip(b, B, strict=True))


def test_lists_of_one_matrix_and_of_different_strides(played: PlayedSolver) -> None:
    rng = np.random.default_rng(9)
    _, dirty, X, B = exact_case(rng, (5,), 4, 3, "float64", OPTIONS[0])
    for backend in ("cpu", "emulated", "reference"):
        mixed = [np.asfortranarray(one) if i % 2 else one.copy() for i, one in enumerate(B)]
        a = [arranged(rng, one) for one in dirty]
        found = ms.blas.trsm(a, mixed, backend=backend)
        assert all((one == x).all() for one, x in zip(found, X, strict=True))
        assert ms.blas.trsm(a, mixed, out=mixed, backend=backend) is mixed
        assert all((one == x).all() for one, x in zip(mixed, X, strict=True))
        same = [applied(np.nan_to_num(dirty[0]), x, "L", "N") for x in X]
        found = ms.blas.trsm(dirty[0], same, backend=backend)
        assert all((one == x).all() for one, x in zip(found, X, strict=True))
    assert ms.blas.trsm([], []) == [] and ms.blas.trmm([], []) == [] and ms.blas.trsv([], []) == []


# ---- sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [((0, 3, 3), (0, 3, 2)), ((4, 0, 0), (4, 0, 2)), ((4, 3, 3), (4, 3, 0)), ((0, 0), (0, 5)), ((0, 2, 2), (2, 1))],
)
def test_nothing_to_solve(a: tuple[int, ...], b: tuple[int, ...], played: PlayedSolver) -> None:
    for dtype in ("float32", "complex128"):
        A, B = np.ones(a, dtype), np.ones(b, dtype)
        for function in (ms.blas.trsm, ms.blas.trmm):
            result = function(A, B)
            assert result.shape == (A @ B).shape and result.dtype == dtype
        out = np.ones((A @ B).shape, dtype)
        assert ms.blas.trsm(A, B, out=out, alpha=2) is out and ms.linalg.solve_triangular(A, B, check=True).size == 0
        assert "nothing to solve" in ms.plan("trsm", A, B).explain()
    assert ms.blas.trsm([np.ones((0, 0))] * 2, [np.ones((0, 2))] * 2)[1].shape == (0, 2)


def test_many(backend: str) -> None:
    """More matrices than a grid has blocks in its second dimension."""
    rng = np.random.default_rng(10)
    _, dirty, X, B = exact_case(rng, (70_001,), 2, 1, "float64", OPTIONS[0])
    assert (host(ms.blas.trsm(moved(dirty, backend), moved(B, backend), backend=backend)) == X).all()


@pytest.mark.parametrize("options", OPTIONS, ids="".join)
def test_blocks(options: Any, small_blocks: None, played: PlayedSolver) -> None:
    """Along the diagonal, with products beside them: stacks, a matrix for all, lists, in place."""
    rng = np.random.default_rng(11)
    for backend, n, dtype in (("emulated", 11, "complex64"), ("emulated", 8, "float64")):
        clean, dirty, X, B = exact_case(rng, (3,), n, 2, dtype, options)
        X, B = X.clip(-1, 1) if dtype == "float64" else X, B
        B = applied(clean, X, options[0], options[2])
        how: Any = named(*options) | {"backend": backend}
        close = 1e-4 if dtype == "complex64" else 0  # the sums grow beyond what single precision holds
        assert (abs(ms.blas.trsm(dirty, B, alpha=2, **how) - 2 * X) <= close * np.abs(X).max()).all()
        place = B.copy()
        assert ms.blas.trsm(dirty, place, out=place, **how) is place and (abs(place - X) <= close).all()
        found = ms.blas.trsm(list(dirty), list(B), **how)
        assert type(found) is list and all((abs(one - x) <= close).all() for one, x in zip(found, X, strict=True))
        B = applied(clean[0], X, options[0], options[2])
        assert (abs(ms.blas.trsm(dirty[0], B, **how) - X) <= close).all()
    plan = triangular_call.plan_trsm(dirty, B, None, "emulated", triangular_call.triangle(*options))
    assert "blocks of 4 along the diagonal" in plan.explain() and plan.choice.origin == "blocked"


@pytest.mark.parametrize("backend", [None, "emulated"])
def test_wide_ones(backend: str | None) -> None:
    """Beyond what one kernel takes."""
    A = testing.random_matrix(np, 2 * 260, 260, "float64", 1).reshape(2, 260, 260) / 260
    A[:, range(260), range(260)] = 1
    A, B = (
        np.where(np.tri(260, dtype=bool), A, np.nan),
        testing.random_matrix(np, 520, 2, "float64", 2).reshape(2, 260, 2),
    )
    X = ms.blas.trsm(A, B, backend=backend)
    triangle = wide(np.tril(np.nan_to_num(A)))
    assert (abs(triangle @ wide(X) - B) <= 2 * testing.gamma("float64", 260) * (abs(triangle) @ abs(wide(X)))).all()
    text = ms.plan("trsm", A, B, backend=backend).explain()
    assert ("blocks of 128" if backend else "SciPy's BLAS") in text and "beyond 256" in text


# ---- inverted diagonal blocks -----------------------------------------------------------------------------


@pytest.mark.parametrize("n, dtype", [*((3, dtype) for dtype in DTYPES), *((75, dtype) for dtype in spared(DTYPES, 3))])
def test_inverted_blocks_are_within_their_own_bound(n: int, dtype: str) -> None:
    """With Y the computed inverse of a diagonal block D and c what it is multiplied with, |D Y - I| <= gamma |D| |Y|,
    and the product adds gamma |Y||c|: the residual of a block row is at most gamma (2 |D| |Y| |c| + |A| |x|)."""
    order = triangular_call.INVERTED
    A = testing.random_matrix(np, 4 * n, n, dtype, 1).reshape(4, n, n)
    A[:, range(n), range(n)] += 2
    A, B = np.tril(A).astype(dtype), testing.random_matrix(np, 4 * n, 3, dtype, 2).reshape(4, n, 3)
    A = (A * np.exp2(-np.arange(n)[:, None] % 7 - np.arange(n) / 4)).astype(dtype)  # far from the identity
    X = ms.blas.trsm(A, B, invert_diagonal=True)
    exact, x, b = wide(A), wide(X), wide(B)
    gamma = testing.gamma(dtype, n)
    residual, bound = abs(exact @ x - b), abs(exact) @ abs(x) + abs(b)
    for begin in range(0, n, order):
        rows = slice(begin, min(begin + order, n))
        block = exact[:, rows, rows]
        inverse = spec.reference(block, np.broadcast_to(np.eye(block.shape[-1], dtype=block.dtype), block.shape))
        right = abs(b[:, rows]) + abs(exact[:, rows, : rows.start]) @ abs(x[:, : rows.start])
        bound[:, rows] += 2 * abs(block) @ (abs(inverse) @ right)
    assert (residual <= 2 * gamma * bound).all()
    assert (ms.blas.trsm(A, B) != X).any(), "nothing was inverted"
    assert (
        f"blocks of order {order} are inverted"
        in triangular_call.plan_trsm(A, B, None, None, triangular_call.triangle(invert=True)).explain()
    )


@pytest.mark.parametrize("options", OPTIONS[::5], ids="".join)
def test_inverted_blocks_of_every_kind(options: Any, small_blocks: None, played: PlayedSolver) -> None:
    for backend in ("cpu", "emulated"):
        _, dirty, X, B = exact_case(np.random.default_rng(12), (3,), 7, 2, "complex128", options)
        how: Any = named(*options) | {"backend": backend, "invert_diagonal": True}
        assert np.allclose(ms.blas.trsm(dirty, B, alpha=2, **how), 2 * X, rtol=0, atol=1e-8)
        found = ms.blas.trsm(list(dirty), list(B), **how)
        assert all(np.allclose(one, x, rtol=0, atol=1e-8) for one, x in zip(found, X, strict=True))
    B = applied(np.eye(3), np.ones((5, 3, 2)), "L", "N")
    assert (ms.blas.trsm(np.eye(3), B, invert_diagonal=True) == B).all()  # one matrix, inverted once


# ---- singular matrices ------------------------------------------------------------------------------------


def test_singular_ones(backend: str) -> None:
    """As in BLAS: only the solution of the singular system suffers. With `check`, nothing is written."""
    _, dirty, X, B = exact_case(np.random.default_rng(13), (3, 20), 5, 2, "float64", OPTIONS[0])
    dirty[1, 17, 2, 2] = 0
    B[1, 17, 2] = 1
    a, b = moved(dirty, backend), moved(B, backend)
    found = host(ms.blas.trsm(a, b, backend=backend))
    assert not np.isfinite(found[1, 17, 2]).any()
    found[1, 17] = X[1, 17]
    assert (found == X).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1, 17\] is singular: entry 2"):
        ms.blas.trsm(a, b, out=b, check=True, backend=backend)
    assert (host(b) == B).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[17\] is singular"):
        ms.linalg.solve_triangular(list(a[1]), list(b[1]), lower=True, check=True, backend=backend)
    with pytest.raises(np.linalg.LinAlgError, match="a is singular: entry 2"):
        ms.blas.trsv(a[1, 17], b[1, 17, :, 0], check=True, backend=backend)
    ms.blas.trsm(a, b, diag="U", check=True, backend=backend)
    assert (host(ms.blas.trsm(a[2], b[2], check=True, backend=backend)) == X[2]).all()


def test_singular_ones_elsewhere(small_blocks: None, played: PlayedSolver) -> None:
    for n, backend in ((3, "reference"), (9, "emulated")):
        _, dirty, X, B = exact_case(np.random.default_rng(14), (4,), n, 2, "float64", OPTIONS[0])
        dirty[2, 0, 0] = 0
        B[2, 0] = 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ms.blas.trsm(dirty, B, backend=backend)
        assert not np.isfinite(found[2, 0]).any() and (found[[0, 1, 3]] == X[[0, 1, 3]]).all()


# ---- memory -----------------------------------------------------------------------------------------------


def test_overlap(played: PlayedSolver) -> None:
    A, X = np.broadcast_to(np.eye(4), (6, 4, 4)), np.ones((6, 8, 4))
    assert (ms.blas.trsm(A, X[:, :4], out=X[:, 4:]) == 1).all()  # in one region, but apart
    assert ms.blas.trsm(A, X[:, :4], out=X[:, :4]) is not None
    for out in (X[:, 2:6], X[:, 3::-1], X[:, :4].swapaxes(1, 2)):
        with pytest.raises(ValueError, match=r"out overlaps b: .* or b itself"):
            ms.blas.trsm(A, X[:, :4], out=out)
    B = np.stack([np.eye(4)] * 6)
    with pytest.raises(ValueError, match="out overlaps a"):
        ms.blas.trsm(B, X[:, :4], out=B)
    many, square = list(np.ones((3, 2, 2))), list(np.stack([np.eye(2)] * 3))
    with pytest.raises(ValueError, match="out overlaps a"):
        ms.blas.trsm(square, many, out=square)
    for out in (many[::-1], [one.T for one in many]):
        with pytest.raises(ValueError, match="out overlaps b"):
            ms.blas.trsm(square, many, out=out)
    with pytest.raises(ValueError, match="an array twice"):
        ms.blas.trsm(square, many, out=[np.ones((2, 2))] * 3)
    with pytest.raises(ValueError, match="out overlaps"):
        ms.blas.trmm(A, X[:, :4], out=X[:, 2:6])


def test_nothing_is_copied(played: PlayedSolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is handed the callers' own addresses, whatever the strides."""
    seen: list[int] = []
    real = played.triangular
    monkeypatch.setattr(
        played, "triangular", lambda p, o, pointer, s: (seen.append(pointer), real(p, o, pointer, s))[1]
    )
    A = np.stack([np.eye(3)] * 5).swapaxes(1, 2)[::-1]
    B, out = np.ones((5, 3, 4))[:, :, ::2], np.zeros((2, 3, 5)).T
    assert (ms.blas.trsm(A, B, out=out) == 1).all()
    assert seen == [one.__array_interface__["data"][0] for one in (A, B, out)]


# ---- bad input --------------------------------------------------------------------------------------------

ONES = np.ones((5, 3, 3))
SOLVE, TRIANGULAR = ms.blas.trsm, ms.linalg.solve_triangular


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: SOLVE(ONES, ONES[:4]), ValueError, r"a has leading dimensions \(5,\) and b \(4,\)"),
        (lambda: SOLVE(ONES, ONES[:, :2]), ValueError, "a has order 3 and b 2 rows"),
        (lambda: SOLVE(ONES, ONES[:, :, :2], side="R"), ValueError, "a has order 3 and b 2 columns"),
        (lambda: SOLVE(ONES[:, :2], ONES), ValueError, "2 rows and 3 columns: a triangular matrix is square"),
        (lambda: SOLVE(ONES, ONES, out=np.ones((5, 3, 2))), ValueError, r"out has shape \(5, 3, 2\), the result"),
        (lambda: SOLVE(ONES, ONES, out=np.broadcast_to(1.0, (5, 3, 3))), ValueError, "read-only|share one place"),
        (lambda: SOLVE(ONES, ONES, out=np.ones((5, 3, 3), "f4")), TypeError, "a has dtype float64 and out float32"),
        (lambda: SOLVE(ONES, ONES.astype("f4")), TypeError, "a has dtype float64 and b float32: convert"),
        (lambda: SOLVE(ONES.astype(int), ONES.astype(int)), UnsupportedProblem, "a has dtype int64"),
        (lambda: SOLVE(ONES, ONES, alpha=1j), TypeError, "must be real"),
        (lambda: SOLVE(ONES, ONES, side="X"), ValueError, "side='X' is not one of 'L', 'R'"),
        (lambda: SOLVE(ONES, ONES, uplo="l"), ValueError, "uplo='l'"),
        (lambda: SOLVE(ONES, ONES, trans="H"), ValueError, "trans='H'"),
        (lambda: SOLVE(ONES, ONES, diag=""), ValueError, "diag=''"),
        (lambda: SOLVE(ONES[0, 0], ONES), ValueError, r"a has shape \(3,\)"),
        (lambda: SOLVE(ONES, 3), TypeError, "b is a builtins.int"),
        (lambda: SOLVE(list(ONES), list(ONES[:1])), ValueError, "a is a list of 5 arrays and b is a list of 1"),
        (lambda: SOLVE([ONES[0], ONES[1, :2]], ONES[:2]), ValueError, r"a\[1\] has shape \(2, 3\)"),
        (lambda: SOLVE(list(ONES), []), ValueError, "a is a list of 5 arrays, and of b there are none"),
        (lambda: SOLVE(list(ONES), list(ONES), out=list(np.ones((4, 3, 3)))), ValueError, "out has 4 arrays"),
        (lambda: SOLVE(ONES, ONES, backend="gpu"), ValueError, "backend='gpu'"),
        (lambda: TRIANGULAR(ONES, ONES, trans=3), ValueError, "trans=3 is not one of 0, 1, 2"),
        (lambda: TRIANGULAR(ONES, ONES, trans=True), ValueError, "trans=True"),
        (lambda: TRIANGULAR(ONES, np.ones(4)), ValueError, "a has order 3 and b 4 rows"),
        (lambda: TRIANGULAR(ONES, np.float64(1)), TypeError, "b is a numpy.float64"),
        (lambda: TRIANGULAR(ONES, np.ones(3), out=np.ones((5, 4))), ValueError, "out has shape"),
        (lambda: ms.blas.trsv(ONES, np.ones((5, 2))), ValueError, "a has order 3 and b 2 rows"),
        (lambda: ms.blas.trsv(list(ONES), list(ONES)), ValueError, r"x\[0\] has shape \(3, 3\)"),
        (lambda: ms.blas.trmm(ONES, ONES[:, :2]), ValueError, "a has order 3 and b 2 rows"),
        (lambda: ms.blas.trmm(ONES, ONES, alpha=1j), TypeError, "must be real"),
        (lambda: ms.blas.trmm(ONES, ONES, out=np.ones((5, 3, 2))), ValueError, "out has shape"),
        (lambda: ms.plan("trsm", ONES), TypeError, "pass B"),
        (lambda: ms.plan("trsm", [], []), ValueError, "an empty list"),
        (lambda: ms.plan("trmm", [], []), ValueError, "an empty list"),
        (lambda: ms.plan("trsm", ONES, ONES, uplo="X"), ValueError, "uplo='X'"),
        (lambda: ms.plan("gemm", ONES, ONES, uplo="L"), TypeError, "gemm has no option uplo"),
    ],
)
def test_errors(run: Any, error: type[Exception], message: str, played: PlayedSolver) -> None:
    with pytest.raises(error, match=message):
        run()
    assert played.launches == 0


# ---- other libraries, plans, tuning -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", [None, "reference", "emulated"])
def test_torch(backend: str | None, played: PlayedSolver) -> None:
    torch = wanted("torch")
    for options in OPTIONS[::3]:
        side, uplo, trans, diag = options
        _, dirty, X, B = exact_case(np.random.default_rng(15), (2, 3), 5, 2, "complex64", options)
        a, b = torch.tensor(dirty), torch.tensor(B)
        how: Any = named(*options) | {"backend": backend}
        result = ms.blas.trsm(a, b, **how)
        assert isinstance(result, torch.Tensor) and torch.equal(result, torch.tensor(X))
        again = ms.blas.trsm(torch.tensor(dirty.conj()).conj(), torch.tensor(B.conj()).conj(), **how)
        assert torch.equal(again, result)
        lists = ms.blas.trsm([a[0, 0], a[0, 1].conj().resolve_conj().conj()], list(b[0, :2]), **how)
        assert torch.equal(lists[1], result[0, 1])
        assert torch.equal(ms.blas.trmm(a, result, **how), torch.tensor(B))
        assert ms.blas.trsm(a, b, out=b, **how) is b and torch.equal(b, result)
        with pytest.raises(ValueError, match="lazily conjugated"):
            ms.blas.trsm(a, b, out=b.conj(), **how)
    a[1, 2, 3, 3] = 0
    if diag == "N":
        with pytest.raises(np.linalg.LinAlgError, match=r"a\[1, 2\]"):
            ms.blas.trsm(a, b, uplo=uplo, side=side, trans=trans, check=True)


@pytest.mark.parametrize("backend", ["cpu", "emulated"])
@pytest.mark.parametrize(("side", "trans"), [("L", "N"), ("R", "T")])
def test_conjugation_by_kernels(side: str, trans: str, backend: str) -> None:
    """A lazily conjugated matrix is neither transposed nor copied: the kernel conjugates what it reads."""
    torch = wanted("torch")
    _, dirty, X, B = exact_case(np.random.default_rng(20), (9,), 5, 2, "complex128", (side, "L", trans, "N"))
    a = torch.tensor(dirty.conj()).conj()
    plan = ms.plan("trsm", a, torch.tensor(B), side=side, trans=trans, backend=backend)
    assert plan.problem.trans == {"N": "R", "T": "C"}[trans] and plan.kernel is not None
    assert torch.equal(plan(a, torch.tensor(B)), torch.tensor(X))


def test_jax() -> None:
    jnp = wanted("jax.numpy")
    _, dirty, X, B = exact_case(np.random.default_rng(16), (6,), 4, 2, "float32", OPTIONS[0])
    a, b = jnp.asarray(dirty), jnp.asarray(B)
    result = ms.blas.trsm(a, b)
    assert type(result) is type(a) and (np.asarray(result) == X).all()
    assert (np.asarray(ms.blas.trmm(a, jnp.asarray(X))) == B).all()
    assert (np.asarray(ms.blas.trsv(a, b[..., 0])) == X[..., 0]).all()
    assert all((np.asarray(one) == x).all() for one, x in zip(ms.blas.trsm(list(a), list(b)), X, strict=True))
    with pytest.raises(TypeError, match="JAX array, which cannot be written to"):
        ms.blas.trsm(a, b, out=b)


@pytest.mark.gpu
def test_gpu_streams_and_graphs() -> None:
    from conftest import usable

    usable("cuda")
    cupy, torch = wanted("cupy"), wanted("torch")
    _, dirty, X, B = exact_case(np.random.default_rng(17), (500,), 7, 3, "float64", OPTIONS[0])
    with cupy.cuda.Stream(non_blocking=True) as stream:
        many = ms.blas.trsm(list(cupy.asarray(dirty)), list(cupy.asarray(B)))
    stream.synchronize()
    assert (cupy.stack(many).get() == X).all()
    a, b = torch.tensor(dirty, device="cuda"), torch.tensor(B, device="cuda")
    out = ms.blas.trsm(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ms.blas.trsm(a, b, out=out)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.cpu(), torch.tensor(X))


def test_plan() -> None:
    _, dirty, X, B = exact_case(np.random.default_rng(18), (5,), 4, 2, "float64", ("R", "U", "T", "N"))
    plan = ms.plan("trsm", dirty, B, side="R", uplo="U", trans="T")
    text = plan.explain()
    assert "N=4 NRHS=2 BATCH=5 side=right uplo=upper trans=T" in text and "trsm_simd" in plan.source()
    assert (plan(dirty, B) == X).all() and (plan(dirty, B, alpha=2) == 2 * X).all()
    with pytest.raises(ValueError, match="A differs"):
        plan(dirty[:4], B[:4])
    with pytest.raises(ValueError, match="no beta"):
        plan(dirty, B, beta=1.0)
    product = ms.plan("trmm", dirty, X, side="R", uplo="U", trans="T", backend="cpu")
    assert "one more pass" in product.explain() and (product(dirty, X) == B).all()
    product = ms.plan("trmm", dirty, X, side="R", uplo="U", trans="T")
    assert product.explain().startswith("trmm float64 N=4") and (product(dirty, X) == B).all()
    assert "one more pass" in ms.plan("trmm", np.ones((99, 4, 4)), np.ones((99, 4, 4))).explain()


def test_plans_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Any] = []
    real = triangular_call.plan_trsm
    monkeypatch.setattr(triangular_call, "plan_trsm", lambda *a: (planned.append(a), real(*a))[1])
    A, B = np.stack([np.eye(3)] * 4), np.ones((4, 3, 2))
    for _ in range(3):
        ms.blas.trsm(A, B)
        ms.blas.trsm(A, B.copy())
    assert len(planned) == 1
    for run in (
        lambda: ms.blas.trsm(A, B, uplo="U"),
        lambda: ms.blas.trsm(A, B, diag="U"),
        lambda: ms.blas.trsm(A, B[:3][0]),
    ):
        run()
    assert len(planned) == 4
    with ms.pin(TILE_M=1):
        ms.blas.trsm(A, B)
        ms.blas.trsm(A, B)
    assert len(planned) == 6
    with ms.pin(VARIANT="vendor"):
        assert "SciPy's BLAS" in ms.plan("trsm", A, B).explain()
        assert (ms.blas.trsm(A, B) == B).all()


@pytest.mark.parametrize(
    "traits",
    [
        {},
        {"side": "right", "uplo": "upper", "trans": "C", "layout_b": "col"},
        {"unit": True, "trans": "T", "stack_a": "shared"},
        {"layout_a": "col", "stack_a": "pointers", "stack_b": "pointers"},
        {"stack_b": "shared", "aligned": False},
    ],
    ids=str,
)
def test_what_is_tuned(traits: dict[str, Any]) -> None:
    """The tuner's operands, reference and bound: a kernel that is right passes, and one that is not does not."""
    for backend, dtype in product((cpu.backend(), emulated.backend()), ("float32", "complex128")):
        case = TrsmCase(spec.problem(dtype, 6, 3, 50, **traits), backend)
        for one in (case, case.smaller(13)):
            config = trsm.defaults.default(one.problem, backend.device)
            launch, out = backend.prepare(one.kernel(config)), one.poisoned()
            one.call(launch, out)()
            expected, scale = one.reference()
            if one is case:
                bound = 2 * testing.gamma(dtype, case.terms) * scale
                assert (abs(out - expected) <= bound).all() and (1.01 * scale >= abs(expected)).all()
                assert (bound < 1e-3 * abs(expected).max()).all()
            else:
                assert (out == expected).all()
        case.vendor()()


def test_doctests() -> None:
    for module in (mansard.blas.triangular, mansard.linalg.triangular):
        failures, tried = doctest.testmod(module)
        assert tried >= 3 and failures == 0
