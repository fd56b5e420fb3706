"""`ms.powers` and its basis: results of every execution, values, places, libraries, bad input."""

from __future__ import annotations

import doctest
from itertools import cycle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from powers_cases import grid, numbers, on, same_bits

import mansard as ms
from mansard.errors import LaunchError
from mansard.kernels.sparse.powers import emit, spec
from mansard.machine.measure import Timing
from mansard.operations.sparse.powers import call, plan
from mansard.operations.sparse.powers.task import coefficients
from mansard.sparse import matrices


def host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def shuffled(A: Any, seed: int = 5) -> Any:
    order = np.random.default_rng(seed).permutation(A.shape[0])
    return sp.csr_array(A[order][:, order])


def executions(backend: str) -> tuple[str, ...]:
    return ("plain", "groups") if backend == "cpu" else ("plain", "groups", "persistent")


def reference(A: Any, x: Any, steps: Any) -> Any:
    return np.stack(spec.reference(A, x, steps))


@pytest.mark.parametrize("output", ["all", "last", "combination"])
def test_all_executions_agree_to_the_bit(backend: str, output: str) -> None:
    """Rows in the order of levels or as they are, all results in that of A; every step has its own coefficients."""
    steps = ((2.0, -1.0, 0.5), (-1.0, 0.25, 3.0), (0.0, 1.0, -2.0))
    A = shuffled(grid(23, 61, dropped=0.05, integers=False))
    moved, xp, keywords = on(backend, A)
    weights = np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 0.0, 1.0, 0.0]])
    what: Any = (output, weights) if output == "combination" else output
    x = xp.asarray(numbers(np.random.default_rng(0), A.shape[0], "float64", integers=False))
    results = []
    for execution in executions(backend):
        order = "none" if execution == "plain" else "search"
        with ms.pin(**(_PINS if execution == "persistent" else {})):
            P = ms.matrix_powers(moved, 3, steps, execution=execution, output=what, order=order, **keywords)
        found = P(x)
        assert f"execution: {execution}" in P.explain()
        results.append(host(found))
        ours = P.permuted(x[P.permutation])
        assert same_bits(host(ours), host(found[..., P.permutation]))
    assert all(same_bits(results[0], other) for other in results[1:])
    powers = reference(A, host(x), coefficients(steps, 3))
    want = {"all": powers, "last": powers[-1], "combination": np.tensordot(weights, powers, 1)}[output]
    scale = reference(abs(A), abs(host(x)), np.abs(coefficients(steps, 3)))
    bound = 40 * 2.0**-53 * (np.tensordot(abs(weights), scale, 1) if output == "combination" else scale)
    assert (np.abs(results[0] - want) <= (bound[-1] if output == "last" else bound)).all()


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_powers_are_products_of_the_same_storage(backend: str, dtype: str) -> None:
    A = grid(23, 31, dtype, dropped=0.05, integers=False)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(0), A.shape[0], dtype, integers=False))
    stored = ms.sparse.matrix(moved, format="sell", C=32, sigma=1, index="int32", **keywords)
    products = [x]
    for _ in range(3):
        products.append(stored @ products[-1])
    for execution in executions(backend):
        found = ms.matrix_powers(moved, 3, execution=execution, order="given", index="int32", **keywords)(x)
        assert same_bits(host(found), np.stack([host(one) for one in products])), execution


_PINS = {"TILE": 1, "ABREAST": 1, "UNROLL": 3, "WARPS": 3, "SLOT_BYTES": 2048, "SLOTS": 60, "LAG": 9, "DIRECT": True}


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("p", [0, 1, 2, 7])
def test_every_number_of_powers(backend: str, p: int, columns: int) -> None:
    A = grid(19, 23)
    moved, xp, keywords = on(backend, A)
    x = numbers(np.random.default_rng(2), (A.shape[0],) if columns == 1 else (A.shape[0], columns), "float64")
    for execution in executions(backend)[1:]:
        P = ms.matrix_powers(moved, p, execution=execution, columns=columns, **keywords)
        found = P(xp.asarray(x))
        assert found.shape == (p + 1, *x.shape)
        assert (host(found) == reference(A, x, coefficients("monomial", p))).all()
        weights = np.ones(p + 1)
        P = ms.matrix_powers(
            moved, p, execution=execution, columns=columns, output=("combination", weights), **keywords
        )
        assert (host(P(xp.asarray(x))) == host(found).sum(axis=0)).all()


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33])
def test_small_matrices(backend: str, n: int) -> None:
    A = sp.csr_array(sp.diags_array([np.arange(1.0, n + 1)], offsets=[0], shape=(n, n))) if n else sp.csr_array((0, 0))
    moved, xp, keywords = on(backend, A)
    x = xp.arange(n, dtype=np.float64)
    for p in (0, 2):
        assert (
            host(ms.matrix_powers(moved, p, **keywords)(x)) == reference(A, host(x), np.array([[1.0, 0, 0]] * p))
        ).all()


