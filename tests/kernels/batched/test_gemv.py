"""`gemv` on GPUs: exact integer tests, bounds, resources, the space and its model."""

from __future__ import annotations

import mmap
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from batched_cases import DTYPES
from devices import A100, H200
from gemv_cases import CASES, exact, laid_out, launch, numbers
from sparing import SHARE, sliced

from mansard import testing
from mansard.compile import nvrtc
from mansard.kernels.batched import gemv
from mansard.kernels.batched.gemv import defaults, emit, shapes, space, spec, work
from mansard.kernels.batched.gemv.space import Config, Lanes, Stream
from mansard.kernels.batched.gemv.space_cpu import Simd
from mansard.machine import machine
from mansard.plan import predict
from mansard.plan.problem import Problem

pytestmark = pytest.mark.usefixtures("no_plans")

P = spec.problem
needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
_MAP_NORESERVE = 0x4000  # Linux; Python's mmap does not name it
ONE_OF_EACH = [Lanes(2, 2), Lanes(2, 4, 2, 2, 2), Stream(4, 8, 2, 1), Stream(1, 32, 2, 2, 1, 2, 1)]


def name_of(config: Config) -> str:
    return f"{config.VARIANT}-{config.LANES_M}" if not isinstance(config, Simd) else config.VARIANT


# ---- GPU kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=name_of)
@pytest.mark.parametrize("width", [8, 9])
def test_every_size_of_a_batch(config: Config, width: int, gpu_backend: str) -> None:
    """None, one, one less and one more than a warp, a block and a grid take at a time."""
    for batch in (0, 1, 7, 8, 9, 31, 32, 33, 65):
        exact(P("float64", width, width, batch), config, gpu_backend)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=name_of)
def test_alpha_and_beta(config: Config, gpu_backend: str) -> None:
    """NaN in y does not leak where beta is zero, also if the kernel was made to read y."""
    xp = testing.array_module(gpu_backend)
    for dtype, accumulate in (("float64", False), ("float64", True), ("complex128", False), ("complex128", True)):
        problem = P(dtype, 8, 8, 11, accumulate=accumulate)
        alpha = 3 - 2j if problem.is_complex else -2.0
        A, x, y = (numbers(problem, side, xp, i, True) for i, side in enumerate("abc"))
        y.fill(np.nan)
        stacks = laid_out(problem, xp, A, x, y)
        launch(problem, config, gpu_backend, stacks, alpha, 0.0)
        assert bool((stacks[2].view == alpha * (A @ x)).all())


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("config", [*ONE_OF_EACH, Lanes(4, 8), Stream(8, 4, 1, 3)], ids=name_of)
def test_what_is_not_finite_stays_in_its_row(config: Config, layout: str, gpu_backend: str) -> None:
    """Lanes without a column of their own, and rows that are read twice, add nothing: infinities are not multiplied."""
    xp = testing.array_module(gpu_backend)
    problem = P("float64", 9, 9, 40, layout_a=layout)
    A, x, y = (numbers(problem, side, xp, i, True) for i, side in enumerate("abc"))
    expected = A @ x
    A[17], A[23, 8, 8], x[23] = np.nan, np.inf, 1.0
    stacks = laid_out(problem, xp, A, x, y)
    launch(problem, config, gpu_backend, stacks, 1.0, 0.0)
    others = [i for i in range(40) if i not in (17, 23)]
    assert bool((stacks[2].view[others] == expected[others]).all())
    assert bool(xp.isnan(stacks[2].view[17]).all()) and float(stacks[2].view[23, 8, 0]) == np.inf
    assert bool((stacks[2].view[23, :8] == A[23, :8] @ x[23]).all())


def test_more_blocks_than_a_grid_once_had(gpu_backend: str) -> None:
    exact(P("float32", 1, 1, 70_001), Stream(1, 32, 1, 1, 1, 1, 1), gpu_backend)
    exact(P("float32", 1, 1, 70_001), Lanes(32, 1, 1, 1, 1), gpu_backend)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=name_of)
