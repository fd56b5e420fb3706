"""The trsm kernels: exact where division is, within bounds on random numbers, for all variants, sides and triangles."""

from __future__ import annotations

import mmap
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import A100, H200
from orders import in_order
from sparing import SHARE, sliced
from trsm_cases import (
    CASES,
    bounded,
    case_id,
    exact,
    launch,
    numbers,
    place_for_x,
    stack_of,
    triangles,
)

from mansard import testing
from mansard.backends import cpu
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.batched import trsm
from mansard.kernels.batched.trsm import defaults, emit, space, space_cpu, spec, work
from mansard.kernels.batched.trsm.space import Blocked, Config, Lanes, Stream, Tensor
from mansard.kernels.batched.trsm.space_cpu import Simd
from mansard.kernels.batched.trsm.systems import system
from mansard.machine import machine
from mansard.plan import predict
from mansard.plan.problem import DTYPES, Problem

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
_MAP_NORESERVE = 0x4000  # Linux; Python's mmap does not name it
ONE_OF_EACH = {
    "cpu": [Simd(2, 3, 2), Simd(2, 2, 1, True)],
    "gpu": [Lanes(4, 2), Lanes(2, 2, 1, 2, "own", WARPS=2), Blocked(8, 4, 4, 8, 2), Tensor(1)],
}


def kernels(backend: str) -> list[Any]:
    return ONE_OF_EACH["cpu" if backend == "cpu" else "gpu"]


@pytest.mark.parametrize("case", CASES[::8], ids=case_id)
def test_cpu_default_is_exact_and_within_bounds(case: tuple[Problem, Config]) -> None:
    problem, _ = case
    config = space_cpu.default(problem, cpu.backend().device)
    exact(problem, config, "cpu")
    exact(problem, config, "cpu", scaled=True)
    bounded(problem, config, "cpu")


