"""Versions of Dong's bidiagonalization (papers/dong) in the emulator: all have the singular values of the matrices."""

import numpy as np
import pytest
from orders import in_order

from mansard.backends import emulated
from mansard.compile import cxx
from papers.dong import versions

pytestmark = pytest.mark.skipif(bool(cxx.available()), reason="there is no C++ compiler")
COUNT, N = 2, 45  # a panel of 32 columns, and a rest that begins within a line


def _matrices():
    A = np.random.default_rng(6).standard_normal((COUNT, N, N))
    A[1, :, 7] = A[1, 30:, :] = 0  # a column without a reflector, and a panel that is zero at its end
    return A


@pytest.fixture(scope="module")
def kernels():
    return versions.Kernels(emulated.EmulatedBackend())


@pytest.mark.parametrize("version", versions.VERSIONS)
def test_forms_have_the_singular_values_of_the_matrices(version, kernels):
    A = _matrices()
    work = versions.Work(np, A.copy(), 1 if version == "nonblocked" else versions.PANEL)
    marks = []
    with in_order("random"):
        versions.run(version, work, kernels, marks.append)
    steps, panels = (2 * N, 2) if version in ("3", "4") else (0, 0)
    assert [marks.count(part) for part in ("panel", "square")] == [steps + panels, steps]
    for matrix, d, e in zip(A, work.D, work.E, strict=True):
        exact, found = np.linalg.svd(matrix)[1], np.linalg.svd(np.diag(d) + np.diag(e[:-1], 1))[1]
        assert abs(found - exact).max() < N * np.finfo(float).eps * exact[0]