def test_odd_patterns(backend: str) -> None:
    """Parts that nothing joins, rows without entries, entries above the diagonal alone, one full row."""
    dense = np.zeros((150, 150))
    dense[77], dense[:, 3] = 1.0, 2.0
    odd = [
        sp.block_diag([grid(5, 7), sp.csr_array((40, 40)), grid(9, 9)]).tocsr(),
        sp.csr_array((70, 70)),
        sp.csr_array(np.triu(np.ones((90, 90)))),
        sp.csr_array(dense),
    ]
    for A in odd:
        moved, xp, keywords = on(backend, sp.csr_array(A).astype(np.float64))
        x = numbers(np.random.default_rng(2), A.shape[0], "float64")
        for execution in (None, "groups"):
            P = ms.matrix_powers(moved, 3, execution=execution, order="search", **keywords)
            assert (host(P(xp.asarray(x))) == reference(A, x, np.array([[1.0, 0, 0]] * 3))).all()


def test_bases(backend: str) -> None:
    """Newton's with pairs of shifts is real, Chebyshev's are its polynomials."""
    A = grid(9, 13, integers=False)
    moved, xp, keywords = on(backend, A)
    x = numbers(np.random.default_rng(4), A.shape[0], "float64", integers=False)
    shifts = [0.5, 1 + 2j, 1 - 2j, -0.25]
    P = ms.matrix_powers(moved, 4, ("newton", shifts), **keywords)
    assert P.dtype == np.float64
    found, dense, power = host(P(xp.asarray(x))), A.toarray().astype(complex), x.astype(complex)
    for k, shift in enumerate(shifts):
        power = dense @ power - shift * power
        if k != 1:  # within a pair the real basis has another vector
            assert np.allclose(found[k + 1], power, rtol=1e-12, atol=1e-12 * np.abs(power).max())
    alone = ms.matrix_powers(moved, 1, ("newton", [1 + 2j]), **keywords)
    assert alone.dtype == np.complex128
    shifted = host(alone(xp.asarray(x.astype(complex))))[1]
    assert np.allclose(shifted, A @ x - (1 + 2j) * x)
    scale = float(abs(A).sum(axis=1).max())
    found = host(ms.matrix_powers(moved, 5, ("chebyshev", -scale, scale + 1), **keywords)(xp.asarray(x)))
    inner = (2 * A.toarray() - np.eye(A.shape[0])) / (2 * scale + 1)
    polynomials = [x, inner @ x]
    for _ in range(4):
        polynomials.append(2 * inner @ polynomials[-1] - polynomials[-2])
    assert np.allclose(found, polynomials, atol=1e-12)


def test_values_can_be_replaced(backend: str) -> None:
    A = shuffled(grid(11, 17))
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), A.shape[0], "float64"))
    P = ms.matrix_powers(moved, 2, execution="groups", order="search", **keywords)
    other = sp.csr_array(
        (numbers(np.random.default_rng(8), A.nnz, "float64"), A.indices.copy(), A.indptr), shape=A.shape
    )
    other.sort_indices()
    Q = P.with_values(xp.asarray(other.data))
    assert (host(Q(x)) == reference(other, host(x), np.array([[1.0, 0, 0]] * 2))).all()
    assert (host(P(x)) == reference(A, host(x), np.array([[1.0, 0, 0]] * 2))).all()
    with pytest.raises(ValueError, match="entries"):
        P.with_values(xp.ones(3))
    with pytest.raises(TypeError, match="dtype"):
        P.with_values(xp.ones(A.nnz, np.complex128))


def test_results_go_where_they_are_wanted(backend: str) -> None:
    A = grid(9, 9)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), 81, "float64"))
    for execution in executions(backend):
        P = ms.matrix_powers(moved, 2, execution=execution, **keywords)
        want, out = host(P(x)), xp.full((3, 81), np.nan)
        assert P(x, out=out) is out and (host(out) == want).all()
        out[0] = x
        assert (host(P(out[0], out=out)) == want).all()  # x is already there
        spaced = xp.full(162, np.nan)
        spaced[::2] = x
        assert (host(P(spaced[::2])) == want).all()
        with pytest.raises(ValueError, match="overlaps"):
            P(out[1], out=out)
        with pytest.raises(ValueError, match="shape"):
            P(x, out=xp.empty((2, 81)))
        with pytest.raises(ValueError, match="shape"):
            P(x[:-1])
        with pytest.raises(TypeError, match="dtype"):
            P(x.astype(np.float32))
        P.check()