@pytest.mark.parametrize("config", [Simd(2, 1, 1), Simd(4, 5, 2), Simd(4, 8, 1, True)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_cpu_tiles(dtype: str, config: Simd) -> None:
    problem = spec.problem(dtype, 11, 5, 13, uplo="upper")
    exact(problem, config, "cpu")
    bounded(problem, config, "cpu")


@pytest.mark.parametrize(("side", "uplo", "trans"), list(product(("left", "right"), ("lower", "upper"), "NTC")))
def test_every_side_and_triangle(side: str, uplo: str, trans: str, backend: str) -> None:
    """With and without a unit diagonal; NaN in everything that BLAS does not reference."""
    config: Any = Lanes(2, 2) if backend != "cpu" else Simd(4, 3, 2, uplo == "upper")
    units = (False, True) if backend != "cpu" else (trans == "T",)
    for unit in units:
        problem = spec.problem("complex64", 5, 3, 9, side=side, uplo=uplo, trans=trans, unit=unit)
        exact(problem, config, backend)


@pytest.mark.parametrize("which", [0, 1])
def test_every_size_of_a_batch(which: int, backend: str) -> None:
    """None, one, one less and one more than a warp, a vector, a block and a grid take at a time."""
    for batch in (0, 1, 7, 8, 9, 31, 32, 33, 65):
        exact(spec.problem("float64", 6, 3, batch), kernels(backend)[which], backend)


def test_blocked_batches(gpu_backend: str) -> None:
    for batch in (0, 1, 4, 5, 50):
        exact(spec.problem("float64", 12, 9, batch), Blocked(8, 4, 4, 8, 2), gpu_backend)


@pytest.mark.parametrize("which", [0, 1, 2, 3, 4])
def test_without_alpha_there_is_only_zero(which: int, backend: str) -> None:
    """Neither A nor B is looked at, so that NaN there does not matter."""
    config = [*kernels(backend), Stream(2, 2)][which % len(kernels(backend)) if backend == "cpu" else which]
    xp = testing.array_module(backend)
    problem = spec.problem("float64", 10, 1 if config.VARIANT == "stream" else 3, 11)
    nothing = [xp.full((11, *spec.shape(problem, operand)), np.nan) for operand in "ab"]
    stacks = [stack_of(problem, operand, xp, values) for operand, values in zip("ab", nothing, strict=True)]
    out = place_for_x(problem, xp)
    launch(problem, config, backend, [*stacks, out], 0.0)
    assert bool((out.view == 0).all())


@pytest.mark.parametrize("order", ["reverse", "greedy"])
def test_rows_are_read_before_the_next_ones_take_their_place(order: str) -> None:
    """A ring of two places for five rows of blocks; two warps, the second without a column of X."""
    with in_order(order):
        exact(spec.problem("float64", 40, 16, 2), Tensor(2, 2), "emulated")
        exact(spec.problem("float64", 37, 20, 2, uplo="upper", layout_a="col"), Tensor(2, 3), "emulated")


def test_blocks_stay_for_the_next_matrix(gpu_backend: str) -> None:
    """Its first rows are on their way while the last ones of a matrix are solved; 16 and 24 columns per warp."""
    for config in (Tensor(1, 3, BLOCKS_PER_SM=1), Tensor(2, 2, 3, BLOCKS_PER_SM=1)):
        exact(spec.problem("float64", 17, 37, 150), config, gpu_backend)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_a_singular_matrix_spoils_only_its_own_solution(which: int, dtype: str, backend: str) -> None:
    config = kernels(backend)[which % len(kernels(backend))]
    if isinstance(config, Tensor) and dtype != "float64":
        return
    if backend == "cpu" and dtype == "complex64":
        config = replace(config, LANES=4)
    xp = testing.array_module(backend)
    problem = spec.problem(dtype, 10, 3, 40)
    clean, dirty = triangles(problem, xp, 5, True)
    expected = numbers(problem, "x", xp, 6, True)
    B = clean @ expected
    dirty[17, 4, 4] = 0
    B[17, 4] = 1
    stacks = [stack_of(problem, "a", xp, dirty), stack_of(problem, "b", xp, B), place_for_x(problem, xp)]
    launch(problem, config, backend, stacks)
    X = stacks[2].view
    others = [i for i in range(40) if i != 17]
    assert bool((X[others] == expected[others]).all())
    assert bool((X[17, :4] == expected[17, :4]).all()) and not bool(xp.isfinite(X[17, 4]).any())


@pytest.mark.parametrize(
    ("dtype", "on_gpus"), [("float32", Lanes(1, 1)), ("float64", Lanes(1, 1)), ("float64", Tensor(1))]
)
def test_division_is_division(dtype: str, on_gpus: Any, backend: str) -> None:
    """Over the whole range of exponents, with zeros and infinities: what dividing gives, to the last bit."""
    xp = testing.array_module(backend)
    real, rng = np.finfo(dtype), np.random.default_rng(3)
    count = 20_000 if isinstance(on_gpus, Lanes) else 2_000
    problem = spec.problem(dtype, 1, 1, count)

    def draw() -> Any:
        exponents = rng.integers(real.minexp - real.nmant, real.maxexp, count)
        values = np.ldexp(rng.uniform(1, 2, count) * rng.choice([-1, 1], count), exponents)
        values[:6] = [0, -0.0, np.inf, real.tiny, real.max, 1]
        return rng.permutation(values).astype(dtype).reshape(-1, 1, 1)

    moderate = rng.random((count, 1, 1)) < 0.5
    numerators, denominators = (
        np.where(moderate, rng.uniform(1, 2, moderate.shape), draw()).astype(dtype) for _ in range(2)
    )
    A, B = (xp.asarray(values) for values in (denominators, numerators))
    stacks = [stack_of(problem, "a", xp, A), stack_of(problem, "b", xp, B), place_for_x(problem, xp)]
    launch(problem, on_gpus if backend != "cpu" else Simd(2, 1, 1, True), backend, stacks)
    with np.errstate(all="ignore"):
        expected = numerators / denominators
    X = np.asarray(stacks[2].view if xp is np else stacks[2].view.get())
    assert np.array_equal(X, expected, equal_nan=True)


def test_inverted_diagonals_are_an_option(gpu_backend: str) -> None:
    """They round twice: some quotients differ, by little."""
    xp = testing.array_module(gpu_backend)
    problem = spec.problem("float64", 1, 1, 1000)
    A, B = (numbers(problem, operand, xp, seed, False) for seed, operand in enumerate("ab"))
    stacks = [stack_of(problem, "a", xp, A), stack_of(problem, "b", xp, B), place_for_x(problem, xp)]
    launch(problem, Lanes(1, 1, INVERT=True), gpu_backend, stacks)
    relative = abs(stacks[2].view * A - B) / abs(B)
    assert bool((stacks[2].view != B / A).any()) and float(relative.max()) < 4e-16
    assert not any(config.INVERT for config in space.candidates(problem, H200) if not isinstance(config, Simd))


def test_solutions_may_take_the_place_of_right_hand_sides(backend: str) -> None:
    """`exact` does that with scaled problems, if X lies like B: that it does."""
    config = kernels(backend)[1]
    xp = testing.array_module(backend)
    problem = spec.problem("float64", 7, 2, 70)
    clean, dirty = triangles(problem, xp, 1, True)
    expected = numbers(problem, "x", xp, 2, True)
    stacks = [stack_of(problem, "a", xp, dirty), stack_of(problem, "b", xp, clean @ expected)]
    launch(problem, config, backend, [*stacks, stacks[1]])
    assert bool((stacks[1].view == expected).all())


@pytest.mark.parametrize("which", [0, 1, 2])
def test_matrices_beyond_two_to_the_31_elements(which: int) -> None:
    """Of a stack whose second matrix is that far away; memory that is not touched costs nothing."""
    backend = "cpu" if which == 1 else "emulated"
    config = [Lanes(4, 2), Simd(2, 3, 2), Blocked(8, 4, 4, 8, 2)][which]
    problem = spec.problem("float64", 10, 4, 2, stack_a="strided", stack_b="strided")
    stride = 2**31 + 2
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    clean, dirty = triangles(problem, np, 1, True)
    expected = numbers(problem, "x", np, 2, True)
    stacks: list[Any] = []
    for operand, values in (("a", dirty), ("b", clean @ expected), ("x", np.zeros((2, 10, 4)))):
        memory = np.frombuffer(mmap.mmap(-1, 8 * (stride + 128), flags=flags), np.float64)
        columns = values.shape[2]
        view = np.lib.stride_tricks.as_strided(memory, values.shape, (8 * stride, 8 * columns, 8))
        view[...] = values
        stack = stack_of(problem, operand, np, values)
        stacks.append(replace(stack, view=view, buffer=memory, strides=(stride, columns, 1)))
    launch(problem, config, backend, stacks)
    assert (stacks[2].view == expected).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_reference_solves(dtype: str) -> None:
    for side, uplo, trans, unit in product(("left", "right"), ("lower", "upper"), "NTC", (False, True)):
        problem = spec.problem(dtype, 7, 3, 4, side=side, uplo=uplo, trans=trans, unit=unit)
        clean, dirty = triangles(problem, np, 3, True)
        X = numbers(problem, "x", np, 4, True)
        op = clean if trans == "N" else clean.swapaxes(1, 2) if trans == "T" else clean.conj().swapaxes(1, 2)
        B = op @ X if side == "left" else X @ op
        found = spec.reference(dirty, B, 2, side, uplo, problem.trans, unit)
        assert (found == 2 * X).all(), (side, uplo, trans, unit)


def compiled(problem: Problem, config: Config, device: Device) -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), device.arch)
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


