"""The gram kernels: exact on integers, within bounds on random numbers, for every variant, layout, width and edge."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from gram_cases import CASES, CPU_CASES, bounded, case_id, column_major, exact, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scalars import COMPLEX
from sparing import crossed, on_backends, spared, turns

import mansard as ms
from mansard import testing
from mansard.backends import cpu
from mansard.errors import IllegalConfig
from mansard.kernels.tall_skinny.gram import space, spec
from mansard.kernels.tall_skinny.gram.space import Config
from mansard.kernels.tall_skinny.gram.space_columns import Columns
from mansard.kernels.tall_skinny.gram.space_cpu import Simd
from mansard.plan.problem import DTYPES, ITEMSIZE, REAL, Problem

WIDTHS = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64)


@pytest.mark.parametrize("case", CPU_CASES, ids=case_id)
def test_cpu_variant(case: tuple[Problem, Simd]) -> None:
    problem, config = case
    most = max(16, cpu.backend().device.vector_bytes) // ITEMSIZE[REAL[problem.dtype]]
    config = replace(config, LANES=min(config.LANES, most))  # vectors of this machine
    exact(problem, config, "cpu")
    bounded(problem, config, "cpu")


@pytest.mark.parametrize("backend, case", on_backends(list(product(WIDTHS, DTYPES)), 6), indirect=["backend"])
def test_default_choice(case: tuple[int, str], backend: str) -> None:
    """Whatever dispatch picks, for rectangular shapes, and for square ones and A^H A in turn."""
    width, dtype = case
    number = WIDTHS.index(width) + DTYPES.index(dtype)
    square = spec.problem(dtype, width, width, 301) if number % 2 else spec.problem(dtype, width, width, 150, same=True)
    for problem in turns(backend, (square, spec.problem(dtype, width, 9, 64, conj=False)), number // 2):
        exact(problem, None, backend)


@pytest.mark.parametrize("width, dtype", crossed((1, 3, 8, 17, 40), DTYPES))
def test_default_choice_for_columns(width: int, dtype: str, gpu_backend: str) -> None:
    for problem in (column_major(dtype, width, width, 336), column_major(dtype, width, width, 150, 2, same=True)):
        exact(problem, None, gpu_backend)


@pytest.mark.parametrize("K", [0, 1, 2, 31, 32, 33, 64, 127, 500])
def test_every_small_height_of_columns(K: int, gpu_backend: str) -> None:
    config = Columns(1, 1, 2, 2, 32, 2)
    exact(column_major("float64", 5, 6, K, -K % 2 + 2), config, gpu_backend)
    exact(column_major("complex128", 4, 4, K, 2, same=True), config, gpu_backend)


@pytest.mark.parametrize("K", [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000])
def test_every_small_height(K: int, backend: str) -> None:
    exact(spec.problem("float64", 5, 6, K), None, backend)
    exact(spec.problem("complex64", 4, 4, K, same=True), None, backend)


@pytest.mark.parametrize("layout_a", ["row", "col", "any"])
@pytest.mark.parametrize("layout_b", ["row", "col", "any"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_layouts(layout_a: str, layout_b: str, dtype: str, backend: str) -> None:
    K = 203
    pitches = {"row": 11 + 2, "col": K + 5, "any": 0}
    problem = spec.problem(
        dtype, 11, 11, K, layout_a=layout_a, layout_b=layout_b, pitch_a=pitches[layout_a], pitch_b=pitches[layout_b]
    )
    exact(problem, None, backend)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unaligned_operands(dtype: str, backend: str) -> None:
    exact(spec.problem(dtype, 6, 5, 333, aligned=False), None, backend)


def test_negative_and_zero_strides(backend: str) -> None:
    xp = testing.array_module(backend)
    where = None if backend == "cuda" else backend
    A = testing.random_matrix(xp, 100, 6, "float64", 0, integers=True)
    for left, right in (
        (A[::-1], A),
        (A[:, ::-1], A[::-1]),
        (xp.broadcast_to(A[:1], A.shape), A),
        (xp.broadcast_to(A[:, :1], A.shape), A),
    ):
        assert bool((ms.gram(left, right, backend=where) == left.T @ right).all())


def test_columns_that_begin_anywhere(gpu_backend: str) -> None:
    """At every place of a line that copies can begin at, single ones and every second one too."""
    xp = testing.array_module(gpu_backend)
    A = xp.asfortranarray(testing.random_matrix(xp, 112, 6, "float64", 0, integers=True))
    views = [(A[first : first + 90], A[16 - first : 106 - first]) for first in range(0, 17, 2)]
    with ms.pin(**space.to_dict(Columns(1, 1, 2, 2, 32, 2))):
        for left, right in (*views, (A[:, ::2], A), (A, A[:, :1]), (A[:, 5:], A)):
            C = ms.gram(left, right, backend=None if gpu_backend == "cuda" else gpu_backend)
            assert bool((left.T @ right == C).all())


def test_columns_that_cannot_be_copied_are_refused_with_a_reason(gpu_backend: str) -> None:
    for problem in (
        column_major("float64", 5, 5, 101),
        column_major("float64", 5, 5, 100, aligned=False),
        spec.problem("float64", 5, 5, 100, layout_a="col"),
        spec.problem("float64", 5, 5, 100),
    ):
        A, B = testing.operands(problem, gpu_backend)
        with pytest.raises(IllegalConfig, match="16-byte boundaries"):
            run(problem, Columns(1, 1, 2, 2, 32, 2), gpu_backend, A, B)


def test_nan_in_out_does_not_leak(backend: str) -> None:
    problem = spec.problem("float64", 5, 6, 100)
    A, B = testing.operands(problem, backend, integers=True)
    out = testing.array_module(backend).full((5, 6), np.nan)
    assert run(problem, None, backend, A, B, out=out) is out
    assert bool((out == A.T @ B).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_alpha_and_beta(dtype: str, backend: str) -> None:
    problem = spec.problem(dtype, 5, 6, 100)
    A, B = testing.operands(problem, backend, integers=True)
    old = testing.random_matrix(testing.array_module(backend), 5, 6, dtype, 9, integers=True)
    for alpha, beta in COMPLEX if problem.is_complex else ((2.0, -3.0),):
        out = old.copy()
        run(problem, None, backend, A, B, out=out, alpha=alpha, beta=beta)
        assert bool((out == spec.reference(A, B, old, alpha, beta)).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_alpha_and_beta_of_columns(dtype: str, gpu_backend: str) -> None:
    problem = column_major(dtype, 5, 6, 100)
    A, B = testing.operands(problem, gpu_backend, integers=True)
    old = testing.random_matrix(testing.array_module(gpu_backend), 5, 6, dtype, 9, integers=True)
    for alpha, beta in COMPLEX if problem.is_complex else ((2.0, -3.0),):
        out = old.copy()
        run(problem, Columns(1, 1, 1, 2, 32, 2), gpu_backend, A, B, out=out, alpha=alpha, beta=beta)
        assert bool((out == spec.reference(A, B, old, alpha, beta)).all())


@pytest.mark.parametrize("order", ["F", "strided"])
def test_out_of_any_strides(order: str, backend: str) -> None:
    problem = spec.problem("complex128", 7, 4, 90)
    A, B = testing.operands(problem, backend, integers=True)
    xp = testing.array_module(backend)
    out = xp.zeros((7, 4), "complex128", order="F") if order == "F" else xp.zeros((21, 8), "complex128")[::3, ::2]
    run(problem, None, backend, A, B, out=out)
    assert bool((out == spec.reference(A, B)).all())


def test_empty_problems(backend: str) -> None:
    xp = testing.array_module(backend)
    where = None if backend == "cuda" else backend
    assert ms.gram(xp.ones((0, 3)), xp.ones((0, 2)), backend=where).tolist() == [[0, 0]] * 3
    assert ms.gram(xp.ones((5, 0)), xp.ones((5, 2)), backend=where).shape == (0, 2)
    assert ms.gram(xp.ones((5, 2)), xp.ones((5, 0)), backend=where).shape == (2, 0)
    out = xp.full((3, 2), 4.0)
    ms.gram(xp.ones((0, 3)), xp.ones((0, 2)), out=out, beta=0.5, backend=where)
    assert out.tolist() == [[2, 2]] * 3


def test_hermitian_to_the_last_bit(backend: str) -> None:
    for dtype in ("complex128", "complex64", "float64"):
        problem = spec.problem(dtype, 21, 21, 500, same=True)
        A, _ = testing.operands(problem, backend)
        C = run(problem, None, backend, A, A)
        assert bool((C == C.conj().T).all())


def test_same_bits_every_time(backend: str) -> None:
    for problem in (spec.problem("float64", 16, 16, 2000), spec.problem("complex64", 40, 33, 700)):
        A, B = testing.operands(problem, backend)
        results = [run(problem, None, backend, A, B) for _ in range(3)]
        assert all(bool((results[0] == C).all()) for C in results)


def test_infinity_and_nan_reach_the_result(backend: str) -> None:
    for dtype in ("float64", "float32"):
        problem = spec.problem(dtype, 6, 6, 5000)
        A, B = testing.operands(problem, backend, integers=True)
        B += 10  # positive, so that infinity times B stays infinite
        A[17, 2], A[99, 4] = np.inf, np.nan
        C = run(problem, None, backend, A, B)
        assert bool((C[2] == np.inf).all()) and bool(C[4].tolist() != C[4].tolist())
        assert bool((C[[0, 1, 3, 5]] == (A.T @ B)[[0, 1, 3, 5]]).all())


@pytest.mark.parametrize("triangle", [False, True])
def test_infinity_survives_tf32_columns(triangle: bool, gpu_backend: str) -> None:
    problem = column_major("float32", 40, 40, 4132, same=triangle)
    config = Columns(3 if triangle else 1, 1 if triangle else 2, 2, 1, 64, 2, KSTEP=8, UNIT="tf32x3", TRIANGLE=triangle)
    A, B = testing.operands(problem, gpu_backend, integers=True)
    A += 10
    B += 0 if triangle else 10
    A[17, 2], A[99, 36] = np.inf, np.nan
    C = run(problem, config, gpu_backend, A, B)
    rest = [i for i in range(40) if i not in (2, 36)]
    assert bool((C[2][rest] == np.inf).all()) and bool((C[36] != C[36]).all())
    assert bool((C[rest][:, rest] == (A.T @ B)[rest][:, rest]).all())


TF32 = [case for case in CASES if getattr(case[1], "UNIT", "") == "tf32x3" or case[1].VARIANT == "group"]


@pytest.mark.parametrize("case", spared(TF32, 8), ids=case_id)
def test_an_infinity_anywhere_survives_tf32(case: tuple[Problem, Config], gpu_backend: str) -> None:
    """In every slot of either operand: a row or a column of C is infinite, the rest exact."""
    problem, config = case
    xp = testing.array_module(gpu_backend)
    widest = max(problem.M, problem.N)
    for place in turns(gpu_backend, range(0, widest, max(5, widest // 5)), CASES.index(case)):
        A, B = testing.operands(problem, gpu_backend, integers=True)
        A[...], B[...] = 1, 1
        m, n = place % problem.M, None if problem.same else (place + 3) % problem.N
        A[1234, m] = np.inf
        if n is not None:
            B[77, n] = np.inf
        C = run(problem, config, gpu_backend, A, B)
        finite = xp.full((problem.M, problem.N), True)
        finite[m], finite[:, m if n is None else n] = False, False
        assert bool((C[finite] == problem.K).all()) and bool((C[~finite].real == np.inf).all())


@pytest.mark.parametrize("variant", ["ring", "columns", "group"])
def test_tf32_units_are_as_accurate_as_float32(variant: str, gpu_backend: str) -> None:
    """Three TF32 products per product: the error stays near that of the array library's own float32 product, also for
    positive numbers, where truncation would add up."""
    xp = testing.array_module(gpu_backend)
    problem, config = next(case for case in TF32 if variant == case[1].VARIANT)
    for positive in (False, True):
        A, B = testing.operands(problem, gpu_backend)
        if positive:
            A, B = xp.abs(A, out=A), xp.abs(B, out=B)  # a new array would not keep the pitch
        exact = A.astype("float64").T @ B.astype("float64")
        scale = xp.abs(A).astype("float64").T @ xp.abs(B).astype("float64")
        ours = float((xp.abs(run(problem, config, gpu_backend, A, B) - exact) / scale).max())
        plain = float((xp.abs(A.T @ B - exact) / scale).max())
        assert ours <= 4 * plain + 2.0**-22, (ours, plain)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    M=st.integers(1, 40),
    N=st.integers(1, 40),
    K=st.integers(0, 400),
    dtype=st.sampled_from(DTYPES),
    layouts=st.tuples(st.sampled_from(["row", "col", "any"]), st.sampled_from(["row", "col", "any"])),
    padding=st.integers(0, 3),
    conj=st.booleans(),
)
def test_any_problem(
    M: int, N: int, K: int, dtype: str, layouts: tuple[str, str], padding: int, conj: bool, backend: str
) -> None:
    pitch = {"row": (M + padding, N + padding), "col": (K + padding, K + padding), "any": (0, 0)}
    problem = spec.problem(
        dtype, M, N, K,
        layout_a=layouts[0], layout_b=layouts[1], pitch_a=pitch[layouts[0]][0], pitch_b=pitch[layouts[1]][1], conj=conj,
    )  # fmt: skip
    exact(problem, None, backend)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(8))
def test_random_configurations_on_the_gpu(seed: int) -> None:
    """The whole space at random, on the device itself."""
    from conftest import usable

    usable("cuda")
    rng = np.random.default_rng(seed)
    for _ in range(30):
        problem, config = random_case(rng)
        if config is not None:
            exact(problem, config, "cuda", seed)


def random_case(rng: np.random.Generator) -> tuple[Problem, Config | None]:
    from mansard.backends import cuda

    dtype = str(rng.choice(DTYPES))
    layout = str(rng.choice(["row", "row", "col"]))
    least = 1 if layout == "row" else 2  # one row or one column is row-major too, and then that is what the call sees
    M, N = int(rng.integers(least, 72)), int(rng.integers(least, 72))
    K = int(rng.choice([least, 17, 257, 4099, 20011]))
    same = bool(rng.random() < 0.3)
    N = M if same else N
    pitch = (M if layout == "row" else K) + int(rng.choice([0, 0, 1, 2])), (N if layout == "row" else K)
    problem = spec.problem(
        dtype,
        M,
        N,
        K,
        layout_a=layout,
        layout_b=layout,
        pitch_a=pitch[0],
        pitch_b=pitch[0] if same else pitch[1],
        same=same,
    )
    legal = list(space.candidates(problem, cuda.backend(0).device))
    return problem, legal[int(rng.integers(len(legal)))] if legal else None


@pytest.mark.gpu
def test_beyond_two_to_the_31_elements() -> None:
    from conftest import usable

    usable("cuda")
    import cupy

    K = (1 << 31) // 3 + 5
    A = cupy.ones((K, 3), "float32")
    A[-1] = 2
    C = ms.gram(A)
    assert bool((np.float32(K - 1 + 4) == C).all())
    del A
    cupy.get_default_memory_pool().free_all_blocks()
