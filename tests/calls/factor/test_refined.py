"""`solve(refine=True)`: as accurate as the plain call for any condition number and scale, by both routes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.errors import LaunchError
from mansard.machine import machine
from mansard.operations.factor import refined, refined_host, systems

L = ms.linalg
EPS = 2.0**-52
BY = pytest.mark.parametrize("backend", ["reference", "emulated"], ids=["cpu", "emulated"])  # LAPACK, or kernels
Shape = tuple[int, ...]


def normal(shape: Shape, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed + sum(shape))
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if dtype == "complex128" else values


def conditioned(N: int, cond: float, dtype: str, positive: bool) -> Any:
    """A matrix with singular values from one down to 1 / cond, evenly on a logarithmic scale."""
    left, right = (np.linalg.qr(normal((N, N), dtype, seed))[0] for seed in (1, 2))
    values = np.logspace(0, -np.log10(cond), N)
    A = (left * values) @ (left if positive else right).conj().T
    return (A + A.conj().T) / 2 if positive else A


def backward_error(A: Any, B: Any, X: Any) -> Any:
    """|b - A x| / (|A| |x| + |b|) of every column, in units of eps."""
    size = abs(A).sum(-1).max(-1)[..., None] * abs(X).max(-2) + abs(B).max(-2)
    return (abs(A @ X - B).max(-2) / size).max() / EPS


class Fallbacks:
    """Shapes of the systems that were solved again in double precision."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shapes: list[Shape] = []
        plain = systems.solve

        def solve(kind: Any, task: Any, A: Any, B: Any, out: Any = None, backend: Any = None) -> Any:
            self.shapes.append(A.shape)
            return plain(kind, task, A, B, out, backend)

        monkeypatch.setattr(systems, "solve", solve)


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Fallbacks:
    return Fallbacks(monkeypatch)


@BY
@pytest.mark.parametrize("dtype, assume_a", [("float64", "gen"), ("complex128", "pos")])
def test_any_condition_number(backend: str, dtype: str, assume_a: str, again: Fallbacks) -> None:
    positive = assume_a == "pos"
    conds = [1.0, 1e2, 1e4, 1e6, 1e10, *([] if positive else [1e13, 1e16])]
    A = np.stack([conditioned(24, cond, dtype, positive) for cond in conds])
    B = normal((len(conds), 24, 2), dtype)
    X = L.solve(A, B, assume_a=assume_a, refine=True, backend=backend)
    plain = L.solve(A, B, assume_a=assume_a, backend=backend)
    assert backward_error(A, B, X) <= max(2.0, 2 * backward_error(A, B, plain))
    exact = np.linalg.solve(A[:4], B[:4])
    error = abs(X[:4] - exact).max((1, 2)) / abs(exact).max((1, 2))
    assert (error <= 50 * EPS * np.array(conds[:4])).all()
    assert len(again.shapes) == 2 and again.shapes[1] == A.shape, "the second one is the plain call"
    assert 1 <= again.shapes[0][0] <= len(conds) - 3, "only what does not converge is solved again, in one batch"


@BY
@pytest.mark.parametrize("power", [1.0, 1e40, 1e-40, 1e150, 1e-150])
@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_scaled_systems_are_refined(backend: str, power: float, assume_a: str, again: Fallbacks) -> None:
    dtype = "complex128" if assume_a == "pos" else "float64"
    A = conditioned(24, 100.0, dtype, assume_a == "pos")[None] * power * np.ones((2, 1, 1))
    B = normal((2, 24, 2), dtype) * np.array([1.0, 1e-60])
    X = L.solve(A, B, assume_a=assume_a, refine=True, backend=backend)
    exact = np.linalg.solve(A / power, B) / power
    assert (abs(X - exact).max(1) <= 1e3 * EPS * abs(exact).max(1)).all()
    assert not again.shapes, "single precision holds what is scaled by powers of two"


