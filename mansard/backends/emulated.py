"""CUDA kernels executed on the CPU, thread by thread, for tests on machines without a GPU.

Speed is irrelevant here, faithfulness is not: `include/mansard/emulated` has the rules. The device it pretends to be
is a small Hopper, so that every kernel runs with few blocks.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from .. import forks, settings
from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source
from ..compile import cxx
from ..errors import LaunchError
from .base import Launch

ORDERS = ("forward", "reverse", "random", "greedy", "greedy-reverse")  # numbered as in emulated/hooks.hpp
_COUNTER_BYTES = 1024


class _LaunchStruct(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_ulonglong),
        ("order", ctypes.c_int),
        ("seed", ctypes.c_uint),
        ("cooperative", ctypes.c_int),
    )


class EmulatedBackend:
    """A pretended GPU with `multiprocessors` multiprocessors."""

    name = "emulated"

    def __init__(self, multiprocessors: int = 3) -> None:
        self.device = Device(
            "emulated",
            "emulated sm_90",
            "sm_90a",
            multiprocessors=multiprocessors,
            shared_per_block=227 * 1024,
            shared_per_multiprocessor=228 * 1024,
            registers_per_multiprocessor=65536,
            threads_per_multiprocessor=2048,
            l2_bytes=1 << 20,
        )

    def prepare(self, kernel: Kernel) -> Launch:
        entry = cxx.compile_emulated(kernel.source, settings.current().sanitize)
        with forks.postponed():
            library = ctypes.CDLL(str(entry.binary))
        return EmulatedLaunch(library, kernel)

    def log(self, source: Source) -> str:
        return cxx.compile_emulated(source, settings.current().sanitize).log

    def synchronize(self, stream: int = 0) -> None:
        """Emulated kernels are done when they return."""


class EmulatedLaunch:
    """A kernel library of the emulator; `seed` changes from launch to launch, for random order."""

    def __init__(self, library: ctypes.CDLL, kernel: Kernel) -> None:
        self._library, self._kernel, self._seed = library, kernel, 0
        library.mansard_emulated_error.restype = ctypes.c_char_p

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        geometry = self._kernel.geometry
        self._seed += 1
        # exact sizes, so that AddressSanitizer sees the first byte beyond
        partials = ctypes.create_string_buffer(b"\xff" * geometry.partial_bytes, max(1, geometry.partial_bytes))
        found = _counters(flipped=self._seed % 2 == 1)
        sums = ctypes.create_string_buffer(found + bytes(geometry.sum_bytes), len(found) + geometry.sum_bytes)
        workspace = (ctypes.addressof(partials), ctypes.addressof(sums))
        arguments = self._kernel.source.packing.pack(*pointers, *workspace, *self._kernel.fixed, *scalars)
        holder = ctypes.create_string_buffer(arguments, len(arguments))
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(holder))
        launch = _LaunchStruct(
            geometry.grid,
            (geometry.block, 1, 1),
            geometry.shared_bytes,
            _order(),
            self._seed,
            geometry.cooperative,
        )
        with forks.postponed():  # a child would inherit the emulator's lock, and a machine that stands still
            status = self._library.mansard_launch(ctypes.byref(launch), parameters)
        if status:
            raise LaunchError(self._library.mansard_emulated_error().decode())
        left = sums.raw[: len(found)]
        if any(sums.raw[len(found) :]) or _changed(found, left, geometry.cooperative):
            raise LaunchError("the kernel did not leave its counters and global sums as it found them")


def _order() -> int:
    """Number of the thread order that is set."""
    order = settings.current().emulated_order
    if order not in ORDERS:
        raise LaunchError(f"MANSARD_EMULATED_ORDER is {order!r}, which must be one of {', '.join(ORDERS)}")
    return ORDERS.index(order)


def _counters(flipped: bool) -> bytes:
    """Counters as kernels find them: zero, but for the bit that grid barriers of other kernels may have flipped."""
    return (bytes(4) + (0x80000000 * flipped).to_bytes(4, "little") + bytes(8)) * (_COUNTER_BYTES // 16)


def _changed(found: bytes, left: bytes, cooperative: bool) -> bool:
    """Whether more has changed than the bit that the kernel's own grid barrier flips."""
    pairs = zip(*(memoryview(words).cast("I") for words in (found, left)), strict=True)
    spared = 0x80000000 if cooperative else 0
    return any((a ^ b) & ~(spared if index % 4 == 1 else 0) for index, (a, b) in enumerate(pairs))


@lru_cache(maxsize=1)
def backend() -> EmulatedBackend:
    return EmulatedBackend()


def unavailable() -> str | None:
    """Why the emulator cannot be used here, or None if it can."""
    return cxx.available()
