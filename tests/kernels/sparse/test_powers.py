"""Matrix powers: kernels of every kind against products one by one, and what the compiler makes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import needs_cpu
from devices import A100, H200
from powers_cases import (
    GROUPS,
    PERSISTENT,
    RESERVED,
    SIMD,
    Arrays,
    Case,
    banded,
    exact,
    expected,
    numbers,
    persistent,
    same_bits,
)  # fmt: skip
from sparing import sliced, spared

from mansard.compile import nvrtc
from mansard.kernels.sparse.powers import emit, fit, space, spec, work
from mansard.kernels.sparse.powers.space import Groups

FITTED = [("float64", 27, "int32"), ("float64", 7, "int32"), ("float32", 13, "delta16")]
needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


# ---- kernels ----------------------------------------------------------------------------------------------


@needs_cpu
@pytest.mark.parametrize("case", SIMD, ids=str)
def test_the_cpu_kernel_is_exact(case: Case) -> None:
    for _ in range(5):  # threads meet otherwise every time
        exact(case, "cpu")


@pytest.mark.parametrize("shape", [(1, 1), (31, 1), (32, 1), (33, 1), (33, 31)])
def test_every_number_of_rows(shape: tuple[int, int], gpu_backend: str) -> None:
    exact(replace(PERSISTENT[1], shape=shape, dropped=0.0), gpu_backend)
    exact(replace(GROUPS[0], shape=shape, dropped=0.0), gpu_backend)


def strange(case: Case, seed: int = 3) -> tuple[Any, Any]:
    """A matrix and a vector with NaNs (the reserved one too), infinities and negative zeros, far from each other."""
    A = case.matrix(integers=False)
    x = numbers(np.random.default_rng(seed), A.shape[0] * case.NVECS, case.dtype, integers=False)
    real = x.view(x.real.dtype)
    real[3], real[len(real) // 2], real[-1] = np.inf, np.nan, -0.0
    real.view(RESERVED[str(real.dtype)].dtype)[len(real) // 3] = RESERVED[str(real.dtype)]
    values = A.data.view(A.data.real.dtype)
    values.view(RESERVED[str(values.dtype)].dtype)[len(values) // 4] = RESERVED[str(values.dtype)]
    values[5] = -np.inf
    return A, x


@pytest.mark.parametrize("case", [PERSISTENT[i] for i in (2, 3, 7, 9, 11, 12)], ids=str)
def test_the_same_bits_as_repeated_products(case: Case, gpu_backend: str) -> None:
    A, x = strange(case)
    plainly = Arrays(case, A, x, gpu_backend).run(Groups(64, 4))
    found = Arrays(case, A, x, gpu_backend).run()
    assert same_bits(found, plainly)
    assert np.isnan(found).any() and np.isfinite(found).any()


@needs_cpu
@pytest.mark.parametrize("case", [SIMD[0], SIMD[2]], ids=str)
def test_what_is_not_finite_spreads_as_in_numpy(case: Case) -> None:
    A, x = strange(case)
    with np.errstate(all="ignore"):
        want = expected(case, A, x)
    found = Arrays(case, A, x, "cpu").run()
    if not case.values:  # NumPy multiplies real with complex numbers as if both were complex
        assert (np.isnan(found) == np.isnan(want)).all() and (np.isinf(found) == np.isinf(want)).all()
    columns = np.abs(sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape))
    touched = np.zeros(A.shape[0])
    touched[~np.isfinite(x)] = 1
    touched[np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))[~np.isfinite(A.data)]] = 1
    for powers in found[:, :, 0]:  # nowhere else: padding is not multiplied
        touched = np.minimum(1, touched + columns @ touched)
        assert np.isfinite(powers[touched == 0]).all()


@pytest.mark.parametrize("case", [PERSISTENT[3], PERSISTENT[9]], ids=str)
def test_a_wait_that_nobody_ends_is_given_up(case: Case, gpu_backend: str) -> None:
    """A tile that no block forms: others wait for it, and stop waiting."""
    case = replace(case, limit=3 if gpu_backend == "emulated" else 10**7)
    A = case.matrix()
    arrays = Arrays(case, A, numbers(np.random.default_rng(1), A.shape[0], case.dtype), gpu_backend)
    found = arrays.run(fixed=lambda sizes: (*sizes[:2], sizes[2] - 1, *sizes[3:]))
    assert int(arrays.failed[0]) == 1 and np.isnan(found).any()


def test_slots_must_hold_what_is_retained() -> None:
    problem, device = spec.problem("float64", 1000, 5000, 5), H200
    good = persistent(RETAIN="1|2|2", LAG=4, SLOTS=14)
    assert work.slots_needed(good) == 14 and space.illegal(problem, good, device) is None
    for bad in (
        {"SLOTS": 13},
        {"RETAIN": "1|2"},
        {"RETAIN": "1|x"},
        {"LAG": 0},
        {"WINDOW": 33},
        {"GATHER": "no"},
        {"TILE": 15},
    ):
        assert space.illegal(problem, replace(good, **bad), device) is not None, bad
    assert space.illegal(problem, good, A100) is not None
    assert space.illegal(problem, Groups(100), device) and space.illegal(problem, Groups(64, 4, "no"), device)
    for config in (good, Groups(), *space.candidates(problem, H200)):
        assert space.from_dict(space.to_dict(config)) == config


# ---- what the compiler makes of them ----------------------------------------------------------------------


def compiled(problem: Any, config: Any) -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, H200), "sm_90a")
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


@needs_nvrtc
@pytest.mark.parametrize("gather, shape", sliced(list(product(["relaxed", "stale"], FITTED)), 3), ids=str)
def test_what_is_fitted_does_not_spill(shape: tuple[str, int, str], gather: str) -> None:
    dtype, width, index = shape
    problem = spec.problem(dtype, 1 << 22, width << 22, 5, index=index)
    passes, reason = fit.passes(problem, banded(1 << 22, width, 5000, work.entry_bytes(problem)), H200)
    assert len(passes) == 1, reason
    resources = compiled(problem, replace(passes[0], GATHER=gather))
    assert resources.spill_bytes <= 16 and resources.registers <= (128 if passes[0].WARPS > 10 else 168)
    assert 0.6 * resources.registers <= work.registers(problem, passes[0]) <= 1.4 * resources.registers


@needs_nvrtc
@pytest.mark.parametrize("case", spared([*PERSISTENT, *GROUPS], 10), ids=str)
def test_compiles_for_sm_90(case: Case) -> None:
    problem = case.problem(case.matrix(), True)
    assert compiled(problem, case.config).spill_bytes == 0
    for kernel in (emit.fill(problem, H200, True), emit.permute(problem, H200, 3), emit.combine(problem, H200)):
        assert "warning" not in nvrtc.compile_cuda(kernel.source, "sm_90a").log
    if case.config.VARIANT == "groups":
        assert (
            nvrtc.resources(nvrtc.compile_cuda(emit.source(problem, case.config, A100), "sm_80").log).spill_bytes == 0
        )
