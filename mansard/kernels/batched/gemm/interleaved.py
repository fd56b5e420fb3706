"""Kernels for interleaved stacks: on GPUs one thread per matrix, on CPUs one lane (`simd`). Nothing of it is tuned."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, instantiate
from ....plan.problem import Problem
from ...common import batches, sources
from ...common.configs import OnGpu, piece, up
from . import emit, space_cpu

_REGISTERS = 64  # of a thread, for its tile


@dataclass(frozen=True)
class Interleaved(OnGpu):
    """A matrix of C per thread, tile after tile."""

    VARIANT: ClassVar[str] = "interleaved"
    BLOCK: int = 128  # threads
    TILE_M: int = 4
    TILE_N: int = 4


def width(problem: Problem) -> int:
    """Matrices side by side."""
    return int(problem.pitch_c // problem.N)


def default(problem: Problem) -> Interleaved:
    """A whole C per thread where registers hold it, else tiles that share it evenly."""
    words = problem.itemsize // 4
    side = max(1, int((_REGISTERS / words) ** 0.5))
    tile_m = piece(problem.M, max(side, _REGISTERS // words // problem.N))
    return Interleaved(TILE_M=tile_m, TILE_N=piece(problem.N, max(1, _REGISTERS // words // tile_m)))


def kernel(problem: Problem, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C: groups, rows, columns."""
    if device.backend == "cpu":
        return emit.kernel(problem, space_cpu.default(problem, device), device, strides)
    config = default(problem)
    integers = sources.integers(("BATCH", *(step for side in "abc" for step in batches.steps(side))))
    pointers = sources.matrices("A", "B", "C", written="C")
    source = instantiate(
        title=f"gemm: C[{problem.M},{problem.N}] = A[{problem.M},{problem.K}] B[{problem.K},{problem.N}], "
        f"{problem.dtype}, interleaved",
        header="kernels/batched/gemm/kernel_interleaved.cuh",
        function="gemm_interleaved",
        target=device.backend,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=_constants(problem) | asdict(config),
        arguments=(*pointers, *WORKSPACE, *integers, *SCALARS),
        bounds=(config.BLOCK, 1),
    )
    geometry = Geometry((max(1, up(problem.BATCH, config.BLOCK)), 1, 1), config.BLOCK)
    return Kernel(source, geometry, (problem.BATCH, *strides))


def _constants(problem: Problem) -> dict[str, Any]:
    sizes = {"M": problem.M, "N": problem.N, "K": problem.K, "WIDTH": width(problem)}
    flags = {"CONJ_A": problem.conj_a, "CONJ_B": problem.conj_b, "ACCUMULATE": problem.accumulate}
    return sizes | batches.shared(problem, "ab") | flags
