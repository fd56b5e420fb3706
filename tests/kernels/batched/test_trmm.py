"""The trmm kernels: exact on integers, within bounds on random numbers, for all variants, sides and triangles."""

from __future__ import annotations

import mmap
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from devices import A100, H200
from sparing import sliced
from trmm_cases import CASES, bounded, case_id, exact, launch, numbers, place_for_x, stack_of, triangles
from trmm_cases import product as product_of

from mansard import testing
from mansard.backends import cpu
from mansard.compile import nvrtc
from mansard.kernels.batched import trmm
from mansard.kernels.batched.trmm import defaults, emit, space, space_cpu, spec, work
from mansard.kernels.batched.trmm.space import Block, Config, Lanes, Tensor
from mansard.kernels.batched.trmm.space_cpu import Simd
from mansard.machine import machine
from mansard.plan.problem import DTYPES, Problem

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
_MAP_NORESERVE = 0x4000  # Linux; Python's mmap does not name it
ONE_OF_EACH: dict[str, list[Any]] = {
    "cpu": [Simd(2, 3, 2), Simd(2, 2, 1, True)],
    "gpu": [Lanes(4, 2), Lanes(2, 2, 1, 2, "own", WARPS=2), Block(8, 4, 4, 8, 2), Tensor(16, 16, 1, 1)],
}


def kernels(backend: str) -> list[Any]:
    return ONE_OF_EACH["cpu" if backend == "cpu" else "gpu"]


@pytest.mark.parametrize("case", CASES[::6], ids=case_id)
def test_cpu_default_is_exact_and_within_bounds(case: tuple[Problem, Config]) -> None:
    problem, _ = case
    config = space_cpu.default(problem, cpu.backend().device)
    exact(problem, config, "cpu")
    exact(problem, config, "cpu", scaled=True)
    bounded(problem, config, "cpu")


