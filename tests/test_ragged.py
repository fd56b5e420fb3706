"""Ragged batches: the container, the kernels of every class, products from the outside, bad input by name."""

from __future__ import annotations

import doctest
import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ragged_cases import (
    BACKENDS,
    CASES,
    CLASSES,
    EMPTY,
    ENDS,
    case_id,
    class_of,
    exact,
    guarded,
    host,
    integers,
    launch,
    numbers,
    outside,
    sizes_of,
    turned,
)
from sparing import spared
from test_compile import A100, H200

import mansard as ms
from mansard import testing
from mansard.api import ragged_layout
from mansard.api.gemm_call import Form
from mansard.api.ragged_call import multiply_ragged
from mansard.api.ragged_run import RaggedRun, class_counts
from mansard.backends import emulated
from mansard.compile import nvrtc
from mansard.errors import UnsupportedProblem
from mansard.families.ragged_gemm import defaults, emit, space, spec, work
from mansard.families.ragged_gemm.space import Lanes, Sort, Stream, Tiles, Vectors, Whole
from mansard.plan.problem import DTYPES, Problem

FORMS = [Form(), Form(True, False, False, False), Form(False, False, True, True), Form(True, True, True, False)]
needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


def operands(sizes: list[tuple[int, int, int]], dtype: str, form: Form = FORMS[0], seed: int = 0, make: Any = integers):
    """A and B as they lie in memory, and the products."""
    rng = np.random.default_rng(seed)
    A = [make(rng, (k, m) if form.trans_a else (m, k), dtype) for m, _, k in sizes]
    B = [make(rng, (n, k) if form.trans_b else (k, n), dtype) for _, n, k in sizes]
    both = zip(A, B, strict=True)
    return A, B, [turned(a, form.trans_a, form.conj_a) @ turned(b, form.trans_b, form.conj_b) for a, b in both]


def ragged(matrices: list[Any], backend: str) -> ms.Ragged:
    return ms.Ragged.from_list([testing.array_module(backend).asarray(one) for one in matrices])


def same(found: Any, expected: list[Any]) -> bool:
    return len(found) == len(expected) and all(
        x.shape == y.shape and bool((host(x) == y).all()) for x, y in zip(found, expected, strict=True)
    )


# ---- the container ----------------------------------------------------------------------------------------


def test_examples() -> None:
    from mansard.api import ragged as module

    assert doctest.testmod(module).failed == 0


def test_from_list_aligns_and_copies_once() -> None:
    matrices = [np.full((i, 3), float(i)) for i in range(5)]
    r = ms.Ragged.from_list(matrices)
    assert len(r) == 5 and r.shapes == [(i, 3) for i in range(5)] and r.dtype == np.float64 and r.device == "cpu"
    assert all((x == y).all() for x, y in zip(r, matrices, strict=True))
    assert all(one.ctypes.data % 16 == 0 for one in r if one.size)
    assert "5 matrices, 0..4 x 3, float64, cpu" in repr(r)
    r[3][1, 2] = 77
    assert r.buffer[r.layout.host()[2][3] + 5] == 77 and matrices[3][1, 2] == 3  # a view of the buffer, not of the list


def test_buffer_is_not_copied() -> None:
    buffer = np.arange(20.0)
    r = ms.Ragged(buffer, [2, 3, 1], [3, 2, 4])
    assert r.buffer is buffer and r[1].base is not None and r[-1].tolist() == [[12, 13, 14, 15]]
    part = r[1:]
    assert isinstance(part, ms.Ragged) and part.shapes == [(3, 2), (1, 4)] and np.shares_memory(part[0], buffer)
    assert [x.tolist() for x in r[::-1]] == [x.tolist() for x in reversed(r.to_list())]
    fixed = ms.Ragged(buffer, 2, [1, 2], offsets=[15, 0])
    assert fixed[0].tolist() == [[15], [16]] and fixed.shapes == [(2, 1), (2, 2)]
    with pytest.raises(IndexError):
        r[3]


