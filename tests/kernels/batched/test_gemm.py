"""The gemm kernels: exact on integers, within bounds on random numbers, for all variants, layouts, stacks and tails."""

from __future__ import annotations

import mmap
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import A100, H200
from gemm_cases import CASES, exact, launch, numbers, stack_of
from sparing import SHARE, sliced

from mansard import testing
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.batched import gemm
from mansard.kernels.batched.gemm import defaults, emit, space, spec, work
from mansard.kernels.batched.gemm.space import Block, Config, Lanes, Readonly, Stream, Tensor
from mansard.kernels.batched.gemm.work_lanes import lanes_shape
from mansard.kernels.batched.gemm.work_panels import panel_shape
from mansard.kernels.common import images
from mansard.machine import machine
from mansard.plan import predict
from mansard.plan.problem import DTYPES, Problem

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
_MAP_NORESERVE = 0x4000  # Linux; Python's mmap does not name it
SPILLED_AND_FASTEST = 64  # bytes per thread of configurations that were fastest when they were measured
WIDTHS = (1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 65, 128, 129, 256)
ONE_OF_EACH = [
    Lanes(2, 2), Lanes(2, 2, 1, 2, "own", 2), Block(4, 8, 8, 8, 8, 2, 2), Tensor(1, 1, 16, 16, 8, 8, 2, 2),
    Stream(1, 1, 16, 16, 4, 4, 3),
]  # fmt: skip


@pytest.mark.parametrize("config", [*ONE_OF_EACH, Readonly(4, 4, 3)], ids=lambda config: config.VARIANT)
@pytest.mark.parametrize("width", [8, 9])
def test_every_size_of_a_batch(config: Config, width: int, gpu_backend: str) -> None:
    """None, one, one less and one more than a warp, a block and a grid take at a time."""
    for batch in (0, 1, 7, 8, 9, 31, 32, 33, 65):
        exact(spec.problem("float64", width, width, width, batch), config, gpu_backend)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.VARIANT)
def test_alpha_and_beta(config: Config, gpu_backend: str) -> None:
    """NaN in C does not leak where beta is zero, also if the kernel was made to read C."""
    xp = testing.array_module(gpu_backend)
    for dtype in ("float64", "complex128"):
        for accumulate in (False, True):
            problem = spec.problem(dtype, 8, 8, 8, 11, accumulate=accumulate)
            alpha = 3 - 2j if problem.is_complex else -2.0
            A, B, C = (numbers(problem, side, xp, i, True) for i, side in enumerate("abc"))
            C.fill(np.nan)
            stacks = [stack_of(problem, side, xp, values) for side, values in (("a", A), ("b", B), ("c", C))]
            launch(problem, config, gpu_backend, stacks, alpha, 0.0)
            assert bool((stacks[2].view == alpha * (A @ B)).all())


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.VARIANT)
def test_nan_stays_in_its_matrix(config: Config, gpu_backend: str) -> None:
    xp = testing.array_module(gpu_backend)
    problem = spec.problem("float64", 8, 8, 8, 40)
    A, B, C = (numbers(problem, side, xp, i, True) for i, side in enumerate("abc"))
    expected = A @ B
    A[17] = np.nan
    B[23, 2, 3] = np.inf
    stacks = [stack_of(problem, side, xp, values) for side, values in (("a", A), ("b", B), ("c", C))]
    launch(problem, config, gpu_backend, stacks, 1.0, 0.0)
    others = [i for i in range(40) if i not in (17, 23)]
    assert bool((stacks[2].view[others] == expected[others]).all())
    assert bool(xp.isnan(stacks[2].view[17]).all()) and not bool(xp.isfinite(stacks[2].view[23, :, 3]).any())


def test_infinities_survive_three_products(gpu_backend: str) -> None:
    """Halves of an infinity are an infinity and a NaN: such entries are formed again, and others stay as they are."""
    xp = testing.array_module(gpu_backend)
    problem = spec.problem("float32", 34, 33, 20, 5)
    A, B, C = (numbers(problem, side, xp, i, True) for i, side in enumerate("abc"))
    B[B == 0], A[2, 0, 5] = 1, 0  # infinite entries have infinite products; a zero does not hide a NaN
    A[1, 3, 2] = A[4, 33, 19] = np.inf
    B[2, 5, 32] = np.nan
    stacks = [stack_of(problem, side, xp, values) for side, values in (("a", A), ("b", B), ("c", C))]
    launch(problem, Stream(3, 3, 48, 48, 8, 8, 2), gpu_backend, stacks, 1.0, 0.0)
    expected = A @ B
    assert not bool(xp.isfinite(expected[1, 3]).any()) and bool(xp.isnan(expected[2, :, 32]).all())
    assert bool(((stacks[2].view == expected) | (xp.isnan(expected) & xp.isnan(stacks[2].view))).all())