@needs_nvrtc
@pytest.mark.parametrize(
    "size, dtype",
    sliced(list(product([(12, 12), (32, 1), (64, 32), (33, 1), (64, 1), (250, 1), (512, 1)], DTYPES)), 9),
)
def test_what_is_chosen_does_not_spill(size: tuple[int, int], dtype: str) -> None:
    problem = spec.problem(dtype, *size, 10_000)
    rule = defaults.default(problem, H200)
    chosen, _ = predict.choose(trsm.FAMILY, problem, H200, machine.known(H200))
    for config in {rule, chosen}:
        assert config is not None and compiled(problem, config, H200).spill_bytes == 0, config


@needs_nvrtc
def test_compiles_for_sm_80() -> None:
    for problem, config in CASES[SHARE.seed % 20 :: 20]:
        assert compiled(problem, config, A100).spill_bytes == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_is_always_a_configuration(dtype: str) -> None:
    """For every shape, layout and stack; candidates are legal, distinct and few."""
    rng = np.random.default_rng(4)
    for N, NRHS in [
        (1, 1),
        (256, 1),
        (2048, 1),
        (1, 256),
        (256, 256),
        (32, 32),
        (32, 1),
        *rng.integers(1, 257, (12, 2)).tolist(),
    ]:
        layouts = {f"layout_{operand}": str(rng.choice(["row", "col", "any"])) for operand in "abx"}
        stacks = {"stack_a": str(rng.choice(spec.STACKS)), "stack_b": str(rng.choice(spec.STACKS))}
        side, uplo = str(rng.choice(["left", "right"])), str(rng.choice(["lower", "upper"]))
        odd = spec.problem(dtype, N, NRHS, 5, aligned=bool(rng.integers(2)), side=side, uplo=uplo, **layouts, **stacks)
        for problem in (spec.problem(dtype, N, NRHS, 5000), odd):
            for device in (H200, A100, cpu.backend().device):
                assert defaults.default(problem, device) is not None, (problem, device)
            for device in (H200, cpu.backend().device):
                found = list(space.candidates(problem, device))
                assert 0 < len(found) == len(set(found)) <= 150
                assert all(space.illegal(problem, config, device) is None for config in found)
                assert all(space.from_dict(space.to_dict(config)) == config for config in found)


