"""Products of a few NumPy matrices that differ in shape: one after the other, without copies into one buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from ragged_cases import integers

import mansard as ms
from mansard import settings
from mansard.arrays import numpy_lists
from mansard.backends.cpu import CpuBackend
from mansard.backends.select import select
from mansard.errors import UnsupportedProblem
from mansard.operations.batched.list_products import choice_of_loop
from mansard.plan import batched_rules
from mansard.plan.route import Library, Request

pytestmark = [pytest.mark.usefixtures("no_plans"), needs_cpu]
RNG = np.random.default_rng(0)
SIZES = [(3, 2, 4), (1, 1, 1), (5, 0, 2), (2, 7, 3)]
A = [integers(RNG, (m, k), "float64") for m, k, _ in SIZES]
B = [integers(RNG, (k, n), "float64") for _, k, n in SIZES]
X = [one[:, 0].copy() for one in B]


@pytest.fixture(autouse=True)
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rule as users have it, which other tests switch off."""
    monkeypatch.delenv("MANSARD_LIBRARY_BELOW", raising=False)
    settings.reread()
    numpy_lists.describe(A)  # a loop that is compiled once per process, and no kernel
    monkeypatch.setattr(CpuBackend, "prepare", lambda *_: pytest.fail("a kernel was compiled"))
    yield
    monkeypatch.undo()
    settings.reread()


def same(found: Any, expected: Any) -> bool:
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


def test_the_loop_is_a_decision_with_a_reason() -> None:
    choice = choice_of_loop(None, 4)
    assert choice is not None and isinstance(choice.route, Library)
    assert choice.origin == "rule" and "compilation" in choice.reason and "numpy.dot" in str(choice)
    assert choice_of_loop(None, 1000) is None, "many matrices are a kernel's"
    assert choice_of_loop("cpu", 4) is None, "whoever names the backend gets its kernels"
    with ms.pin(VARIANT="vendor"):
        assert choice_of_loop(None, 4) is None
    assert batched_rules.lists_one_by_one(Request.of(select(("cpu", 0), "reference"), may_hand_over=True), 4) is None


def test_products() -> None:
    for _ in range(2):
        assert same(ms.matmul(A, B), [a @ b for a, b in zip(A, B, strict=True)])
        assert same(ms.blas.gemv(A, X), [a @ x for a, x in zip(A, X, strict=True)])
        turned = ms.blas.gemm(B, A, trans_a="T", trans_b="T", alpha=2.0)
        assert same(turned, [2 * b.T @ a.T for a, b in zip(A, B, strict=True)])
    assert same(ms.matmul([a + 1j for a in A], [b + 0j for b in B]), [(a + 1j) @ b for a, b in zip(A, B, strict=True)])
    rows = [integers(RNG, (m, 2), "float32") for m in (1, 4, 2)]
    shared = integers(RNG, (2, 3), "float32")
    assert same(ms.matmul(rows, shared), [row @ shared for row in rows])
    conj = ms.blas.gemm([row + 1j for row in rows], [row * 1j for row in rows], trans_a="C")
    assert same(conj, [(row - 1j).T @ (row * 1j) for row in rows])


def test_places() -> None:
    """Results are added, alias nothing, and are not written where one of them does not fit."""
    out = [np.ones((m, n)) for m, _, n in SIZES]
    assert ms.blas.gemm(A, B, alpha=2.0, beta=-1.0, out=out) is out
    assert same(out, [2 * a @ b - 1 for a, b in zip(A, B, strict=True)])
    squares = [integers(RNG, (n, n), "float64") for n in (2, 3)]
    expected = [one @ one for one in squares]
    held = [one.copy() for one in squares]
    with pytest.raises(TypeError, match="beta must be real"):
        ms.blas.gemm(A, B, beta=1j, out=out)
    wrong = [np.zeros((2, 2)), np.zeros((3, 2))]
    with pytest.raises(ValueError, match=r"out\[1\]"):
        ms.blas.gemm(squares, squares, out=wrong, backend="reference")
    with pytest.raises(ValueError, match=r"out\[1\]"):
        ms.blas.gemm(squares, squares, out=wrong)
    assert not any(one.any() for one in wrong)
    twice = np.zeros((2, 2))
    with pytest.raises(ValueError, match="an array twice"):
        ms.blas.gemm([held[0], held[0]], [held[0], held[0][:, :1]], out=[twice, twice])
    assert same(ms.blas.gemm(squares, squares, out=squares), expected), "read before they are written"


def test_refusals_name_the_matrix() -> None:
    with pytest.raises(ValueError, match=r"A\[3\] has 7 columns and B\[3\] 2 rows"):
        ms.matmul(A, [*B[:3], np.ones((2, 3))])
    with pytest.raises(ValueError, match=r"x\[3\] has shape \(2,\)"):
        ms.blas.gemv(A, [*X[:3], np.ones(2)])
    with pytest.raises(UnsupportedProblem, match=r"B\[2\] has dtype float16"):
        ms.matmul(A, [*B[:2], B[2].astype("float16"), B[3]])
    with pytest.raises(ValueError, match="one for each is needed"):
        ms.matmul(A, B[:3])


@pytest.mark.parametrize("trans", ["N", "T"])
def test_rank_k_of_lists(trans: str) -> None:
    assert same(ms.blas.syrk(A, trans=trans), [a @ a.T if trans == "N" else a.T @ a for a in A])
