"""Instantiation text and launch geometry of `matmul_gram`, for GPUs and their emulation."""

from __future__ import annotations

from dataclasses import asdict

from ....codegen.geometry import Device, Geometry, Kernel
from ....codegen.instantiate import CPP_TYPES, SCALARS, WORKSPACE, Field, Source, instantiate
from ....plan.problem import Problem
from . import work
from .space import Ring

_POINTERS = (
    Field("A", "const Params::T*", "pointer"),
    Field("C", "const Params::T*", "pointer"),
    Field("D", "const Params::T*", "pointer"),
    Field("W", "Params::T*", "pointer"),
    Field("G", "Params::T*", "pointer"),
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
    return instantiate(
        title=f"matmul_gram: W[K,{problem.N}] = A[K,{problem.M}] C[{problem.M},{problem.N}] + D, G = W^H W, "
        f"{problem.dtype}, {config.VARIANT}",
        header="kernels/tall_skinny/matmul_gram/kernel_ring.cuh",
        function="matmul_gram_ring",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=(*_POINTERS, *WORKSPACE, *(Field(name, "long long", "integer") for name in _STRIDES), *SCALARS),
        bounds=(work.threads(problem, config), config.BLOCKS_PER_SM),
        cooperative=config.REDUCE == "sliced",
    )


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