def test_work_counts_what_must_move_once() -> None:
    n, columns, batch = 8, 3, 1000
    plain = work.work(spec.problem("float64", n, columns, batch))
    assert plain.read == 8 * batch * (n * (n + 1) // 2 + n * columns) and plain.written == 8 * batch * n * columns
    assert plain.flops == n * n * columns * batch
    shared = work.work(spec.problem("complex64", n, columns, batch, stack_a="shared", unit=True))
    assert shared.read == 8 * (n * (n - 1) // 2 + batch * n * columns)


def test_every_problem_is_a_system_from_the_left() -> None:
    turned = system(spec.problem("complex64", 4, 3, 6, side="right", trans="C", layout_b="col"))
    assert (turned.upper, turned.conj, turned.a_turned, turned.x_turned) == (False, True, False, True)
    assert (turned.operands.layout_a, turned.operands.layout_b, turned.operands.layout_c) == ("row", "row", "row")
    plain = system(spec.problem("float64", 4, 3, 6, trans="C", pitch_a=6, stack_a="strided"))
    assert (plain.upper, plain.conj, plain.a_turned) == (True, False, True)
    assert (plain.operands.layout_a, plain.operands.pitch_a, plain.operands.layout_b) == ("col", 6, "row")
    vector = system(spec.problem("float64", 4, 1, 6))
    assert (vector.operands.layout_b, vector.operands.pitch_b) == ("col", 4)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Lanes(3, 2), "does not divide a warp"),
        (Lanes(2, 2, OUT="direct"), "not one of own, back"),
        (Lanes(2, 2, 2), "exactly where its B was"),
        (Lanes(1, 1), "registers per thread"),
        (Blocked(24), "no power of two"),
        (Blocked(DIM_X=3, DIM_Y=8), "whole warps"),
        (Blocked(STAGES=1), "STAGES less than 2"),
        (Stream(), "only one is solved for"),
        (Stream(STAGES=1), "STAGES less than 2"),
        (Tensor(0), "1 to 32"),
        (Tensor(1, 1), "one row arrives"),
        (Simd(), "for CPUs"),
    ],
)
def test_illegal_ones_say_why(config: Config, reason: str) -> None:
    found = space.illegal(spec.problem("float64", 21, 21, 10, aligned=False), config, H200)
    assert found is not None and reason in found
    assert "beyond 256" in (spec.refusal(spec.problem("float64", 257, 2, 65)) or "")
    assert "beyond 512" in (spec.refusal(spec.problem("float64", 513, 2, 1)) or "")
    assert "beyond 2048" in (spec.refusal(spec.problem("float64", 2049, 1, 1)) or "")
    alone = spec.problem("float64", 21, 1, 10)
    assert "no power of two" in (space.illegal(alone, Stream(BLK_K=24), H200) or "")
    assert "can meet" in (space.illegal(alone, Stream(2, 16), H200) or "")
    for other in (spec.problem("complex128", 21, 21, 10), spec.problem("float64", 257, 21, 2)):
        assert "only float64, at most 256" in (space.illegal(other, Tensor(), H200) or "")
