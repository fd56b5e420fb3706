"""Levels are valid for any pattern, narrow where they can be, and their schedules break no dependency."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mansard.operations.sparse.powers.order.levels import (
    Levels,
    groups,
    level_bytes,
    levels,
    misplaced,
    permuted,
    row_bytes,
    schedule,
    sections,
    tile_reach,
    too_wide,
    violated,
)
from mansard.operations.sparse.powers.order.reach import boundaries, row_reach
from mansard.sparse import matrices
from mansard.testing import array_module


def shuffled(A: Any, seed: int = 0) -> Any:
    """The same graph under other names."""
    return permuted(A, np.random.default_rng(seed).permutation(A.shape[0]))


@st.composite
def patterns(draw: Any) -> Any:
    """Graphs of every kind: unsymmetric, disconnected, with empty rows, entries twice, columns in no order."""
    rows = draw(st.integers(1, 40))
    entry = st.tuples(st.integers(0, rows - 1), st.integers(0, rows - 1))
    near = st.tuples(st.integers(0, rows - 1), st.integers(-3, 3)).map(lambda e: (e[0], min(max(sum(e), 0), rows - 1)))
    edges = draw(st.lists(st.one_of(entry, near), max_size=80))
    if draw(st.booleans()):
        edges += [(j, i) for i, j in edges]
    edges.sort(key=lambda edge: edge[0])
    counts = np.bincount([i for i, _ in edges], minlength=rows) if edges else np.zeros(rows, int)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices = np.array([j for _, j in edges], np.int32)
    return sparse.csr_array((np.ones(len(edges)), indices, indptr), shape=(rows, rows))


@settings(max_examples=150, deadline=None)
@given(
    A=patterns(), order=st.sampled_from(["auto", "given", "search"]), least=st.sampled_from([None, 1, 3]),
    align=st.sampled_from([1, 4]), budget=st.sampled_from([0, 200]), p=st.integers(1, 5), limit=st.integers(1, 4000),
)  # fmt: skip
def test_every_dependency_of_any_graph_is_satisfied(
    A: Any, order: str, least: int | None, align: int, budget: float, p: int, limit: int
) -> None:
    found = levels(A, order=order, least=least, align=align, budget=budget)
    assert misplaced(found, A) is None
    sizes = np.diff(found.starts)
    assert (sizes[:-1] >= (least or 1)).all() and (sizes > 0).all() and (found.starts[:-1] % align == 0).all()
    B = permuted(A, found.permutation)
    bounds = groups(found, row_bytes(np.diff(B.indptr)), limit, p)
    assert violated(found.starts[bounds], B.indptr, B.indices, schedule(bounds, p), p) is None


@settings(max_examples=60, deadline=None)
@given(A=patterns(), data=st.data())
def test_given_roots_are_the_first_level(A: Any, data: Any) -> None:
    roots = data.draw(st.lists(st.integers(0, A.shape[0] - 1), min_size=1, max_size=4))
    found = levels(A, roots=roots)
    assert misplaced(found, A) is None
    assert not found.kept


@settings(max_examples=60, deadline=None)
@given(A=patterns(), tile_rows=st.integers(1, 9))
def test_tile_reach(A: Any, tile_rows: int) -> None:
    rows = A.shape[0]
    low, high = tile_reach(A.indptr, A.indices, tile_rows)
    first, last = tile_reach(A.indptr, A.indices, tile_rows, columns=True)
    for tile in range(-(-rows // tile_rows)):
        begin, end = tile * tile_rows, min((tile + 1) * tile_rows, rows)
        read = A.indices[A.indptr[begin] : A.indptr[end]]
        expected = (read.min(), read.max()) if len(read) else (begin, end - 1)
        assert (first[tile], last[tile]) == expected
        assert (low[tile], high[tile]) == tuple(column // tile_rows for column in expected)


def test_checks_can_fail() -> None:
    A = matrices.band(20, 5)
    good = levels(A, order="given", least=1)
    assert good.count == 10 and good.widest == 2 and misplaced(good, A) is None
    fine = Levels(good.permutation, np.arange(21, dtype=np.int32), True, "too fine")
    assert misplaced(fine, A) == "entry (0, 2) joins levels 0 and 2"
    twice = Levels(np.zeros(20, np.int32), good.starts, True, "")
    assert "every row once" in (misplaced(twice, A) or "")
    tasks = schedule(np.arange(good.count + 1), 3)
    assert violated(good.starts, A.indptr, A.indices, tasks, 3) is None
    early = [(0, 1), (0, 2), *tasks[2:]]
    assert "reads block 1, which is at power 0" in (violated(good.starts, A.indptr, A.indices, early, 3) or "")
    assert "ends at power" in (violated(good.starts, A.indptr, A.indices, tasks[:-1], 3) or "")
    assert "follows its power" in (violated(good.starts, A.indptr, A.indices, [tasks[0], tasks[0]], 3) or "")


# --- Width ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [7, 27])
def test_planes_of_a_grid_are_found_whole_in_its_own_order(points: int) -> None:
    A = matrices.stencil(points, (12, 10, 30))
    found = levels(A, budget=0)
    assert found.kept and found.count == 30
    assert np.array_equal(np.diff(found.starts), [120] * 30)
    assert np.array_equal(found.permutation, np.arange(3600))


@pytest.mark.parametrize(
    ("shape", "most"),
    [((12, 12, 24), 12 * 12), ((20, 20, 20), 1.4 * 20 * 20)],  # a face is found; a corner's levels would be three
)
def test_a_face_is_found_without_the_order(shape: tuple[int, ...], most: float) -> None:
    A = shuffled(matrices.stencil(27, shape))
    found = levels(A, budget=0)
    assert misplaced(found, A) is None and not found.kept
    assert found.widest <= most


def test_7_point_levels_are_narrower_from_a_corner() -> None:
    found = levels(shuffled(matrices.stencil(7, (20, 20, 20))), budget=0)
    assert found.widest <= 0.76 * 400


def test_a_wide_band_keeps_its_order_and_a_shuffled_one_is_recovered() -> None:
    A = matrices.band(3000, 27)
    assert levels(A).kept and levels(A).widest == 13
    found = levels(shuffled(A), budget=0)
    assert not found.kept and found.widest <= 14


def test_components_follow_one_another() -> None:
    parts = [matrices.stencil(27, (8, 8, 16)), sparse.csr_array((7, 7)), matrices.stencil(5, (30, 9))]
    A = shuffled(sparse.block_diag(parts, format="csr"))
    found = levels(A, order="search", budget=0)
    assert misplaced(found, A) is None
    assert found.widest <= 64 + 7


def test_one_way_entries_are_levelled_both_ways() -> None:
    A = sparse.triu(matrices.stencil(27, (10, 10, 20)), format="csr")
    found = levels(shuffled(A), order="search", budget=0)
    assert misplaced(found, shuffled(A)) is None
    assert found.widest <= 110
    few = sparse.lil_array(matrices.stencil(5, (30, 60)))
    few[0, 100] = few[70, 10] = 1.0  # too few for a sample to meet
    few = shuffled(few.tocsr())
    found = levels(few, order="search", budget=0)
    assert misplaced(found, few) is None and found.widest < 200


def test_rows_keep_the_order_that_gathers_fewer_lines() -> None:
    planes = levels(matrices.stencil(27, (16, 16, 32)), order="search", budget=0)
    inner = planes.permutation[planes.starts[4] : planes.starts[5]]
    assert (np.diff(inner) > 0).all()


# --- Budgets -------------------------------------------------------------------------------------------------


def test_row_bytes_count_padding_and_vectors() -> None:
    lengths = np.array([3, 5, 1, 0])
    assert row_bytes(lengths).tolist() == [3 * 12 + 8 + 16, 5 * 12 + 24, 12 + 24, 24]
    # chunks of two rows of widths 5 and 1: 80 + 48 (40 padded) = 128, and 16 + 16 (8 padded) = 32, padded to 128
    assert row_bytes(lengths, C=2, vectors=0).tolist() == [(128 + 8) / 2] * 2 + [(128 + 8) / 2] * 2
    # distances of two bytes and a base of four per slot: 80 + 32 (20) + 32 (20) = 144, padded to 256
    assert row_bytes(lengths, C=2, index=2, vectors=1).tolist()[:2] == [(256 + 8) / 2 + 8] * 2


def test_groups_fill_the_budget_and_no_more() -> None:
    found = levels(matrices.stencil(5, (10, 100)), order="given")
    sizes = level_bytes(found, 10.0)
    assert np.array_equal(sizes, [100.0] * 100)
    bounds = groups(found, 10.0, 1200, p=3)  # 300 bytes each
    assert bounds.tolist() == [*range(0, 100, 3), 100]
    assert groups(found, np.full(1000, 10.0), 1200, p=3).tolist() == bounds.tolist()
    assert groups(found, 10.0, 120, p=3).tolist() == list(range(101))  # a level alone exceeds 30 bytes
    with pytest.raises(ValueError, match="999 entries for 1000 rows"):
        groups(found, np.ones(999), 100)


def test_too_wide_says_why_and_sections_say_what_to_do() -> None:
    found = levels(matrices.stencil(5, (10, 100)), order="given")  # levels of 100 bytes
    assert too_wide(found, 10.0, 600, 5) is None
    reason = too_wide(found, 10.0, 500, 5) or ""
    assert "100 of 100 levels" in reason and "p + 1 = 6" in reason
    assert sections(found, 10.0, 600, 5) == [5]
    assert sections(found, 10.0, 500, 8) == [4, 4]
    assert sections(found, 10.0, 400, 8) == [3, 3, 2]
    assert sections(found, 10.0, 250, 4) == [1] * 4
    rmat = matrices.kronecker(10)
    wide = levels(rmat, budget=0)
    assert too_wide(wide, row_bytes(np.diff(permuted(rmat, wide.permutation).indptr)), 1e5, 2) is not None


def test_schedule_runs_along_diagonals() -> None:
    assert schedule([0, 1, 2, 3], 2) == [(0, 1), (1, 1), (0, 2), (2, 1), (1, 2), (2, 2)]
    assert schedule([0], 3) == []
    with pytest.raises(ValueError, match="p=0"):
        schedule([0, 1], 0)


# --- Permutation and bad input -------------------------------------------------------------------------------


def test_permuted_rows_sum_to_the_same_bits() -> None:
    A = matrices.randomized(matrices.delaunay(300), seed=3)
    found = levels(A, budget=0)
    x = np.random.default_rng(0).standard_normal(300)
    assert np.array_equal((permuted(A, found.permutation) @ x[found.permutation])[found.inverse], A @ x)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((3, 4), {}, "only square"),
        ((3, 3), {"order": "best"}, "order='best'"),
        ((3, 3), {"roots": [3]}, "roots must name rows 0 to 2"),
        ((3, 3), {"least": 0}, "at least one row"),
        ((3, 3), {"align": 0}, "at least one row"),
    ],
)
def test_bad_arguments_are_named(shape: tuple[int, int], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        levels(sparse.csr_array(np.ones(shape)), **options)


def test_columns_out_of_range_are_named() -> None:
    A = sparse.csr_array(np.eye(3))
    A.indices[1] = 5
    with pytest.raises(ValueError, match=r"column 5 \(entry 1\)"):
        levels(A)


def test_nothing_has_no_levels() -> None:
    found = levels(sparse.csr_array((0, 0)))
    assert found.count == 0 and found.widest == 0 and found.starts.tolist() == [0]


def test_reach_of_rows_without_entries() -> None:
    low, high = row_reach(np.array([0, 0, 2, 2]), np.array([2, 0], np.int32))
    assert low.tolist() == [0, 0, 2] and high.tolist() == [0, 2, 2]
    assert boundaries(low, high).tolist() == [0, 1, 2, 3]
    assert boundaries(low, high, least=2).tolist() == [0, 2, 3]
    assert boundaries(low, np.array([2, 2, 2])).tolist() == [0, 2, 3]


@pytest.mark.gpu
def test_matrices_on_a_gpu_have_the_same_levels() -> None:
    from conftest import usable

    cupy = array_module(usable("cuda"))
    for make in (lambda xp: matrices.stencil(27, (8, 8, 16), xp=xp), lambda xp: matrices.kronecker(8, xp=xp)):
        here, there = make(np), make(cupy)
        for order in ("given", "search"):
            one, two = levels(here, order=order, budget=0), levels(there, order=order, budget=0)
            assert np.array_equal(one.permutation, two.permutation) and np.array_equal(one.starts, two.starts)
        for mine, theirs in zip(
            tile_reach(here.indptr, here.indices, 32), tile_reach(there.indptr, there.indices, 32), strict=True
        ):
            assert np.array_equal(mine, theirs.get())
