"""NumPy's own tests of eigenvalues, singular values and norms, with Mansard's functions in place of NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mansard as ms

upstream = pytest.importorskip("numpy.linalg.tests.test_linalg", reason="this NumPy came without its tests")
OURS = ("eigh", "eigvalsh", "svd", "svdvals", "pinv", "cond", "matrix_rank", "norm")


def of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for nested lists too: Mansard takes arrays, and lists of arrays."""
    return lambda a, *options, **more: function(a if isinstance(a, np.ndarray) else np.asarray(a), *options, **more)


@pytest.fixture(autouse=True)
def ours_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever NumPy's tests call by these names is ours."""
    ours: dict[str, Any] = {name: of_arrays(getattr(ms.linalg, name)) for name in OURS}
    monkeypatch.setattr(upstream, "linalg", SimpleNamespace(**(vars(np.linalg) | ours)))
    cases = upstream.LinalgTestCase.TEST_CASES  # thousands of them, of all strides
    few = [case for i, case in enumerate(cases) if "stride" not in case.name or i % 41 == 0]
    monkeypatch.setattr(upstream.LinalgTestCase, "TEST_CASES", few)
    for name in ("norm", "matrix_rank"):
        monkeypatch.setattr(upstream, name, ours[name])


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


class TestNormInt64(upstream.TestNormInt64):
    pass


class TestNorm_NonSystematic(upstream.TestNorm_NonSystematic):
    pass
