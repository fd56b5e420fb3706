"""Factorizations by a library: the array library's on GPUs, LAPACK on CPUs, and the path of their later calls."""

from __future__ import annotations

from collections.abc import Callable

from ...arrays.types import Array, Kind
from ..stacks import Operand
from . import lapack as factor_lapack
from . import library as factor_library
from . import own_routines, side_by_side
from .kernel import Quick
from .places import deliver
from .task import Found, Task, stacked


def by_library(kind: Kind, task: Task, a: Operand, A: Array, B: Array, outs: Found) -> Found:
    """The parts of the task's result; lists become stacks."""
    A, B = stacked(kind, A), None if B is None else stacked(kind, B)
    if a.view.device[0] != "cpu":
        found = side_by_side.factors(kind, task, A, B)
        return deliver(factor_library.answer(kind, task, A, B) if found is None else found, outs)
    own = own_routines.bound(kind, task, tuple(A.shape))
    if own is not None and (made := own(A, B)) is not None:
        return deliver(made, outs)
    found = factor_lapack.answer(task, kind.download(A), None if B is None else kind.download(B))
    return deliver({part: kind.upload(one, A) for part, one in found.items()}, outs)


def quick_by_lapack(kind: Kind, task: Task, a: Operand, vectors: bool) -> Quick:
    """`by_library` for stacks in the CPU's memory whose description is known. The results are new arrays before
    anything is written to `out`, which may overlap what is read."""
    download, upload, parts = kind.download, kind.upload, task.parts
    shape = (*a.shape, a.rows, a.columns)
    answer = factor_lapack.planned(task, shape, a.view.dtype.startswith("complex"))
    own = own_routines.bound(kind, task, shape)

    if kind.on_host_alone and not vectors:
        return _quick_on_host(answer, parts)

    def run(A: Array, B: Array, out: Array) -> list[Array]:
        B = B[..., None] if vectors else B
        found = None if own is None else own(A, B)
        if found is None:
            found = answer(download(A), None if B is None else download(B))
            found = {part: upload(found[part], A) for part in parts}
        results = [found[part] for part in parts]
        if vectors:
            results[0] = results[0][..., 0]
        if out is not None:
            out[...] = results[0]
            results[0] = out
        return results

    return run


def _quick_on_host(answer: Callable[[Array, Array], Found], parts: tuple[str, ...]) -> Quick:
    """`quick_by_lapack` for NumPy's arrays."""

    def run(A: Array, B: Array, out: Array) -> list[Array]:
        found = answer(A, B)
        results = [found[part] for part in parts]
        if out is not None:
            out[...] = results[0]
            results[0] = out
        return results

    return run


def quick_on_gpu(way: Callable[[Array, Array, Found], Found], parts: tuple[str, ...], vectors: bool) -> Quick:
    """The path of later calls with stacks in a GPU's memory, by the way of the first one. The results are new arrays
    before anything is written to `out`, which may overlap what is read."""

    def run(A: Array, B: Array, out: Array) -> list[Array]:
        found = way(A, B[..., None] if vectors else B, {})
        results = [found[part] for part in parts]
        if vectors:
            results[0] = results[0][..., 0]
        if out is not None:
            out[...] = results[0]
            results[0] = out
        return results

    return run
