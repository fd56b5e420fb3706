"""The model of sparse products and powers against numbers printed in the thesis its equations come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mansard.machine import spmv
from mansard.machine.machine import Machine
from mansard.machine.spmv import Storage

EIGHT = Storage(C=8)
GB = 1e9
# GB/s of the last-level cache and of the memory (table 4.2); speed-ups at p = 1 to 10 (table 4.5)
DEVICES = {
    "RX 6900 XT": (1950, 491, [1.00, 1.60, 1.99, 2.28, 2.49, 2.65, 2.79, 2.89, 2.98, 3.06]),
    "L40": (5286, 833, [1.00, 1.73, 2.28, 2.72, 3.07, 3.36, 3.60, 3.80, 3.98, 4.13]),
    "A100": (5325, 1778, [1.00, 1.50, 1.80, 2.00, 2.14, 2.25, 2.33, 2.40, 2.45, 2.50]),
    "GH200": (9715, 3883, [1.00, 1.43, 1.67, 1.82, 1.92, 2.00, 2.06, 2.11, 2.14, 2.18]),
}
# rows, entries, bytes per flop at C = 8 (table 4.3)
MATRICES = {
    "band-27": (4194304, 113246026, 6.31),
    "band-7": (16777216, 117440500, 7.21),
    "27pt": (4194304, 111777784, 6.32),
    "7pt": (16777216, 117047296, 7.22),
    "delaunay_n24": (16777216, 100663202, 7.42),
    "road_usa": (23947347, 57708624, 9.53),
    "crankseg_1": (52804, 10614210, 6.04),
    "Graphene": (67108864, 872235016, 6.65),
    "G3_circuit": (1585478, 7660826, 7.76),
    "ML_Geer": (1504002, 110879972, 6.12),
}


@pytest.mark.parametrize("name", MATRICES)
def test_bytes_per_flop(name: str) -> None:
    rows, nnz, expected = MATRICES[name]
    assert spmv.intensity(nnz / rows, EIGHT) == pytest.approx(expected, abs=0.0051)


def test_bytes_of_a_row() -> None:
    assert spmv.row_flops(27) == 54 and spmv.row_flops(27, complex_values=True) == 216
    assert spmv.row_bytes(27, EIGHT) == 8 / 8 + 27 * 12 + 16  # equation 4.4
    assert spmv.row_bytes(27, Storage(format="csr")) == 4 + 27 * 12 + 16
    assert spmv.row_bytes(27, Storage(format="ell")) == 27 * 12 + 16
    assert spmv.row_bytes(27, EIGHT, accumulate=True) == 1 + 27 * 12 + 24
    assert spmv.row_bytes(10, EIGHT, alpha=1.0) == 1 + 10 * 20 + 8  # x is never cached
    assert spmv.row_bytes(10, replace(EIGHT, padding=1.5)) == 1 + 15 * 12 + 16
    assert spmv.row_bytes(10, Storage(C=32, index=2)) == 0.25 + 10 * (10 + 0.125) + 16
    assert spmv.row_bytes(10, Storage(C=32, values=4, vectors=4)) == 0.25 + 80 + 8
    assert spmv.matrix_bytes(27, EIGHT) * 4194304 == pytest.approx(1363.1e6, rel=1e-4)  # size of SELL-8-1, table 4.3


def test_performance_of_band_27() -> None:
    intensity = spmv.intensity(27, EIGHT)
    assert intensity == pytest.approx(6.31, abs=0.005)
    dram, cache = spmv.performance(833 * GB, 6.31), spmv.performance(5286 * GB, 6.31)
    assert dram == pytest.approx(132.0 * GB, rel=1e-3)  # equation 4.9
    assert cache == pytest.approx(837.7 * GB, rel=1e-3)  # equation 4.10
    assert spmv.powers_performance(5, dram, cache) == pytest.approx(404.8 * GB, rel=1e-3)  # equation 4.11
    in_cache = {"RX 6900 XT": 309, "L40": 837, "A100": 843, "GH200": 1539}  # section 4.4.1.3
    for name, expected in in_cache.items():
        assert spmv.performance(DEVICES[name][0] * GB, intensity) == pytest.approx(expected * GB, rel=2e-3)


@pytest.mark.parametrize("name", DEVICES)
def test_speedups_of_powers(name: str) -> None:
    cache, dram, expected = DEVICES[name]
    found = [spmv.powers_speedup(p, cache / dram) for p in range(1, 11)]
    assert found == pytest.approx(expected, abs=0.0101)


def test_overlap_is_bound_by_the_cache_or_by_what_the_memory_must_move() -> None:
    assert spmv.overlapped_speedup(4, 27, 2.0) == 2.0
    assert spmv.overlapped_speedup(2, 7, 9.0) == pytest.approx(2 * (0.25 + 84 + 16) / (0.25 + 84 + 24))
    with pytest.raises(ValueError, match="p=0"):
        spmv.powers_speedup(0, 2.0)


def test_overhead_is_recovered_from_times() -> None:
    sizes = np.geomspace(1e5, 2e7, 30)
    for overhead, full in ((3.15e-6, 3650 * GB), (1.06e-6, 5205 * GB), (1.32e-6, 3393 * GB)):  # table 4.6
        seconds = overhead + sizes / full
        assert spmv.fit_overhead(sizes, seconds) == pytest.approx((overhead, full))
        assert spmv.effective_bandwidth(sizes[3], overhead, full) == pytest.approx(sizes[3] / seconds[3])
        noisy = seconds * np.random.default_rng(0).uniform(0.97, 1.03, 30)
        assert spmv.fit_overhead(sizes, noisy) == pytest.approx((overhead, full), rel=0.05)
    assert spmv.effective_bandwidth(1.32e-6 * 3393 * GB, 1.32e-6, 3393 * GB) == pytest.approx(3393 * GB / 2)
    for bad in (([1.0, 1.0], [1.0, 1.0]), ([1.0, 2.0], [1.0]), ([1.0, 2.0], [2.0, 1.0]), ([1.0, 2.0], [0.0, 1.0])):
        with pytest.raises(ValueError):
            spmv.fit_overhead(*bad)


def test_prediction_from_a_machine() -> None:
    machine = Machine(
        "gpu", "by hand", 4e12, 4e12, 4e12, {"float64": 30e12, "float32": 60e12},
        cache_bandwidth=((1 << 20, 8e12), (32 << 20, 8e12), (128 << 20, 4e12)), launch_seconds=0.0,
        graph_step_seconds=2e-6,
    )  # fmt: skip
    rows, nnz, p = 4194304, 113246026, 5
    found = spmv.predict(machine, rows, nnz, p, footprint=30e6, launches=500)
    moved = rows * spmv.row_bytes(nnz / rows)
    assert found.plain == pytest.approx(5 * moved / 4e12)
    assert found.blocked == pytest.approx(moved / 4e12 + 4 * moved / 8e12)
    assert found.speedup == pytest.approx(spmv.powers_speedup(5, 2.0))
    assert found.groups == pytest.approx(found.blocked + 1e-3)
    assert spmv.predict(machine, rows, nnz, p, footprint=1e9).speedup == pytest.approx(1.0)
    assert spmv.cached_bandwidth(machine, 64 << 20) == pytest.approx(6e12)
    assert spmv.cached_bandwidth(replace(machine, cache_bandwidth=()), 1.0) == 4e12
