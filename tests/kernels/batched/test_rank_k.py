"""`rank_k`: exact on CPUs, sizes and options of every kind on the emulator, and the calls: syrk, herk, syr2k, her2k."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from devices import H200
from orders import in_order
from rank_k_cases import CASES, bounded, exact, laid_out, launch, numbers
from sparing import every, spared

import mansard as ms
from mansard import testing
from mansard.backends import cpu, emulated
from mansard.compile import nvrtc
from mansard.kernels.batched.rank_k import defaults, emit, space, spec
from mansard.kernels.batched.rank_k.shapes import tensor_shape
from mansard.kernels.batched.rank_k.space import Simd, Tensor, Tiles
from mansard.kernels.common import sectors
from mansard.plan.problem import Problem

P = spec.problem
ON_CPUS: list[tuple[Problem, Simd | None]] = [
    *((problem, None) for problem, _ in CASES[::2]),
    (P("float64", 9, 5, 20, part="lower"), Simd(2, 3, 2)),
    (P("float32", 13, 9, 20), Simd(4, 8, 1)),
    (P("complex128", 7, 4, 20, part="upper", conj_b=True), Simd(2, 5, 2)),
    (P("complex64", 12, 6, 20, two=True, conj_a=True), Simd(4, 2, 3)),
]


@needs_cpu
@pytest.mark.parametrize("case", spared(ON_CPUS, 4), ids=str)
def test_cpu_is_exact(case: tuple[Problem, Simd | None]) -> None:
    problem, config = case
    config = config or defaults.default(problem, cpu.backend().device)
    assert isinstance(config, Simd)
    for scaled in (False, True):
        exact(problem, config, "cpu", scaled=scaled)


@needs_cpu
@pytest.mark.parametrize("case", every(7, ON_CPUS), ids=str)
def test_cpu_is_within_bounds(case: tuple[Problem, Simd | None]) -> None:
    problem, config = case
    chosen: Any = config or defaults.default(problem, cpu.backend().device)
    bounded(problem, chosen, "cpu")


SIZES = [(n, k) for n in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33) for k in (1, 2, 5, 8, 17)]
CHOSEN = [
    (dtype, n, k, uplo, layout) for (n, k), dtype, uplo, layout in product(
        SIZES, ("float32", "float64", "complex64", "complex128"), ("lower", "upper", "full"), ("row", "col")
    )
]  # fmt: skip


@pytest.mark.parametrize("case", spared(CHOSEN, 100), ids=str)
def test_what_is_chosen_is_exact(case: tuple[str, int, int, str, str], gpu_backend: str) -> None:
    """Sizes around every tile, without a configuration of a test's own."""
    dtype, n, k, uplo, layout = case
    problem = P(dtype, n, k, 11, part=uplo, layout_a=layout, conj_b=layout == "row", conj_a=layout == "col")
    scaled = n % 2 == 0
    config: Any = defaults.default(problem.replace(accumulate=scaled), emulated.backend().device)
    exact(problem, config, gpu_backend, scaled=scaled)


# ragged sets, Hermitian, parts, layouts, two factors, tensor cores, triangles that leave by pieces, images and rings of
# tensor cores
KINDS = (5, 9, 20, 22, 33, 39, 48, 52, 59, 61, 66, 73, 75, 80, 82, 84, 87, 89, 91, 94)


@pytest.mark.parametrize("number", KINDS)
def test_cases_of_every_kind(number: int, gpu_backend: str) -> None:
    """A few of the cases that always run: the slices of the contract take turns."""
    exact(*CASES[number], gpu_backend)
    exact(*CASES[number], gpu_backend, scaled=True)


@pytest.mark.parametrize("order", ["reverse", "greedy"])
def test_panels_are_read_before_results_take_their_place(order: str) -> None:
    with in_order(order):
        exact(P("float64", 16, 9, 5), Tiles(2, 2), "emulated")
        exact(P("float32", 24, 20, 2, part="lower"), Tiles(2, 1, 1, 8, 2), "emulated")
        exact(*CASES[RING], "emulated")


RING = 91  # groups one after the other, by way of images in their places


def test_infinities_come_out_as_from_multiply_adds(gpu_backend: str) -> None:
    """A TF32 half of an infinity is a NaN: entries that are not numbers are formed again, others are what they were."""
    xp = testing.array_module(gpu_backend)
    problem = P("float32", 20, 17, 3, part="lower")
    A, C = (numbers(problem, side, xp, 5, True) for side in "ac")
    A[0, 4, 2], A[1, 19, 16], A[2, 7, 0] = np.inf, -np.inf, np.nan
    C[...] = 5
    with np.errstate(invalid="ignore"):
        expected = spec.reference(A, None, C, part="lower")
    stacks = [laid_out(problem, side, xp, values) for side, values in (("a", A), ("a", A), ("c", C))]
    launch(problem, Tensor(2, 1, 16384, 1, GROUP=2, OUT="back"), gpu_backend, stacks)
    found, inside = stacks[2].view, xp.tri(20, dtype=bool)
    assert bool(((found == expected) | (xp.isnan(found) & xp.isnan(expected)))[:, inside].all())
    assert bool((found[:, ~inside] == 5).all()) and bool(xp.isinf(found[:, inside]).any())


