"""Launches on streams beside the caller's: what came before is waited for, what comes after waits, graphs hold all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.backends import beside, cuda, emulated

_on_gpus = pytest.mark.skipif(cuda.unavailable() is not None, reason=f"cuda: {cuda.unavailable()}")


def test_elsewhere_there_is_one_stream() -> None:
    with beside.several(emulated.EmulatedBackend(), 5, 9) as streams:
        assert streams == [5]


class PlayedDriver:
    """Streams and events by number; `waits` has, for each stream, the streams whose work it waits for."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.recorded: dict[int, int] = {}
        self.waits: dict[int, set[int]] = {}
        self.process, self.lib = -1, self

    def __getattr__(self, name: str) -> Any:
        assert name in ("cuStreamCreate", "cuEventCreate", "cuStreamCreateWithPriority"), name

        def create(handle: Any, *_: Any) -> int:
            self.made.append(name)
            handle._obj.value = 100 + len(self.made)
            return 0

        create.__name__ = name
        return create

    def cuCtxGetStreamPriorityRange(self, least: Any, greatest: Any) -> int:
        least._obj.value, greatest._obj.value = 0, -5
        return 0

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        self.waits.setdefault(int(stream.value), set()).add(self.recorded[int(event.value)])
        return 0

    def record(self, event: Any, stream: int) -> None:
        self.recorded[int(event.value)] = stream

    def check(self, status: int, what: str) -> None:
        assert status == 0, what

    def current_context(self) -> c_void_p:
        return c_void_p()

    def make_current(self, ordinal: int) -> None:
        assert ordinal == 3


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A backend of the driver above, without streams from other tests."""
    monkeypatch.setattr(beside, "_HELD", threading.local())
    return SimpleNamespace(name="cuda", driver=PlayedDriver(), device=SimpleNamespace(ordinal=3))


def test_urgent_streams_come_first_and_all_meet(played: Any) -> None:
    driver = played.driver
    with beside.several(played, 5, 4, are_chains=True, urgent=2) as streams:
        urgent, (caller, side) = streams[:2], streams[2:]
        assert caller == 5 and len(set(streams)) == 4 and 5 not in driver.waits
        assert all(driver.waits[one] == {5} for one in (*urgent, side))
    assert driver.waits[5] == {*urgent, side}
    assert driver.made.count("cuStreamCreateWithPriority") == 2
    with beside.several(played, 5, 4, are_chains=True) as streams:
        assert streams[0] == 5 and not set(streams) & set(urgent)
    with beside.several(played, 5, 3, are_chains=True, urgent=3) as streams:
        assert len(streams) == 4 and streams[3] == 5 and streams[:2] == urgent


def test_followers_wait_for_the_caller_and_are_waited_for(played: Any) -> None:
    waits = played.driver.waits
    with beside.followers(played, 5, 3) as streams:
        streams.wait(0)
        assert 5 not in waits, "nothing to wait for yet"
        first, second = streams.follow(0), streams.follow(1)
        assert first != second and waits == {first: {5}, second: {5}}
        streams.wait(1)
        assert waits[5] == {second}
    assert waits[5] == {first, second}, "the third has not begun"
    for backend, count in ((played, 1), (emulated.EmulatedBackend(), 3)):
        with beside.followers(backend, 6, count) as streams:
            assert streams.follow(0) == 6
            streams.wait(0)
    assert 6 not in waits


def _batches(count: int) -> list[ms.Ragged]:
    """Positive definite matrices of the same sizes in every batch."""
    sizes = np.random.default_rng(4).integers(1, 65, 3000).tolist()
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        squares = [rng.standard_normal((n, n)) * 0.01 for n in sizes]
        found.append(ms.Ragged.from_list([np.eye(len(s)) * (4 + seed) + s + s.T for s in squares]))
    return found


def _entries(cp: Any, ragged: ms.Ragged) -> Any:
    """Of all matrices, without what lies between them."""
    places = zip(*ragged.layout.host(), strict=True)
    which = np.concatenate([np.arange(at, at + rows * columns) for rows, columns, at in places])
    return ragged.buffer[cp.asarray(which)]


def _answers(cp: Any, batches: list[ms.Ragged], stream: Any) -> list[Any]:
    """Factors and solutions of one batch after the other, in the same place of memory, without waiting in between."""
    found = []
    with stream:
        sources = [cp.asarray(batch.buffer) for batch in batches]
        a = ms.Ragged.from_list([cp.asarray(one) for one in batches[0].to_list()])
        b = ms.Ragged.from_list([cp.ones((len(one), 1)) for one in batches[0].to_list()])
        for source in sources * 3:
            a.buffer[:] = source
            factors, info = ms.linalg.cholesky_ex(a)
            x, _ = ms.linalg.solve_ex(a, b)
            found.append((_entries(cp, factors), _entries(cp, x), info.copy()))
            factors.buffer.fill(np.nan)
            x.buffer.fill(np.nan)
    stream.synchronize()
    return [tuple(part.get() for part in one) for one in found]


def _alike(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@_on_gpus
def test_order_of_the_callers_stream_holds() -> None:
    import cupy as cp

    batches = _batches(3)
    found = _answers(cp, batches, cp.cuda.Stream(non_blocking=True))
    assert not any(info.any() for *_, info in found) and all(np.isfinite(x).all() for _, x, _ in found)
    assert all(_alike(found[i], found[i % 3]) for i in range(len(found)))
    assert not _alike(found[0], found[1])
    with ThreadPoolExecutor(2) as pool:  # two threads at once, each with its own streams
        tasks = [pool.submit(_answers, cp, batches, cp.cuda.Stream(non_blocking=True)) for _ in range(2)]
        for task in tasks:
            assert all(_alike(*pair) for pair in zip(task.result(), found, strict=True))


@_on_gpus
def test_a_graph_holds_all_streams() -> None:
    import cupy as cp

    (batch,) = _batches(1)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        a = ms.Ragged.from_list([cp.asarray(one) for one in batch.to_list()])
        out = ms.Ragged.empty_like(a)
        ms.linalg.cholesky_ex(a, out=out)
        expected = _entries(cp, out)
        stream.begin_capture()
        ms.linalg.cholesky_ex(a, out=out)
        graph = stream.end_capture()
        for _ in range(3):
            out.buffer.fill(np.nan)
            graph.launch(stream)
        assert bool((_entries(cp, out) == expected).all())
