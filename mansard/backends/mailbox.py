"""A word that a kernel leaves for the host, which reads it while the device goes on with what was queued after it.

Up to seven doubles may follow, from the eighth byte on.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint, c_void_p
from typing import Any, Protocol

from .cuda_driver import within

_BYTES = 64
_PORTABLE_MAPPED = 3  # seen from every context, at the same address as here


class Mailbox(Protocol):
    """Kernels write to `address`; `posted` follows the last launch, `read` waits for what was launched before it."""

    address: int

    def posted(self, stream: int) -> None: ...

    def read(self) -> int: ...

    def numbers(self, count: int) -> tuple[float, ...]:
        """Doubles behind the word, after it was read."""
        ...


class PlainMailbox:
    """Mailbox of backends whose kernels are done when they return."""

    def __init__(self) -> None:
        self._memory = (ctypes.c_double * (_BYTES // 8))()
        self.address = ctypes.addressof(self._memory)
        self._word = c_uint.from_buffer(self._memory)

    def posted(self, stream: int) -> None:
        """Do nothing: the kernel has written the word already."""

    def read(self) -> int:
        return self._word.value

    def numbers(self, count: int) -> tuple[float, ...]:
        return tuple(self._memory[1 : 1 + count])


class CudaMailbox:
    """Mailbox of a GPU: a word in page-locked memory, and an event to wait for."""

    def __init__(self, backend: Any) -> None:
        self._driver, self._ordinal = backend.driver, backend.device.ordinal
        memory = c_void_p()

        def make() -> int:
            self._event = self._driver.event()
            status: int = self._driver.lib.cuMemHostAlloc(byref(memory), c_size_t(_BYTES), c_uint(_PORTABLE_MAPPED))
            return status

        self._driver.check(self._in_context(make), "cuMemHostAlloc")
        self.address = int(memory.value or 0)
        self._word = c_uint.from_address(self.address)
        self._memory = (ctypes.c_double * (_BYTES // 8)).from_address(self.address)

    def posted(self, stream: int) -> None:
        handle = c_void_p(stream)
        if self._driver.lib.cuEventRecord(self._event, handle):  # another device's context may be current
            status = self._in_context(lambda: self._driver.lib.cuEventRecord(self._event, handle))
            self._driver.check(status, "cuEventRecord")

    def read(self) -> int:
        self._driver.check(self._driver.lib.cuEventSynchronize(self._event), "the stream's work")
        return self._word.value

    def numbers(self, count: int) -> tuple[float, ...]:
        return tuple(self._memory[1 : 1 + count])

    def _in_context(self, action: Any) -> int:
        with within(self._driver, self._ordinal):
            return action()  # type: ignore[no-any-return]


_IDLE: dict[tuple[str, int], list[Any]] = {}


def take(backend: Any) -> Mailbox:
    """A mailbox of this call alone; `give` it back once it has been read."""
    idle = _IDLE.setdefault((backend.name, backend.device.ordinal), [])
    try:
        return idle.pop()  # type: ignore[no-any-return]
    except IndexError:
        return CudaMailbox(backend) if backend.name == "cuda" else PlainMailbox()


def give(backend: Any, mailbox: Mailbox) -> None:
    _IDLE[(backend.name, backend.device.ordinal)].append(mailbox)
