"""Products of ragged batches as they are called: NumPy's and BLAS's forms, mixed batches, bad input."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ragged_cases import (
    EMPTY,
    ENDS,
    FORMS,
    guarded,
    host,
    integers,
    numbers,
    operands,
    outside,
    same,
    sizes_of,
    turned,
)
from sparing import turns

import mansard as ms
from mansard import testing
from mansard.backends import emulated
from mansard.errors import IllegalConfig, UnsupportedProblem
from mansard.kernels.batched.ragged_gemm import spec, work
from mansard.kernels.batched.ragged_gemm.space import Lanes, Tiles
from mansard.operations import ragged_layout
from mansard.operations.batched.gemm_call import Form
from mansard.operations.batched.ragged_call import multiply_ragged
from mansard.operations.plans import PLANS
from mansard.plan.problem import DTYPES


def ragged(matrices: list[Any], backend: str) -> ms.Ragged:
    return ms.Ragged.from_list([testing.array_module(backend).asarray(one) for one in matrices])


# ---- products ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_exact(dtype: str, backend: str) -> None:
    for form in turns(backend, FORMS, DTYPES.index(dtype)):
        products_are_exact(dtype, form, backend)


def products_are_exact(dtype: str, form: Form, backend: str) -> None:
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
    with pytest.raises(ValueError, match=r"a\[0\] has"):
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
    with pytest.raises(TypeError, match="pass a Ragged or a matrix"):
        ms.matmul(a, np.ones((3, 3, 3)))
    with pytest.raises(UnsupportedProblem, match="B has dtype float16"):
        ms.matmul(a, np.ones((3, 3), "f2"))
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
    memory, sizes = np.zeros(100), ([2, 5, 3], [3, 1, 3])
    backwards = ms.Ragged(memory, [2, 5, 3], [4, 2, 3], [60, 40, 20])  # the last one lies first
    with pytest.raises(ValueError, match="out overlaps A"):
        ms.matmul(backwards, b, out=ms.Ragged(memory, *sizes, [90, 10, 22]))
    with pytest.raises(ValueError, match="out overlaps B"):
        ms.matmul(a, ms.Ragged(memory, [4, 2, 3], [3, 1, 3], [60, 40, 20]), out=ms.Ragged(memory, *sizes, [90, 0, 10]))
    ms.matmul(backwards, b, out=ms.Ragged(memory, *sizes, [90, 80, 70]))
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


# ---- tuning and pins --------------------------------------------------------------------------------------------


def test_pins_reach_the_classes_that_have_the_parameter() -> None:
    from mansard.kernels.batched.ragged_gemm import defaults
    from mansard.operations.batched.ragged_run import pinned

    device, problem = emulated.backend().device, spec.problem("float32", 3)
    rules = {index: defaults.of_class(problem, index, device) for index in (6, 7, 8)}
    assert pinned(problem, rules, device) == rules
    with ms.pin(WARPS=2):
        assert [one.WARPS for one in pinned(problem, rules, device).values()] == [2, 2, 2]
    with ms.pin(CLASS=7, WARPS=1):
        found = pinned(problem, rules, device)
        assert (found[6], found[8]) == (rules[6], rules[8]) and found[7] == replace(rules[7], WARPS=1)
    with ms.pin(STAGES=9), pytest.raises(IllegalConfig, match="STAGES=9: 1 or 2"):
        pinned(problem, rules, device)
    with ms.pin(ROOM=9), pytest.raises(IllegalConfig, match="no class of these sizes has a kernel with ROOM: unpin"):
        pinned(problem, rules, device)


def test_runs_prepare_anew_after_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of ragged batches, and factorizations by class and by size, on GPUs; their tables stay."""
    count, prepare = [0], emulated.EmulatedBackend.prepare

    def counted(backend: Any, kernel: Any) -> Any:
        count[0] += 1
        return prepare(backend, kernel)

    monkeypatch.setattr(emulated.EmulatedBackend, "prepare", counted)
    a = ms.Ragged.from_list([np.eye(2) * 4, np.eye(3) * 4])
    b = ms.Ragged.from_list([np.ones((2, 1)), np.ones((3, 1))])
    calls = (
        lambda: ms.matmul(a, a, backend="emulated"), lambda: ms.linalg.cholesky(a, backend="emulated"),
        lambda: ms.linalg.solve(a, b, backend="emulated"),
    )  # fmt: skip
    for call in calls:
        call()
        before = count[0]
        call()
        assert count[0] == before
        PLANS.forget()
        call()
        assert count[0] > before
