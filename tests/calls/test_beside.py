"""Launches on streams beside the caller's: what came before is waited for, what comes after waits, graphs hold all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.backends import beside, cuda, emulated

_on_gpus = pytest.mark.skipif(cuda.unavailable() is not None, reason=f"cuda: {cuda.unavailable()}")


def test_elsewhere_there_is_one_stream() -> None:
    with beside.several(emulated.EmulatedBackend(), 5, 9) as streams:
        assert streams == [5]


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
