"""The qr kernels: LAPACK's conventions, exact where its arithmetic is, within bounds elsewhere, for all results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import H200
from qr_cases import BLOCK, CASES, LANES, case_id, check, epsilon, geqrf, numbers, run
from sparing import SHARE, crossed, rotated, sliced, spared

import mansard as ms
from mansard.compile import nvrtc
from mansard.kernels.factor import qr
from mansard.kernels.factor.qr import defaults, emit, space, spec, tensor, work
from mansard.kernels.factor.qr.space import Block, Config, Lanes, Tensor
from mansard.machine import machine
from mansard.plan.problem import DTYPES, REAL, Problem

pytestmark = rotated(2)

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
ONE_OF_EACH: list[Any] = [
    Lanes(1, 4, 0, 1, 1, 1), Lanes(1, 8), Lanes(2, 4, 2), Lanes(4, 2, 1), Block(8, 8, 1, 1, 2), Tensor(1)
]  # fmt: skip


def some_of_each(dtype: str, backend: str) -> Sequence[Config]:
    """One of each kind of kernel that takes a dtype; on the emulator every second one, the others in other runs."""
    configs = ONE_OF_EACH[: None if dtype == "float64" else -1]
    return configs if backend == "cuda" else configs[(SHARE.seed + DTYPES.index(dtype)) % 2 :: 2]


def skip_unless_taken(problem: Problem, config: Config) -> None:
    if isinstance(config, Tensor) and (reason := tensor.refusal(problem, config)) is not None:
        pytest.skip(reason)


def operands(problem: Problem, seed: int = 0) -> tuple[Any, Any]:
    return numbers(problem, "a", seed), numbers(problem, "b", seed + 1) if problem.want == "solve" else None


@pytest.mark.parametrize("config, dtype", crossed(ONE_OF_EACH, DTYPES), ids=str)
def test_triangles_stay_as_they_are(config: Config, dtype: str, gpu_backend: str) -> None:
    """Nothing is below the diagonal, so nothing is reflected: tau is 0. A complex diagonal becomes real."""
    problem = spec.problem(dtype, 7, 6, 9)
    skip_unless_taken(problem, config)
    A = np.triu(numbers(problem, "a", 3, integers=True))
    every = np.arange(6)
    A[:, every, every] = A[:, every, every].real
    got = run(problem, config, gpu_backend, A)
    assert bool((got.F == A).all()) and bool((got.tau == 0).all())


@pytest.mark.parametrize("config, dtype", crossed(ONE_OF_EACH, DTYPES), ids=str)
def test_permutations_are_exact(config: Config, dtype: str, gpu_backend: str) -> None:
    """Columns of one entry, of either sign: all of LAPACK's steps are exact."""
    rng, problem = np.random.default_rng(5), spec.problem(dtype, 6, 6, 11)
    skip_unless_taken(problem, config)
    A = np.stack([np.eye(6)[rng.permutation(6)] * rng.choice([1, -1, 2], 6) for _ in range(11)]).astype(dtype)
    A += 0  # a zero's sign would count
    got, (F, tau) = run(problem, config, gpu_backend, A), geqrf(A)
    assert bool((got.F == F).all()) and bool((got.tau == tau).all())


@pytest.mark.parametrize("config", [Lanes(1, 1), *ONE_OF_EACH], ids=str)
def test_pythagorean_columns(config: Config, gpu_backend: str) -> None:
    """(3, 4), (5, 12), (8, 15): lengths are exact, and have the sign that LAPACK gives them."""
    A = np.array([[[3.0, 1], [4, 2]], [[-5, 1], [12, 0]], [[8, 1], [-15, 3]], [[0, 1], [0, 2]], [[0, 2], [-3, 1]]])
    got, (F, tau) = run(spec.problem("float64", 2, 2, 5), config, gpu_backend, A), geqrf(A)
    assert got.F[:, 0, 0].tolist() == [-5, 13, -17, 0, -3]
    assert bool((abs(got.F - F) <= 4 * np.finfo("float64").eps * abs(A).max()).all())
    assert bool((abs(got.tau - tau) <= 4 * np.finfo("float64").eps).all()) and got.tau[3, 0] == 0


