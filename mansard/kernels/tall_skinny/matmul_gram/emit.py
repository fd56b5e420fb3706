"""Instantiation text and launch geometry of `matmul_gram`, for GPUs and their emulation."""

from __future__ import annotations

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import SCALARS, WORKSPACE, Field, Source
from ....plan.problem import Problem
from ...common import sources
from . import work
from .space import Ring

_POINTERS = (
    *sources.matrices("A", "C", "D", "W", "G", written="WG"),
    Field("gate", "const mansard::u32*", "pointer"),
)
_STRIDES = ("K", "a_row", "a_col", "c_row", "c_col", "w_row", "w_col", "d_row")


def kernel(problem: Problem, config: Ring, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, C, W, rows then columns, and of rows of D, in elements."""
    return Kernel(
        source(problem, config, device.backend), launch_geometry(problem, config, device), (problem.K, *strides)
    )


def source(problem: Problem, config: Ring, target: str) -> Source:
    """The kernel's text for `target` (cuda or emulated)."""
    constants = {"M": problem.M, "N": problem.N, "CONJ": problem.conj, "PITCH_A": problem.pitch_a, "WARPS_N": 1}
    constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
    return sources.source(
        problem, config, target, work=work, folder="tall_skinny/matmul_gram", constants=constants,
        title=f"W[K,{problem.N}] = A[K,{problem.M}] C[{problem.M},{problem.N}] + D, G = W^H W, {problem.dtype}",
        arguments=(*_POINTERS, *WORKSPACE, *sources.integers(_STRIDES), *SCALARS),
        cooperative=config.REDUCE == "sliced",
    )  # fmt: skip


def launch_geometry(problem: Problem, config: Ring, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the problem's K."""
    most = device.multiprocessors * config.BLOCKS_PER_SM
    blocks = max(1, min(most, -(-problem.K // (config.GROUPS * config.ROWS))))
    return Geometry(
        grid=(blocks, 1, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
        cooperative=config.REDUCE == "sliced",
        partial_bytes=blocks * problem.N * problem.N * (16 if problem.is_complex else 8),
    )
