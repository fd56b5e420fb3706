"""Rules of thumb: how many matrices per block."""

from __future__ import annotations

from collections.abc import Iterator

from ....codegen.geometry import Device
from ....plan.problem import Problem
from ...common import configs, measured
from . import space
from .space import Thread

_BESIDE_NO_REDUCTION = 3328  # bytes of a diagonal beyond which blocks of 8 matrices leave a reduction no shared memory


def default(problem: Problem, device: Device, variant: str | None = None) -> Thread | None:
    """The first legal rule."""
    return configs.first_legal(space, ranked(problem, device), problem, device, variant)  # type: ignore[no-any-return]


def ranked(problem: Problem, device: Device) -> Iterator[Thread]:
    """Two warps per block; one where the diagonals of two would leave room for few blocks in shared memory. Of the
    largest matrices two per block: then it has room beside a block of the reduction, which reduces other matrices."""
    yield from measured.configs(space, problem, device)
    if problem.want == "rotations" and problem.N * problem.itemsize > _BESIDE_NO_REDUCTION:
        yield Thread(32, MATRICES_PER_BLOCK=2)
    if problem.N * problem.itemsize <= 512:
        yield Thread(64)
    yield Thread(32)
