"""Eigenvalues and singular values of ragged batches: padded classes on GPUs, lanes and LAPACK on CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from devices import H200
from linalg_cases import normal
from ragged_cases import host
from sweeps_cases import BACKENDS, address
from two_sided_cases import KINDS, LAPACK, check_eigh, check_product, check_svd, general, hermitian

import mansard as ms
from mansard import testing
from mansard.arrays.kinds import KINDS as LIBRARIES
from mansard.backends.cpu import CpuBackend
from mansard.operations import ragged_classes
from mansard.operations.factor.two_sided import ragged_chains
from mansard.operations.factor.two_sided.ragged_chains import ClassChains
from mansard.operations.factor.two_sided.task import Task
from mansard.operations.factor.two_sided.unpadded import Targets, unpad
from mansard.operations.ragged_classes import SizeClass
from mansard.operations.ragged_copy import Copies
from mansard.operations.ragged_vectors import Places
from mansard.plan.problem import REAL

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg
ORDERS = (9, 2, 5, 8, 3)  # of which the largest has kernels that other tests compile, too


@pytest.fixture
def one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """All orders in one class of nine rows, the smallest matrices with the most padding."""
    monkeypatch.setattr(ragged_classes, "bounds_of", lambda sizes: np.full_like(sizes, 9))


def batch(matrices: list[Any], backend: str) -> Any:
    xp: Any = testing.array_module(backend)
    return ms.Ragged.from_list([xp.asarray(one) for one in matrices])


@pytest.mark.usefixtures("one_class")
def test_eigenvectors_of_padded_classes(gpu_backend: str) -> None:
    """Of deficient, definite and zero matrices, too, whose eigenvalues are those of the padding."""
    rng = np.random.default_rng(0)
    given = [hermitian(rng, kind, n, "float64") for n in ORDERS for kind in KINDS]
    lower = [np.tril(one) + np.triu(np.full_like(one, np.nan), 1) for one in given]
    a = batch(lower, gpu_backend)
    w, z, info = linalg.eigh_ex(a, backend=gpu_backend)
    values = linalg.eigvalsh(a, backend=gpu_backend)
    assert not host(info).any() and z.shapes == a.shapes
    for i, one in enumerate(given):
        check_eigh(one, host(w[i]), host(z[i]), (i, one.shape))
        check_eigh(one, host(values[i]), host(z[i]), (i, one.shape))


@pytest.mark.usefixtures("one_class")
@pytest.mark.parametrize("driver", ["auto", "qr"])
def test_singular_vectors_of_padded_classes(driver: str, gpu_backend: str) -> None:
    rng = np.random.default_rng(1)
    given = [general(rng, kind, n, n, "float64") for n in ORDERS for kind in KINDS]
    a = batch(given, gpu_backend)
    U, s, Vh, info = linalg.svd_ex(a, driver=driver, backend=gpu_backend)
    values = linalg.svdvals(a, driver=driver, backend=gpu_backend)
    assert not host(info).any()
    for i, one in enumerate(given):
        check_svd(one, host(U[i]), host(s[i]), host(Vh[i]), (i, one.shape))
        check_svd(one, host(U[i]), host(values[i]), host(Vh[i]), (i, one.shape))


@pytest.mark.usefixtures("one_class")
def test_bad_matrices_of_a_class_stay_alone(gpu_backend: str) -> None:
    """`info` counts the rows of the matrix, not those of its stack; matrices without entries have no values."""
    given = [hermitian(np.random.default_rng(n), "random", n, "float64") for n in (4, 0, 3, 9)]
    given[2][2, 0] = np.nan
    a = batch(given, gpu_backend)
    w, z, info = linalg.eigh_ex(a, backend=gpu_backend)
    assert host(info).tolist() == [0, 0, 4, 0] and host(w[1]).shape == (0,)
    assert np.isnan(host(w[2])).all() and np.isnan(host(z[2])).all()
    for i in (0, 3):
        check_eigh(given[i], host(w[i]), host(z[i]), i)
    with pytest.raises(np.linalg.LinAlgError, match=r"a\[2\]"):
        linalg.eigvalsh(a, backend=gpu_backend)
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        linalg.eigvalsh(batch([np.ones((2, 3)), np.ones((2, 2))], gpu_backend), backend=gpu_backend)


def test_tiny_matrices_have_no_padding_beside_singular_vectors(gpu_backend: str) -> None:
    """Jacobi's method would complete U by the padding's rows; eigenvectors of a class of four rows are right."""
    rng = np.random.default_rng(3)
    given = [hermitian(rng, kind, n, "float64") for n in (2, 3) for kind in ("zero", "deficient", "signs", "minus")]
    a = batch(given, gpu_backend)
    w, z = linalg.eigh(a, backend=gpu_backend)
    U, s, Vh = linalg.svd(a, backend=gpu_backend)
    for i, one in enumerate(given):
        check_eigh(one, host(w[i]), host(z[i]), i)
        check_svd(one, host(U[i]), host(s[i]), host(Vh[i]), i)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_padding_is_left_out(dtype: str, gpu_backend: str) -> None:
    """Values and columns of the padding, wherever they are; of matrices that are not finite the first ones stay."""
    rng, xp, where = np.random.default_rng(8), testing.array_module(gpu_backend), BACKENDS[gpu_backend].backend()
    orders, bound, real = np.array([70, 33, 7, 1, 65]), 70, REAL[dtype]
    members, like = np.array([4, 1, 0, 3, 2]), xp.empty(0, dtype)
    of_members = orders[members]
    W = np.sort(rng.standard_normal((5, bound)), 1).astype(real)
    Z, info = normal(rng, (5, bound, bound), dtype), np.array([0, bound + 1, 3, bound + 1, 0], np.int32)
    keeps = {"eigh": [], "eigvalsh": [], "svdvals": []}
    for values, vectors, order in zip(W, Z, of_members, strict=True):
        padding = np.sort(rng.permutation(bound)[: bound - order])
        vectors[order:] = 0
        vectors[np.arange(order, bound), padding] = -1 if dtype == "float64" else 1j
        keeps["eigh"].append(np.setdiff1d(np.arange(bound), padding))
        keeps["eigvalsh"].append(np.sort(np.argsort(-abs(values))[:order]))
        keeps["svdvals"].append(np.arange(order))
    W[3], Z[3], keeps["eigh"][3] = np.nan, np.nan, np.arange(1)
    for want, kept in keeps.items():
        copies, places, task = Copies(LIBRARIES[xp.__name__], where, dtype), Places.dense(orders), Task(want)
        squares = np.cumsum(orders**2) - orders**2
        launch = unpad(copies, where, task, members, bound, Targets(orders, places.first, squares))
        given = [xp.asarray(one) for one in (W, Z, info)]
        sizes = (orders.sum(), real), ((orders**2).sum(), dtype), (5, "int32")
        found = [xp.full(size, -7, kind) for size, kind in sizes]
        launch(tuple(map(address, given)), tuple(map(address, found)), copies.table(like, 0), 0)
        where.synchronize()
        values, vectors, infos = map(host, found)
        for k, (i, columns) in enumerate(zip(members, kept, strict=True)):
            first, order = places.first[i], orders[i]
            assert np.array_equal(values[first : first + order], W[k, columns], equal_nan=True), (want, order)
            if want == "eigh":
                part = vectors[squares[i] : squares[i] + order**2].reshape(order, order)
                assert np.array_equal(part, Z[k, :order, columns].T, equal_nan=True), order
        assert infos.tolist() == [3, 34, 0, 2, 0]
        assert want == "eigh" or (vectors == -7).all()


def test_classes_together_have_work_for_threads() -> None:
    """A class takes a thread per matrix where all classes are as much work as a batch that takes it."""
    few = SimpleNamespace(task=Task("eigvalsh"), dtype="float64", backend=SimpleNamespace(device=H200))
    classes = [SizeClass((n, n, 0), np.arange(1250), True, "") for n in (64, 32, 8)]
    drivers = [ClassChains._task_of(few, one, classes).driver for one in classes]  # type: ignore[arg-type]
    assert drivers == ["auto", "qr", "auto"], "1250 of 64 rows; 6300 of 32; Jacobi's method"
    alone = ClassChains._task_of(few, classes[1], classes[1:2])  # type: ignore[arg-type]
    large = SizeClass((256, 256, 0), np.arange(3), True, "")
    assert alone.driver == "auto"
    assert ClassChains._task_of(few, large, [large]).driver == "qr", "a library mixes null vectors"  # type: ignore[arg-type]


def test_chains_with_a_thread_per_matrix_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """On urgent streams; larger matrices, of which there are too few for a thread each, come after them."""
    rng, queued, asked = np.random.default_rng(6), list[tuple[int, int]](), list[Any]()
    orders = (20, 20, *(16 for _ in range(14)), *(13 for _ in range(14)))
    a = batch([hermitian(rng, "random", n, "float64") for n in orders], "emulated")
    known = [linalg.eigvalsh(np.asarray(one), backend="reference") for one in a.to_list()]

    @contextmanager
    def several(*given: Any, **options: Any) -> Iterator[list[int]]:
        asked.append((*given[1:], options))
        yield [7, 8]

    run = ClassChains._run

    def record(self: Any, piece: Any, *given: Any) -> None:
        queued.append((piece.shape[1], given[-1]))
        run(self, piece, *given)

    monkeypatch.setattr(ragged_chains.by_block.defaults, "fewest_of_sweeps", lambda *_: 24)
    monkeypatch.setattr(ragged_chains, "several", several)
    monkeypatch.setattr(ClassChains, "_run", record)
    w = linalg.eigvalsh(a, backend="emulated")
    assert queued == [(16, 7), (20, 8)]
    assert asked == [(0, 2, {"are_chains": True, "urgent": 1})]
    assert all(np.allclose(one, other, atol=1e-12) for one, other in zip(w, known, strict=True))


@needs_cpu
def test_cpus_have_one_kernel_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In ragged batches and in lists; matrices that are tall, or larger than lanes take, are LAPACK's."""
    linalg.eigh([np.eye(2), np.eye(3)])  # the loop that reads lists is compiled once
    rng, kernels, prepare = np.random.default_rng(4), list[Any](), CpuBackend.prepare
    monkeypatch.setattr(CpuBackend, "prepare", lambda self, one: kernels.append(one) or prepare(self, one))
    orders = (*(1 + i % 19 for i in range(4 * len(KINDS))), 130)
    for dtype in ("float64", "complex64"):
        squares = [hermitian(rng, KINDS[i % len(KINDS)], n, dtype) for i, n in enumerate(orders)]
        below = [np.tril(one) + np.triu(np.full_like(one, np.nan), 1) for one in squares]
        for form in (list, ms.Ragged.from_list):
            w, z = linalg.eigh(form(below))
            again, _ = linalg.eigh([one.conj().T for one in below], "U")
            for i, one in enumerate(squares):
                check_eigh(one, w[i], z[i], (dtype, i), LAPACK if len(one) > 128 else 1)
                assert np.array_equal(again[i], w[i]) or len(one) > 128
    shapes = [(1 + i % 9, 1 + (i + i // 9 % 3) % 9) for i in range(70)]
    many = [general(rng, KINDS[i % len(KINDS)], *shape, "complex64") for i, shape in enumerate(shapes)]
    values = linalg.svdvals(many)
    for full in (False, True):
        U, s, Vh = linalg.svd(ms.Ragged.from_list(many), full)
        for i, one in enumerate(many):
            check_svd(one, U[i], s[i], Vh[i], (i, one.shape), LAPACK)
            check_svd(one, U[i], values[i], Vh[i], (i, one.shape), LAPACK)
            assert not full or (len(U[i].T), len(Vh[i])) == one.shape
    assert len({one.source for one in kernels}) == 4, "eigh of two dtypes, svdvals and svd"


@needs_cpu
def test_neighbours_on_cpus() -> None:
    """Results have the bits that they have in a batch of larger matrices, next to others and to NaN."""
    rng = np.random.default_rng(5)
    small = [hermitian(rng, "random", 2 + i % 5, "float64") for i in range(40)]
    large = [hermitian(rng, "random", 19, "float64") for _ in range(3)]
    large[1][3, 2] = np.nan
    alone, among = (linalg.eigh_ex(given, backend="cpu") for given in (small, [*large, *small]))
    assert among.info.tolist() == [0, 20, 0, *(0 for _ in small)]
    assert np.isnan(among.eigenvalues[1]).all() and np.isnan(among.eigenvectors[1]).all()
    for i in range(len(small)):
        assert np.array_equal(alone.eigenvalues[i], among.eigenvalues[3 + i])
        assert np.array_equal(alone.eigenvectors[i], among.eigenvectors[3 + i])


@needs_cpu
def test_cpus_compile_nothing_for_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few small matrices are LAPACK's, and so are tall and large ones, whatever their number."""
    linalg.eigh([np.eye(2), np.eye(3)])
    monkeypatch.setattr(CpuBackend, "prepare", lambda *_: pytest.fail("a kernel was compiled"))
    rng = np.random.default_rng(4)
    squares = [hermitian(rng, "random", n, "float64") for n in (1, 2, 3)]
    for driver in ("auto", "qr"):
        w, z = linalg.eigh(squares, driver=driver)
        for i, one in enumerate(squares):
            check_eigh(one, w[i], z[i], i, LAPACK)
    many = [normal(rng, (4 + i % 3, 1 + i % 2), "complex128") for i in range(60)]
    many[7] = normal(rng, (130, 129), "complex128")
    for full in (False, True):
        U, s, Vh = linalg.svd(ms.Ragged.from_list(many), full)
        for i, one in enumerate(many):
            rows, columns = one.shape
            assert U[i].shape == (rows, rows if full else min(rows, columns))
            check_product(one, (U[i][:, : len(s[i])] * s[i]) @ Vh[i][: len(s[i])], (i, one.shape), LAPACK)
    many[3][0, 0] = np.inf
    found = linalg.svd_ex(many)
    assert np.flatnonzero(found.info).tolist() == [3] and np.isnan(found.S[3]).all()
    tall = [normal(rng, (3 + i % 3, 1 + i % 4), "float64") for i in range(4)]
    right = [normal(rng, (len(one), 2), "float64") for one in tall]
    x, rest, ranks, values = linalg.lstsq(tall, right)
    for i, (one, b) in enumerate(zip(tall, right, strict=True)):
        expected = np.linalg.lstsq(one, b, rcond=None)
        assert np.allclose(x[i], expected[0]) and ranks[i] == expected[2] and np.allclose(values[i], expected[3])
        assert np.allclose(rest[i], ((b - one @ expected[0]) ** 2).sum(0))
