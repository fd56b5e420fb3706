"""Streams beside the caller's: where launches do not depend on each other, the end of one overlaps the next.

Blocks of urgent streams start before those of others that wait for room, and stop none that run.

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
from ctypes import byref, c_int, c_uint, c_void_p
from typing import Any

from .cuda_driver import within

_COUNT, _MANY = 3, 12  # side streams, and the number of launches from which all of them are used; one below
_CHAINS = 8  # side streams of chains, whose launches wait for each other: as many queues as a GPU has by default
_NON_BLOCKING, _NO_TIMING = 1, 2
_HELD = threading.local()


class Streams:
    """Side streams and events of one thread on one GPU, held as long as the thread lives."""

    def __init__(self, backend: Any) -> None:
        self.driver, self.ordinal = backend.driver, backend.device.ordinal
        self.urgent: list[c_void_p] = []  # created when they are first asked for
        lib = self.driver.lib
        with within(self.driver, self.ordinal):
            self.streams = [self._made(lib.cuStreamCreate, _NON_BLOCKING) for _ in range(_CHAINS)]
            self.events = [self._made(lib.cuEventCreate, _NO_TIMING) for _ in range(2 * _CHAINS + 1)]

    def _made(self, create: Any, flags: int, *more: Any) -> c_void_p:
        handle = c_void_p()
        self.driver.check(create(byref(handle), c_uint(flags), *more), create.__name__)
        return handle

    def urgent_streams(self, count: int) -> list[c_void_p]:
        """Streams of the highest priority."""
        if len(self.urgent) < count:
            lib = self.driver.lib
            with within(self.driver, self.ordinal):
                least, greatest = c_int(), c_int()
                self.driver.check(lib.cuCtxGetStreamPriorityRange(byref(least), byref(greatest)), "priorities")
                more = range(count - len(self.urgent))
                self.urgent += [self._made(lib.cuStreamCreateWithPriority, _NON_BLOCKING, greatest) for _ in more]
        return self.urgent[:count]

    def __del__(self) -> None:  # the driver waits for what they hold
        if sys.is_finalizing() or not hasattr(self, "events"):
            return
        if self.driver.process != os.getpid():  # a forked child has no driver
            return
        for stream in (*self.streams, *self.urgent):
            self.driver.lib.cuStreamDestroy_v2(stream)
        for event in self.events:
            self.driver.lib.cuEventDestroy_v2(event)

    def _wait(self, stream: c_void_p, event: c_void_p) -> None:
        self.driver.check(self.driver.lib.cuStreamWaitEvent(stream, event, c_uint(0)), "cuStreamWaitEvent")

    def order(self, first: int, then: int) -> None:
        """Make what comes later on the stream `then` wait for what `first` holds now."""
        self.driver.record(self.events[-1], first)
        self._wait(c_void_p(then), self.events[-1])

    def fork(self, stream: int, count: int, urgent: int = 0) -> list[int]:
        """Return `urgent` streams, the caller's stream, and `count` side streams, which wait for the caller's."""
        sides = [*self.urgent_streams(urgent), *self.streams[:count]]
        self.driver.record(self.events[-1], stream)
        for other in sides:
            self._wait(other, self.events[-1])
        found = [int(other.value or 0) for other in sides]
        return [*found[:urgent], stream, *found[urgent:]]

    def join(self, stream: int, count: int, urgent: int = 0) -> None:
        sides = [*self.urgent_streams(urgent), *self.streams[:count]]
        for other, event in zip(sides, self.events, strict=False):
            self.driver.record(event, int(other.value or 0))
            self._wait(c_void_p(stream), event)


@contextmanager
def several(backend: Any, stream: int, launches: int, are_chains: bool = False, urgent: int = 0) -> Iterator[list[int]]:
    """Fork: yield the caller's stream and side streams for `launches` independent launches, or chains of launches; join
    them at exit. Launches fill the GPU, and a few streams hide their ends; chains leave most of it idle, and each has a
    stream: the first `urgent` of them an urgent one."""
    if backend.name != "cuda" or launches < (2 if are_chains else 3):
        yield [stream]
        return
    held = _held(backend)
    count, urgent = _COUNT if launches >= _MANY else 1, min(urgent, _CHAINS)
    if are_chains:
        count = max(0, min(launches - urgent - 1, _CHAINS))
    try:
        yield held.fork(stream, count, urgent)
    finally:
        held.join(stream, count, urgent)


def _held(backend: Any) -> Streams:
    """The streams of this thread on the backend's GPU."""
    held: dict[int, Streams] = vars(_HELD).setdefault("streams", {})
    ordinal = backend.device.ordinal
    if ordinal not in held:
        held[ordinal] = Streams(backend)
    return held[ordinal]


class Followers:
    """Urgent streams for what follows launches of the caller's stream, which goes on meanwhile with other work."""

    def __init__(self, stream: int, count: int, streams: Streams | None = None) -> None:
        self._caller, self._streams = stream, streams
        urgent = [] if streams is None else streams.urgent_streams(count)
        self._urgent = [int(one.value or 0) for one in urgent]
        self._busy: set[int] = set()

    def follow(self, i: int) -> int:
        """The stream of follower i, which waits for what the caller's stream holds now."""
        if self._streams is None:
            return self._caller
        self._streams.order(self._caller, self._urgent[i])
        self._busy.add(i)
        return self._urgent[i]

    def wait(self, i: int) -> None:
        """Make the caller's stream wait for follower i, if it has begun."""
        if self._streams is not None and i in self._busy:
            self._streams.order(self._urgent[i], self._caller)
            self._busy.remove(i)


@contextmanager
def followers(backend: Any, stream: int, count: int) -> Iterator[Followers]:
    """Yield `count` followers of the caller's stream, which waits for all of them at exit. One follower, or none where
    there are no streams, is the caller's stream itself."""
    found = Followers(stream, count, _held(backend) if backend.name == "cuda" and count > 1 else None)
    try:
        yield found
    finally:
        for i in range(count):
            found.wait(i)