@pytest.mark.parametrize("size, dtype", crossed([(9, 9), (12, 7), (7, 12)], DTYPES))
def test_reflections_are_those_of_lapack(size: tuple[int, int], dtype: str, gpu_backend: str) -> None:
    """Not only their product: vectors, factors and signs, of matrices that determine them well."""
    problem = spec.problem(dtype, *size, 17)
    A = numbers(problem, "a", 7) + 4 * np.eye(*size)
    A = A.astype(dtype)
    F, tau = geqrf(A)
    condition = np.linalg.cond(A[:, : min(size), : min(size)]).max()
    bound = 8 * sum(size) * epsilon(problem) * condition
    for config in some_of_each(dtype, gpu_backend):
        got = run(problem, config, gpu_backend, A)
        assert bool((abs(got.F - F) <= bound * abs(A).max()).all()) and bool((abs(got.tau - tau) <= bound).all())


@pytest.mark.parametrize("power", [-1.0, -0.5, 0.5, 1.0])
@pytest.mark.parametrize(
    "config, dtype", crossed([Lanes(1, 4), Lanes(2, 4, 2), Block(8, 8, 1, 1, 2), Tensor(1)], DTYPES, 2), ids=str
)
def test_tiny_and_huge_matrices(config: Config, dtype: str, power: float, gpu_backend: str) -> None:
    """Whose squares are out of range, beside ordinary ones."""
    problem = spec.problem(dtype, 6, 5, 7)
    skip_unless_taken(problem, config)
    A = numbers(problem, "a", 9)
    scale = (300 if REAL[dtype] == "float64" else 36) * power
    A[::2] *= np.asarray(10.0**scale, REAL[dtype])
    got = check(problem, config, gpu_backend, A)
    scaled = A.copy()
    scaled[::2] /= np.asarray(10.0**scale, REAL[dtype])
    _, tau = geqrf(scaled)
    assert bool((abs(got.tau - tau) <= 200 * epsilon(problem)).all())


@pytest.mark.parametrize("size", [(8, 5), (5, 5), (5, 8)])
@pytest.mark.parametrize("config", [Lanes(1, 4), Lanes(4, 2, 1), Block(8, 8, 1, 1, 2)], ids=str)
def test_first_entries_that_are_large(config: Config, size: tuple[int, int], gpu_backend: str) -> None:
    """Above a column that is not: their products with a reflection's vector are out of range, R is not."""
    problem = spec.problem("float64", *size, 6)
    A = numbers(problem, "a", 13)
    A[:, :, 0] *= 1e70
    A[::2, 0, -1] = 1e300
    check(problem, config, gpu_backend, A)


@pytest.mark.parametrize("want", ["raw", "reduced", "complete", "r", "solve"])
@pytest.mark.parametrize("config", [Lanes(1, 4), Lanes(4, 2, 1), Block(8, 8, 1, 1, 2), Tensor(1)], ids=str)
def test_columns_and_rows_of_all_sizes(config: Config, want: str, gpu_backend: str) -> None:
    """From one column to the next, and from one row to the next, by factors that leave no range; and the least squares
    of such systems."""
    problem = spec.problem("float64", 8, 5, 6, want=want, NRHS=2 if want == "solve" else 0)
    skip_unless_taken(problem, config)
    A, B = operands(problem, 11)
    A[:3] *= 10.0 ** np.linspace(-150, 140, 5)
    if want != "solve":
        A[3:] *= 10.0 ** np.linspace(120, -180, 8)[:, None]
        check(problem, config, gpu_backend, A, B)
        return
    got = run(problem, config, gpu_backend, A, B)
    exact = [
        np.linalg.lstsq(a / abs(a).max(0), b, rcond=None)[0] / abs(a).max(0)[:, None] for a, b in zip(A, B, strict=True)
    ]
    assert bool((abs(got.X - np.stack(exact)) <= 1e-11 * abs(np.stack(exact))).all())


