"""NumPy's own tests of numpy.linalg, with Mansard's functions in place of NumPy's.

Every function that both have stands in, wherever NumPy's tests call it. These tests are of conventions: where kernels
of dozens of sizes would be compiled, LAPACK computes (`backend="reference"`), and other tests compare the kernels with
it. What is not run, or not as it stands:

* of the thousands of cases that repeat others with different strides, every 41st;
* `test_unsupported_commontype`: float16 is refused with a TypeError here too, in other words;
* `TestLstsq.test_incompatible_dims`: the LinAlgError says which argument has how many rows, not "Incompatible";
* `TestLstsq.test_nonfinite`: the x of a matrix with entries that are not finite is NaN, where NumPy raises;
* tests of functions that Mansard has not: eig, eigvals, matrix_power, multi_dot, tensorsolve, tensorinv, outer, cross,
  diagonal, trace, matrix_norm, vector_norm, and of the bindings of NumPy's LAPACK (xerbla, lapack_lite, 64-bit BLAS).
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mansard as ms

upstream = pytest.importorskip("numpy.linalg.tests.test_linalg", reason="this NumPy came without its tests")
of_matrices = pytest.importorskip("numpy.matrixlib.tests.test_matrix_linalg", reason="this NumPy came without them")
pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
OURS = (
    "cholesky", "cond", "det", "eigh", "eigvalsh", "inv", "lstsq", "matrix_rank", "norm", "pinv", "qr", "slogdet",
    "solve", "svd", "svdvals",
)  # fmt: skip


class NumPy:
    """The module numpy with another linalg."""

    def __init__(self, linalg: Any) -> None:
        self.linalg = linalg

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.fixture(autouse=True)
def ours_in_place(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Whatever NumPy's tests call by these names is ours, by kernels in classes whose backend is None."""
    backend = getattr(request.cls, "backend", "reference")
    ours: dict[str, Any] = {name: partial(getattr(ms.linalg, name), backend=backend) for name in OURS}
    linalg = SimpleNamespace(**(vars(np.linalg) | ours))
    monkeypatch.setattr(upstream, "linalg", linalg)
    monkeypatch.setattr(upstream, "np", NumPy(linalg))
    cases = upstream.LinalgTestCase.TEST_CASES  # thousands of them, of all strides
    few = [case for i, case in enumerate(cases) if "stride" not in case.name or i % 41 == 0]
    monkeypatch.setattr(upstream.LinalgTestCase, "TEST_CASES", few)
    for name in ("norm", "matrix_rank"):
        monkeypatch.setattr(upstream, name, ours[name])


def test_every_function_that_both_have_stands_in() -> None:
    assert {name for name in ms.linalg.__all__ if name in np.linalg.__all__} == set(OURS)


def test_the_functions_in_place_are_ours() -> None:
    """A wrong result of ours fails NumPy's tests: they do not call NumPy's functions."""
    for name in OURS:
        assert getattr(upstream.linalg, name) is getattr(upstream.np.linalg, name)
        assert getattr(upstream.linalg, name).func is getattr(ms.linalg, name)


class TestSolve(upstream.TestSolve):
    pass


class TestInv(upstream.TestInv):
    pass


class TestDet(upstream.TestDet):
    pass


class TestLstsq(upstream.TestLstsq):
    def test_incompatible_dims(self) -> None:
        with pytest.raises(np.linalg.LinAlgError, match="a has 4 rows and b 5"):
            upstream.linalg.lstsq(np.ones((4, 2)), np.ones(5), rcond=None)

    @pytest.mark.parametrize("value", [np.inf, np.nan])
    def test_nonfinite(self, value: float) -> None:
        a = np.ones((2, 3, 3))
        a[0], a[1, 0, 0] = np.eye(3), value
        for driver in ("svd", "qr"):
            x = upstream.linalg.lstsq(a, np.ones((2, 3, 1)), driver=driver)[0]
            assert np.allclose(x[0], 1) and np.isnan(x[1]).all()


class TestQR(upstream.TestQR):
    pass


class TestCholesky(upstream.TestCholesky):
    pass


class TestEighCases(upstream.TestEighCases):
    backend = None


class TestEigh(upstream.TestEigh):
    backend = None


class TestEigvalshCases(upstream.TestEigvalshCases):
    backend = None


class TestEigvalsh(upstream.TestEigvalsh):
    backend = None


class TestSVD(upstream.TestSVD):
    backend = None


class TestSVDHermitian(upstream.TestSVDHermitian):
    backend = None


class TestPinv(upstream.TestPinv):
    backend = None


class TestPinvHermitian(upstream.TestPinvHermitian):
    backend = None


class TestCond(upstream.TestCond):
    """By LAPACK: singular values, which `TestSVD` has from kernels."""


class TestMatrixRank(upstream.TestMatrixRank):
    backend = None


class TestNormDouble(upstream.TestNormDouble):
    pass


class TestNormSingle(upstream.TestNormSingle):
    pass


class TestNormInt64(upstream.TestNormInt64):
    pass


class TestNorm_NonSystematic(upstream.TestNorm_NonSystematic):
    pass


@pytest.mark.parametrize(
    "name",
    ["test_pinv_rtol_arg", "test_reduced_rank", "test_byteorder_check", "test_generalized_raise_multiloop",
     "test_empty_matrix_rank"],
)  # fmt: skip
def test_single_functions(name: str) -> None:
    getattr(upstream, name)()


# ---- np.matrix ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["TestSolveMatrix", "TestInvMatrix", "TestSVDMatrix", "TestCondMatrix", "TestPinvMatrix", "TestDetMatrix",
     "TestLstsqMatrix", "TestQRMatrix", "TestNormDoubleMatrix", "TestNormSingleMatrix", "TestNormInt64Matrix"],
)  # fmt: skip
def test_matrices(name: str) -> None:
    """Every test of one of NumPy's classes for np.matrix."""
    tests = getattr(of_matrices, name)
    run = [one for one in dir(tests) if one.startswith("test_") and one not in PARAMETRIZED]
    assert run
    for one in run:
        getattr(tests(), one)()


PARAMETRIZED = ("test_qr_empty", "test_stacked_inputs")  # of arrays, and run above
