"""trsm with one right-hand side, streamed: every triangle, batch and ragged end, singular and extreme diagonals."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import H200
from sparing import sliced
from test_trsm import compiled, needs_nvrtc
from trsm_cases import bounded, exact, launch, numbers, place_for_x, stack_of, triangles

import mansard as ms
from mansard import testing
from mansard.kernels.batched import trsm
from mansard.kernels.batched.trsm import defaults, space, spec
from mansard.kernels.batched.trsm.space import Stream
from mansard.machine import machine
from mansard.plan import predict
from mansard.plan.problem import DTYPES


@pytest.mark.parametrize("warps", [1, 2])
def test_streamed_batches(warps: int, gpu_backend: str) -> None:
    """None, fewer than a block takes, and several turns of every team."""
    for batch in (0, 1, 3, 7, 41):
        exact(spec.problem("float64", 66, 1, batch), Stream(warps, 2, 16, 3, BLOCKS_PER_SM=1), gpu_backend)


@pytest.mark.parametrize(("side", "uplo", "trans"), list(product(("left", "right"), ("lower", "upper"), "NTC")))
def test_every_triangle_is_streamed(side: str, uplo: str, trans: str, gpu_backend: str) -> None:
    for layout, unit in (("row", trans == "T"), ("col", trans != "T")):
        form: dict[str, Any] = {"side": side, "uplo": uplo, "trans": trans, "layout_a": layout, "unit": unit}
        exact(spec.problem("complex64", 35, 1, 3, **form), Stream(1, 2, 16, 2), gpu_backend)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unit", [False, True])
def test_streamed_numbers_are_within_bounds(unit: bool, dtype: str, gpu_backend: str) -> None:
    for uplo, layout, warps in (("lower", "row", 1), ("upper", "col", 3)):
        problem = spec.problem(dtype, 135, 1, 3, uplo=uplo, layout_a=layout, unit=unit)
        bounded(problem, Stream(warps, 1, 8, 3), gpu_backend)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("row", [4, 20, 50])
def test_a_streamed_singular_matrix_is_divided_by_zero(row: int, dtype: str, gpu_backend: str) -> None:
    """As BLAS has it: unknowns before it are right, it is not finite, and other matrices do not notice."""
    xp = testing.array_module(gpu_backend)
    problem = spec.problem(dtype, 54, 1, 9)
    clean, dirty = triangles(problem, xp, 5, True)
    expected = numbers(problem, "x", xp, 6, True)
    B = clean @ expected
    dirty[3, row, row] = 0
    B[3, row] = 10_000
    stacks = [stack_of(problem, "a", xp, dirty), stack_of(problem, "b", xp, B), place_for_x(problem, xp)]
    launch(problem, Stream(1, 2), gpu_backend, stacks)
    X = stacks[2].view
    others = [i for i in range(9) if i != 3]
    assert bool((X[others] == expected[others]).all())
    assert bool((X[3, :row] == expected[3, :row]).all()) and not bool(xp.isfinite(X[3, row]).any())
    assert dtype != "float64" or bool(xp.isinf(X[3, row]).all())


def test_extreme_quotients_are_divided(gpu_backend: str) -> None:
    """Diagonals and right-hand sides beyond what a prepared inverse serves, alone and beside usual ones."""
    xp = testing.array_module(gpu_backend)
    problem = spec.problem("float64", 40, 1, 12)
    rng = np.random.default_rng(8)
    kinds = rng.choice(4, (12, 40))  # of the last two the inverse has few digits, or overflows
    diagonal = np.ldexp(rng.uniform(1, 2, (12, 40)), np.array([0, 500, 1023, -1060])[kinds])
    right = np.ldexp(rng.uniform(1, 2, (12, 40)), np.array([0, 2, 900, -900])[kinds])[..., None]
    A = xp.asarray(diagonal[:, None, :] * np.eye(40))
    stacks = [stack_of(problem, "a", xp, A), stack_of(problem, "b", xp, xp.asarray(right)), place_for_x(problem, xp)]
    launch(problem, Stream(1, 2), gpu_backend, stacks)
    assert bool((stacks[2].view == xp.asarray(right / diagonal[:, :, None])).all())


def test_one_kernel_streams_long_systems() -> None:
    """Up to 2048 unknowns of one right-hand side; several go by blocks."""
    A = testing.random_matrix(np, 600, 300, "float64", 1, True).reshape(2, 300, 300)
    A[:, range(300), range(300)] = 2
    X = testing.random_matrix(np, 2, 300, "float64", 2, True)
    B = (np.tril(A) @ X[..., None])[..., 0]
    assert (ms.blas.trsv(A, B, backend="emulated") == X).all()
    assert "stream" in ms.plan("trsm", A, B[..., None], backend="emulated").explain()


@needs_nvrtc
@pytest.mark.parametrize("dtype, layout", sliced(list(product(DTYPES, ["row", "col", "any"])), 5))
def test_no_rule_for_one_right_hand_side_spills(dtype: str, layout: str) -> None:
    for order, batch, uplo in ((63, 100_000, "upper"), (200, 300, "lower")):
        problem = spec.problem(dtype, order, 1, batch, layout_a=layout, uplo=uplo)
        config = defaults.default(problem, H200)
        assert isinstance(config, Stream) and compiled(problem, config, H200).spill_bytes == 0, config


@pytest.mark.parametrize("batch", [100, 100_000])
def test_models_choose_between_streams(batch: int) -> None:
    """For one right-hand side beyond 32 unknowns; below, lanes were measured."""
    for order in (32, 33, 100, 500):
        problem = spec.problem("float64", order, 1, batch)
        chosen, _ = predict.choose(trsm.FAMILY, problem, H200, machine.known(H200))
        assert isinstance(chosen, Stream) == (order > 32), (order, chosen)
        assert any(isinstance(config, Stream) for config in space.candidates(problem, H200))