def test_new_ones() -> None:
    r = ms.Ragged.zeros([2, 0, 3], [1, 5, 3], "complex64")
    assert r.dtype == np.complex64 and not r.buffer.any() and r.shapes == [(2, 1), (0, 5), (3, 3)]
    other = ms.Ragged.empty_like(r)
    assert other.layout is r.layout and not np.shares_memory(other.buffer, r.buffer)
    assert ms.Ragged.empty([], []).shapes == [] and "no sizes" in repr(ms.Ragged.empty([], []))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((2, 2)), [1], [1]), ValueError, "one run"),
        ((np.ones(8)[::2], [1], [1]), ValueError, "one run"),
        ((np.ones(8, int), [1], [1]), TypeError, "dtype int64"),
        ((np.ones(8), [1, 2], [1, 2, 3]), ValueError, "rows has 2, columns has 3"),
        ((np.ones(8), [1, -2], [1, 2]), ValueError, r"rows\[1\] is -2"),
        ((np.ones(8), [1.5], [1]), TypeError, "rows has dtype float64"),
        ((np.ones(8), [2, 2], [2, 3]), ValueError, "matrix 1 ends at element 10, and the buffer has 8"),
        ((np.ones(8), [2, 2], [2, 2], [0, 5]), ValueError, "matrix 1 ends at element 9"),
        (([1.0, 2.0], [1], [1]), TypeError, "buffer is a"),
    ],
)
def test_bad_containers(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ms.Ragged(*arguments)


def test_bad_lists() -> None:
    with pytest.raises(ValueError, match="empty list"):
        ms.Ragged.from_list([])
    with pytest.raises(ValueError, match=r"matrices\[1\] has shape \(3,\)"):
        ms.Ragged.from_list([np.ones((2, 2)), np.ones(3)])
    with pytest.raises(TypeError, match=r"matrices\[1\] float32"):
        ms.Ragged.from_list([np.ones((2, 2)), np.ones((2, 2), "float32")])


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    A, B, expected = operands(sizes_of(np.random.default_rng(1), 20, 9), "float64")
    a, b = (ms.Ragged.from_list([torch.from_numpy(x) for x in many]) for many in (A, B))
    result = ms.matmul(a, b)
    assert isinstance(result.buffer, torch.Tensor) and same(result, expected)
    with pytest.raises(TypeError, match="PyTorch arrays and B NumPy arrays"):
        ms.matmul(a, ms.Ragged.from_list(B))
    with pytest.raises(ValueError, match="lazily conjugated"):
        ms.Ragged(torch.ones(4, dtype=torch.complex64).conj(), [2], [2])


# ---- the kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", spared(CASES), ids=case_id)
def test_class_is_exact(case: tuple[Problem, Any], gpu_backend: str) -> None:
    exact(*case, gpu_backend)


@pytest.mark.parametrize("case", CASES[::3], ids=case_id)
def test_class_accumulates_exactly(case: tuple[Problem, Any], gpu_backend: str) -> None:
    exact(*case, gpu_backend, scaled=True)


@pytest.mark.parametrize("batch", [1, 31, 300, 1100])
def test_sort(batch: int, gpu_backend: str) -> None:
    """The records of every class together, in the order of the batch, and the host counts the same."""
    rng = np.random.default_rng(batch)
    sizes = [(int(m), int(n), int(k)) for m, n, k in rng.integers(0, 1 + rng.integers(2, 140, (batch, 1)), (batch, 3))]
    xp = testing.array_module(gpu_backend)
    m, n, k = (np.array([size[i] for size in sizes]) for i in range(3))
    lengths = (m * k, k * n, m * n)
    a, b, c = (
        ms.Ragged(xp.zeros(int(length.sum()) + 1), rows, columns)
        for length, rows, columns in zip(lengths, (m, k, m), (k, n, n), strict=True)
    )
    for dtype in ("float64", "float32"):
        problem = spec.problem(dtype, batch)
        start = defaults.merged_from(problem)
        starts = launch(problem, Lanes(8, 2, 2, 1), BACKENDS[gpu_backend].backend(), (a, b, c), (1.0, 0.0, 0.0, 0.0))
        classes = [class_of(*size, start) for size in sizes if size[0] * size[1]]
        expected = np.bincount(classes, minlength=CLASSES)
        assert np.diff(starts).tolist() == expected.tolist() == class_counts(np.stack([m, n, k]), start)


def test_sizes_that_do_not_fit_become_nan() -> None:
    """Where only the device knows them: their own C, and no other."""
    sizes = [(3, 4, 5), (6, 2, 2), (40, 3, 3), (2, 2, 0), (2, 9, 3)]
    A, B, expected = operands(sizes, "float64")
    A[1], A[2], B[4] = np.ones((6, 3)), np.ones((39, 3)), np.ones((3, 8))  # inner sizes; rows and columns of C
    a, b = ms.Ragged.from_list(A), ms.Ragged.from_list(B)
    for beta in (0.0, 1.0):
        c = guarded(np.random.default_rng(0), [np.zeros(x.shape) for x in expected], "float64")
        run = RaggedRun(c._kind, spec.problem("float64", 5), emulated.backend(), None, (1, 1))
        run.run((a, b, c), (1.0, 0.0, beta, 0.0), beta != 0)
        for i, one in enumerate(c):
            assert np.isnan(one).all() if i in (1, 2, 4) else (one == expected[i]).all(), i
        assert np.isnan(outside(c)).all()


@needs_nvrtc
@pytest.mark.parametrize("dtype", spared(DTYPES[::-1], 4))
def test_compiles_without_spills(dtype: str) -> None:
    for flags in ({}, dict(trans_a=True, trans_b=True, conj_a=True, conj_b=True, accumulate=True)):
        problem = spec.problem(dtype, 1 << 20, **flags)
        for device in (H200, A100):
            configs: list[Any] = [defaults.of_class(problem, index, device, 1 << 40) for index in range(CLASSES)]
            for config in (*defaults.sorts(16), *(configs if device is H200 else configs[:3])):
                assert space.illegal(problem, config, device) is None, config
                entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), device.arch)
                found = nvrtc.resources(entry.log)
                assert "warning" not in entry.log and found.spill_bytes == found.stack_bytes == 0, (problem, config)


