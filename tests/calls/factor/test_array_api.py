"""The linear algebra of the array API standard, as its reference implementation `array_api_strict` has it: every
function that Mansard has, too, takes the same arguments and returns arrays of the same shapes, dtypes and values.

The standard's own suite, array-api-tests, is not on PyPI, and CuPy's wheels come without CuPy's tests.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mansard as ms

strict = pytest.importorskip("array_api_strict")
FUNCTIONS = tuple(name for name in strict.linalg.__all__ if hasattr(ms.linalg, name) and not name.endswith("Result"))
SQUARE = {"cholesky", "det", "eigh", "eigvalsh", "inv", "slogdet", "solve"}
OPTIONS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "cholesky": st.fixed_dictionaries({"upper": st.booleans()}),
    "matrix_rank": st.fixed_dictionaries({}, optional={"rtol": st.sampled_from((1e-6, 0.3))}),
    "pinv": st.fixed_dictionaries({}, optional={"rtol": st.sampled_from((1e-6, 0.3))}),
    "qr": st.fixed_dictionaries({"mode": st.sampled_from(("reduced", "complete"))}),
    "svd": st.fixed_dictionaries({"full_matrices": st.booleans()}),
}
COMPARED = {"eigh": (0,), "svd": (1,), "qr": ()}  # of several results those that are unique


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_of_the_standard_are_taken(name: str) -> None:
    ours = inspect.signature(getattr(ms.linalg, name)).parameters.values()
    positional = [one for one in ours if one.kind is not one.KEYWORD_ONLY]
    named = {one.name: one for one in ours if one.kind is not one.POSITIONAL_ONLY}
    theirs = inspect.signature(getattr(strict.linalg, name)).parameters.values()
    assert len(positional) >= sum(one.kind is one.POSITIONAL_ONLY for one in theirs)
    for one in theirs:
        if one.kind is one.KEYWORD_ONLY:
            assert named[one.name].default == one.default


@pytest.mark.usefixtures("by_library")
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_results_are_those_of_the_standard(name: str, data: st.DataObject) -> None:
    operands = drawn(name, data)
    options = data.draw(OPTIONS.get(name, st.just({})))
    expected = getattr(strict.linalg, name)(*map(strict.asarray, operands), **options)
    found = getattr(ms.linalg, name)(*operands, **options)
    several = isinstance(expected, tuple)
    assert not several or found._fields == expected._fields
    for at, (one, other) in enumerate(zip(*((found, expected) if several else ([found], [expected])), strict=True)):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape and one.dtype == other.dtype
        if not several or at in COMPARED.get(name, (0, 1)):
            near = 1e-3 if one.dtype.char in "fF" else 1e-9
            np.testing.assert_allclose(one, other, near, near)


def drawn(name: str, data: st.DataObject) -> list[np.ndarray[Any, Any]]:
    """Well-conditioned operands of a stack or a matrix, Hermitian and definite where that is asked for."""
    stack = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    n = data.draw(st.integers(1, 6))
    m = n if name in SQUARE else data.draw(st.integers(1, 6))
    dtype = data.draw(st.sampled_from(("float32", "float64", "complex64", "complex128")))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))

    def random(*shape: int) -> np.ndarray[Any, Any]:
        made = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.startswith("c") else 0)
        return made.astype(dtype)

    a = random(*stack, m, n)
    if name in SQUARE:
        a += 4 * n * np.eye(n, dtype=dtype)
    if name in ("cholesky", "eigh", "eigvalsh"):
        a = a + a.conj().swapaxes(-1, -2)
    if name == "solve":
        return [a, random(*stack, m, data.draw(st.integers(1, 3)))]
    return [a, random(*stack, n, data.draw(st.integers(1, 4)))] if name == "matmul" else [a]
