"""OpenMP's threads in forked processes. They exist in the parent alone; a child that asks for them waits for ever.

GCC's runtime (libgomp) keeps a team for each thread that calls kernels, and a fork copies what it knows about the team,
not the team. So a thread gives up its team before it forks (`omp_pause_resource_all`, GCC 9 and newer); parent and
child each make a new one at their next kernel, once, and run as fast as before. Where libgomp cannot do this, the
forked thread hands its kernels to another thread, which has a team of its own. LLVM's runtime renews itself in a child.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

_SOFT = 1  # omp_pause_soft: threads go, settings stay
_TEAMS = threading.local()  # .process: whose threads this thread's team consists of

Entry = Callable[[int], int]  # a kernel's function: the address of its arguments -> its status


def forkable(library: ctypes.CDLL) -> Entry:
    """The function `kernel` of a loaded library, such that it also returns in processes that are forked later."""
    entry: Entry = library.kernel
    if not hasattr(library, "GOMP_parallel") or hasattr(library, "__kmpc_fork_call"):
        return entry
    if not hasattr(library, "omp_pause_resource_all"):
        return Handed(entry)
    _pause_before_forks(ctypes.cast(library.omp_pause_resource_all, ctypes.c_void_p).value or 0)
    return entry


@lru_cache(maxsize=16)
def _pause_before_forks(function: int) -> None:
    """Have a thread give up its team when it forks; `function` is the address of `omp_pause_resource_all`."""
    pause = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(function)
    os.register_at_fork(before=lambda: pause(_SOFT))


class Handed:
    """A kernel's function that a forked thread, whose team is lost, has called by another thread."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def __call__(self, address: int) -> int:
        process = os.getpid()
        if _TEAMS.__dict__.setdefault("process", process) != process:
            return _other_thread(process).submit(self._entry, address).result()
        return self._entry(address)


@lru_cache(maxsize=1)
def _other_thread(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "mansard-kernels")
