"""The lu kernels: exact where elimination is, within bounds on random and extreme numbers, with LAPACK's pivots."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import A100, H200
from linalg_cases import KINDS, THRESHOLD, matrix, solve_ratio
from lu_cases import bounded, exact, exact_matrices, launch, random_stack, swapped
from lu_tables import BLOCK, CASES, SWAPS, TILES, case_id
from orders import in_order, thread_orders
from sparing import crossed, rotated, spared

import mansard as ms
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.factor.lu import defaults, emit, space, spec, work
from mansard.kernels.factor.lu.space import Block, Config, Lanes, Swaps, Tile
from mansard.plan.problem import DTYPES, Problem

pytestmark = rotated(2)

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
ONE_OF_EACH: list[Config] = [
    Lanes(1), Lanes(4, True), Lanes(8), Lanes(4, VIA="shared"), Block(8, 2), Block(4, 2, "block"),
]  # fmt: skip


@pytest.mark.parametrize("case", SWAPS, ids=case_id)
def test_rows_are_exchanged(case: tuple[Problem, Config], gpu_backend: str) -> None:
    swapped(*case, gpu_backend)


@thread_orders([*BLOCK[-2:], TILES[1], SWAPS[0]], case_id)
def test_tiles_in_other_thread_orders(case: tuple[Problem, Config], order: str) -> None:
    with in_order(order):
        swapped(*case, "emulated") if case[0].want == "swap" else exact(*case, "emulated")


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("batch", [0, 1, 7, 31, 32, 33])
def test_every_size_of_a_batch(batch: int, config: Config, gpu_backend: str) -> None:
    exact(spec.problem("float64", 6, 6, batch), config, gpu_backend)


@pytest.mark.parametrize("config, dtype", crossed(ONE_OF_EACH, DTYPES, 2), ids=str)
def test_pivots_are_those_of_lapack(config: Config, dtype: str, gpu_backend: str) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    problem = spec.problem(dtype, 6, 6, 40)
    A = random_stack(problem, "a", 5)
    got = launch(problem, config, gpu_backend, A)
    for number in range(problem.BATCH):
        assert (got.pivots[number] == linalg.lu_factor(A[number])[1]).all()


def test_the_reference_is_exact() -> None:
    """The matrices that all kernels are compared with: ties, zero columns, and NumPy agree on what becomes of them."""
    for dtype in ("float64", "complex64"):
        made = exact_matrices(spec.problem(dtype, 9, 7, 50), 1, singular=True)
        F, pivots, info = spec.reference(made.A)
        assert (made.factors == F).all() and (pivots == made.pivots).all() and (info == made.info).all()
        ties, moved = (abs(np.tril(made.L, -1)) == 1).any(1), pivots != np.arange(7)
        assert info.any() and not info.all() and (ties & moved).any() and (ties & ~moved).any()


def test_the_last_of_equal_pivots_would_be_noticed() -> None:
    """The matrices have rows that share the pivot's size, with the pivot in any row: who takes the last one differs."""
    A = exact_matrices(spec.problem("float64", 9, 7, 50), 1).A
    turned = np.array([search_from_below(one) for one in A])
    _, pivots, _ = spec.reference(A)
    moved = pivots[:, 0] > 0
    assert (turned[moved] != pivots[moved, 0]).any() and (turned[~moved] != 0).any()