def test_defaults_need_no_more_than_there_is() -> None:
    """Shared memory of other GPUs: 163 KiB, 99 KiB."""
    small = replace(A100, shared_per_block=99 << 10, shared_per_multiprocessor=100 << 10)
    for dtype in DTYPES:
        problem = spec.problem(dtype, 1 << 20)
        for device in (H200, A100, small):
            for index in range(CLASSES):
                config: Any = defaults.of_class(problem, index, device)
                assert space.illegal(problem, config, device) is None and index == config.CLASS, config
    double = spec.problem("float64", 1 << 20)
    assert [defaults.of_class(double, 1, one).BLK_M for one in (H200, A100, small)] == [128, 128, 64]  # type: ignore[union-attr]
    assert [defaults.of_class(double, 2, one).BLOCKS_PER_SM for one in (H200, A100, small)] == [3, 2, 1]


def test_illegal_configurations_have_reasons() -> None:
    problem, device = spec.problem("float32", 10), emulated.backend().device
    for config, reason in (
        (Lanes(2), "no team holds"),
        (Lanes(3, 3, 2), "evenly"),
        (Lanes(4, 16, 2), "evenly"),
        (Tiles(UNIT="tensor"), "float64"),
        (Tiles(STAGES=1), "evenly"),
        (Tiles(STAGES=30), "shared memory"),
        (Tiles(BLK_N=128, THREADS=64), "evenly"),
        (Whole(), "float64"),
        (Sort(THREADS=40), "warps"),
        (space.Simd(), "others"),
    ):
        assert reason in str(space.illegal(problem, config, device)), config
    double = spec.problem("float64", 10)
    for config, reason in (
        (Whole(1), "do not hold"),
        (Whole(0), "do not hold"),
        (Whole(ROOM=68), "do not hold"),
        (Whole(3, 1, 1, 4, 72), "do not hold"),
        (Whole(8, 1, 1, 16), "barriers"),
        (Whole(ROOM=115), "shared memory"),
        (Whole(9), "has vectors"),
        (Lanes(10), "has vectors"),
        (Vectors(10), "no vectors that a team holds"),
        (Vectors(8), "no vectors that a team holds"),
        (Vectors(12, 32), "evenly"),
        (Stream(8), "no vectors"),
        (Stream(ROWS=3), "a power of two"),
    ):
        assert reason in str(space.illegal(double, config, device)), config
    for config in (Sort(), Lanes(), Tiles(), Whole(), Vectors(), Stream(), space.Simd()):
        assert space.from_dict(space.to_dict(config)) == config
    assert spec.refusal(problem.replace(dtype="int64")) and not spec.refusal(problem)