def test_configurations_that_cannot_be() -> None:
    device, problem = emulated.backend().device, P("float64", 8, 20, 10)
    refused = (
        Tiles(8, 1, 1, 16384, 2),
        Tiles(4, 2, 1, 8, 2),
        Tiles(4, 1, 1, 8, 1),
        Tiles(4, 1, 2),
        Tiles(4, 1, 1, 3, 2),
    )
    assert all(space.illegal(problem, config, device) for config in refused)
    assert space.illegal(P("float64", 3, 3, 10), Tiles(4), device) == "TILE=4 is more than the 3 rows"
    assert space.illegal(problem, Simd(4), device) and space.illegal(problem, Tiles(4), cpu.CpuBackend().device)
    assert spec.refusal(P("float64", 513, 3, 10)) and spec.refusal(P("float16", 3, 3, 10))
    found = list(space.candidates(problem, device))
    assert found and all(space.illegal(problem, config, device) is None for config in found)


@pytest.mark.parametrize("traits", [{}, {"layout_a": "col"}, {"aligned": False}], ids=str)
def test_fragments_stay_in_their_place_of_the_ring(traits: dict[str, Any]) -> None:
    """Fragments of rows beyond the last would be read while the next place is filled."""
    device = emulated.backend().device
    for n, tile in product((17, 31, 33, 40, 70), (1, 2, 3)):
        problem = P("float64", n, 40, 2, **traits)
        shape = tensor_shape(problem, Tensor(tile, 1, 8, 2))
        fits = 16 * shape.side <= n
        assert (space.illegal(problem, Tensor(tile, 1, 8, 2), device) is None) == fits, (n, tile)
        assert (shape.slack == 0) == fits and space.illegal(problem, Tensor(tile, 1, 16384, 1), device) is None


def test_tensor_configurations_that_cannot_be() -> None:
    """Parts and panels of groups, rings of three groups, and TF32 products that cannot be repaired or are too short."""
    device = emulated.backend().device
    double, single = P("float64", 40, 40, 10), P("float32", 48, 40, 10)
    refused: list[tuple[Problem, Tensor]] = [
        (double, Tensor(1, 1, 16384, 3)),
        (double, Tensor(1, 2, 16384, 2)),
        (double, Tensor(1, 2, 16384, 1, OUT="back")),
        (double, Tensor(1, 1, 16, 2, GROUP=2)),
        (single, Tensor(1, 1, 16384, 1)),
        (single, Tensor(1, 1, 16384, 1, 4, OUT="back")),
        (single, Tensor(1, 1, 4, 2, OUT="back")),
        (single, Tensor(3, 1, 16384, 1, OUT="back")),
        (single.replace(two=True), Tensor(1, 1, 16384, 1, OUT="back")),
        (P("float32", 40, 15, 10), Tensor(1, 1, 16384, 1, OUT="back")),
    ]
    assert all(space.illegal(problem, config, device) for problem, config in refused)
    assert space.illegal(single, Tensor(1, 1, 16384, 2, OUT="back"), device) is None


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("n, k", [(33, 2), (64, 64)])
def test_defaults_compile_without_spills(n: int, k: int) -> None:
    """ptxas refuses float64 tensor instructions where blocks are so many that a thread has fewer than 64 registers."""
    problem = spec.problem("float64", n, k, 100_000, part="lower")
    config = defaults.default(problem, H200)
    assert isinstance(config, Tensor)
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    assert "warning" not in entry.log and nvrtc.resources(entry.log).spill_bytes == 0, config


def test_work_counts_a_triangle_in_sectors() -> None:
    """Rows of 4 numbers of 8 bytes are sectors: three of them are written in part, and read before."""
    full, lower = (spec.problem("float64", 4, 3, 10, part=part) for part in ("full", "lower"))
    of = [family_work(one) for one in (full, lower, lower.replace(accumulate=True), lower.replace(two=True))]
    assert [one.read for one in of] == [960, 960 + 960, 960 + 1280, 1920 + 960]
    assert [one.written for one in of] == [1280] * 4 and [one.flops for one in of] == [600, 600, 600, 1200]


