"""Dong's ways to solve with a triangle, and the time line of a factorization (papers/dong), on NumPy arrays."""

import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import mansard as ms
from mansard.arrays.kinds import kind_of
from mansard.operations.factor.plan import blocked
from papers.dong import experiments, substitution, timeline


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("way", substitution.WAYS)
def test_every_way_solves(way, uplo, monkeypatch):
    """By whatever kernels: those of the array library need no compiler."""
    calls = {name: partial(getattr(ms.blas, name), backend="reference") for name in ("trsv", "gemv")}
    inverse = SimpleNamespace(inv_ex=partial(ms.linalg.inv_ex, backend="reference"))
    monkeypatch.setattr(substitution, "ms", SimpleNamespace(blas=SimpleNamespace(**calls), linalg=inverse))
    monkeypatch.setattr(substitution, "LEAF", 4)
    A, b = experiments.triangles(19, uplo, 3, np)
    x = b.copy()
    substitution.WAYS[way](A, x, uplo)
    assert abs((A @ x[..., None])[..., 0] - b).max() < 1e-13


def test_parts_of_a_factorization_are_recorded_in_order():
    A = experiments.matrices("lu", 150, 2, np)
    work, ticks = A.copy(), itertools.count()
    made = blocked(kind_of(A, "A"), "reference")
    parts = timeline.recorded(made, lambda: next(ticks))
    _, info = made.lu(work, None)
    assert (info == 0).all()
    assert {name for name, _, _ in parts} == set(timeline.PARTS)
    assert [tick for _, *ticks in parts for tick in ticks] == list(range(2 * len(parts)))
    assert sum(timeline.shares(parts).values()) < 1


@pytest.mark.parametrize("operation", ["lu", "cholesky"])
def test_rehearsal_leaves_the_factorization_as_it_was(operation):
    A = experiments.matrices(operation, 150, 2, np)
    made, work = blocked(kind_of(A, "A"), "reference"), A.copy()
    timeline.rehearse(made, partial(getattr(made, operation), A.copy(), None))
    alone = blocked(kind_of(A, "A"), "reference")
    expected = A.copy()
    getattr(made, operation)(work, None)
    getattr(alone, operation)(expected, None)
    assert (work == expected).all()
