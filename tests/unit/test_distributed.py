"""Divisions of rows and batches, and what can be said without other ranks."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import mansard as ms
from mansard.distributed.batch import divided, work_of
from mansard.distributed.communicator import Communicator
from mansard.distributed.messages import pieces
from mansard.distributed.rows import even
from mansard.errors import BackendUnavailable, RankError, RanksDiffer


@pytest.mark.parametrize("rows", [0, 1, 7, 64, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("blocks", [None, 1, 16])
def test_even_divisions(rows: int, size: int, blocks: int | None) -> None:
    offsets = even(rows, size, blocks)
    units = -(-np.diff(offsets) // (blocks or 1))
    assert len(offsets) == size + 1 and (offsets[0], offsets[-1]) == (0, rows)
    assert units.min() >= 0 and units.max() - units.min() <= 1
    assert all(first % (blocks or 1) == 0 or first == rows for first in offsets)


def test_batches_are_divided_by_work() -> None:
    matrices = [np.ones((n, n)) for n in (64, *[8] * 512)]  # one matrix is as much work as all others
    assert divided(work_of(matrices), 2) == (0, 1, 513)
    assert divided(work_of(ms.Ragged.from_list(matrices)), 2) == (0, 1, 513)
    assert divided(work_of(np.ones((10, 3, 3))), 4) == (0, 3, 5, 8, 10)
    assert divided(np.ones(1), 3)[-1] == 1
    for seed in range(20):
        costs = np.random.default_rng(seed).random(50)
        offsets = divided(costs, 4)
        shares = [costs[first:last].sum() for first, last in pairwise(offsets)]
        assert max(shares) <= costs.sum() / 4 + costs.max()


def test_pieces_are_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mansard.distributed.messages.PIECE", 24)
    array = np.zeros((4, 2))
    found = list(pieces(array))
    assert [len(one) for one in found] == [3, 3, 2] and all(np.shares_memory(one, array) for one in found)


def test_without_mpi_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    for call in (lambda: ms.distributed.Rows(np.ones((2, 2))), Communicator.of):
        with pytest.raises(BackendUnavailable, match=r"mansard\[mpi\]"):
            call()


def test_errors_pickle() -> None:
    import pickle

    for error in (RankError("rank 1: no", 1), RanksDiffer("rank 2 calls x", 2)):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.rank == error.rank


def test_neither_mpi_nor_dask_is_imported_unasked() -> None:
    code = (
        "import sys, numpy as np, mansard as ms\n"
        "ms.distributed, ms.gram(np.ones((3, 2)), backend='reference')\n"
        "print(sorted({'mpi4py', 'dask', 'cupy'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "[]"