def test_matrices_beyond_two_to_the_31_elements(config: Config) -> None:
    """Of a stack whose second matrix is that far away; memory that is not touched costs nothing."""
    problem = P("float64", 8, 8, 2, stack_a="strided")
    stride = 2**31 + 2
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    memory = np.frombuffer(mmap.mmap(-1, 8 * (stride + 64), flags=flags), np.float64)
    stacks = laid_out(problem, np, *(numbers(problem, side, np, ord(side), True) for side in "abc"))
    view = np.lib.stride_tricks.as_strided(memory, (2, 8, 8), (8 * stride, 64, 8))
    view[...] = stacks[0].view
    stacks[0] = replace(stacks[0], view=view, buffer=memory, strides=(stride, 8, 1))
    launch(problem, config, "emulated", stacks, 1.0, 0.0)
    assert (stacks[2].view == view @ stacks[1].view).all()


@pytest.mark.parametrize(
    "config", [Lanes(8, 4), Lanes(4, 4, 1, 2, 1), Stream(4, 8, 3, 2), Stream(1, 32, 4, 2, 1, 4, 1)], ids=name_of
)
def test_the_same_bits_every_time(config: Config, gpu_backend: str) -> None:
    xp, problem = testing.array_module(gpu_backend), P("float32", 37, 53, 9)
    A, x, y = (numbers(problem, side, xp, i, False) for i, side in enumerate("abc"))
    found = []
    for _ in range(3):
        stacks = laid_out(problem, xp, A, x, y)
        launch(problem, config, gpu_backend, stacks, 1.0, 0.0)
        found.append(stacks[2].view.copy())
    assert bool((found[0] == found[1]).all()) and bool((found[0] == found[2]).all())


# ---- what the compiler makes of them ----------------------------------------------------------------------


def compiled(problem: Problem, config: Config, arch: str = "sm_90a") -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), arch)
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