@pytest.mark.parametrize("config", [Simd(2, 1, 1), Simd(4, 5, 2), Simd(4, 8, 1, True)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_cpu_tiles(dtype: str, config: Simd) -> None:
    for unit in (False, True):
        problem = spec.problem(dtype, 11, 5, 13, uplo="upper", unit=unit)
        exact(problem, config, "cpu", scaled=unit)
        bounded(problem, config, "cpu")


@pytest.mark.parametrize(("side", "uplo", "trans"), list(product(("left", "right"), ("lower", "upper"), "NTC")))
def test_every_side_and_triangle(side: str, uplo: str, trans: str, backend: str) -> None:
    """With and without a unit diagonal; NaN in everything that BLAS does not reference. In place as well."""
    config: Any = Lanes(2, 2) if backend != "cpu" else Simd(4, 3, 2, uplo == "upper")
    for unit in (False, True) if backend != "cpu" else (trans == "T",):
        problem = spec.problem("complex64", 5, 3, 9, side=side, uplo=uplo, trans=trans, unit=unit)
        exact(problem, config, backend, scaled=True)


@pytest.mark.parametrize("config", [Block(8, 4, 4, 8, 2), Tensor(16, 16, 1, 1, 2)], ids=lambda c: c.VARIANT)
@pytest.mark.parametrize(("side", "uplo", "trans"), list(product(("left", "right"), ("lower", "upper"), "NTC")))
def test_blocks_of_every_side_and_triangle(side: str, uplo: str, trans: str, config: Any, gpu_backend: str) -> None:
    problem = spec.problem("complex128", 19, 5, 2, side=side, uplo=uplo, trans=trans, unit=trans == "T")
    exact(problem, config, gpu_backend, scaled=True)


MEETING: list[Any] = [Lanes(8, 2, WARPS=1), Block(8, 4, 4, 8, 2), Tensor(16, 16, 1, 1), Tensor(32, 16, 2, 1)]


@pytest.mark.parametrize("config", MEETING, ids=str)
@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_where_an_infinity_of_b_goes(uplo: str, config: Any, gpu_backend: str) -> None:
    """Rows whose triangle meets it are not finite. Tensor cores multiply it with the zeros of its tile of 16 rows,
    which makes NaN of them; `lanes` and `block` multiply only entries of the triangle."""
    xp = testing.array_module(gpu_backend)
    problem, row = spec.problem("float64", 32, 6, 2, uplo=uplo), 20
    clean, dirty = triangles(problem, xp, 3, True)
    B = numbers(problem, "b", xp, 4, True)
    expected = product_of(problem, clean, B)
    B[0, row, 2] = np.inf
    out = place_for_x(problem, xp)
    launch(problem, config, gpu_backend, [stack_of(problem, "a", xp, dirty), stack_of(problem, "b", xp, B), out])
    rows = xp.arange(32)
    met = rows >= row if uplo == "lower" else rows <= row
    found = out.view[0, :, 2]
    other = rows // 16 == row // 16 if isinstance(config, Tensor) else met
    assert not bool(xp.isfinite(found[met]).any())
    assert bool((found[~met & ~other] == expected[0, ~met & ~other, 2]).all())
    if isinstance(config, Tensor):
        beyond = other & (rows < row if uplo == "lower" else rows > row)
        assert bool(xp.isnan(found[beyond]).all())
    out.view[0, :, 2] = expected[0, :, 2]
    assert bool((out.view == expected).all()), "other columns, the other matrix"


@pytest.mark.parametrize("which", [0, 1])
def test_every_size_of_a_batch(which: int, backend: str) -> None:
    """None, one, one less and one more than a warp, a vector, a block and a grid take at a time."""
    for batch in (0, 1, 7, 8, 9, 31, 32, 33, 65):
        exact(spec.problem("float64", 6, 3, batch), kernels(backend)[which], backend)


@pytest.mark.parametrize("which", [2, 3])
def test_batches_of_blocks(which: int, gpu_backend: str) -> None:
    for batch in (0, 1, 4, 50):
        exact(spec.problem("float64", 20, 9, batch), kernels(gpu_backend)[which], gpu_backend)


@pytest.mark.parametrize(("rows", "columns", "uplo"), [(33, 21, "lower"), (35, 7, "upper")])
def test_odd_rows_leave_by_strips(rows: int, columns: int, uplo: str, gpu_backend: str) -> None:
    """Entries of lanes that may be stored one by one only: eight rows at a time pass the warp's strip."""
    exact(spec.problem("float64", rows, columns, 3, uplo=uplo), Tensor(48, 32, 1, 1), gpu_backend, scaled=True)


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_without_alpha_there_is_only_zero(which: int, backend: str) -> None:
    """Neither A nor B is looked at, so that NaN there does not matter."""
    config = kernels(backend)[which % len(kernels(backend))]
    xp = testing.array_module(backend)
    problem = spec.problem("float64", 10, 3, 11)
    if isinstance(config, Block | Tensor):
        config = replace(config, STAGES=1)
    nothing = [xp.full((11, *spec.shape(problem, operand)), np.nan) for operand in "ab"]
    stacks = [stack_of(problem, operand, xp, values) for operand, values in zip("ab", nothing, strict=True)]
    out = place_for_x(problem, xp)
    launch(problem, config, backend, [*stacks, out], 0.0)
    assert bool((out.view == 0).all())


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_infinities_stay_in_their_rows(which: int, unit: bool, backend: str) -> None:
    """Entries of B meet referenced entries of A alone: no zero of another triangle makes NaN of an infinity."""
    config = kernels(backend)[which % len(kernels(backend))]
    xp = testing.array_module(backend)
    problem = spec.problem("float64", 10, 3, 5, unit=unit)
    if isinstance(config, Block):
        config = replace(config, BLK_M=10, STAGES=1)
    clean, dirty = triangles(problem, xp, 1, True)
    B = numbers(problem, "b", xp, 2, True)
    expected = clean @ B
    B[:, 9, 1] = np.inf
    out = place_for_x(problem, xp)
    launch(problem, config, backend, [stack_of(problem, "a", xp, dirty), stack_of(problem, "b", xp, B), out])
    assert bool((out.view[:, :9] == expected[:, :9]).all())


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_matrices_beyond_two_to_the_31_elements(which: int) -> None:
    """Of a stack whose second matrix is that far away; memory that is not touched costs nothing."""
    backend = "cpu" if which == 1 else "emulated"
    config: Any = (Lanes(4, 2), Simd(2, 3, 2), Block(8, 4, 4, 8, 2), Tensor(16, 16, 1, 1))[which]
    problem = spec.problem("float64", 10, 4, 2, stack_a="strided", stack_b="strided")
    stride = 2**31 + 2
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    clean, dirty = triangles(problem, np, 1, True)
    right = numbers(problem, "b", np, 2, True)
    stacks: list[Any] = []
    for operand, values in (("a", dirty), ("b", right), ("x", np.zeros((2, 10, 4)))):
        memory = np.frombuffer(mmap.mmap(-1, 8 * (stride + 128), flags=flags), np.float64)
        columns = values.shape[2]
        view = np.lib.stride_tricks.as_strided(memory, values.shape, (8 * stride, 8 * columns, 8))
        view[...] = values
        stack = stack_of(problem, operand, np, values)
        stacks.append(replace(stack, view=view, buffer=memory, strides=(stride, columns, 1)))
    launch(problem, config, backend, stacks)
    assert (stacks[2].view == clean @ right).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_reference_multiplies(dtype: str) -> None:
    for side, uplo, trans, unit in product(("left", "right"), ("lower", "upper"), "NTC", (False, True)):
        problem = spec.problem(dtype, 7, 3, 4, side=side, uplo=uplo, trans=trans, unit=unit)
        clean, dirty = triangles(problem, np, 3, True)
        B = numbers(problem, "b", np, 4, True)
        found = spec.reference(dirty, B, 2, side, uplo, problem.trans, unit)
        assert (found == 2 * product_of(problem, clean, B)).all(), (side, uplo, trans, unit)


@needs_nvrtc
@pytest.mark.parametrize(
    "size, dtype",
    sliced(list(product([(5, 5), (12, 12), (28, 28), (32, 10), (33, 33), (64, 64), (100, 30), (64, 1)], DTYPES)), 9),
)
@pytest.mark.parametrize("batch", [10_000, 1])
def test_what_is_chosen_does_not_spill(size: tuple[int, int], dtype: str, batch: int) -> None:
    problem = spec.problem(dtype, *size, batch)
    config = defaults.default(problem, H200)
    assert config is not None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    assert "warning" not in entry.log and nvrtc.resources(entry.log).spill_bytes == 0, config


@pytest.mark.parametrize("device", [H200, A100], ids=lambda device: device.name)
def test_rules_find_a_kernel_for_every_problem(device: Any) -> None:
    """Also for one matrix, and for matrices of any layout, up to the largest order."""
    for dtype, n, k, batch in product(DTYPES, (1, 3, 17, 33, 64, 65, 200, 512), (1, 4, 30, 300), (1, 3000)):
        for traits in ({}, {"layout_a": "any", "layout_b": "any"}, {"side": "right", "aligned": False}):
            problem = spec.problem(dtype, n, k, batch, **traits)
            config = defaults.default(problem, device)
            assert config is not None and space.illegal(problem, config, device) is None, problem
            assert work.limits(problem, config, device, machine.known(device))["arithmetic"] > 0


def test_work_counts_sectors_of_the_triangle() -> None:
    """Rows of 8 numbers of 8 bytes: one sector for each of the first four, two beyond, whichever triangle it is."""
    for uplo in ("lower", "upper"):
        found = work.work(spec.problem("float64", 8, 3, 10, uplo=uplo))
        assert found.read == 10 * (32 * 12 + 8 * 24) and found.written == 10 * 8 * 24
    shared = work.work(spec.problem("float64", 8, 3, 10, stack_a="shared"))
    assert shared.read == 32 * 12 + 10 * 8 * 24


def test_refusals() -> None:
    assert "beyond 512" in str(spec.refusal(spec.problem("float64", 513, 1, 1)))
    assert "float16" in str(spec.refusal(spec.problem("float64", 5, 1, 1).replace(dtype="float16")))
    problem = spec.problem("float32", 40, 10, 5)
    for config, message in (
        (Tensor(40, 16, 1, 1), "tensor cores take float64"),
        (Block(40, 10, 3, 32), "no power of two"),
        (Block(40, 10, 4, 4), "whole warps"),
        (Block(40, 10, 4, 8, 2), "STAGES=2"),
        (Block(18, 10, 4, 8), "BLK_M=18 is no multiple"),
        (Block(20, 6, 4, 8), "BLK_N=6 is no multiple"),
        (Lanes(4, 4, 1, 1, "back"), None),
        (Lanes(3, 4), "does not divide a warp"),
    ):
        problem = problem.replace(NRHS=12, pitch_b=12, pitch_x=12) if message and "BLK_N" in message else problem
        found = space.illegal(problem, config, H200)
        assert found is None if message is None else message in str(found), config
    assert trmm.FAMILY.name == "trmm" and list(space.candidates(spec.problem("float64", 20, 6, 9), H200))