@BY
@pytest.mark.parametrize("entry, least", [(1e300, 0), (1e-305, 0), (np.nan, 1)])
def test_what_does_not_fit_is_left_to_double_precision(
    backend: str, entry: float, least: int, again: Fallbacks
) -> None:  # fmt: skip
    A, B = conditioned(24, 100.0, "float64", False)[None].repeat(9, 0), normal((9, 24, 2))
    A[3] = A[3] * entry if not least else A[3]
    A[5, 2, 2] = np.nan if least else A[5, 2, 2]
    bad = 5 if least else 3
    X, info = L.solve_ex(A, B, refine=True, backend=backend)
    assert again.shapes == [(1, 24, 24)]
    plain, plain_info = L.solve_ex(A, B, backend=backend)
    assert np.array_equal(X[bad], plain[bad], equal_nan=True) and np.array_equal(info, plain_info)
    others = np.arange(9) != bad
    assert backward_error(A[others], B[others], X[others]) <= 2


@BY
def test_singular_matrices_raise_as_usual(backend: str) -> None:
    A, B = conditioned(24, 10.0, "float64", False)[None].repeat(4, 0), normal((4, 24, 2))
    A[2, :, 7] = A[2, 7] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[2\] is singular: pivot"):
        L.solve(A, B, refine=True, backend=backend)
    info = L.solve_ex(A, B, refine=True, backend=backend)[1]
    assert np.array_equal(info, L.solve_ex(A, B, backend=backend)[1]) and info.dtype == np.int32
    H = (A @ A.swapaxes(1, 2) + np.eye(24)).astype("complex128")
    H[1] -= 3 * np.eye(24) * abs(H[1]).max()
    B = B.astype("complex128")
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[1\] is not positive definite"):
        L.solve(H, B, assume_a="pos", refine=True, backend=backend)


@BY
def test_only_the_lower_triangle_of_positive_matrices_is_read(backend: str, again: Fallbacks) -> None:
    H, B = conditioned(24, 10.0, "complex128", True)[None].repeat(2, 0), normal((2, 24, 2), "complex128")
    given = np.where(np.triu(np.ones((24, 24)), 1) > 0, np.nan, H)
    for A in (given, given.swapaxes(1, 2).copy().swapaxes(1, 2)):  # rows, or columns, without gaps
        X = L.solve(A, B, assume_a="pos", refine=True, backend=backend)
        assert backward_error(H, B, X) <= 2 and not again.shapes


@BY
def test_shapes(backend: str, again: Fallbacks) -> None:
    """Vectors, broadcast operands, columns, empty batches, lists, `out` in the place of b."""
    A, B = conditioned(24, 10.0, "float64", False)[None].repeat(2, 0), normal((2, 24, 2))
    A[1] = A[1].T

    def solve(a: Any, b: Any, **more: Any) -> Any:
        return L.solve(a, b, refine=True, backend=backend, **more)

    exact = np.linalg.solve(A, B)
    for a, b, expected in [
        (A[0], B[0, :, 0], exact[0, :, 0]), (A[0], B[0], exact[0]), (A[0], B, np.linalg.solve(A[0], B)),
        (A[:1], B, np.linalg.solve(A[:1], B)), (A, B[0], np.linalg.solve(A, B[0])),
        (A[:, None], B[None], np.linalg.solve(A[:, None], B[None])),
        (A, B[0, :, 0], np.linalg.solve(A, B[0, :, :1])[..., 0]),
        (A.swapaxes(1, 2), B, np.linalg.solve(A.swapaxes(1, 2), B)),
        (A[::-1, :, ::-1], B, np.linalg.solve(A[::-1, :, ::-1], B)),
    ]:  # fmt: skip
        found = solve(a, b)
        assert found.shape == expected.shape and np.allclose(found, expected, 1e-12, 1e-12)
    assert not again.shapes
    assert solve(A[:0], B[:0]).shape == (0, 24, 2) and solve(A[:, :0, :0], B[:, :0]).shape == (2, 0, 2)
    assert solve(A, B[..., :0]).shape == (2, 24, 0)
    listed = solve(list(A), list(B))
    assert isinstance(listed, list) and np.allclose(listed, exact, 1e-12, 1e-12)
    info = L.solve_ex(A[0], B, refine=True, backend=backend)[1]
    assert np.array_equal(info, [0, 0]) and info.flags.writeable
    place = B.copy()
    assert solve(A, place, out=place) is place and np.allclose(place, exact, 1e-12, 1e-12)


