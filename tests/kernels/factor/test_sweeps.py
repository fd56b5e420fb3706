"""`sweeps`: every kind of matrix, shifts, full records, neighbours that are not finite, refusals, resources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices import H200
from sparing import spared
from sweeps_cases import Thread, check_rotations, check_values, diagonals, run, stack

from mansard.compile import nvrtc
from mansard.kernels.factor import bidiagonal, sweeps
from mansard.kernels.factor.sweeps import defaults, emit, space, spec, work

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
FORMS = pytest.mark.parametrize("form", spec.FORMS)


@FORMS
@pytest.mark.parametrize("n", [13, 32])
def test_every_kind_of_matrix(form: str, n: int, gpu_backend: str) -> None:
    problem = spec.problem("float64", n, 42, form=form)
    D, E, kinds = stack(problem, seed=5)
    found = run(problem, Thread(32), gpu_backend, D, E)
    check_values(problem, found, D, E, kinds)


@FORMS
def test_shifts_save_sweeps_and_change_nothing_else(form: str, gpu_backend: str) -> None:
    problem = spec.problem("float64", 13, 14, spec.capacity(13), form=form, want="rotations")
    D, E, kinds = stack(problem, seed=2)
    values = problem.replace(want="values", CAPACITY=0)
    shifts = run(values, Thread(32), gpu_backend, D, E).W
    with_shifts, without = (run(problem, Thread(32), gpu_backend, D, E, one) for one in (shifts, None))
    for found in (with_shifts, without):
        check_values(problem, found, D, E, kinds)
        check_rotations(problem, found, D, E, kinds)
    assert with_shifts.count.sum() < 0.85 * without.count.sum()


@FORMS
def test_full_records_are_reported(form: str, gpu_backend: str) -> None:
    """The sweeps that found room are there, and the others are missing: INFO counts what is not diagonal."""
    problem = spec.problem("float64", 8, 3, 5, form=form, want="rotations")
    D, E = (np.array(one) for one in zip(*(diagonals("random", 8, form, seed) for seed in range(3)), strict=True))
    D[1], E[1] = 1.0, 0.0  # needs no sweep
    found = run(problem, Thread(32), gpu_backend, D, E)
    assert list(found.count) == [5, 0, 5] and found.info[1] == 0
    assert 0 < found.info[0] < 8 and 0 < found.info[2] < 8


@FORMS
def test_bad_neighbours_change_nothing(form: str, gpu_backend: str) -> None:
    problem = spec.problem("float64", 8, 37, form=form)
    D, E = (np.array(one) for one in zip(*(diagonals("random", 8, form, seed) for seed in range(37)), strict=True))
    alone = run(problem, Thread(32), gpu_backend, D, E)
    D[3, 2], E[20, 0], D[36] = np.nan, np.inf, -np.inf
    beside = run(problem, Thread(32), gpu_backend, D, E)
    fine = [m for m in range(37) if m not in (3, 20, 36)]
    assert (alone.W[fine] == beside.W[fine]).all() and (beside.info[fine] == 0).all()
    assert np.isnan(beside.W[[3, 20, 36]]).all() and (beside.info[[3, 20, 36]] == 9).all()


def test_an_empty_batch(gpu_backend: str) -> None:
    problem = spec.problem("float64", 8, 0)
    run(problem, Thread(32), gpu_backend, np.empty((0, 8)), np.empty((0, 8)))


def test_warps_with_fewer_matrices_than_threads(gpu_backend: str) -> None:
    """Diagonals of 130 numbers leave room for 16 matrices per block: those of the second block are right, too."""
    problem = spec.problem("float64", 130, 18)
    assert work.matrices(problem, Thread(32)) == 16
    rng = np.random.default_rng(4)
    D, E = rng.standard_normal((2, 18, 130))
    found = run(problem, Thread(32), gpu_backend, D, E)
    assert (found.info == 0).all() and np.abs(found.W - spec.reference(D, E)).max() <= 1e-13


def test_blocks_of_the_largest_matrices_have_room_beside_a_reduction() -> None:
    for n in (256, 300, 416, 424, 512):
        rotations = spec.problem("float64", n, 264, spec.capacity(n), form="bidiagonal", want="rotations")
        reduction = bidiagonal.spec.problem("float64", n, 264)
        shared = 0
        for family, problem in ((sweeps, rotations), (bidiagonal, reduction)):
            config: Any = family.defaults.default(problem, H200)
            assert config is not None
            shared += family.work.shared_bytes(problem, config) + 1024  # of which the driver takes 1 KiB per block
        assert shared <= 228 << 10, n


def test_the_reference() -> None:
    D, E = np.array([[2.0, 2.0]]), np.array([[1.0, np.nan]])
    assert np.allclose(spec.reference(D, E), [[1, 3]])
    assert np.allclose(np.prod(spec.reference(D, E, "bidiagonal")), 4)


def test_what_is_refused() -> None:
    for problem, reason in (
        (spec.problem("complex128", 4, 1), "real"),
        (spec.problem("float64", 513, 1), "rows"),
        (spec.problem("float64", 4, 1, form="dense"), "form"),
        (spec.problem("float64", 4, 1, want="vectors"), "want"),
        (spec.problem("float64", 4, 1, want="rotations"), "CAPACITY"),
    ):
        assert reason in str(spec.refusal(problem)), problem
    problem = spec.problem("float64", 128, 1)
    assert "warp" in str(space.illegal(problem, Thread(40), H200))
    assert "shared memory" in str(space.illegal(problem, Thread(128), H200))
    assert "MATRICES_PER_BLOCK=33" in str(space.illegal(problem, Thread(32, MATRICES_PER_BLOCK=33), H200))
    assert work.work(spec.problem("float64", 4, 10)).bytes == 10 * 3 * 4 * 8


@needs_nvrtc
@pytest.mark.parametrize("n", spared([3, 8, 16, 32, 64, 128], 3))
def test_default_does_not_spill(n: int) -> None:
    for form, want in (("tridiagonal", "values"), ("bidiagonal", "rotations")):
        problem = spec.problem("float64", n, 1 << 16, spec.capacity(n), form=form, want=want)
        config = defaults.default(problem, H200)
        assert config is not None
        entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
        resources = nvrtc.resources(entry.log)
        assert "warning" not in entry.log and resources.spill_bytes == resources.stack_bytes == 0
        assert resources.registers <= work.registers(problem, config) + 8
