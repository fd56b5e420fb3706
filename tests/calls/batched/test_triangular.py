"""Triangular systems and products: what the options mean, lists, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from batched_cases import DTYPES, arranged, integers
from triangular_cases import (  # noqa: F401
    OP,
    OPTIONS,
    PlayedSolver,
    applied,
    exact_case,
    host,
    in_small_blocks,
    moved,
    named,
    play_solver,
    triangles,
    wide,
)

import mansard as ms
import mansard.blas.triangular
import mansard.linalg.triangular
from mansard import testing
from mansard.kernels.batched.trsm import lapack
from mansard.operations import stacks
from mansard.operations.batched import triangular_call
from mansard.operations.batched.triangular_products import masked
from mansard.plan import batched_rules

pytestmark = pytest.mark.usefixtures("no_plans")


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
def test_library_and_lapack(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who answers where no kernel does."""
    monkeypatch.setattr(batched_rules, "_WIDE", 1)
    _, dirty, X, B = exact_case(np.random.default_rng(2), (4,), 6, 3, "complex64", options)
    how: Any = named(*options) | {"backend": "reference"}
    assert (ms.blas.trsm(dirty, B, alpha=-1, **how) == -X).all()
    assert "SciPy's BLAS" in ms.plan("trmm", dirty, X, **named(*options)).explain()
    assert (ms.blas.trmm(dirty, X, alpha=2j, **named(*options)) == 2j * B).all()
    place = np.asfortranarray(X)
    assert ms.blas.trmm(dirty, place, out=place, **named(*options)) is place and (place == B).all()
    assert (ms.blas.trmm(list(dirty), list(X), **named(*options))[3] == B[3]).all()
    place = np.full_like(B, np.nan)
    assert ms.blas.trmm(dirty, X, out=place, **named(*options)) is place and (place == B).all()
    place = X.copy()
    assert ms.blas.trmm(dirty, place, out=place, **named(*options)) is place and (place == B).all()
    with pytest.raises(ValueError, match="out overlaps a"):
        ms.blas.trmm(dirty[..., :3, :3], dirty[..., :3, :3], out=dirty[..., 1:4, 1:4], **named(*options))
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
    assert "blocks of 4 along the diagonal" in plan.explain() and plan.choice.answered_by == "blocks"


@pytest.mark.parametrize("backend", [None, "emulated"])
def test_wide_ones(backend: str | None) -> None:
    """One kernel for few systems on a GPU; beyond what a kernel takes on a CPU."""
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
    assert ("VARIANT=blocked" if backend else "SciPy's BLAS") in text and (backend or "beyond 256" in text)
