"""Two-sided factorizations on CPUs: who answers batches of every size, padding, precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from two_sided_cases import KINDS, LAPACK, check_eigh, check_svd, general, hermitian

import mansard as ms
from mansard.codegen.geometry import Device
from mansard.kernels.factor import jacobi
from mansard.operations.factor.two_sided import loops

pytestmark = pytest.mark.usefixtures("no_plans")
linalg = ms.linalg


def symmetric(count: int, dtype: str = "float64", n: int = 9) -> Any:
    rng = np.random.default_rng(n)
    return np.stack([hermitian(rng, KINDS[i % len(KINDS)], n, dtype) for i in range(count)])


@needs_cpu
def test_few_matrices_on_cpus_are_lapacks() -> None:
    """By their work and the lanes they fill, with the reason."""
    A = symmetric(2, n=6)
    assert "not worth the compilation" in ms.plan("eigh", A).explain()
    assert "LAPACK is done first" in ms.plan("eigh", symmetric(1, n=60)).explain()
    assert "VARIANT=simd" in ms.plan("eigh", symmetric(16, n=6)).explain()
    assert "beyond 128" in ms.plan("svd", np.zeros((40, 129, 129))).explain()
    assert "driver='qr' is LAPACK's" in ms.plan("svd", symmetric(40), driver="qr").explain()
    assert "sytrd" in ms.plan("tridiagonalize", A).explain()
    check_eigh(A, *linalg.eigh(A), "LAPACK", LAPACK)
    check_eigh(symmetric(32, n=6), *linalg.eigh(symmetric(32, n=6)), "kernel")


@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize(
    "dtype, lanes", [("float64", 8), ("float32", 16), ("float64", 4), ("complex128", 8), ("complex64", 16)]
)
def test_batches_on_cpus_have_no_steps(dtype: str, lanes: int, cores: int) -> None:
    """One matrix is LAPACK's, full lanes are not; on one core there is one change from the one to the other."""
    real = 4 if dtype in ("float32", "complex64") else 8
    device = Device("cpu", "some cores", "x86_64", multiprocessors=cores, vector_bytes=lanes * real)
    for want in ("eigh", "eigvalsh", "svd", "svdvals"):
        for n in (8, 16, 24, 32, 64):
            problem = jacobi.spec.problem(dtype, n, 1, want=want, method="any")
            by_lanes = [jacobi.rivals.lapack_reason(problem, [n] * count, device) is None for count in range(1, 40)]
            assert not by_lanes[0]
            assert by_lanes[lanes - 1] or cores > 2, (want, n)
            if cores == 1 and n < 64:
                assert by_lanes == sorted(by_lanes), (want, n)


def test_single_precision_by_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAPACK computes larger matrices in the precision that they have, and smaller ones as NumPy has it."""
    asked, quietly = list[str](), loops.quietly

    def record(*given: Any, signature: str) -> Any:
        asked.append(signature)
        return quietly(*given, signature=signature)

    monkeypatch.setattr(loops, "quietly", record)
    for dtype in ("float32", "complex64"):
        for n in (40, 41):
            A = symmetric(2, dtype, n)
            check_eigh(A, *linalg.eigh(A, backend="reference"), dtype, LAPACK)
            U, s, Vh = linalg.svd(A, backend="reference")
            assert {one.dtype for one in (U, Vh)} == {A.dtype} and s.dtype == np.float32
            check_svd(A, U, s, Vh, dtype, LAPACK)
    assert asked == ["d->dd", "d->ddd", "f->ff", "f->fff", "D->dD", "D->DdD", "F->fF", "F->FfF"]


@needs_cpu
@pytest.mark.parametrize("full", [True, False])
def test_nearly_square_matrices_are_padded_on_cpus(full: bool) -> None:
    """Columns of zeros complete U and leave the other parts alone, whatever the rank."""
    for rows, columns in ((6, 5), (5, 6)):
        A = np.stack(
            [general(np.random.default_rng(i), kind, rows, columns, "float64") for i, kind in enumerate(KINDS * 3)]
        )
        check_svd(A, *linalg.svd(A, full), (rows, columns))
        text = ms.plan("svd", A).explain()
        assert "of zeros make it square" in text and "qr " not in text
        bad = A.copy()
        bad[3, 1, 1] = np.inf
        _, s, _, info = linalg.svd_ex(bad, full)
        assert info.tolist() == [0, 0, 0, min(rows, columns) + 1, *(0 for _ in A[4:])] and np.isnan(s[3]).all()
        assert np.array_equal(linalg.svdvals_ex(bad).info, info)