def test_more_blocks_than_a_grid_once_had(gpu_backend: str) -> None:
    exact(spec.problem("float32", 1, 1, 1, 70_001), Readonly(1, 1, 1), gpu_backend)
    exact(spec.problem("float32", 1, 1, 1, 70_001), Lanes(1, 1, 1, 1, "back", 1), gpu_backend)


@pytest.mark.parametrize("config", [*ONE_OF_EACH, Readonly(4, 4, 3)], ids=lambda config: config.VARIANT)
def test_matrices_beyond_two_to_the_31_elements(config: Config) -> None:
    """Of a stack whose second matrix is that far away; memory that is not touched costs nothing."""
    problem = spec.problem("float64", 8, 8, 8, 2, stack_a="strided", stack_b="strided", stack_c="strided")
    stride = 2**31 + 2
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    stacks: list[Any] = []
    for side in "abc":
        memory = np.frombuffer(mmap.mmap(-1, 8 * (stride + 64), flags=flags), np.float64)
        view = np.lib.stride_tricks.as_strided(memory, (2, 8, 8), (8 * stride, 64, 8))
        stack = stack_of(problem, side, np, numbers(problem, side, np, ord(side), True))
        view[...] = stack.view
        stacks.append(replace(stack, view=view, buffer=memory, strides=(stride, 8, 1)))
    A, B = stacks[0].view, stacks[1].view
    launch(problem, config, "emulated", stacks, 1.0, 0.0)
    assert (stacks[2].view == A @ B).all()


def compiled(problem: Problem, config: Config, device: Device) -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), device.arch)
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


@needs_nvrtc
@pytest.mark.parametrize("width, dtype", sliced(list(product(WIDTHS, DTYPES))))
def test_what_is_chosen_does_not_spill(width: int, dtype: str) -> None:
    problem = spec.problem(dtype, width, width, width, 10_000)
    rule = defaults.default(problem, H200)
    chosen, _ = predict.choose(gemm.FAMILY, problem, H200, machine.known(H200))
    for config in {rule, chosen}:
        spilled = SPILLED_AND_FASTEST if config in set(defaults.swept(problem, H200)) else 0
        assert config is not None and compiled(problem, config, H200).spill_bytes <= spilled, config


@needs_nvrtc
def test_compiles_for_sm_80() -> None:
    for problem, config in [case for case in CASES if case[1].VARIANT != "tensor"][SHARE.seed % 12 :: 12]:
        assert compiled(problem, config, A100).spill_bytes == 0
    reason = space.illegal(spec.problem("float64", 32, 32, 32, 100), Tensor(), A100)
    assert reason is not None and "sm_90" in reason


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_is_always_a_configuration(dtype: str) -> None:
    """For every shape, layout and stack; candidates are legal, distinct and few."""
    rng = np.random.default_rng(4)
    shapes = [(1, 1, 256), (256, 1, 1), (1, 256, 1), (256, 256, 256), (2, 2, 256)]
    for M, N, K in shapes + rng.integers(1, 257, (20, 3)).tolist():
        layouts = {f"layout_{side}": str(rng.choice(["row", "col", "any"])) for side in "abc"}
        stacks = {f"stack_{side}": str(rng.choice(spec.STACKS[: 3 if side != "c" else 2])) for side in "abc"}
        odd = spec.problem(dtype, M, N, K, 5, aligned=bool(rng.integers(2)), **layouts, **stacks)
        for problem in (spec.problem(dtype, M, N, K, 5000), odd):
            for device in (H200, A100):
                assert defaults.default(problem, device) is not None, (problem, device)
            found = list(space.candidates(problem, H200))
            assert len(found) == len(set(found)) <= 150
            assert all(space.illegal(problem, config, H200) is None for config in found)
            assert all(space.from_dict(space.to_dict(config)) == config for config in found)