@pytest.mark.parametrize("want, dtype", crossed(["raw", "reduced", "complete"], DTYPES))
def test_columns_that_vanish_or_repeat(dtype: str, want: str, gpu_backend: str) -> None:
    problem = spec.problem(dtype, 7, 7, 5, want=want)
    A = numbers(problem, "a", 13)
    A[0] = 0
    A[1, :, 2] = 0
    A[2, :, 3:] = A[2, :, :1]
    A[3, 2:, :] = 0
    A[4, :, 0] = 0
    for config in some_of_each(dtype, gpu_backend):
        got = check(problem, config, gpu_backend, A)
        assert bool((got.F[0] == 0).all())
        assert want != "raw" or bool((got.tau[0] == 0).all())


@pytest.mark.parametrize("want", ["raw", "reduced"])
@pytest.mark.parametrize("size", [(20, 20), (43, 43), (50, 35)])
def test_several_panels_of_hard_matrices(size: tuple[int, int], want: str, gpu_backend: str) -> None:
    """Columns and rows that differ by many orders, near and exact dependence, numbers whose squares leave the range:
    every column's residual stays within its own bound."""
    problem = spec.problem("float64", *size, 8, want=want)
    rng, K = np.random.default_rng(23), min(size)
    A = numbers(problem, "a", 23)
    A[1] *= 10.0 ** np.linspace(-70, 60, size[1])
    A[2] *= 10.0 ** np.linspace(60, -70, size[0])[:, None]
    A[3] = A[3] @ np.diag(np.logspace(0, -18, size[1])) @ np.linalg.qr(rng.standard_normal((size[1],) * 2))[0]
    A[4, :, K // 2 :] = A[4, :, : size[1] - K // 2]
    A[5] = A[5, :, :2] @ rng.standard_normal((2, size[1]))
    A[6, :, 11] *= 1e200
    A[7, :, 3], A[7, 9:, 5] = 0, 0
    few = 1 if size[0] < 32 else 2
    check(problem, Tensor(few), gpu_backend, A)
    check(problem, Tensor(few + 1), gpu_backend, A[::-1].copy())


@pytest.mark.parametrize("size", [(9, 9), (17, 17), (25, 25), (20, 37), (23, 12)])
def test_ordinary_matrices_are_not_factored_twice(
    size: tuple[int, int], gpu_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and columns before the first ones are no reason to go the careful way, which is made useless here."""
    written, problem = emit.source, spec.problem("float64", *size, 3)
    useless = """template <>
struct mansard::Careful<mansard::Plain<Params>> {
  template <class Place>
  static __device__ void run(const Place&, int, bool) {}
};

struct Arguments {"""

    def source(*given: Any) -> Any:
        made = written(*given)
        return replace(made, text=made.text.replace("struct Arguments {", useless))

    monkeypatch.setattr(emit, "source", source)
    check(problem, Tensor(1), gpu_backend, numbers(problem, "a", 29))
    with pytest.raises(AssertionError):  # a column of zeros goes that way
        check(problem, Tensor(1), gpu_backend, numbers(problem, "a", 29) * (np.arange(size[1]) != 1))


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=str)
def test_bad_neighbours_change_nothing(config: Config, gpu_backend: str) -> None:
    """NaN, infinities and zeros of one matrix do not reach another."""
    problem = spec.problem("float64", 6, 6, 13)
    A = numbers(problem, "a", 17)
    alone = run(problem, config, gpu_backend, A)
    B = A.copy()
    B[2], B[5, 3, 1], B[8] = np.nan, np.inf, 0
    with np.errstate(all="ignore"):
        beside = run(problem, config, gpu_backend, B)
    fine = [i for i in range(13) if i not in (2, 5, 8)]
    assert bool((alone.F[fine] == beside.F[fine]).all()) and bool((alone.tau[fine] == beside.tau[fine]).all())
    assert bool(np.isnan(beside.F[2]).all()) and not bool(np.isfinite(beside.F[5]).all())


@pytest.mark.parametrize("case", [LANES[7], LANES[12], LANES[31], LANES[35], BLOCK[0]], ids=case_id)
def test_factors_may_replace_the_matrix(case: tuple[Problem, Config], gpu_backend: str) -> None:
    problem, config = case
    check(problem, config, gpu_backend, numbers(problem, "a", 19), in_place=True)


@pytest.mark.parametrize("want", spec.WANTS)
def test_every_size_of_a_batch(want: str, gpu_backend: str) -> None:
    """None, one, one less and one more than a warp, a block and a grid take at a time."""
    for batch in (0, 1, 7, 8, 9, 31, 33):
        problem = spec.problem("float64", 5, 4, batch, want=want, NRHS=2 if want == "solve" else 0)
        check(problem, Lanes(1, 4, 0, 2, 1, 1), gpu_backend, *operands(problem))
    for batch in (0, 1, 5):
        problem = spec.problem("float64", 9, 8, batch, want=want, NRHS=1 if want == "solve" else 0)
        check(problem, Block(8, 8, 1, 2, 2), gpu_backend, *operands(problem))


def test_the_reference() -> None:
    A = numbers(spec.problem("complex128", 5, 3, 4), "a")
    F, tau = spec.reference(A)
    expected, factors = geqrf(A)
    assert np.allclose(F, expected) and np.allclose(tau, factors)
    R, Q = spec.reference(A, want="reduced")
    assert np.allclose(Q @ R, A) and spec.reference(A, want="r")[0].shape == (4, 3, 3)
    B = numbers(spec.problem("complex128", 5, 2, 4), "a", 1)
    (X,) = spec.reference(A, B, "solve")
    assert np.allclose(A.conj().swapaxes(1, 2) @ (A @ X - B), 0)


@pytest.mark.parametrize("want, dtype", crossed(spec.WANTS, DTYPES, 2))
def test_every_order_has_a_default(want: str, dtype: str) -> None:
    sizes = [(n, n) for n in (*sliced(range(1, 34), 5), 48, 64, 96, 100, 128)]
    sizes += [(40, 3), (3, 40), (34, 17), (17, 34), (200, 80), (80, 120), (256, 32), (600, 16)]
    for M, N in sizes:
        problem = spec.problem(dtype, M, N, 1000, want=want, NRHS=want == "solve")
        if (spec.refusal(problem) or spec.too_large(problem)) is None:
            assert defaults.default(problem, H200) is not None, problem


def test_what_is_refused() -> None:
    for problem, reason in (
        (spec.problem("float64", 9, 129, 1), "columns"),
        (spec.problem("float64", 129, 9, 1, want="complete"), "columns"),
        (spec.problem("float64", 2000, 32, 1), "room"),
        (spec.problem("float64", 100, 33, 1, want="panel"), "panel"),
        (spec.problem("float64", 3, 4, 1, want="solve", NRHS=1), "equations"),
        (spec.problem("float64", 4, 4, 1, want="solve", NRHS=17), "right-hand sides"),
        (spec.problem("float64", 4, 4, 1, want="full"), "want"),
        (spec.problem("float16", 4, 4, 1), "dtype"),
        (spec.problem("float64", 0, 4, 1), "nothing"),
    ):
        assert reason in str(spec.refusal(problem) or spec.too_large(problem)), problem
    assert spec.too_large(spec.problem("float64", 700, 32, 1, want="panel")) is None


def test_illegal_configurations_say_why() -> None:
    problem = spec.problem("float64", 8, 8, 100)
    for config, reason in (
        (Lanes(3, 4), "powers"),
        (Lanes(64, 1), "powers"),
        (Lanes(8, 8), "warp"),
        (Block(8, 8, 1, 1, 4), "4 warps"),
        (Lanes(2, 4, 4), "ROLL"),
        (Lanes(1, 8, 0, 0), "positive"),
        (Lanes(1, 8, WARPS=33), "positive"),
        (Lanes(1, 8, BLOCKS_PER_SM=16), "registers"),
        (Tensor(2), "strips"),
        (Tensor(1, 64), "registers"),
    ):
        assert reason in str(space.illegal(problem, config, H200)), config
    assert "columns" in str(space.illegal(spec.problem("float64", 9, 200, 1), Lanes(1, 8), H200))
    assert "float64" in str(space.illegal(spec.problem("float32", 20, 20, 1), Tensor(1), H200))
    assert "no more columns" in str(space.illegal(spec.problem("float64", 20, 9, 1, want="complete"), Tensor(1), H200))
    assert "registers" in str(space.illegal(spec.problem("float64", 96, 96, 1), Tensor(1), H200))
    small = replace(H200, shared_per_block=100 << 10, shared_per_multiprocessor=100 << 10)
    assert "shared memory" in str(space.illegal(spec.problem("float64", 128, 128, 1), Tensor(8), small))


def test_configurations_are_stored_by_name() -> None:
    for _, config in CASES:
        assert space.from_dict(space.to_dict(config)) == config
    with pytest.raises(ms.errors.IllegalConfig, match="no parameter"):
        space.from_dict({"VARIANT": "lanes", "LANES": 3})


@pytest.mark.parametrize("want", spec.WANTS)
def test_candidates_are_legal_and_priced(want: str) -> None:
    limits = machine.known(H200)
    for n in (3, 16, 32, 64):
        problem = spec.problem("float64", n, n, 1 << 16, want=want, NRHS=want == "solve")
        if spec.refusal(problem):
            continue
        found = list(space.candidates(problem, H200))
        assert len(found) >= 8 and len(set(found)) == len(found)
        for config in found:
            assert space.illegal(problem, config, H200) is None
            assert all(value > 0 for value in work.limits(problem, config, H200, limits).values())
            assert work.bytes_in_flight(problem, config) > 0


def test_the_work_is_what_must_move() -> None:
    assert work.work(spec.problem("float64", 16, 16, 10)).bytes == 10 * (16 * 256 + 8 * 16)
    assert work.work(spec.problem("float64", 8, 8, 1, want="solve", NRHS=1)).bytes == 8 * 64 + 16 * 8
    assert work.work(spec.problem("float64", 6, 6, 1, want="reduced")).bytes == 3 * 36 * 8
    assert abs(work.work(spec.problem("float64", 90, 90, 1)).flops / (4 * 90**3 / 3) - 1) < 1e-6
    assert qr.emit is emit


# bytes that spill where a warp or a block more is worth them (H200)
SPILLED = {(32, "float64"): 8, (16, "complex128"): 32, (17, "complex128"): 104}


@needs_nvrtc
@pytest.mark.parametrize("n, dtype", spared(list(product([2, 8, 16, 17, 32, 64, 128], DTYPES)), 9))
def test_default_does_not_spill(n: int, dtype: str) -> None:
    problem = spec.problem(dtype, n, n, 1 << 20)
    if spec.too_large(problem):
        pytest.skip(str(spec.too_large(problem)))
    config = defaults.default(problem, H200)
    assert config is not None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    assert "warning" not in entry.log, entry.log
    resources = nvrtc.resources(entry.log)
    assert resources.spill_bytes <= (32 if n > 64 else SPILLED.get((n, dtype), 0))
    assert resources.registers <= work.registers(problem, config) + 56


@needs_nvrtc
@pytest.mark.parametrize(
    "size, want",
    sliced(list(product([(8, 8), (24, 24), (64, 32), (64, 64), (256, 32)], ["reduced", "solve", "panel"])), 5),
)
def test_default_of_other_results_does_not_spill(size: tuple[int, int], want: str) -> None:
    """But for tall matrices, and large ones, whose long vectors cost a few registers more than there are."""
    problem = spec.problem("float64", *size, 1 << 16, want=want, NRHS=want == "solve")
    if reason := spec.refusal(problem) or spec.too_large(problem):
        pytest.skip(reason)
    config = defaults.default(problem, H200)
    assert config is not None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    assert "warning" not in entry.log, entry.log
    assert nvrtc.resources(entry.log).spill_bytes <= (272 if size == (64, 64) else 128 if size[0] >= 64 else 0), config
