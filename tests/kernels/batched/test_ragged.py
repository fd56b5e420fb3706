"""Products of ragged batches on GPUs: the sort, and the kernel of every class."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import A100, H200
from ragged_cases import (
    BACKENDS,
    CLASSES,
    class_of,
    guarded,
    launch,
    operands,
    outside,
)
from sparing import sliced

import mansard as ms
from mansard import testing
from mansard.backends import emulated
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.batched.ragged_gemm import defaults, emit, space, spec
from mansard.kernels.batched.ragged_gemm.space import Lanes, Sort, Stream, Tiles, Vectors, Whole
from mansard.operations.batched.ragged_run import RaggedRun, class_counts
from mansard.plan.problem import DTYPES, Problem

EVERYTHING = dict(trans_a=True, trans_b=True, conj_a=True, conj_b=True, accumulate=True)
needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


# ---- the kernels ------------------------------------------------------------------------------------------


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
@pytest.mark.parametrize("dtype, index", sliced(list(product(DTYPES, range(CLASSES)))))
def test_classes_compile_without_spills(dtype: str, index: int) -> None:
    for flags in ({}, EVERYTHING):
        problem = spec.problem(dtype, 1 << 20, **flags)
        for device in (A100, H200) if flags and index < 3 else (H200,):
            compiled(problem, defaults.of_class(problem, index, device, 1 << 40), device)


@needs_nvrtc
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts_compile_without_spills(dtype: str) -> None:
    for config in defaults.sorts(16):
        compiled(spec.problem(dtype, 1 << 20, **EVERYTHING), config, H200)


def compiled(problem: Problem, config: Any, device: Device) -> None:
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
        (space.Simd(), "for CPUs"),
        (Lanes(20), "there are 15 classes"),
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
