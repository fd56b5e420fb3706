"""The limit of two-sided factorizations: the bound of reductions, shares of phases, and what explain() says of it."""

from __future__ import annotations

import bench_samples
import numpy as np
import pytest

import mansard as ms
from mansard.kernels.factor.two_sided import model

H200 = bench_samples.H200


def test_reductions_from_memory_have_the_bound_of_products() -> None:
    gemv, gemm = model.rates("float64", 512, H200)
    assert gemv == pytest.approx(H200.read_bandwidth / 4) and gemm == pytest.approx(4 * H200.copy_bandwidth)
    found = model.limit("bidiagonal", "float64", 512, H200)
    assert found.reduction_rate == pytest.approx(2 / (1 / gemv + 1 / gemm)) and found.binds == "reduction"
    assert found.seconds == pytest.approx(8 / 3 * 512**3 / found.reduction_rate)
    inside = model.limit("bidiagonal", "float64", 128, H200)
    assert inside.gemv == inside.gemm == H200.fma["float64"], "a multiprocessor holds it"
    assert model.rates("complex128", 512, H200)[0] == pytest.approx(H200.read_bandwidth / 2)


def test_phases_and_what_binds() -> None:
    assert model.limit("eigh", "float64", 2, H200).binds == "memory"
    vectors, values = (model.limit(want, "float64", 64, H200) for want in ("svd", "svdvals"))
    assert list(vectors.shares) == ["reduction", "iteration", "back transformation"]
    assert sum(vectors.shares.values()) == pytest.approx(1) and list(values.shares) == ["reduction", "iteration"]
    assert vectors.rotations > values.rotations == int(1.25 * 64**2)
    assert model.limit("svd", "complex128", 64, H200).seconds > 2 * vectors.seconds


def test_explain_shows_the_bound() -> None:
    A = np.zeros((40, 20, 20))
    said = ms.plan("svd", A).explain()
    assert "2 / (1 / gemv + 1 / gemm)" in said and "rotations per random matrix" in said and "set by" in said
    assert "back transformation" not in ms.plan("bidiagonalize", A, compute_uv=False).explain().partition("step 1")[0]
    assert "bound" not in ms.plan("pinv", A).explain().partition("step 1")[0]