# ---- products ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_exact(dtype: str, form: Form, backend: str) -> None:
    few = [ENDS[i] for i in (0, 1, 5, 9, 11, 12, 14, 15, 16, 18, 19, 21)] if backend == "emulated" else ENDS
    sizes = sizes_of(np.random.default_rng(3), 60 if backend == "cpu" else 20, 20) + few + EMPTY
    A, B, expected = operands(sizes, dtype, form)
    options = dict(trans_a=_letter(form.trans_a, form.conj_a), trans_b=_letter(form.trans_b, form.conj_b))
    result = ms.blas.gemm(ragged(A, backend), ragged(B, backend), backend=backend, **options)
    assert isinstance(result, ms.Ragged) and result.dtype == dtype and same(result, expected)


def _letter(trans: bool, conj: bool) -> str:
    return "C" if conj else "T" if trans else "N"


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_keep_to_the_bound(dtype: str, backend: str) -> None:
    sizes = [*sizes_of(np.random.default_rng(4), 30, 40), (65, 70, 66)]
    A, B, _ = operands(sizes, dtype, make=numbers)
    wide = "complex128" if dtype.startswith("complex") else "float64"
    result = ms.matmul(ragged(A, backend), ragged(B, backend), backend=backend)
    for a, b, c in zip(A, B, result, strict=True):
        bound = 2 * testing.gamma(dtype, a.shape[1]) * (abs(a).astype("float64") @ abs(b).astype("float64"))
        assert (abs(host(c) - a.astype(wide) @ b.astype(wide)) <= bound).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_results_in_place(dtype: str, backend: str) -> None:
    """Odd offsets, NaN all around; with beta = 0 what was there does not matter."""
    rng, xp = np.random.default_rng(5), testing.array_module(backend)
    sizes = [*sizes_of(rng, 25, 18), (33, 34, 35), (3, 3, 0)]
    A, B, products = operands(sizes, dtype)
    a, b = (guarded(rng, many, dtype, xp) for many in (A, B))
    C = [integers(rng, x.shape, dtype) for x in products]
    c = guarded(rng, C, dtype, xp)
    assert ms.matmul(a, b, out=c, alpha=2, beta=-3, backend=backend) is c
    assert same(c, [2 * x - 3 * y for x, y in zip(products, C, strict=True)]) and np.isnan(outside(c)).all()
    c.buffer[...] = np.nan
    assert same(ms.matmul(a, b, out=c, alpha=-1, backend=backend), [-x for x in products])
    assert np.isnan(outside(c)).all()
    if dtype == "complex128":
        ms.matmul(a, b, out=c, alpha=1j, beta=2 - 1j, backend=backend)
        assert same(c, [1j * x + (2 - 1j) * -x for x in products])


