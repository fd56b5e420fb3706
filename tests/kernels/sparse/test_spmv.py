"""Kernels of sparse matrices times vectors: exact on integers and within bounds on random numbers, for all variants,
formats and kinds of columns; padding that nobody sees; configurations and their rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import spmv_cases as cases
from conftest import usable
from orders import in_order
from spmv_cases import P, case_id

from mansard.backends import emulated
from mansard.backends.emulated import ORDERS
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.errors import IllegalConfig
from mansard.kernels.sparse.spmv import defaults, emit, space, spec, work
from mansard.kernels.sparse.spmv.space import Block, Csr, Merge, Rows, Sell
from mansard.kernels.sparse.spmv.space_cpu import Simd
from mansard.operations.sparse import operand, storage
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import Problem

H200 = NOMINAL["sm_90a"]


@pytest.mark.parametrize("case", cases.CPU, ids=case_id)
def test_exact_on_cpus(case: tuple[Problem, Any]) -> None:
    scaled = cases.CPU.index(case) % 2 == 1 or case[0].recurrence
    cases.exact(*case, usable("cpu"), scaled=scaled)
    if not scaled:
        cases.bounded(*case, "cpu")


NOT_A_NUMBER = [
    ("emulated", P("float64", 70, 70, 500, index="delta16"), Sell(64, 4)),
    ("emulated", P("float64", 70, 70, 500, format="ell"), Sell(64, 4)),
    ("emulated", P("float64", 70, 70, 500, format="csr"), Csr(8, 64, 2)),
    ("emulated", P("float64", 70, 70, 500, format="csr", skewed=True), Merge(32, 3)),
    ("emulated", P("float64", 70, 70, 500, 4, vector=2), Block(2, 64, 2)),
    ("emulated", P("float64", 70, 70, 500, 4, format="csr", vector=2), Rows(8, 2, 64)),
    ("cpu", P("float64", 70, 70, 500), Simd(2)),
    ("cpu", P("float64", 70, 70, 500, 4, format="ell"), Simd(2)),
]


@pytest.mark.parametrize(("name", "problem", "config"), NOT_A_NUMBER, ids=lambda v: getattr(v, "VARIANT", None))
def test_padding_touches_nothing(name: str, problem: Problem, config: Any) -> None:
    """NaN and infinity in x reach the rows that have an entry there, and no others."""
    for backend in (name, "cuda") if name == "emulated" else (name,):
        if backend == "cuda" and cases.cuda.unavailable():
            continue
        xp = cases.testing.array_module(usable(backend))
        A = cases.sparse(problem, 3)
        A.data[:] = np.abs(A.data) + 1
        X, Y, Z = (cases.vectors(problem, 70, np.random.default_rng(5), xp, True) for _ in range(3))
        X[::3, 0], X[5, 0] = np.nan, np.inf
        cases.launch(problem, config, backend, A, [X, Y, Z], (1.0, 0.0))
        x, y = (cases.testing_host(one)[:, : problem.NVECS] for one in (X, Y))
        with np.errstate(invalid="ignore"):
            assert np.array_equal(y, A @ x, equal_nan=True)
        assert np.isfinite(y).any() and np.isnan(y).any()


def test_one_lane_per_row_is_the_order_of_storage(gpu_backend: str) -> None:
    """Entries are added from first to last by one lane: the same bits in every format."""
    backend = gpu_backend
    problem = P("float64", 100, 100, 1500)
    A = cases.sparse(problem, 9, integers=False)
    xp, results = cases.testing.array_module(backend), []
    for form, config in (
        ({}, Sell(64, 4)), ({"index": "delta16"}, Sell(32, 7, 2)), ({"permuted": True}, Sell(64, 3)),
        ({"format": "csr"}, Csr(1, 64, 2)), ({"format": "ell"}, Sell(64, 5)),
    ):  # fmt: skip
        asked = P("float64", 100, 100, 1500, **form)
        X, Y, Z = (cases.vectors(asked, 100, np.random.default_rng(2), xp, False) for _ in range(3))
        cases.launch(asked, config, backend, A, [X, Y, Z], (1.0, 0.0))
        results.append(cases.testing_host(Y))
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_merge_gives_the_same_bits_in_any_order() -> None:
    problem = P("float64", 40, 2000, 5000, format="csr", skewed=True)
    A, results = cases.sparse(problem, 4, integers=False), []
    for order in ORDERS:
        X, Y, Z = (cases.vectors(problem, n, np.random.default_rng(2), np, False) for n in (2000, 40, 40))
        with in_order(order):
            cases.launch(problem, Merge(64, 5), usable("emulated"), A, [X, Y, Z], (1.0, 0.0))
        results.append(Y)
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_splits_share_the_work() -> None:
    A = cases.sparse(P("float64", 300, 3000, 4000, format="csr", skewed=True), 0)
    rows = storage.Csr(A.shape, A.indptr, A.indices, A.data)
    for items in (7, 64, 100000):
        splits = operand.merge_splits(rows, items)
        total = A.shape[0] + A.nnz
        assert splits[0] == 0 and splits[-1] == A.shape[0] and (np.diff(splits) >= 0).all()
        begins = np.minimum(np.arange(len(splits)) * items, total)
        entries = begins - splits
        # a block's first entry lies in its first row, or right behind it
        inside = splits < A.shape[0]
        assert (A.indptr[splits[inside]] <= entries[inside]).all()
        assert (entries[inside] <= A.indptr[splits[inside] + 1]).all()


@pytest.mark.parametrize("format", spec.FORMATS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_there_is_a_default_for_everything(dtype: str, format: str) -> None:
    device = emulated.backend().device
    for count in (1, 2, 3, 16, 64):
        for mean in (1, 7, 200):
            problem = P(dtype, 1000, 1000, 1000 * mean, count, format=format, skewed=mean == 200)
            for where in (device, H200):
                config = defaults.default(problem, where)
                assert config is not None and space.illegal(problem, config, where) is None
                assert space.from_dict(space.to_dict(config)) == config
            assert any(True for _ in space.candidates(problem, H200))


def test_rules() -> None:
    device = emulated.backend().device
    one, rows = P("float64", 100, 100, 500), P("float64", 100, 100, 500, format="csr")
    assert "does not read format sell" in str(space.illegal(one, Csr(), device))
    assert "does not read format csr" in str(space.illegal(rows, Sell(), device))
    assert "multiplies one vector" in str(space.illegal(one.replace(NVECS=2), Sell(), device))
    assert "multiple of 32" in str(space.illegal(one, Sell(100), device))
    assert "CACHE" in str(space.illegal(one, Sell(CACHE="none"), device))
    assert "CHUNKS" in str(space.illegal(one, Sell(CHUNKS=33), device))
    assert "THREADS" in str(space.illegal(rows, Csr(THREADS=3), device))
    assert "PER_THREAD" in str(space.illegal(rows, Merge(PER_THREAD=0), device))
    assert "LANES_N" in str(space.illegal(one, Block(LANES_N=3), device))
    assert "LANES" in str(space.illegal(rows, Rows(LANES=4, LANES_N=8), device))
    assert "is for CPUs" in str(space.illegal(one, Simd(), device))
    cpu = Device("cpu", "some", "x86_64", 2, vector_bytes=32)
    assert "is for GPUs" in str(space.illegal(one, Sell(), cpu))
    assert "no power of two" in str(space.illegal(rows, Simd(3), cpu))
    assert "does not divide" in str(space.illegal(one.replace(C=2), Simd(4), cpu))
    with pytest.raises(IllegalConfig, match="no parameter NAME"):
        space.from_dict({"VARIANT": "sell", "NAME": 1})


def test_refusals() -> None:
    assert spec.refusal(P("float64", 10, 10, 10)) is None
    assert "float16" in str(spec.refusal(P("float16", 10, 10, 10)))
    assert "do not fit" in str(spec.refusal(P("float32", 10, 10, 10, values="float64")))
    assert "do not fit" in str(spec.refusal(P("float64", 10, 10, 10, values="complex64")))
    assert "format" in str(spec.refusal(P("float64", 10, 10, 10, format="coo")))
    assert "delta16 columns in format csr" in str(spec.refusal(P("float64", 10, 10, 10, format="csr", index="delta16")))
    assert "chunks of 3" in str(spec.refusal(P("float64", 10, 10, 10, C=3)))
    assert "65 vectors" in str(spec.refusal(P("float64", 10, 10, 10, 65)))


def test_work_counts_bytes() -> None:
    one = work.work(P("float64", 320, 320, 3200, ragged=False))
    assert one.read == 3200 * 12 + 10 * 8 + 320 * 8 and one.written == 320 * 8 and one.flops == 6400
    short = work.work(P("float64", 320, 320, 3200, index="delta16", values="float32", ragged=False))
    assert short.read == 3200 * 6 + 4 * 100 + 10 * 8 + 320 * 8
    rows = work.work(P("complex128", 320, 100, 3200, 4, format="csr", accumulate=True, values="float64"))
    assert rows.read == 3200 * 12 + 320 * 4 + 4 * 16 * (100 + 320) and rows.flops == 3200 * 16


@pytest.mark.skipif(nvrtc.available() is not None, reason="no NVRTC here")
@pytest.mark.parametrize(
    "problem",
    [
        P("float64", 1 << 22, 1 << 22, 27 << 22),
        P("float64", 1 << 24, 1 << 24, 7 << 24, index="delta16"),
        P("float64", 1 << 22, 1 << 22, 27 << 22, 16, vector=2),
        P("complex128", 1 << 20, 1 << 20, 16 << 20, format="csr", skewed=True),
        P("float64", 1 << 20, 1 << 20, 16 << 20, 4, format="csr", vector=2),
    ],
    ids=str,
)
def test_defaults_compile_without_spills(problem: Problem) -> None:
    config = defaults.default(problem, H200)
    log = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), "sm_90a").log
    found = nvrtc.resources(log)
    assert found.spill_bytes <= 32 and found.registers <= 128  # 20 with 16 vectors, which are faster for it
