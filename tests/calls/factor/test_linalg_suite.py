"""NumPy's own tests of numpy.linalg, with Mansard's functions on PyTorch tensors, JAX and CuPy arrays.

`test_numpy_classes.py` runs them on NumPy arrays. Here each array of numbers goes to the library before the call, and
results come back as NumPy arrays, once it is known that they are the library's. What these libraries do not have is
prepared as their users would: integers become float64, operands of two dtypes get their common one. Subclasses of
ndarray, foreign byte orders and dtypes that no kernel has stay what they are.

NumPy compares with 6 or 12 decimals, whatever the size of the numbers: its own LAPACK happens to pass. Here decimals
are those of numbers relative to the largest expected one, if that is above 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.backends import cuda
from mansard.plan.problem import DTYPES

upstream = pytest.importorskip("numpy.linalg.tests.test_linalg", reason="this NumPy came without its tests")
OURS = (
    "cholesky", "cond", "det", "eigh", "eigvalsh", "inv", "lstsq", "matrix_rank", "norm", "pinv", "qr", "slogdet",
    "solve", "svd", "svdvals",
)  # fmt: skip


class Library:
    """Arrays to and from one array library."""

    def __init__(self, name: str) -> None:
        self.name, self.module = name, pytest.importorskip(name)
        if name == "cupy" and cuda.unavailable():
            pytest.skip("no GPU")
        self.type = {"torch": "Tensor", "jax": "Array", "cupy": "ndarray"}[name]
        self.on_gpu = name == "cupy" or (name == "torch" and self.module.cuda.is_available())

    def array(self, x: Any) -> Any:
        if self.name == "torch":
            x = x.copy() if any(step < 0 for step in x.strides) or not x.flags.writeable else x
            return self.module.from_numpy(x).to("cuda" if self.on_gpu else "cpu")
        return self.module.numpy.asarray(x) if self.name == "jax" else self.module.asarray(x)

    def numpy(self, x: Any) -> Any:
        if isinstance(x, getattr(self.module, self.type)):
            x = np.asarray(x.cpu() if self.name == "torch" else x.get() if self.name == "cupy" else x)
            return x[()] if x.ndim == 0 else x
        if isinstance(x, tuple):
            parts = tuple(map(self.numpy, x))
            return type(x)(*parts) if hasattr(x, "_fields") else parts
        return x

    def call(self, name: str, backend: str | None, *args: Any, **kwargs: Any) -> Any:
        """Mansard's function on this library's arrays, with NumPy's results."""
        operands = 2 if name in ("solve", "lstsq") else 1
        given = [_numbers(one) for one in args[:operands]]
        if any(one is None for one in given):  # not a matter of this library
            return getattr(ms.linalg, name)(*args, **kwargs, backend=backend)
        common = np.result_type(*given)
        args = (*(self.array(one.astype(common, copy=False)) for one in given), *args[operands:])
        found = getattr(ms.linalg, name)(*args, **kwargs, backend=backend)
        self.check(name, found, args[0])
        return self.numpy(found)

    def check(self, name: str, found: Any, like: Any) -> None:
        """Results are arrays of the library, where the operands are."""
        for one in found if isinstance(found, tuple) else (found,):
            is_count = name in ("matrix_rank", "lstsq") and not hasattr(one, "shape")
            assert is_count or isinstance(one, getattr(self.module, self.type)), (name, type(one))
            assert is_count or one.device == like.device


def _numbers(x: Any) -> Any:
    """A NumPy array that every library has; None of others."""
    if isinstance(x, list):
        x = np.asarray(x)
    if type(x) is not np.ndarray or not x.dtype.isnative:
        return None
    if x.dtype.kind in "biu":
        return x.astype(np.float64)
    return x if x.dtype.name in DTYPES else None


def assert_almost_equal(a: Any, b: Any, single_decimal: int = 6, double_decimal: int = 12, **kw: Any) -> None:
    """NumPy's, with decimals of numbers relative to the largest of b."""
    is_single = np.asarray(a).dtype.name in ("float32", "complex64")
    with np.errstate(invalid="ignore"):
        largest = np.abs(np.asarray(b)).max(initial=1.0)
    largest = largest if np.isfinite(largest) else 1.0
    decimal = single_decimal if is_single else double_decimal
    np.testing.assert_almost_equal(np.asarray(a) / largest, np.asarray(b) / largest, decimal=decimal, **kw)


def test_almost_equal_tells_digits_apart() -> None:
    assert_almost_equal(np.float32([18.000002, 1]), [18, 1])
    for wrong in (np.float32([18.0002, 1]), np.array([18 + 1e-9, 1]), np.ones(3)):
        with pytest.raises(AssertionError):
            assert_almost_equal(wrong, [18, 1])


class NumPy:
    """The module numpy with another linalg."""

    def __init__(self, linalg: Any) -> None:
        self.linalg = linalg

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.fixture(autouse=True, params=["torch", "jax", "cupy"])
def of_the_library(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Library]:
    """Whatever NumPy's tests call by these names is ours, on arrays of the library."""
    library = Library(request.param)
    on_gpu = library.on_gpu or (library.name == "jax" and library.module.default_backend() == "gpu")
    backend = None if on_gpu else getattr(request.cls, "backend", "reference")
    ours: dict[str, Any] = {name: partial(library.call, name, backend) for name in OURS}
    linalg = SimpleNamespace(**(vars(np.linalg) | ours))
    monkeypatch.setattr(upstream, "linalg", linalg)
    monkeypatch.setattr(upstream, "np", NumPy(linalg))
    monkeypatch.setattr(upstream, "assert_almost_equal", assert_almost_equal)
    cases = upstream.LinalgTestCase.TEST_CASES  # thousands of them, of all strides
    few = [case for i, case in enumerate(cases) if "stride" not in case.name or i % 41 == 0]
    monkeypatch.setattr(upstream.LinalgTestCase, "TEST_CASES", few)
    for name in ("norm", "matrix_rank"):
        monkeypatch.setattr(upstream, name, ours[name])
    if library.name != "jax":
        yield library
        return
    before = library.module.config.jax_enable_x64
    library.module.config.update("jax_enable_x64", True)
    yield library
    library.module.config.update("jax_enable_x64", before)


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

    test_nonfinite = None  # NumPy raises, ours is NaN: test_numpy_classes.py


class TestQR(upstream.TestQR):
    pass


class TestCholesky(upstream.TestCholesky):
    pass


class TestEighCases(upstream.TestEighCases):
    pass


class TestEigh(upstream.TestEigh):
    pass


class TestEigvalshCases(upstream.TestEigvalshCases):
    pass


class TestEigvalsh(upstream.TestEigvalsh):
    pass


class TestSVD(upstream.TestSVD):
    pass


class TestSVDHermitian(upstream.TestSVDHermitian):
    pass


class TestPinv(upstream.TestPinv):
    pass


class TestPinvHermitian(upstream.TestPinvHermitian):
    pass


class TestCond(upstream.TestCond):
    pass


class TestMatrixRank(upstream.TestMatrixRank):
    pass


class TestNormDouble(upstream.TestNormDouble):
    pass


class TestNormSingle(upstream.TestNormSingle):
    pass


class TestNorm_NonSystematic(upstream.TestNorm_NonSystematic):
    pass


@pytest.mark.parametrize(
    "name", ["test_pinv_rtol_arg", "test_reduced_rank", "test_generalized_raise_multiloop", "test_empty_matrix_rank"]
)
def test_single_functions(name: str) -> None:
    getattr(upstream, name)()