@pytest.mark.parametrize("form", [FORMS[0], FORMS[3]], ids=range(2))
def test_one_matrix_for_all(form: Form, backend: str) -> None:
    xp = testing.array_module(backend)
    for single in "ab":
        sizes = [(5 if single == "a" else int(size), 6 if single == "b" else int(size), 7) for size in range(30)]
        A, B, _ = operands(sizes, "complex64", form)
        A, B = (A[:1] if single == "a" else A), (B[:1] if single == "b" else B)
        lines = zip(A * (30 // len(A)), B * (30 // len(B)), strict=True)
        expected = [turned(a, form.trans_a, form.conj_a) @ turned(b, form.trans_b, form.conj_b) for a, b in lines]
        a, b = (xp.asarray(x[0]) if len(x) == 1 else ragged(x, backend) for x in (A, B))
        assert same(multiply_ragged(a, b, None, 1, 0, backend, form), expected)
        if single == "b" and backend != "cuda":  # strides of its own
            wide = np.zeros((b.shape[0] * 2, b.shape[1]), b.dtype)
            wide[::2] = b
            assert same(multiply_ragged(a, wide[::2], None, 1, 0, backend, form), expected)


def test_large_ones_on_cpus_are_the_array_librarys() -> None:
    sizes = [(3, 4, 5), (300, 2, 3), (2, 3, 300), (193, 1, 193)]
    A, B, expected = operands(sizes, "float64")
    a, b = ms.Ragged.from_list(A), ms.Ragged.from_list(B)
    assert same(ms.matmul(a, b), expected)
    out = ms.matmul(a, b)
    ms.matmul(a, b, alpha=2.0, beta=1.0, out=out)
    assert same(out, [3 * x for x in expected])
    assert same(ms.matmul(a, b, backend="reference"), expected)


def test_nothing(backend: str) -> None:
    xp = testing.array_module(backend)
    none = ms.Ragged(xp.ones(3), [], [])
    assert len(ms.matmul(none, none, backend=backend)) == 0
    empty = ragged([np.ones((0, 2)), np.ones((3, 0))], backend)
    result = ms.matmul(empty, ragged([np.ones((2, 4)), np.ones((0, 2))], backend), backend=backend)
    assert result.shapes == [(0, 4), (3, 2)] and not host(result[1]).any()


def test_batches_past_65535(backend: str) -> None:
    count = 66000
    xp = testing.array_module(backend)
    a = ms.Ragged(xp.arange(count, dtype="float32"), 1, np.ones(count, int))
    result = ms.matmul(a, xp.full((1, 1), 2.0, dtype="float32"), backend=backend)
    assert (host(result.buffer)[::8] == 2 * np.arange(count, dtype="float32")).all()


def test_elements_past_two_to_the_31(tmp_path: Path) -> None:
    """Offsets have 64 bits; the buffer is a file full of holes."""
    buffer = np.memmap(tmp_path / "holes", np.float32, "w+", shape=((1 << 31) + 100,)).view(np.ndarray)
    offsets = [5, (1 << 31) + 3]
    a = ms.Ragged(buffer, [3, 5], [4, 2], offsets)
    for one in a:
        one[...] = np.arange(one.size).reshape(one.shape)
    b = ms.Ragged.from_list([np.eye(4, dtype="float32"), np.eye(2, dtype="float32")])
    for backend in ("cpu", "emulated"):
        assert same(ms.matmul(a, b, backend=backend), [one.copy() for one in a])


def test_streams_of_calls_sort_once() -> None:
    A, B, expected = operands(sizes_of(np.random.default_rng(7), 12, 9), "float64")
    a, b = ms.Ragged.from_list(A), ms.Ragged.from_list(B)
    first = ms.matmul(a, b, backend="emulated")
    (runs,) = a.layout.pairs[b.layout].runs.values()
    (run,) = runs.values()
    sorted_list = run._lists[(0, 0)]
    second = ms.matmul(a, b, backend="emulated")
    assert second.layout is first.layout and run._lists[(0, 0)] is sorted_list and same(second, expected)
    a[3][...] = 0  # entries are not remembered, sizes are
    assert not ms.matmul(a, b, backend="emulated")[3].any()


def test_what_follows_from_sizes_goes_with_them() -> None:
    A, B, _ = operands([(2, 3, 4), (5, 1, 2)], "float64")
    a, b = ms.Ragged.from_list(A), ms.Ragged.from_list(B)
    ms.matmul(a, b)
    watched = [weakref.ref(one.layout) for one in (a, b)]
    del b
    gc.collect()
    assert watched[1]() is None and watched[0]() is a.layout
    del a
    gc.collect()
    assert watched[0]() is None


@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_matrices_times_vectors(trans: str, backend: str) -> None:
    """Every class of them."""
    form, rng = Form(trans != "N", trans == "C"), np.random.default_rng(9)
    shapes = [(1, 1), (4, 4), (7, 6), (16, 9), (32, 32), (3, 70), (90, 5), (2, 300), (0, 3), (3, 0)]
    shapes += [(int(m), int(k)) for m, k in rng.integers(1, 34, (20, 2))]
    A, x, expected = operands([(m, 1, k) for m, k in shapes], "complex64", form)
    a, b = ragged(A, backend), ragged(x, backend)
    result = ms.blas.gemv(a, b, trans=trans, backend=backend)
    assert same(result, expected)
    assert ms.blas.gemv(a, b, trans=trans, alpha=2.0, beta=1.0, out=result, backend=backend) is result
    assert same(result, [3 * one for one in expected])
    with pytest.raises(ValueError, match=r"A\[0\] has"):
        ms.blas.gemv(a, ragged([np.ones((2, 1), "complex64"), *x[1:]], backend), trans=trans, backend=backend)


@pytest.mark.parametrize("name", ["syrk", "herk"])
def test_rank_k(name: str, backend: str) -> None:
    rng, function = np.random.default_rng(8), getattr(ms.blas, name)
    A = [integers(rng, (n, k), "complex128") for n, k in ((3, 4), (1, 2), (5, 5), (2, 0))]
    expected = [a @ (a.conj() if name == "herk" else a).T for a in A]
    a = ragged(A, backend)
    assert same(function(a, backend=backend), expected)
    out = ms.Ragged.zeros([3, 1, 5, 2], [3, 1, 5, 2], like=a.buffer)
    assert function(a, out=out, uplo="U", backend=backend) is out and same(out, [np.triu(x) for x in expected])
    with pytest.raises(TypeError, match="so is the other"):
        function(a, out=a[0], backend=backend)


# ---- bad input --------------------------------------------------------------------------------------------


def test_bad_operands() -> None:
    A, B, _ = operands([(2, 3, 4), (5, 1, 2), (3, 3, 3)], "float64")
    a, b = ms.Ragged.from_list(A), ms.Ragged.from_list(B)
    with pytest.raises(ValueError, match="A has 3 matrices and B 2"):
        ms.matmul(a, b[:2])
    with pytest.raises(ValueError, match=r"A\[1\] has 2 columns and B\[1\] 3 rows"):
        ms.matmul(a, ms.Ragged.from_list([B[0], np.ones((3, 1)), np.ones((4, 4))]))
    with pytest.raises(ValueError, match=r"A\[0\] has 4 columns and B 3 rows"):
        ms.matmul(a, np.ones((3, 3)))
    with pytest.raises(TypeError, match="A has dtype float64 and B float32"):
        ms.matmul(a, ms.Ragged.from_list([x.astype("float32") for x in B]))
    with pytest.raises(TypeError, match="pass a Ragged or a matrix"):
        ms.matmul(a, np.ones((3, 3, 3)))
    with pytest.raises(UnsupportedProblem, match="B has dtype int64"):
        ms.matmul(a, np.ones((3, 3), int))
    with pytest.raises(ValueError, match="pass out"):
        ms.matmul(a, b, beta=1.0)
    with pytest.raises(TypeError, match="must be real"):
        ms.matmul(a, b, alpha=1j)
    with pytest.raises(ValueError, match="trans_a='X'"):
        ms.blas.gemm(a, b, trans_a="X")


def test_bad_results() -> None:
    A, B, expected = operands([(2, 3, 4), (5, 1, 2), (3, 3, 3)], "float64")
    a, b = ms.Ragged.from_list(A), ms.Ragged.from_list(B)
    with pytest.raises(TypeError, match="need a Ragged"):
        ms.matmul(a, b, out=expected)
    with pytest.raises(ValueError, match="out has 2 matrices and the result 3"):
        ms.matmul(a, b, out=ms.Ragged.zeros([2, 5], [3, 1]))
    with pytest.raises(ValueError, match=r"out\[2\] has 4 columns, the result 3"):
        ms.matmul(a, b, out=ms.Ragged.zeros([2, 5, 3], [3, 1, 4]))
    with pytest.raises(ValueError, match=r"out\[0\] and out\[2\] overlap"):
        ms.matmul(a, b, out=ms.Ragged(np.zeros(50), [2, 5, 3], [3, 1, 3], [0, 20, 5]))
    with pytest.raises(ValueError, match="out overlaps A"):
        ms.matmul(a, b, out=ms.Ragged(a.buffer, [2, 5, 3], [3, 1, 3]))
    frozen = np.zeros(50)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ms.matmul(a, b, out=ms.Ragged(frozen, [2, 5, 3], [3, 1, 3]))
    before = a.buffer.copy()
    assert (a.buffer == before).all()
    # parts of one buffer that do not meet are fine
    shared = np.zeros(200)
    left = ms.Ragged(shared, [2, 2], [2, 2], [0, 10])
    left[0][...], left[1][...] = np.ones((2, 2)), np.eye(2)
    result = ms.matmul(left, np.eye(2), out=ms.Ragged(shared, [2, 2], [2, 2], [100, 110]))
    assert (result[0] == 1).all() and (result[1] == np.eye(2)).all()


def test_sizes_are_fixed() -> None:
    """What the caller does to its own arrays afterwards changes nothing."""
    rows = np.array([2, 3])
    r = ms.Ragged(np.arange(20.0), rows, np.array([2, 2]))
    rows[0] = 9
    assert r.shapes == [(2, 2), (3, 2)]
    with pytest.raises(ValueError, match="read-only"):
        r.layout.host()[0][0] = 5


def test_sizes_of_a_device_stay_there() -> None:
    """Played by an array that says it is on a GPU."""

    class Played(np.ndarray):
        __cuda_array_interface__ = None

    rows = np.array([2, 3], np.int32).view(Played)
    layout = ragged_layout.of_sizes(rows, 2, None)
    assert not layout.known and layout.count == 2 and layout.reach(99) == (0, 99) and layout.overlapping() is None
    assert layout.part(slice(1, 2)).host()[0].tolist() == [3]
    assert [one.tolist() for one in layout.host()] == [[2, 3], [2, 2], [0, 4]] and layout.known
    with pytest.raises(TypeError, match="columns is on the host"):
        ragged_layout.of_sizes(rows, [1, 2], None)
    with pytest.raises(ValueError, match=r"columns has shape \(3,\)"):
        ragged_layout.of_sizes(rows, np.ones(3, int).view(Played), None)


def test_work_is_what_the_kernels_assert() -> None:
    problem = spec.problem("float64", 10)
    assert work.shared_bytes(problem, Lanes(3, 8, 4, 4)) == 4 * 2 * (32 * 34 + 2) * 8
    assert work.shared_bytes(problem, Lanes(8, 1, 1, 1)) == 32 * 2 * (4 * 4 + 2) * 8
    assert work.whole_bytes(problem, 2) == (2 * (64 * 68 + 2) + 16 + 2) * 8
    assert work.shared_bytes(problem, replace(Tiles(), STAGES=2)) == 2 * (64 * 20 + 16 * 68) * 8
