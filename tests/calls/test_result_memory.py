"""Large results in NumPy arrays come from memory that is used again, but not while a part of them is referred to."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.arrays import result_memory
from mansard.arrays.kinds import KINDS
from mansard.arrays.result_memory import Pool

DTYPE, LARGE = np.dtype("float64"), (1 << 10, 1 << 10)  # 8 MiB


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_used_again_when_the_last_reference_is_gone() -> None:
    pool = Pool()
    first = pool.array(LARGE, DTYPE)
    part, place = first[5:7, 3].T, address(first)
    first[...] = 3.0
    assert first.shape == LARGE and first.dtype == DTYPE and first.flags.c_contiguous and first.flags.writeable
    assert place % 64 == 0
    del first
    other = pool.array(LARGE, DTYPE)
    other[...] = 5.0
    assert not np.shares_memory(part, other) and (part == 3.0).all(), "a part of it is alive"
    del part
    again = pool.array((1 << 20, 1), DTYPE)
    assert address(again) == place and not np.shares_memory(again, other)
    assert not np.shares_memory(again, pool.array(LARGE, DTYPE)), "one result at a time"


def test_pieces_of_other_sizes_are_left() -> None:
    pool = Pool()
    held = pool.array(LARGE, DTYPE)
    place = address(held)
    del held
    others = [pool.array((rows, 1 << 10), DTYPE) for rows in (700, 1100)]
    assert place not in map(address, others), "one is too small for the piece, one too large"
    assert address(pool.array((1000, 1 << 10), DTYPE)) == place


def test_idle_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_memory, "_LARGEST", 20 << 20)
    pool = Pool()
    held = [pool.array(LARGE, DTYPE) for _ in range(5)]
    last = address(held[-1])
    while held:
        held.pop(0)
    assert 0 < pool.idle_bytes() <= 20 << 20 and address(pool.array(LARGE, DTYPE)) == last
    assert pool.array((1 << 22,), DTYPE).base is None, "beyond the limit"
    assert pool.array((100, 100), DTYPE).base is None, "small ones are the C library's"


def test_collections_inside_of_the_pool_do_not_wait_for_it() -> None:
    pool = Pool()
    held = pool.array(LARGE, DTYPE)
    with pool._lock:
        del held
    assert pool.idle_bytes() == 0


def test_results_of_calls() -> None:
    A, C = np.ones((1 << 18, 4)), np.arange(16.0).reshape(4, 4)
    wanted = A @ C
    for _ in range(5):
        found = [ms.matmul(A, C) for _ in range(3)]
        assert all(np.array_equal(one, wanted) for one in found)
        for i, one in enumerate(found):
            assert not any(np.shares_memory(one, other) for other in found[:i])
            one[...] = -1.0
    assert np.array_equal(pickle.loads(pickle.dumps(ms.matmul(A, C))), wanted)


def test_threads_never_share_memory() -> None:
    pool, wrong = Pool(), []

    def work(number: int) -> None:
        for _ in range(40):
            one = pool.array(LARGE, DTYPE)
            one[:, 0] = number
            if not (one[:, 0] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def in_child(queue: Any) -> None:
    queue.put((result_memory.POOL.idle_bytes(), KINDS["numpy"].empty(LARGE, "float64", None).shape))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_begins_with_an_empty_pool() -> None:
    held = KINDS["numpy"].empty(LARGE, "float64", None)
    del held
    gc.collect()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with result_memory.POOL._lock:
        child = context.Process(target=in_child, args=(queue,))
        child.start()
    assert queue.get(timeout=60) == (0, LARGE)
    child.join()
