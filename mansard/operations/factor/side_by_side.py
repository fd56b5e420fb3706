"""LU factors, solutions and inverses of a few matrices by cuSOLVER, side by side on streams of the GPU.

cuSOLVER has a GPU wait for each panel of a matrix, so that matrices on eight streams take little longer than one. Array
libraries have a handle per thread, and factor one matrix after the other.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...arrays.gemm import LETTER
from ...arrays.types import Array, Kind
from ...backends import beside
from ...backends.cuda_driver import within
from ...backends.cusolver import Cusolver, cusolver
from ...backends.select import select
from ...plan.problem import ITEMSIZE
from .task import Found, Task, copied, identity

_WANTS = ("factor", "solve", "inverse")


def factors(kind: Kind, task: Task, A: Array, B: Array = None) -> Found | None:
    """The parts of the task's result for a stack (..., n, n) on a GPU; None for one matrix, other factorizations and
    captured streams, or where cuSOLVER is not loaded."""
    view, count = kind.view(A, "a"), prod(A.shape[:-2])
    square = len(A.shape) > 2 and A.shape[-1] == A.shape[-2] and view.dtype in LETTER
    if task.family != "lu" or task.want not in _WANTS or not (task.pivot and square and count > 1):
        return None
    backend, stream = select(view.device, None), kind.stream_of(view.device)()
    if backend.name != "cuda" or backend.driver.capture_id(stream):
        return None
    library = cusolver()
    if library is None:
        return None
    with within(backend.driver, view.device[1]):
        return _factors(kind, task, A, B, backend, stream, library)


def _factors(kind: Kind, task: Task, A: Array, B: Array, backend: Any, stream: int, library: Cusolver) -> Found:
    """The parts, by chains of one or two calls per matrix. Copies lie column after column."""
    lead, n, dtype = tuple(A.shape[:-2]), A.shape[-1], kind.view(A, "a").dtype
    count, letter, item = prod(lead), LETTER[dtype], ITEMSIZE[dtype]
    turned = copied(kind, A.swapaxes(-1, -2))
    pivots, info = (kind.allocate(shape, "int32", A) for shape in ((*lead, n), lead))
    if task.want == "inverse":
        right = identity(kind, (*lead, n, n), dtype, A)
    else:
        right = None if B is None else copied(kind, B.swapaxes(-1, -2))
    columns = 0 if right is None else right.shape[-2]
    at, rows, bad = (kind.address(one) for one in (turned, pivots, info))
    sides = 0 if right is None else kind.address(right)
    device = backend.device.ordinal
    room = library.workspace(library.handle(device, 0, stream), letter, n, at)
    ignored = kind.allocate((count,), "int32", A)
    work = kind.allocate((count if count < _MOST_ROOMS else _MOST_ROOMS, room), dtype, A)
    with beside.several(backend, stream, count, are_chains=True) as streams:
        for i in range(count):
            which = i % len(streams)
            handle = library.handle(device, which, streams[which])
            place, pivot = at + i * n * n * item, rows + 4 * i * n
            library.getrf(handle, letter, n, place, kind.address(work) + which * room * item, pivot, bad + 4 * i)
            if right is not None:
                library.getrs(
                    handle, letter, n, columns, place, pivot, sides + i * n * columns * item,
                    kind.address(ignored) + 4 * i,
                )  # fmt: skip
    if right is None:
        return {"F": kind.plain(turned.swapaxes(-1, -2)), "PIVOTS": pivots - 1, "INFO": info}
    return {"F" if task.want == "inverse" else "X": kind.plain(right.swapaxes(-1, -2)), "INFO": info}


_MOST_ROOMS = 9  # workspaces: the caller's stream and the side streams of chains
