"""Streams beside the caller's: where launches do not depend on each other, the end of one overlaps the next.

A call forks after everything that the caller's stream holds, and joins before anything that comes later there; so
memory of that stream stays ordered, and a capture takes the whole as parts of one graph. Streams and events belong to a
thread: another one would record the same events in between.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_uint, c_void_p
from typing import Any

_COUNT, _MANY = 3, 12  # side streams, and the number of launches from which all of them are used; one below
_CHAINS = 8  # side streams of chains, whose launches wait for each other: as many queues as a GPU has by default
_NON_BLOCKING, _NO_TIMING = 1, 2
_HELD = threading.local()


class Streams:
    """Side streams and events of one thread on one GPU, held as long as the thread lives."""

    def __init__(self, backend: Any) -> None:
        self.driver = driver = backend.driver
        before = driver.current_context()
        driver.make_current(backend.device.ordinal)
        self.streams = [self._made(driver.lib.cuStreamCreate, _NON_BLOCKING) for _ in range(_CHAINS)]
        self.events = [self._made(driver.lib.cuEventCreate, _NO_TIMING) for _ in range(_CHAINS + 1)]
        if before.value:
            driver.restore(before)

    def _made(self, create: Any, flags: int) -> c_void_p:
        handle = c_void_p()
        self.driver.check(create(byref(handle), c_uint(flags)), create.__name__)
        return handle

    def __del__(self) -> None:  # the driver waits for what they hold
        if sys.is_finalizing() or len(getattr(self, "events", ())) <= _CHAINS:
            return
        if self.driver.process != os.getpid():  # a forked child has no driver
            return
        for stream in self.streams:
            self.driver.lib.cuStreamDestroy_v2(stream)
        for event in self.events:
            self.driver.lib.cuEventDestroy_v2(event)

    def _wait(self, stream: c_void_p, event: c_void_p) -> None:
        self.driver.check(self.driver.lib.cuStreamWaitEvent(stream, event, c_uint(0)), "cuStreamWaitEvent")

    def fork(self, stream: int, count: int) -> list[int]:
        """Return the caller's stream and `count` side streams that wait for the work queued there."""
        self.driver.record(self.events[-1], stream)
        for other in self.streams[:count]:
            self._wait(other, self.events[-1])
        return [stream, *(int(other.value or 0) for other in self.streams[:count])]

    def join(self, stream: int, count: int) -> None:
        for other, event in zip(self.streams[:count], self.events, strict=False):
            self.driver.record(event, int(other.value or 0))
            self._wait(c_void_p(stream), event)


@contextmanager
def several(backend: Any, stream: int, launches: int, are_chains: bool = False) -> Iterator[list[int]]:
    """Fork: yield the caller's stream and side streams for `launches` independent launches, or chains of launches; join
    them at exit. Launches fill the GPU, and a few streams hide their ends; chains leave most of it idle, and each has a
    stream."""
    if backend.name != "cuda" or launches < (2 if are_chains else 3):
        yield [stream]
        return
    held = vars(_HELD).setdefault("streams", {})
    ordinal = backend.device.ordinal
    if ordinal not in held:
        held[ordinal] = Streams(backend)
    count = min(launches - 1, _CHAINS) if are_chains else _COUNT if launches >= _MANY else 1
    try:
        yield held[ordinal].fork(stream, count)
    finally:
        held[ordinal].join(stream, count)
