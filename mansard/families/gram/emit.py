"""Instantiation text and launch geometry of `gram`, for GPUs (and their emulation) and for CPUs."""

from __future__ import annotations

from dataclasses import asdict

from ...codegen.geometry import Device, Geometry, Kernel
from ...codegen.instantiate import CPP_TYPES, Field, Source, instantiate
from ...plan.problem import Problem
from . import work
from .space import Config, Simd

_POINTERS = (Field("A", "const Params::T*", "pointer"), Field("B", "const Params::T*", "pointer"), Field("C", "Params::T*", "pointer"))
_SCALARS = tuple(Field(name, "double", "real") for name in ("alpha_re", "alpha_im", "beta_re", "beta_im"))
_WORKSPACE = (Field("partials", "void*", "pointer"), Field("counters", "mansard::u32*", "pointer"))
_STRIDES = ("K", "a_row", "a_col", "b_row", "b_col", "c_row", "c_col")
_MOST_PARTS = 256


def kernel(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Kernel:
    """Everything a backend needs; `strides` are those of A, B and C, rows then columns, in elements."""
    geometry = launch_geometry(problem, config, device)
    fixed = (problem.K, *strides)
    if isinstance(config, Simd):
        fixed += (parts(problem),)
    return Kernel(source(problem, config, device.backend), geometry, fixed)


def source(problem: Problem, config: Config, target: str) -> Source:
    """The kernel's text for `target` (cuda, emulated or cpu)."""
    constants = {
        "M": problem.M,
        "N": problem.N,
        "CONJ": problem.conj,
        "SAME": problem.same,
        "LAYOUT_A": problem.layout_a,
        "LAYOUT_B": problem.layout_b,
    }
    if config.VARIANT == "ring":
        constants |= {"PITCH_A": problem.pitch_a, "PITCH_B": problem.pitch_b}
    integers = _STRIDES
    if isinstance(config, Simd):
        integers += ("parts",)
        bounds, header = None, "families/gram/kernel.hpp"
    else:
        constants["SHARED_BYTES"] = work.shared_bytes(problem, config)
        bounds = (work.threads(problem, config), config.BLOCKS_PER_SM)
        header = f"families/gram/kernel_{config.VARIANT}.cuh"
    return instantiate(
        title=f"gram: C[{problem.M},{problem.N}] = A[K,{problem.M}]^{'H' if problem.conj else 'T'} B[K,{problem.N}], "
        f"{problem.dtype}, {config.VARIANT}",
        header=header,
        function=f"gram_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype]},
        constants=constants | asdict(config),
        arguments=(*_POINTERS, *_WORKSPACE, *(Field(name, "long long", "integer") for name in integers), *_SCALARS),
        bounds=bounds,
        cooperative=getattr(config, "REDUCE", "") == "sliced",
    )


def launch_geometry(problem: Problem, config: Config, device: Device) -> Geometry:
    """Grid, block, shared memory and workspace for the problem's K."""
    wide = 16 if problem.is_complex else 8
    if isinstance(config, Simd):
        return Geometry((1, 1, 1), 1, partial_bytes=2 * parts(problem) * problem.M * problem.N * wide)
    most = device.multiprocessors * config.BLOCKS_PER_SM
    blocks, tiles, entries = max(1, min(most, -(-problem.K // _rows_per_block(problem, config)))), 1, problem.M * problem.N
    if config.VARIANT == "fragment":
        words, width_m, width_n = work.real_widths(problem, config.FOLD)
        block_m, block_n = 8 * config.TILE_M * config.WARPS_M, 8 * config.TILE_N * config.WARPS_N
        tiles = -(-width_m // block_m) * -(-width_n // block_n)
        entries = min(block_m // words, problem.M) * min(block_n // words, problem.N)
        blocks = max(1, min(blocks, -(-most // tiles)))
        if config.REDUCE == "sliced":  # all tiles' blocks wait for each other and must be resident together
            blocks = max(1, min(blocks, most // tiles))
    return Geometry(
        grid=(blocks, tiles, 1),
        block=work.threads(problem, config),
        shared_bytes=work.shared_bytes(problem, config),
        cooperative=config.REDUCE == "sliced",
        partial_bytes=blocks * tiles * entries * wide,
        sum_bytes=tiles * entries * wide if config.REDUCE in ("atomic", "block") else 0,
    )


def _rows_per_block(problem: Problem, config: Config) -> int:
    """Rows that keep every warp of a block busy once."""
    if config.VARIANT == "tiled":
        per_row = -(-problem.M // config.TILE_M) * -(-problem.N // config.TILE_N)
        return config.BLOCK // per_row * config.UNROLL
    if config.VARIANT == "fragment":
        return config.WARPS_K * 4 * config.DEPTH * config.FOLD
    return config.GROUPS * config.ROWS * config.FOLD


def parts(problem: Problem) -> int:
    """Pieces of K that CPU threads sum independently: fixed by the problem alone, so that the result does not depend
    on the number of threads."""
    return max(1, min(_MOST_PARTS, problem.K * max(problem.M, problem.N) >> 15))
