"""Forks of this process: sections that a fork must not cut in two, and files that a child must not inherit.

A child has the forking thread alone. What other threads were doing stops half way, and descriptors that they had open
stay open in the child: a pipe's writing end, on which a reader waits for ever, or a locked file, which stays locked for
as long as the child lives, for the child itself too. Forks by `os.fork` (so those of multiprocessing, of
concurrent.futures and of PyTorch's DataLoader) wait for the sections below, and close the files in the child.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_GATE = threading.RLock()
_FILES: set[Any] = set()  # open in this process alone


def postponed() -> threading.RLock:
    """A context in which no thread of this process forks; it must be short, and must not wait for another thread."""
    return _GATE


@contextmanager
def private_file(opened: Callable[[], Any]) -> Iterator[Any]:
    """The unbuffered file that `opened()` returns, closed at the end; a child that is forked meanwhile has it closed.
    Only the descriptor is closed there: a lock (flock) on it remains this process's."""
    with _GATE:
        file = opened()
        _FILES.add(file)
    try:
        yield file
    finally:
        with _GATE:
            _FILES.discard(file)
            file.close()


def run(command: list[str], text: bool = True, **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with captured output. It starts while no other thread forks: a child that inherited the pipes
    would keep this process waiting for their end."""
    with _GATE:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text, **options
        )
    with process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _in_child() -> None:
    for file in _FILES:
        file.close()
    _FILES.clear()
    _GATE.release()


os.register_at_fork(before=_GATE.acquire, after_in_parent=_GATE.release, after_in_child=_in_child)