@needs_nvrtc
@pytest.mark.parametrize(
    "width, dtype, layout",
    sliced(list(product([1, 4, 7, 8, 16, 17, 32, 33, 64, 65, 100, 128, 255, 256], DTYPES, ["row", "col"]))),
)
def test_what_is_chosen_does_not_spill(width: int, dtype: str, layout: str) -> None:
    problem = P(dtype, width, width, max(1, 2**27 // width**2), layout_a=layout)
    rule = defaults.default(problem, H200)
    chosen, _ = predict.choose(gemv.FAMILY, problem, H200, machine.known(H200))
    for config in {rule, chosen}:
        assert config is not None
        resources = compiled(problem, config)
        assert resources.spill_bytes == 0 and resources.stack_bytes == 0, config


@needs_nvrtc
def test_compiles_for_sm_80() -> None:
    for problem, config in CASES[SHARE.seed % 12 :: 12]:
        assert compiled(problem, config, A100.arch).spill_bytes == 0


# ---- the space and its model ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_is_always_a_configuration(dtype: str) -> None:
    """For every shape, layout and stack; candidates are legal, distinct and few."""
    rng = np.random.default_rng(4)
    fixed = [(1, 1), (1, 4096), (4096, 1), (4096, 4096), (2, 300), (300, 2), (256, 256)]
    for M, K in fixed + rng.integers(1, 257, (20, 2)).tolist():
        traits = {"layout_a": str(rng.choice(["row", "col", "any"])), "aligned": bool(rng.integers(2))}
        stacks = {f"stack_{side}": str(rng.choice(("packed", "strided", "shared"))) for side in "ab"}
        odd = P(dtype, M, K, 5, **traits, **stacks, pitch_b=int(rng.integers(1, 3)))
        for problem in (P(dtype, M, K, 5000), P(dtype, M, K, 5000, layout_a="col"), odd):
            for device in (H200, A100):
                assert defaults.default(problem, device) is not None, (problem, device)
            found = list(space.candidates(problem, H200))
            assert 1 <= len(found) == len(set(found)) <= 200
            assert all(space.illegal(problem, config, H200) is None for config in found)
            assert all(space.from_dict(space.to_dict(config)) == config for config in found)


@pytest.mark.parametrize("layout", ["row", "col"])
def test_rules_keep_enough_bytes_under_way(layout: str) -> None:
    """A quarter more than Little's law asks for, and nothing that takes three quarters as long as memory: for all
    squares from 4 to 256, and for tall and wide ones."""
    ceilings = machine.known(H200)
    needed = 1.25 * ceilings.read_bandwidth * ceilings.loaded_latency / H200.multiprocessors
    tall = [(128, 8), (256, 16), (1000, 4), (700, 3)]
    for M, K in [(n, n) for n in range(4, 257)] + tall + [(k, m) for m, k in tall]:
        problem = P("float64", M, K, max(1, 2**28 // (M * K)), layout_a=layout)
        config = defaults.default(problem, H200)
        assert work.bytes_in_flight(problem, config) >= needed, (problem, config)
        least = work.work(problem).bytes / ceilings.read_bandwidth
        busiest = max(work.limits(problem, config, H200, ceilings).values())
        assert busiest <= 0.75 * least, (problem, config, work.limits(problem, config, H200, ceilings), least)


def test_work_counts_what_must_move_once() -> None:
    n, batch = 8, 1000
    plain = work.work(P("float64", n, n, batch))
    assert (plain.read, plain.written, plain.flops) == (8 * (n + 1) * n * batch, 8 * n * batch, 2 * n * n * batch)
    shared = work.work(P("float64", n, n, batch, stack_a="shared", accumulate=True))
    assert shared.read == 8 * (n * n + 2 * n * batch)
    remark = work.remarks(P("float64", n, n, batch), Lanes(), H200, machine.known(H200))[0]
    assert "80 % of the bytes are the matrices'" in remark


def test_one_name_for_what_is_the_same_in_memory() -> None:
    column = spec.canonical(P("float64", 5, 1, 9))
    assert (column.layout_a, column.pitch_a, column.layout_b, column.layout_c) == ("col", 5, "col", "col")
    row = spec.canonical(P("float64", 1, 5, 9, layout_a="col"))
    assert (row.layout_a, row.pitch_a) == ("row", 5)
    assert spec.canonical(P("float64", 5, 1, 9, pitch_a=2, stack_a="strided")).layout_a == "row"
    assert spec.canonical(P("float64", 5, 6, 9, pitch_b=2, stack_b="strided")).layout_b == "any"


def test_runs_that_one_load_takes() -> None:
    assert [shapes.adjacent(P("float64", 6, k, 9)) for k in (4, 5, 6)] == [2, 1, 2]
    assert [shapes.adjacent(P("float32", m, 5, 9, layout_a="col")) for m in (4, 6, 7)] == [4, 2, 1]
    assert shapes.adjacent(P("float64", 6, 4, 9, aligned=False)) == 1
    assert shapes.adjacent(P("float64", 6, 4, 9, pitch_a=7, stack_a="strided")) == 1


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Lanes(3, 2), "does not divide a warp"),
        (Lanes(2, 2, 0), "a count is not positive"),
        (Lanes(1, 1, 8, 4, 8), "bytes of shared memory"),
        (Lanes(2, 2, 1, 1, 64), "threads exceed"),
        (Stream(2, 8), "not the 32 of a warp"),
        (Stream(1, 32, 0), "a count is not positive"),
        (Stream(1, 32, 2, 2, 1, 2, 2), "one team where warps share rows"),
        (Stream(1, 32, 32, 8), "registers per thread"),
        (Simd(), "for CPUs"),
    ],
)
def test_illegal_ones_say_why(config: Config, reason: str) -> None:
    found = space.illegal(P("float64", 40, 40, 10), config, H200)
    assert found is not None and reason in found


def test_refusals() -> None:
    assert "beyond 4096" in str(spec.refusal(P("float64", 5000, 3, 2)))
    assert spec.refusal(P("float64", 4096, 4096, 2)) is None
    assert "dtype int32" in str(spec.refusal(Problem("gemv", "int32", P("float64", 2, 2, 2).sizes)))