def test_reads_do_not_collide() -> None:
    """Fragments of the tensor cores never; shares of lanes where memory leaves room for padding."""
    for width in range(8, 129):
        for layout in ("row", "col"):
            for dtype, clash in (("float64", 8), ("complex128", 4)):
                problem = spec.problem(dtype, width, width, width, 100, layout_a=layout, layout_b=layout)
                for depth in (256, 16):
                    shape = panel_shape(problem, Tensor(1, 1, 256, 256, depth))
                    assert shape.a.pitch % 8 and shape.b.pitch % 8
                    assert (shape.a if layout == "col" else shape.b).pitch % clash
    for width in range(16, 33, 2):
        shape = lanes_shape(spec.problem("float64", width, width, width, 100), Lanes(8, 4))
        assert images.collisions(shape.a, (8, 4), ("line", "")) == 4 / shape.a.read
        assert images.collisions(shape.b, (8, 4), ("", "run")) == 4 / shape.b.read


def test_work_counts_what_must_move_once() -> None:
    n, batch = 8, 1000
    plain = work.work(spec.problem("float64", n, n, n, batch))
    assert (plain.read, plain.written, plain.flops) == (16 * n * n * batch, 8 * n * n * batch, 2 * n**3 * batch)
    shared = work.work(spec.problem("float64", n, n, n, batch, stack_b="shared", accumulate=True))
    assert shared.read == 8 * n * n * (2 * batch + 1)
    problem = spec.problem("float64", n, n, n, batch, accumulate=True)
    ceilings = machine.known(H200)
    bound = n * ceilings.copy_bandwidth / 16  # the paper's P_max = n B / 16
    assert f"{bound / 1e12:.3g} TFLOP/s" in work.remarks(problem, Lanes(), H200, ceilings)[0]


def test_a_column_major_result_is_the_transposed_product() -> None:
    layouts = {"layout_a": "col", "layout_c": "col"}
    problem = spec.problem("complex64", 3, 4, 5, 6, **layouts, conj_a=True, pitch_b=9, stack_b="strided")
    turned = images.oriented(problem)
    assert (turned.M, turned.N, turned.K, turned.layout_c) == (4, 3, 5, "row")
    assert (turned.layout_a, turned.pitch_a, turned.stack_a, turned.conj_a) == ("col", 9, "strided", False)
    assert (turned.layout_b, turned.pitch_b, turned.stack_b, turned.conj_b) == ("row", 3, "packed", True)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Lanes(3, 2), "does not divide a warp"),
        (Lanes(2, 2, OUT="direct"), "not one of own, back"),
        (Block(16, 3), "whole warps"),
        (Block(16, 16, 8, 8, 8), "more than a tile"),
        (Block(8, 8, 8, 8, 8, OUT="back"), "only whole matrices"),
        (Tensor(4, 4), "warps are more than"),
        (Tensor(KSTEP=5), "KSTEP"),
        (Tensor(BLK_K=3), "multiples of the 2 elements"),
        (Readonly(64, 1), "64 x 1 threads"),
        (Stream(2, 2, 64, 64, 16, 8, 1), "less than 2"),
        (Stream(2, 1, 10, 20, 16), "whole multiples of 16"),
        (Stream(3, 1), "warps are more than"),
    ],
)
def test_illegal_ones_say_why(config: Config, reason: str) -> None:
    found = space.illegal(spec.problem("float64", 20, 20, 20, 10), config, H200)
    assert found is not None and reason in found


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_few_terms_are_not_split(dtype: str) -> None:
    """Three TF32 products are off by up to 28 u, which the bound of a sum of fewer than 16 terms does not cover."""
    config = Stream(2, 4, 64, 64, 16, 8, 2)
    reasons = {K: space.illegal(spec.problem(dtype, 64, 64, K, 10), config, H200) for K in (15, 16)}
    assert reasons[16] is None and "less accurate" in str(reasons[15])
    assert space.illegal(spec.problem("float64", 64, 64, 1, 10), config, H200) is None


def test_results_return_where_a_was_only_if_they_fit_exactly() -> None:
    several = Lanes(2, 2, 2, 1, "back")
    assert space.illegal(spec.problem("float64", 4, 4, 4, 50), several, H200) is None
    pointers = spec.problem("float64", 4, 4, 4, 50, stack_c="pointers")
    unaligned = spec.problem("float64", 4, 4, 4, 50, aligned=False)
    for other in (pointers, unaligned, spec.problem("float64", 4, 2, 4, 50)):
        reason = space.illegal(other, several, H200)
        assert reason is not None and "exactly where its A was" in reason
    reason = space.illegal(spec.problem("float64", 4, 4, 4, 50, stack_a="shared"), several, H200)
    assert reason is not None and "A is needed again" in reason