@pytest.mark.parametrize("part", ["lower", "upper"])
@pytest.mark.parametrize(("dtype", "n", "pitch"), [("float64", 5, 5), ("float32", 3, 3), ("complex64", 9, 11)])
def test_sectors_of_triangles(dtype: str, n: int, pitch: int, part: str) -> None:
    """Counted entry by entry, over enough matrices for the first one to come again."""
    stack = "packed" if pitch == n else "strided"
    problem = spec.problem(dtype, n, 2, 1, part=part, pitch_c=pitch, stack_c=stack, pitch_a=2)
    size, count = problem.itemsize, 32 if stack == "packed" else 1
    met: dict[int, int] = {}
    for m, i, j in product(range(count), range(n), range(n)):
        if j <= i if part == "lower" else j >= i:
            at = (m * n * pitch + i * pitch + j) * size // 32
            met[at] = met.get(at, 0) + size
    found = sectors.triangle(problem, "c", part, n)
    assert found.written == found.read == 32 * len(met) / count
    assert found.filled == 32 * sum(there < 32 for there in met.values()) / count
    turned = problem.replace(layout_c="col", part={"lower": "upper", "upper": "lower"}[part])
    assert sectors.triangle(turned, "c", turned.part, n) == found


def family_work(problem: Problem) -> Any:
    from mansard.kernels.batched.rank_k import work

    return work.work(problem)


# ---- calls ------------------------------------------------------------------------------------------------


def integers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    found = rng.integers(-3, 4, shape).astype(dtype)
    return found + 1j * rng.integers(-3, 4, shape).astype(dtype) if "complex" in dtype else found


@pytest.mark.parametrize("where", ["emulated", "cpu", "reference"])
@pytest.mark.parametrize("name", ["syrk", "herk", "syr2k", "her2k"])
def test_calls(name: str, where: str, no_plans: None) -> None:
    if where == "cpu" and cpu.unavailable():
        pytest.skip(str(cpu.unavailable()))
    function, hermitian, two = getattr(ms.blas, name), name.startswith("her"), "2" in name
    a, b = (integers((2, 3, 4, 5), "complex128", seed) for seed in (0, 1))
    alpha: complex = 2 - 1j if two or not hermitian else 2.0
    for trans in ("N", "C" if hermitian else "T"):
        given = (a, b) if two else (a,)
        turned = [x.swapaxes(-1, -2).conj() if hermitian else x.swapaxes(-1, -2) for x in given]
        product = alpha * (given[0] @ turned[-1] if trans == "N" else turned[0] @ given[-1])
        if two:
            other = product.swapaxes(-1, -2)
            product = product + (other.conj() if hermitian else other)
        assert (function(*given, alpha=alpha, trans=trans, backend=where) == product).all()
        for uplo, order in product_of_options():
            old = integers(product.shape, "complex128", 2)
            inside = np.tri(old.shape[-1], dtype=bool) if uplo == "L" else np.tri(old.shape[-1], dtype=bool).T
            out = np.array(old, order=order)
            assert function(*given, alpha=alpha, beta=3.0, uplo=uplo, trans=trans, out=out, backend=where) is out
            expected = product + 3 * old
            if hermitian:
                every_row = np.arange(old.shape[-1])
                expected[..., every_row, every_row] = expected[..., every_row, every_row].real
            assert (out == np.where(inside, expected, old)).all()


def product_of_options() -> list[tuple[str, Any]]:
    return [("L", "C"), ("U", "C"), ("L", "F")]


@pytest.mark.parametrize("where", ["emulated", None])
def test_results_of_zeros_and_lists(where: str | None) -> None:
    assert ms.blas.syrk(np.zeros((4, 0, 3)), backend=where).shape == (4, 0, 0)
    out = np.full((2, 3, 3), np.nan)
    ms.blas.syrk(np.zeros((2, 3, 0)), out=out, backend=where)
    assert (np.tril(out[0])[np.tri(3, dtype=bool)] == 0).all() and np.isnan(out[:, 0, 1:]).all()
    stack = [integers((3, 4), "float64", seed) for seed in range(5)]
    found = ms.blas.syr2k(stack, stack, backend=where)
    assert all((x == 2 * (a @ a.T)).all() for x, a in zip(found, stack, strict=True))
    turned = [np.asfortranarray(stack[0]), *stack[1:]]  # strides differ
    assert all((x == a @ a.T).all() for x, a in zip(ms.blas.syrk(turned, backend=where), stack, strict=True))


def test_plans_say_who_computes_the_triangle() -> None:
    plan = ms.plan("syrk", np.ones((40, 4, 3)), backend="emulated")
    assert plan.problem.operation == "rank_k" and "VARIANT=tiles" in plan.explain()
    with pytest.raises(ValueError, match="out overlaps a"):
        both = np.ones((40, 4, 4))
        ms.blas.syrk(both, out=both, backend="emulated")