def test_matrices_of_other_libraries(backend: str) -> None:
    A = grid(8, 9)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), 72, "float64"))
    want = reference(A, host(x), np.array([[1.0, 0, 0]] * 2))
    assert (host(ms.matrix_powers(ms.sparse.matrix(moved), 2, **keywords)(x)) == want).all()
    assert (host(ms.matrix_powers(moved.tocoo(), 2, **keywords)(x)) == want).all()
    torch = pytest.importorskip("torch")
    place = "cuda" if backend == "cuda" else "cpu"
    tensor = torch.sparse_csr_tensor(
        *(torch.from_numpy(np.array(a)) for a in (A.indptr, A.indices, A.data)), A.shape
    ).to(place)
    found = ms.matrix_powers(tensor, 2, **keywords)(torch.from_numpy(host(x).copy()).to(place))
    assert isinstance(found, torch.Tensor) and (found.cpu().numpy() == want).all()


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_dtypes(backend: str, dtype: str) -> None:
    A = grid(8, 9, dtype)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), 72, dtype))
    found = ms.matrix_powers(moved, 2, execution="groups", **keywords)(x)
    assert found.dtype == dtype and (host(found) == reference(A, host(x), np.array([[1.0, 0, 0]] * 2))).all()


def test_a_launch_that_gave_up_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once on the emulator; on a GPU at the next call, or when asked."""
    A = grid(20, 13)
    x = numbers(np.random.default_rng(6), 260, "float64")
    with ms.pin(**_PINS):
        P = ms.matrix_powers(A, 3, execution="persistent", backend="emulated", limit=1e-9)
        want = P(x)
        count = emit.tiles
        monkeypatch.setattr(emit, "tiles", lambda *arguments: count(*arguments) - 1)  # nobody forms the last one
        broken = ms.matrix_powers(A, 3, execution="persistent", backend="emulated", limit=3e-9)
        with pytest.raises(LaunchError, match="gave up"):
            broken(x)
    assert (P(x) == want).all()
    P._runner._failure.value = 1  # type: ignore[union-attr]
    with pytest.raises(LaunchError, match="gave up"):
        P.check()
    assert (P(x) == want).all()


def test_bad_input_is_refused(backend: str) -> None:
    A, xp, keywords = on(backend, grid(5, 6))
    x = xp.ones(30)

    def refused(error: Any, text: str, *arguments: Any, **more: Any) -> None:
        with pytest.raises(error, match=text):
            ms.matrix_powers(*arguments, **(keywords | more))

    refused(ValueError, "square", A[:4], 2)
    refused(ValueError, "negative", A, -1)
    refused(TypeError, "p=1.5 is no integer", A, 1.5)
    refused(TypeError, r"p is of type ndarray, which is no integer.*matrix_powers\(A, p\)\(x\)", A, np.ones(3))
    refused(ValueError, "basis", A, 2, "legendre")
    refused(ValueError, "basis", A, 2, ("newton",))
    refused(ValueError, "shifts", A, 3, ("newton", [1.0, 2.0]))
    refused(ValueError, "finite", A, 1, ("newton", [np.nan]))
    refused(ValueError, "interval", A, 2, ("chebyshev", 2.0, 1.0))
    refused(ValueError, "gammas", A, 2, ([1, 1], [0, 0], [1, 1]))
    refused(ValueError, "betas", A, 2, ([1, 1], [0, 0, 0], [0, 1]))
    refused(ValueError, "execution", A, 2, execution="fast")
    refused(ValueError, "output", A, 2, output="some")
    refused(ValueError, "weights", A, 2, output=("combination", [1.0, 2.0]))
    refused(ValueError, "columns", A, 2, columns=0)
    refused(ValueError, "order", A, 2, order="any")
    refused(TypeError, "complex", A, 1, ("newton", [1j]), dtype="float64")
    refused(TypeError, "sparse", np.eye(3), 2)
    if backend == "cpu":
        refused(ValueError, "GPUs", A, 2, execution="persistent")
    with pytest.raises(TypeError, match="x is a"):
        ms.matrix_powers(A, 1, **keywords)([1.0] * 30)
    assert (host(ms.matrix_powers(A, 1, **keywords)(x))[0] == 1).all()


def test_examples_of_the_docstring() -> None:
    assert doctest.testmod(call).failed == 0


@pytest.mark.parametrize("first", [True, False])
def test_large_matrices_are_tried_both_ways(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By level, or as they are: whatever took less time, and the results are the same."""
    A, times = matrices.randomized(matrices.delaunay(600)), cycle((1.0, 2.0) if first else (2.0, 1.0))
    x = numbers(np.random.default_rng(3), A.shape[0], "float64")
    monkeypatch.setattr(plan, "_MEASURED", 0)
    monkeypatch.setattr(call, "measure", lambda run, *rest, **more: run() is None or Timing((next(times),)))
    P = ms.matrix_powers(A, 3, backend="cpu")
    assert P.is_permuted == first and (not first or "measured" in P.explain())
    want = ms.matrix_powers(A, 3, execution="groups", order="none", backend="cpu")(x)
    assert np.allclose(P(x), want, rtol=1e-13, atol=0)
