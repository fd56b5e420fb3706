"""Processes that share a GPU, taken apart: what is computed from their marks, and the experiments on a made-up CuPy."""

from __future__ import annotations

import json
import queue
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from papers.dong import rank_messages, rank_profile


def test_parts_of_a_step() -> None:
    """The slowest process issues for 3 s, the first begins 1 s before the second, the last ends 4 s after the first."""
    row = {"steps": 10, "marks": [[(0.0, 3.0, 6.0)], [(1.0, 2.0, 10.0)]]}
    assert rank_profile.parts(row) == pytest.approx({"all": 1e6, "issuing": 3e5, "begins": 1e5, "ends": 4e5})
    text = rank_profile.table([{**row, "name": "two", "way": "calls", "zones": 2048}])
    assert "| two | calls | 2,048 | 1000000.0 | 300000.0 | 100000.0 | 400000.0 |" in text


def test_messages_by_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line per number of bytes: the median and the fastest batch of each call, nothing where one was not measured."""
    rows = [
        {"call": "gather", "bytes": 8, "ranks": 2, "us": [9.0, 2.0, 4.0]},
        {"call": "gather", "bytes": 4096, "ranks": 2, "us": [5.0]},
        {"call": "sum", "bytes": 8, "ranks": 2, "us": [1.5, 2.5]},
    ]
    file = tmp_path / "messages.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rank_messages.main(["--table", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| ranks | bytes | gather | sum |"
    assert lines[2:] == ["| 2 | 8 | 4.0 (2.0) | 2.0 (1.5) |", "| 2 | 4,096 | 5.0 (5.0) |  |"]


def test_experiments_do_the_same_work() -> None:
    """Of one rank, of all ranks and of all branches; a part alone is the rest."""
    work = {}
    for one in rank_profile.experiments(8):
        times = 8 if one.way == "branches" else one.processes
        work.setdefault(one.name, set()).add(times * one.zones)
    assert work.pop("one rank's part") == {rank_profile.ZONES // 8}
    assert set(work) == {"one rank", "8 ranks", "8 branches"}
    assert all(zones == {rank_profile.ZONES} for zones in work.values())


class _Stream:
    """A stream on which everything is done at once; a graph of it repeats nothing."""

    def __init__(self, **options: Any) -> None:
        self.launched = 0

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def begin_capture(self) -> None:
        pass

    def end_capture(self) -> Any:
        return SimpleNamespace(launch=lambda *stream: None)

    def wait_event(self, event: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


@contextmanager
def _allocator(allocate: Any) -> Any:
    yield


def test_a_process_takes_part_in_every_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    event = SimpleNamespace(record=lambda stream: None)
    cuda = SimpleNamespace(
        Device=lambda: _Stream(), Stream=_Stream, Event=lambda **options: event, using_allocator=_allocator,
        MemoryPool=lambda: SimpleNamespace(malloc=None), get_current_stream=_Stream,
    )  # fmt: skip
    fake = SimpleNamespace(
        random=np.random, empty=np.empty, cuda=cuda,
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(rank_profile, "ZONES", 4)
    monkeypatch.setattr(rank_profile, "STEPS", 20)
    found: queue.Queue[Any] = queue.Queue()
    rank_profile.work(0, 2, "Q2-Q1", threading.Barrier(1), found)
    marks = [found.get_nowait() for _ in rank_profile.experiments(2)]
    assert [number for number, _, _ in marks] == list(range(7)) and found.empty()
    assert all(len(each) == rank_profile.SAMPLES for _, _, each in marks)
    assert all(begin <= issued <= end for _, _, each in marks for begin, issued, end in each)
