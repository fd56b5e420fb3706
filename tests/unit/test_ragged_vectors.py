"""`Vectors`: parts of few arrays as a sequence of views."""

from __future__ import annotations

import pickle
from itertools import chain

import numpy as np
import pytest

from mansard.arrays.kinds import KINDS
from mansard.operations import stacks
from mansard.operations.ragged_vectors import Places, Vectors

NUMPY = KINDS["numpy"]


def in_stacks() -> tuple[Vectors, list[list[int]]]:
    """Five vectors in the rows of two stacks, not in the order of the batch; one is empty."""
    members, widths = [np.array([3, 0]), np.array([4, 1])], [4, 2]
    length = np.array([3, 2, 0, 4, 1])
    arrays = [np.arange(8), np.arange(100, 104)]
    expected = [[4, 5, 6], [102, 103], [], [0, 1, 2, 3], [100]]
    return Vectors(arrays, Places.of_stacks(members, widths, length)), expected


def test_a_sequence_of_views() -> None:
    vectors, expected = in_stacks()
    assert len(vectors) == 5 and [one.tolist() for one in vectors] == expected
    assert [one.tolist() for one in vectors.to_list()] == expected and isinstance(vectors.to_list(), list)
    assert vectors[-1].tolist() == expected[-1] and vectors[3].base is vectors.arrays[0]
    assert [one.tolist() for one in vectors[3:0:-2]] == expected[3:0:-2]
    with pytest.raises(IndexError):
        vectors[5]
    assert stacks.is_list(vectors) and repr(vectors) == "Vectors(5, 0..4 entries)"
    assert [one.tolist() for one in pickle.loads(pickle.dumps(vectors))] == expected


def test_entries_in_one_array() -> None:
    """Arrays that hold nothing else are given as they are; others are gathered."""
    vectors, expected = in_stacks()
    places = vectors.places
    joined = vectors.joined(NUMPY, lambda: places.indices([len(one) for one in vectors.arrays]))
    assert joined.tolist() == list(chain(*expected))
    dense = Vectors([joined], Places.dense(places.length))
    same = dense.joined(NUMPY, lambda: pytest.fail("nothing is to be gathered"))
    assert same.tolist() == joined.tolist() and np.shares_memory(same, joined)
    part = dense[:2].joined(NUMPY, lambda: pytest.fail("nothing is to be gathered"))
    assert part.tolist() == list(chain(*expected[:2]))
    assert not dense[1:].places.is_dense, "they do not begin where the array does"


def test_copies_of_arrays() -> None:
    made = Vectors.of(NUMPY, [np.array([1.0, 2.0]), np.array([3.0])], np.empty(0))
    assert len(made.arrays) == 1 and [one.tolist() for one in made] == [[1, 2], [3]]
    assert repr(Vectors([], Places.dense(np.empty(0, np.int64)))) == "Vectors(0, none)"