def search_from_below(A: Any) -> int:
    """The first pivot, if the last of equal ones is taken."""
    return int(len(A) - 1 - np.argmax(abs(A[::-1, 0])))


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=str)
def test_a_nan_counts_only_where_it_comes_first(config: Config, gpu_backend: str) -> None:
    problem = spec.problem("float64", 5, 5, 3)
    A = random_stack(problem, "a", 2)
    A[0, 0, 0] = np.nan
    A[1, 2, 0] = np.nan
    A[2, 3, 0], A[2, 1, 0] = np.inf, np.nan
    got = launch(problem, config, gpu_backend, A)
    with np.errstate(all="ignore"):
        _, pivots, _ = spec.reference(A)
    assert got.pivots[0, 0] == pivots[0, 0] == 0
    assert got.pivots[1, 0] == pivots[1, 0] != 2
    assert got.pivots[2, 0] == pivots[2, 0] == 3
    assert np.isnan(got.F[0]).any() and (got.info == 0).all()


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=str)
def test_a_column_of_zeros(config: Config, gpu_backend: str) -> None:
    """The factorization goes on, and says where it first found no pivot."""
    problem = spec.problem("float64", 6, 6, 4)
    A = random_stack(problem, "a", 3)
    A[0], A[1, :, 2], A[2, :, 5] = 0, 0, 0
    got = launch(problem, config, gpu_backend, A)
    assert got.info.tolist() == [1, 3, 6, 0]
    assert (got.F[0] == 0).all() and (got.pivots[0] == np.arange(6)).all()
    F, pivots, _ = spec.reference(A)
    assert (got.pivots == pivots).all() and np.allclose(got.F, F, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("config, dtype", crossed(ONE_OF_EACH, DTYPES, 2), ids=str)
@pytest.mark.parametrize("extreme", ["tiny", "subnormal", "huge", "graded"])
def test_extreme_numbers(extreme: str, config: Config, dtype: str, gpu_backend: str) -> None:
    """Scaled by powers of two the factors are the same but for these; subnormal ones lose bits, not their sense."""
    problem = spec.problem(dtype, 6, 6, 9)
    info = np.finfo(dtype)
    A = random_stack(problem, "a", 7)
    plain = launch(problem, config, gpu_backend, A)
    exponent = {"tiny": info.minexp + 8, "subnormal": info.minexp - info.nmant // 2, "huge": info.maxexp - 6}
    if extreme == "graded":
        step = np.ldexp(np.ones(6), (np.arange(6) * (info.maxexp // 8))).astype(info.dtype)
        bounded(problem, config, gpu_backend, A=(A / step[:, None]).astype(dtype))
        return
    scale = np.ldexp(np.ones(1), exponent[extreme]).astype(info.dtype)
    got = launch(problem, config, gpu_backend, (A * scale).astype(dtype))
    assert np.isfinite(got.F).all() and (got.info == 0).all()
    lower = np.tril_indices(6, -1)
    if extreme == "subnormal":
        error = abs(got.F - plain.F)[:, lower[0], lower[1]]
        assert (got.pivots == plain.pivots).all() and error.max() < 2.0 ** (8 - info.nmant // 2)
    else:
        assert (got.pivots == plain.pivots).all()
        close = abs(got.F - plain.F)[:, lower[0], lower[1]] <= 64 * info.eps
        assert close.all()


@pytest.mark.parametrize("want, config", [
    *product(("solve", "inverse"), (Lanes(1), Lanes(4, True), Lanes(8), Lanes(4, VIA="shared"))), ("inverse", Tile(1)),
], ids=str)  # fmt: skip
def test_a_tiny_pivot_divides_exactly(want: str, config: Config, gpu_backend: str) -> None:
    problem = spec.problem("float64", 4, 4, 3, NRHS=1 if want == "solve" else 0, want=want)
    diagonal = np.ldexp(np.ones(4), np.array([-1018, 900, 0, -1]))
    A = np.tile(np.diag(diagonal), (3, 1, 1))
    B = np.tile(diagonal[:, None] * 3, (3, 1, 1)) if want == "solve" else None
    got = launch(problem, config, gpu_backend, A, B)
    if want == "solve":
        assert (got.X == 3).all()
    else:
        assert (np.diag(1 / diagonal) == got.F).all()


@pytest.mark.parametrize(
    "case, dtype", crossed([(41, Block(8, 2)), (29, Lanes(32, True, 1)), (41, Tile(2, 4))], DTYPES, 2), ids=str
)
def test_inverses_in_place_are_accurate(case: tuple[int, Config], dtype: str, gpu_backend: str) -> None:
    """Of triangles that are inverted block by block, or of rows that meet all others; on both sides."""
    size, config = case
    rng, kinds = np.random.default_rng(4), [kind for kind in KINDS if kind != "deficient"]
    A = np.stack([matrix(rng, kind, size, size, dtype) for kind in kinds])
    got = launch(spec.problem(dtype, size, size, len(kinds), want="inverse"), config, gpu_backend, A)
    for i, kind in enumerate(kinds):
        ratios = solve_ratio(A[i], got.F[i], np.eye(size)), solve_ratio(got.F[i], A[i], np.eye(size))
        assert max(ratios) < THRESHOLD, (kind, ratios)


@pytest.mark.parametrize("size, config", [(29, Lanes(16, True, 1)), (41, Tile(1))], ids=str)
def test_inverses_are_as_good_as_those_of_getri(size: int, config: Config, gpu_backend: str) -> None:
    """X A is close to the unit matrix, as LAPACK's own test asks; A X is not here, neither is LAPACK's."""
    A = 1 / (np.add.outer(np.arange(size), np.arange(size)) + 1.0)[None] + 1e-13 * np.eye(size)
    got = launch(spec.problem("float64", size, size, 1, want="inverse"), config, gpu_backend, A)
    assert solve_ratio(got.F[0], A[0], np.eye(size)) < 1


@pytest.mark.parametrize("pivot", [True, False])
@pytest.mark.parametrize(
    "config", [Lanes(1), Lanes(4, True), Lanes(4, VIA="shared"), Block(8, 2), Tile(1), Tile(2, 8)], ids=str
)
def test_an_inverse_that_does_not_exist_says_so(config: Config, pivot: bool, gpu_backend: str) -> None:
    problem = spec.problem("float64", 6, 6, 4, want="inverse", pivot=pivot)
    A = random_stack(problem, "a", 1)
    A[1, 5], A[2, 3, 1] = 0, np.nan
    got = launch(problem, config, gpu_backend, A)
    assert got.info[[0, 1, 3]].tolist() == [0, 6, 0] and np.isfinite(got.F[[0, 3]]).all()
    assert not np.isfinite(got.F[[1, 2]]).any()


def test_a_singular_system_says_so(gpu_backend: str) -> None:
    problem = spec.problem("float64", 4, 4, 3, NRHS=1, want="solve")
    A = random_stack(problem, "a", 1)
    A[1, 2] = 0
    for config in (Lanes(1), Lanes(4), Block(8, 2)):
        got = launch(problem, config, gpu_backend, A, random_stack(problem, "b", 2))
        assert got.info.tolist() == [0, 4, 0]
        assert np.isfinite(got.X[[0, 2]]).all() and not np.isfinite(got.X[1]).all()


@pytest.mark.parametrize("size, dtype", crossed([1, 2, 5, 8, 9, 12, 13, 16, 17, 25, 32, 33], DTYPES))
def test_default_is_exact(size: int, dtype: str, gpu_backend: str) -> None:
    problem = spec.problem(dtype, size, size, 5)
    config = defaults.default(problem, H200)
    assert config is not None
    exact(problem, replace(config, BLOCKS_PER_SM=1), gpu_backend)


def problems(size: int, dtype: str) -> list[Problem]:
    """What is wanted of doubles; of others, factors."""
    wants: list[dict[str, Any]] = [{}, {"want": "solve", "NRHS": 1}]
    wants += [{"want": want} for want in ("inverse", "determinant", "logdet")]
    every = [spec.problem(dtype, size, size, 1 << 20, **want) for want in wants[: 5 if dtype == "float64" else 1]]
    return [problem for problem in every if spec.refusal(problem) is None]


@needs_nvrtc
@pytest.mark.parametrize("size, dtype", spared(list(product([2, 8, 16, 24, 33, 64, 100], DTYPES)), 9))
def test_defaults_do_not_spill(size: int, dtype: str) -> None:
    for problem in problems(size, dtype):
        config = defaults.default(problem, H200)
        assert config is not None, problem
        resources = compiled(problem, config, H200)
        assert resources.spill_bytes <= 40 and resources.stack_bytes <= 40, (problem, config)  # 33: faster all the same
        estimate = work.registers(problem, config)
        assert 0.5 * resources.registers - 16 <= estimate <= 1.6 * resources.registers + 48, (problem, config)


@needs_nvrtc
@pytest.mark.parametrize(("rows", "columns"), spared([(256, 32), (512, 32), (1024, 16)], 3))
def test_panels_do_not_spill(rows: int, columns: int) -> None:
    for dtype in ("float32", "float64"):
        problem = spec.problem(dtype, rows, columns, 100)
        config = defaults.default(problem, H200)
        assert isinstance(config, Block) and config.TEAM == "block"
        assert compiled(problem, config, H200).spill_bytes == 0


@needs_nvrtc
def test_older_gpus_compile() -> None:
    for problem, config in ((CASES[16][0], Lanes(8, True, 1)), (BLOCK[1][0], Block(8, 2, UNIT="mma"))):
        assert compiled(problem, config, A100).spill_bytes == 0
    assert compiled(SWAPS[0][0], Swaps(), A100).spill_bytes == 0


def compiled(problem: Problem, config: Config, device: Device) -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), device.arch)
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


def test_refusals_have_reasons() -> None:
    P = spec.problem
    for problem, word in (
        (P("float16", 4, 4, 3), "dtype"),
        (P("float64", 4, 4, 3, want="cube"), "want"),
        (P("float64", 4, 5, 3, want="inverse"), "square"),
        (P("float64", 4, 4, 3, want="solve", NRHS=99), "right-hand"),
    ):
        assert word in str(spec.refusal(problem)), problem
    assert spec.refusal(P("float64", 400, 400, 3)) is None
    for problem, config, word in (
        (P("float64", 4, 400, 3), Block(), "beyond"),
        (P("float64", 4000, 4, 3), Block(), "beyond"),
        (P("float64", 1000, 32, 3), Block(), "bytes"),
        (P("complex128", 128, 128, 3, want="inverse"), Block(), "bytes"),
        (P("float64", 4, 4, 3), Lanes(3), "lanes"),
        (P("float64", 4, 4, 3), Lanes(1, VIA="shared"), "VIA"),
        (P("float64", 40, 40, 3), Lanes(4), "registers"),
        (P("float64", 40, 40, 3), Block(5), "panels"),
        (P("float64", 40, 40, 3), Block(UNIT="tf32"), "UNIT"),
        (P("float32", 40, 40, 3), Block(UNIT="mma"), "float64"),
        (P("float64", 40, 40, 3), Swaps(), "exchanges"),
        (P("float64", 4, 4, 3, want="swap", NRHS=2), Lanes(), "exchanges"),
        (P("float64", 880, 32, 3), Block(4, 8, "block", BLOCKS_PER_SM=2), "shared memory"),
    ):
        assert word in str(space.illegal(problem, config, H200)), (problem, config)


def test_configurations_are_stored_and_read() -> None:
    for config in (Lanes(4, True), Block(16, 2, "block", "mma"), Swaps(8, 2)):
        assert space.from_dict(space.to_dict(config)) == config
    with pytest.raises(ms.errors.IllegalConfig):
        space.from_dict({"VARIANT": "lanes", "TILE": 3})


@pytest.mark.parametrize("size", [3, 12, 30, 60, 120])
def test_candidates_are_legal_and_hold_the_default(size: int) -> None:
    problem = spec.problem("float64", size, size, 1000)
    found = list(space.candidates(problem, H200))
    assert found and all(space.illegal(problem, config, H200) is None for config in found)
    assert defaults.default(problem, H200) in found


def test_work_counts_what_must_move_once() -> None:
    assert work.work(spec.problem("float64", 8, 8, 10)).bytes == 10 * (16 * 64 + 4 * 8 + 4)
    assert work.work(spec.problem("float64", 8, 8, 10, want="solve", NRHS=1)).bytes == 10 * (8 * 64 + 16 * 8 + 4)
    third = work.work(spec.problem("float64", 30, 30, 1)).flops / (2 * 30**3)
    assert 0.3 < third < 0.36
