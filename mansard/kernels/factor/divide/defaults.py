"""Rules of thumb: lanes per value, and blocks per multiprocessor."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import ITEMSIZE, Problem
from ...common import configs, measured
from . import space, spec, work
from .space import Bisect, Config, Merge

# numbers of records; singular vectors begin with shifts, which take as long as values
_BELOW = {"eigh": "EIGH_BELOW", "eigvalsh": "EIGVALSH_BELOW", "svd": "SVDVALS_BELOW", "svdvals": "SVDVALS_BELOW"}
_MEASURED = 128  # rows up to which there are records
_BLOCKS_PER_CHAIN = 8  # blocks that a multiprocessor finishes while a thread of `sweeps` runs through its chain
_THREADS = 128  # lanes that hide each other's latency: one warp for each scheduler of a multiprocessor


def default(problem: Problem, device: Device, variant: str | None = None) -> Config | None:
    """The first legal rule; `variant` restricts it to one kind of kernel."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Config]:
    """As many lanes per value as keep a multiprocessor busy; as many blocks as have room in its shared memory."""
    if problem.want != "vectors":
        lanes = 16
        while lanes > 1 and lanes * problem.N > _THREADS:
            lanes //= 2
        yield Bisect(lanes)
        return
    for blocks in (8, 6, 4, 3, 2, 1):
        yield Merge(work.warps(problem), blocks)


def fewest_of_sweeps(want: str, dtype: str, N: int, device: Device) -> int:
    """Matrices of N rows from which a thread per matrix (`sweeps`) is taken to be faster than a block; a record of the
    device, or assumed. Of larger matrices than were measured as many as of the largest: a chain and the work of a block
    both grow as N^2."""
    if device.backend == "cpu" or want not in _BELOW:
        return 0
    if N > spec.WIDEST_OF_VECTORS and want == "eigh":
        want = "eigvalsh"  # by shifts
    assumed, rows = _BLOCKS_PER_CHAIN * device.multiprocessors, min(N, _MEASURED)
    return measured.number("divide", device, _BELOW[want], assumed, rows=rows, bytes=ITEMSIZE[dtype])
