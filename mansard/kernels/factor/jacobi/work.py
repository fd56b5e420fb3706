"""Bytes, flops, registers and shared memory of a jacobi problem and its configurations."""

from __future__ import annotations

from math import inf
from typing import Any

from ....codegen.geometry import Device
from ....machine.machine import Machine
from ....machine.roofline import Work
from ....plan.problem import REAL, Problem
from ...common import costs
from ...common.configs import up
from . import spec

_SWEEPS = {"eigh": (2.0, 0.55), "svd": (2.5, 0.65)}  # sweeps of random matrices: the first and, per row, more


def work(problem: Problem) -> Work:
    """The least a batch must move and compute: A once, results once; the rotations of the usual number of sweeps."""
    N, batch, size = problem.N, problem.BATCH, problem.itemsize
    read = N * N if spec.is_svd(problem) else N * (N + 1) // 2
    matrices = {"eigh": 1, "svd": 2}.get(problem.want, 0)
    values = N * (size // 2 if problem.is_complex else size) + 4
    return Work(
        read=batch * read * size,
        written=batch * (matrices * N * N * size + values),
        flops=int(batch * min(_flops_of_sweeps(problem), _flops_of_condensed(problem))),
        dtype=problem.dtype,
    )


def _flops_of_sweeps(problem: Problem) -> float:
    return float(sweeps(problem) * problem.N * (problem.N - 1) / 2 * rotation_flops(problem))


def _flops_of_condensed(problem: Problem) -> float:
    """Flops of a matrix by way of its condensed form; no bound where that is not allowed."""
    if not spec.takes_any_method(problem):
        return inf
    sides, N = 2 if spec.is_svd(problem) else 1, problem.N
    rotations = 1.25 * N * N  # to find the values of random matrices
    product, turned = (4, 2) if problem.is_complex else (1, 1)  # rotations are real
    reduction, iteration = product * sides * 4 / 3 * N**3, 30 * rotations
    vectors = (product * 4 / 3 * N**3 + turned * 6 * N * rotations) if spec.has_vectors(problem) else 0.0
    return float(reduction + sides * (iteration + vectors))


def sweeps(problem: Problem) -> float:
    """Sweeps that random matrices take, about."""
    first, more = _SWEEPS["svd" if spec.is_svd(problem) else "eigh"]
    return first + more * problem.N if problem.N > 1 else 0.0


def rotation_flops(problem: Problem) -> int:
    """Flops of one rotation: its angle, and the entries it touches."""
    pairs = problem.N if spec.is_svd(problem) else problem.N - 2
    pairs += problem.N if spec.has_vectors(problem) else 0
    product = problem.N if spec.is_svd(problem) else 0
    return int(40 + (24 if problem.is_complex else 6) * pairs + (8 if problem.is_complex else 2) * product)


def threads(problem: Problem, c: Any) -> int:
    """Threads per block: one per matrix of a tile, or LANES per pair of columns."""
    return int(up(up(problem.N, 2) * c.LANES, 32) * 32 if c.VARIANT == "block" else c.BLOCK)


def shared_bytes(problem: Problem, c: Any) -> int:
    """Dynamic shared memory per block: two slots of odd length for every matrix, one for its values; or BlockMemory."""
    if c.VARIANT == "block":
        return _bytes_of_block(problem)
    words = 2 if problem.is_complex else 1
    slots = (problem.N**2 * words | 1) + (problem.N | 1)
    return int(up(c.BLOCK * slots * problem.itemsize // words, 128) * 128)


def _pieces(problem: Problem) -> int:
    """Pieces of 16 bytes of a column."""
    return up(problem.N * problem.itemsize, 16)


def _bytes_of_block(problem: Problem) -> int:
    """BlockMemory: columns of A J and of J, an odd number of pieces apart; per column an entry, two reals, two ints."""
    seats, real = up(problem.N, 2) * 2, problem.itemsize // (2 if problem.is_complex else 1)
    matrices = 2 if spec.has_vectors(problem) else 1
    columns = matrices * problem.N * (_pieces(problem) | 1) * 16
    return int(columns + seats * (problem.itemsize + 2 * real + 8) + 128)


def held(problem: Problem, c: Any) -> int:
    """32-bit registers that hold the matrix, its values, and the vectors unless they are in shared memory."""
    N, words, real = problem.N, problem.itemsize // 4, (2 if problem.dtype in ("float64", "complex128") else 1)
    matrix = N * N if spec.is_svd(problem) else N * (N - 1) // 2
    vectors = N * N if spec.has_vectors(problem) and c.VECTORS == "registers" else 0
    return int((matrix + vectors) * words + N * real)


def most_held(problem: Problem) -> int:
    """Registers beyond which matrix and vectors spill: 255 less a round of rotations, which take more if complex."""
    return 140 if problem.is_complex and spec.is_svd(problem) else 212


# Registers in which real matrices of 1 to 8 rows compile without spills where the compiler is told to (sm_90a)
_FITTED = {
    ("float64", "eigh"): (32, 48, 56, 96, 128, 168, 232, 255),
    ("float64", "eigvalsh"): (32, 32, 40, 48, 72, 80, 96, 126),
    ("float64", "svd"): (40, 56, 72, 124, 164, 222, 255, 255),
    ("float64", "svdvals"): (32, 40, 48, 72, 96, 128, 166, 240),
    ("float32", "eigh"): (32, 32, 40, 48, 64, 80, 118, 140),
    ("float32", "eigvalsh"): (32, 32, 32, 32, 40, 78, 72, 56),
    ("float32", "svd"): (32, 36, 48, 64, 80, 122, 160, 200),
    ("float32", "svdvals"): (32, 32, 32, 40, 48, 79, 80, 120),
}


def _registers_of_block(problem: Problem, c: Any) -> int:
    """Two columns of A J and, in registers, two of J; what complex products take beside grows with them (sm_90a)."""
    shares = 4 if spec.has_vectors(problem) and c.VECTORS == "registers" else 2
    own = shares * 4 * up(_pieces(problem), c.LANES)
    return int(40 + 6 * own // 5 if problem.is_complex else 48 + own)


def registers(problem: Problem, c: Any) -> int:
    """32-bit registers per thread, estimated."""
    if c.VARIANT == "block":
        return _registers_of_block(problem, c)
    fitted = _FITTED.get((problem.dtype, problem.want))
    if fitted is not None and c.VECTORS == "registers":
        return fitted[problem.N - 1]
    return int(min(255, (36 if spec.is_svd(problem) else 26) + 1.3 * held(problem, c)))


def blocks(problem: Problem, c: Any, device: Device) -> int:
    """Blocks per launch: one per tile, or per matrix."""
    return int(max(1, problem.BATCH if c.VARIANT == "block" else up(problem.BATCH, c.BLOCK)))


def limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds that arithmetic takes at the least: chains of a few warps keep half of the units busy."""
    return {"arithmetic": executed_flops(problem, c) / (0.5 * float(machine.fma[REAL[problem.dtype]]))}


def bytes_in_flight(problem: Problem, c: Any) -> int:
    """Bytes that a multiprocessor has under way at once: tiles, some of which are computed on."""
    matrices = 1 if c.VARIANT == "block" else c.BLOCK
    return int(0.5 * c.BLOCKS_PER_SM * matrices * problem.N**2 * problem.itemsize)


def executed_flops(problem: Problem, c: Any) -> int:
    """Flops that the kernel executes: those of the problem."""
    return work(problem).flops


reduction_seconds = costs.no_reduction
bandwidth_share = costs.full_bandwidth