def test_ragged_batches_are_solved_by_size() -> None:
    sizes = [24, 5, 24]
    a, b = [normal((n, n)) + 5 * np.eye(n) for n in sizes], [normal((n, 1)) for n in sizes]
    batches = ms.Ragged.from_list(a), ms.Ragged.from_list(b)
    found = L.solve(*batches, refine=True, backend="reference")
    for one, other, x in zip(a, b, found.to_list(), strict=True):
        assert backward_error(one, other, x) <= 2
    differing = L.solve(a, b, refine=True, backend="reference")
    assert all(np.array_equal(x, y) for x, y in zip(differing, found.to_list(), strict=True))
    with pytest.raises(TypeError, match="a ragged batch is solved size by size and has no plan"):
        ms.plan("solve", *batches, refine=True, backend="reference")


def test_arguments_are_checked() -> None:
    A, B = normal((3, 4, 4)), normal((3, 4, 1))
    with pytest.raises(TypeError, match="a has dtype float32: refine=True is for float64 and complex128; leave"):
        L.solve(A.astype("f4"), B.astype("f4"), refine=True)
    with pytest.raises(ValueError, match="refine='auto' is not one of None, False and True"):
        L.solve(A, B, refine="auto")
    with pytest.raises(ValueError, match=r"out has shape \(3, 4, 2\), the result \(3, 4, 1\)"):
        L.solve(A, B, refine=True, out=np.empty((3, 4, 2)))
    integers = L.solve(np.array([[2, 0], [0, 4]]), np.array([4, 8]), refine=True, backend="reference")
    assert np.array_equal(integers, [2, 2])
    assert np.array_equal(L.solve(A, B, refine=False, backend="reference"), L.solve(A, B, backend="reference"))


@BY
def test_plans_say_what_is_done_and_whether_it_pays(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = normal((2, 24, 24)) + 9 * np.eye(24), normal((2, 24, 2))
    plan = ms.plan("solve", A, B, refine=True, backend=backend)
    text = plan.explain()
    assert "factors in float32, residuals in float64" in text and "pays     no: 0." in text
    assert ("factors in single precision\nlu float32" in text) == (backend == "emulated")
    assert "in double precision, of matrices that have not converged" in text
    assert np.allclose(A @ plan(A, B)[0], B)
    monkeypatch.setattr(machine, "known", machine.nominal_for)  # not what a busy machine had to spare
    large = normal((700, 700))
    assert "pays     yes" in ms.plan("solve", large, large[:, 0], refine=True, backend="reference").explain()


def test_the_number_of_corrections_is_bounded(monkeypatch: pytest.MonkeyPatch, again: Fallbacks) -> None:
    """Most matrices of this batch converge slowly: corrections go on, until one of the others is left to the end."""
    counted = []
    correct = refined.Refinement.correct
    monkeypatch.setattr(refined.Refinement, "correct", lambda self, by: (counted.append(1), correct(self, by))[1])
    A, B = np.stack([conditioned(24, cond, "float64", False) for cond in (1e6, 3e5, 1e14, 1e6)]), normal((4, 24, 2))
    X = L.solve(A, B, refine=True, backend="emulated")
    assert 1 + refined.FIRST_CORRECTIONS < len(counted) <= 1 + refined_host.MOST_CORRECTIONS
    assert again.shapes[0][0] < 4 and backward_error(A, B, X) <= 4


def test_graphs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refined, "is_capturing", lambda backend, stream: True)
    with pytest.raises(LaunchError, match="refine=True waits for the GPU, which a graph cannot"):
        L.solve(normal((2, 24, 24)), normal((2, 24, 2)), refine=True, backend="emulated")
