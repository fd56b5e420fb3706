"""Least time of two-sided factorizations: the GEMV/GEMM bound of the reduction, rotations counted, and memory traffic.

Half of a reduction's flops are products of the trailing matrix with vectors (gemv), the other half are rank-k updates
(gemm). Their rates make the bound of Dong, Haidar, Tomov and Dongarra (thesis, section 4.2.3),

    rate <= 2 / (1 / gemv + 1 / gemm)

A matrix that a multiprocessor holds in registers is not read again for every column: both rates are the arithmetic's
then. A larger one comes from memory, once per column for its product, and is read and written once per update.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....machine.machine import Machine
from ....plan.problem import ITEMSIZE, REAL

ON_CHIP = 192 << 10  # bytes of a matrix that stays in registers: three quarters of a multiprocessor's
PANEL = 32  # columns of a rank-k update
# rotations of random matrices, times n^2: to find the values, and again with these as shifts
VALUES, AGAIN = 1.25, 0.8
_CUBES = {True: 4 / 3, False: 8 / 3}  # n^3: flops of a reduction, of Hermitian matrices and of others
_Q = 4 / 3  # n^3: flops that form an orthogonal factor from its reflectors
_STEP = {True: 20, False: 36}  # flops of a rotation of the condensed matrix; of others a pair, left and right
_APPLIED = 6  # flops per row of a rotation that is applied
FUNCTIONS = ("eigh", "eigvalsh", "svd", "svdvals", "tridiagonalize", "bidiagonalize")  # whose limit is known
_HERMITIAN = ("eigh", "eigvalsh", "tridiagonalize", "tridiagonal")
_SIDES = {"eigh": 1, "svd": 2, "tridiagonalize": 1, "bidiagonalize": 2}  # orthogonal factors


@dataclass(frozen=True)
class Limit:
    """Least seconds per matrix, by what takes them."""

    memory: float
    reduction: float
    iteration: float
    back_transformation: float
    gemv: float  # flops per second
    gemm: float
    rotations: int  # per matrix

    @property
    def arithmetic(self) -> float:
        return self.reduction + self.iteration + self.back_transformation

    @property
    def seconds(self) -> float:
        return max(self.memory, self.arithmetic)

    @property
    def reduction_rate(self) -> float:
        """Flops per second of the reduction at the most."""
        return 2 / (1 / self.gemv + 1 / self.gemm)

    @property
    def shares(self) -> dict[str, float]:
        """The phases' shares of the arithmetic."""
        phases = {"reduction": self.reduction, "iteration": self.iteration,
                  "back transformation": self.back_transformation}  # fmt: skip
        return {name: seconds / self.arithmetic for name, seconds in phases.items() if seconds}

    @property
    def binds(self) -> str:
        """The name of what binds: "memory", or the phase that takes longest."""
        if self.memory >= self.arithmetic:
            return "memory"
        return max(self.shares, key=lambda name: self.shares[name])


def limit(want: str, dtype: str, N: int, machine: Machine) -> Limit:
    """The limit per matrix for N x N matrices; `want` is the function's name, `tridiagonal` and `bidiagonal` are
    reductions without orthogonal factors."""
    hermitian, item, real = want in _HERMITIAN, ITEMSIZE[dtype], REAL[dtype]
    words = 2 if dtype.startswith("complex") else 1
    fma = machine.fma[real]
    gemv, gemm = rates(dtype, N, machine)
    flops, sides = _CUBES[hermitian] * words**2 * N**3, _SIDES.get(want, 0)
    iterates = want in ("eigh", "eigvalsh", "svd", "svdvals")
    found = int((VALUES + (AGAIN if sides else 0)) * N * N) if iterates else 0
    applied = AGAIN * N * N * _APPLIED * N * words if iterates else 0.0
    read, written = (N * (N + 1) / 2 if hermitian else N * N), sides * N * N
    values = N if iterates else 2 * N - 1
    traffic = (read + written) * item + values * ITEMSIZE[real]
    return Limit(
        memory=traffic / machine.read_bandwidth if not written else traffic / machine.copy_bandwidth,
        reduction=flops / 2 / gemv + flops / 2 / gemm,
        iteration=found * _STEP[hermitian] / fma,
        back_transformation=sides * (_Q * words**2 * N**3 + applied) / fma,
        gemv=gemv, gemm=gemm, rotations=found,
    )  # fmt: skip


def rates(dtype: str, N: int, machine: Machine) -> tuple[float, float]:
    """Flops per second of products with a vector and of rank-k updates of N x N matrices."""
    item, fma = ITEMSIZE[dtype], machine.fma[REAL[dtype]]
    if N * N * item <= ON_CHIP:
        return fma, fma
    each = 8 if dtype.startswith("complex") else 2  # flops of an entry
    update = min(machine.flop_rate(dtype), PANEL * each / (2 * item) * machine.copy_bandwidth)
    return min(fma, each / item * machine.read_bandwidth), update


def lines(want: str, dtype: str, N: int, machine: Machine) -> list[str]:
    """The limit in words, for `explain()`."""
    found = limit(want, dtype, N, machine)
    where = "on chip" if N * N * ITEMSIZE[dtype] <= ON_CHIP else "from memory"
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found.shares.items())
    rotations = f"; {found.rotations} rotations per random matrix" if found.rotations else ""
    return [
        f"reduction bound 2 / (1 / gemv + 1 / gemm) = {found.reduction_rate / 1e12:.3g} TFLOP/s, matrices {where} "
        f"(gemv {found.gemv / 1e12:.3g}, gemm {found.gemm / 1e12:.3g}; {machine.origin})",
        f"least arithmetic: {shares}{rotations}",
        f"limit {found.seconds * 1e6:.3g} us per matrix, set by {found.binds} "
        f"(memory {found.memory * 1e6:.3g}, arithmetic {found.arithmetic * 1e6:.3g})",
    ]
