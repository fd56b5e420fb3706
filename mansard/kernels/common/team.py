"""How many threads of a CPU a kernel's work is worth.

A team begins and ends together. Waking a thread that sleeps takes tens of microseconds, and waiting for one whose core
is busy with something else takes milliseconds, whatever the work. So each thread of a team has work that takes as long
as to wake it; results do not depend on the number of threads.
"""

from __future__ import annotations

from ...codegen.geometry import Device
from ...machine.roofline import Work

WORTH = 50e-6  # seconds of work for each thread of a team: a thread that sleeps takes as long to wake
# What one core of any CPU does at the least, of operands in a cache that cores share.
_MEMORY_RATE, _PRODUCT_RATE = 10e9, 10e9  # bytes and operations per second


def seconds(work: Work) -> float:
    """Estimate the seconds that one core takes."""
    return work.bytes / _MEMORY_RATE + work.flops / _PRODUCT_RATE


def size(work: Work, device: Device) -> int:
    """The most threads that the work is worth, of those that the device has."""
    return max(1, min(device.multiprocessors, int(seconds(work) / WORTH)))


def remark(work: Work, device: Device) -> str:
    """The number of threads and its reason, for `explain`."""
    found, every = size(work, device), round(WORTH * 1e6)
    why = "as many as there are" if found == device.multiprocessors else f"each has at least {every} us of work"
    return f"threads  at most {found} of {device.multiprocessors}: {why}"
