"""Factorizations of matrices that no kernel takes whole: blocks by kernels, the rest by triangular solves and products.

All work in place on a stack (..., m, n); Cholesky and LU take its entries from elsewhere if asked to, so that what
they do first needs no copy. `Steps` says how: blocks of one size or nested ones, halves of halves, rows
exchanged one after the other or all at once, and how triangles are solved with. The named ones in `HOW` are the stages
by which batched factorizations became fast (nonblocked, classic, with parallel exchanges, nested blocks), so that they
can be measured against each other; calls use `recursive`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...arrays.types import Array, Kind
from ...plan import pin
from ..batched.gemm_call import PLAIN, Form, multiply
from ..batched.triangular_call import Triangle, solve
from .swaps import Kernel, Swaps
from .task import Found, Task, copied, identity, zeros

Leaf = Callable[[Task, Array, Array], Found]  # (task, F, A): factors A into the place F, which may be A's
Takes = Callable[[Task, Array], bool]  # whether a kernel would

NARROW = 8  # columns of a panel that is not divided any more, even if no kernel takes it
TRIANGLE = 128  # rows of a Cholesky factor up to which one pass is taken: solving for the rest is what takes time
TALL_AS = Form(True, True)  # the first operand is conjugated and transposed
SQUARE = Form(False, False, True, True)  # the second one


class Steps(NamedTuple):
    """How a factorization proceeds."""

    blocks: tuple[int, ...] = ()  # columns per block, then per block of a block; none: halves of halves
    leaf: int = 64  # columns that a kernel does at once, where halves are taken
    swap: str = "gather"  # rows: all at once, or one after the other (`rows`)
    invert: bool = False  # diagonal blocks of triangular solves are inverted, and multiplied by
    by_columns: bool = False  # the T of reflections column by column, as LAPACK's larft

    @property
    def single(self) -> bool:
        """Whether a column at a time is done in the end, by the array library: a kernel for every height would not be
        what came first, nor compiled in time."""
        return self.blocks[-1:] == (1,)


HOW = {
    "nonblocked": Steps((1,), swap="rows", by_columns=True),  # one column at a time, rank-one updates
    "classic": Steps((32, 1), swap="rows", by_columns=True),  # panels of columns, products for the rest
    "swap": Steps((32, 1), by_columns=True),  # exchanges of a panel all at once
    "nested": Steps((128, 32, 8), by_columns=True),  # panels within panels
    "inverted": Steps((128, 32, 8), invert=True),  # nothing but products, also for triangles and for T
    "kernel": Steps((64,)),  # a panel is one kernel
    "recursive": Steps(),
}


_RAW, _PANEL = Task("qr", "raw"), Task("qr", "panel")


class Blocked:
    """Blocked factorizations on arrays of one library. `leaf`, `takes` and `swap` reach the kernels."""

    def __init__(
        self, kind: Kind, backend: str | None, leaf: Leaf, takes: Takes, swap: Kernel, steps: Steps = HOW["recursive"]
    ) -> None:
        self.kind, self.backend, self.leaf, self.takes, self.steps = kind, backend, leaf, takes, steps
        self.swaps = Swaps(kind, steps.swap, swap)

    def _parts(self, width: int, level: int, task: Task, panel: Array) -> list[slice]:
        """How columns are divided; a single part is for the kernel."""
        blocks, whole = self.steps.blocks, [slice(0, width)]
        if blocks:
            inner = [size for size in blocks[level:] if size < width]
            size = inner[0] if inner else width
            return [slice(i, min(i + size, width)) for i in range(0, width, size)]
        leaf = max(self.steps.leaf, TRIANGLE) if task.family == "cholesky" else self.steps.leaf
        if width <= NARROW or (width <= leaf and self._kernel_takes(task, panel)):
            return whole
        if task is _PANEL and width > leaf and self._kernel_takes(task, panel[..., :leaf]):
            return [slice(i, min(i + leaf, width)) for i in range(0, width, leaf)]
        middle = -(-width // 2)
        middle = -(-middle // self.steps.leaf) * self.steps.leaf if width > 2 * self.steps.leaf else middle
        return [slice(0, middle), slice(middle, width)]

    def _kernel_takes(self, task: Task, panel: Array) -> bool:
        """A panel of reflections also where T has to be formed."""
        return self.takes(task, panel) or (task is _PANEL and self.takes(_RAW, panel))

    def _subtract(self, A: Array, B: Array, out: Array, form: Form = PLAIN) -> None:
        """out - A B."""
        self._multiply(A, B, out, -1.0, 1.0, form)

    def _multiply(
        self, A: Array, B: Array, out: Array, alpha: float = 1.0, beta: float = 0.0, form: Form = PLAIN
    ) -> Array:
        """By a kernel; of single columns by the array library, see `Steps`."""
        if self.steps.single and min(*A.shape[-2:], *B.shape[-2:]) == 1:
            with pin.pin(VARIANT="vendor"):
                return multiply(A, B, out, alpha, beta, self.backend, form)
        return multiply(A, B, out, alpha, beta, self.backend, form)

    def _solve(self, A: Array, X: Array, side: str, uplo: str, trans: str, unit: bool = False, B: Array = None) -> None:
        """X, or B, is the right-hand side."""
        if self.steps.single and A.shape[-1] == 1:
            if not unit:  # the diagonal is real
                X[...] = (X if B is None else B) / A
            return
        solve(A, X if B is None else B, X, 1.0, self.backend, Triangle(side, uplo, trans, unit, self.steps.invert))

    def _later(self, info: Array, found: Array, before: int) -> Array:
        """`info` of all columns so far; only the first trouble counts."""
        return self.kind.module.where((info == 0) & (found > 0), found + before, info)

    # ---- Cholesky -----------------------------------------------------------------------------------------

    def cholesky(self, F: Array, A: Array, upper: bool = False) -> Array:
        """L in the lower triangle (or U in the upper one) and zeros in the other; the result is `info`. A is where the
        entries are, None: in F."""
        if upper:  # U^T is the factor of the conjugate
            F, A = F.swapaxes(-1, -2), None if A is None else A.swapaxes(-1, -2)
        return self._cholesky(F, A, 0)

    def _cholesky(self, F: Array, A: Array, level: int) -> Array:
        task = Task("cholesky")
        parts = self._parts(F.shape[-1], level, task, F)
        if len(parts) == 1:
            return self.leaf(task, F, F if A is None else A)["INFO"]
        info = None
        for part in parts:
            block, rest = F[..., part, part], slice(part.stop, F.shape[-1])
            found = self._cholesky(block, _cut(A, part, part), level + 1)
            info = found if info is None else self._later(info, found, part.start)
            if rest.start < rest.stop:
                beside = F[..., rest, part]
                F[..., part, rest] = 0  # beyond the diagonal; within blocks there, whoever factors them does it
                self._solve(block, beside, "right", "lower", "C", B=_cut(A, rest, part))
                self._subtract_square(beside, F[..., rest, rest], part.stop - part.start, _cut(A, rest, rest))
            A = None  # all of it is in F now
        return info

    def _subtract_square(self, P: Array, out: Array, width: int, A: Array = None) -> None:
        """out - P P^H, or A - P P^H, of which the lower triangle is wanted: blocks of columns from their diagonal
        downwards."""
        width = max(width, NARROW)
        for start in range(0, P.shape[-2], width):
            stop = min(start + width, P.shape[-2])
            if A is not None:
                out[..., start:, start:stop] = A[..., start:, start:stop]
            self._subtract(P[..., start:, :], P[..., start:stop, :], out[..., start:, start:stop], SQUARE)

    # ---- LU -----------------------------------------------------------------------------------------------

    def lu(self, F: Array, A: Array, pivot: bool = True) -> tuple[Array, Array]:
        """L below the diagonal and U above it; the result is pivots and `info`. A as for Cholesky."""
        return self._lu(F, A, Task("lu", pivot=pivot), 0)

    def _lu(self, F: Array, A: Array, task: Task, level: int) -> tuple[Array, Array]:
        rows, columns = F.shape[-2:]
        width = min(rows, columns)
        parts = self._parts(width, level, task, F)
        if len(parts) == 1 and width == columns:
            found = self.leaf(task, F, F if A is None else A)
            return found["PIVOTS"], found["INFO"]
        pivots, info = zeros(self.kind, (*F.shape[:-2], width), "int32", F), None
        for part in parts:
            below = slice(part.start, rows)
            exchanged, found = self._lu(F[..., below, part], _cut(A, below, part), task, level + 1)
            pivots[..., part] = exchanged + part.start
            info = found if info is None else self._later(info, found, part.start)
            if A is not None:
                F[..., part.stop :], A = A[..., part.stop :], None
            if task.pivot:
                self.swaps.apply(exchanged, [F[..., below, : part.start], F[..., below, part.stop :]])
            self._lu_update(F, part)
        return pivots, info

    def _lu_update(self, F: Array, part: slice) -> None:
        rows, columns = F.shape[-2:]
        if part.stop == columns:
            return
        right = F[..., part, part.stop :]
        self._solve(F[..., part, part], right, "left", "lower", "N", True)
        if part.stop < rows:
            self._subtract(F[..., part.stop :, part], right, F[..., part.stop :, part.stop :])

    # ---- QR -----------------------------------------------------------------------------------------------

    def qr(self, F: Array) -> Array:
        """R above and reflectors below the diagonal; the result is their factors (tau)."""
        return self._qr(F, 0)[0]

    def _qr(self, F: Array, level: int) -> tuple[Array, Array]:
        """tau, and T where a kernel gave it."""
        rows, columns = F.shape[-2:]
        width = min(rows, columns)
        parts = self._parts(width, level, _PANEL, F[..., :width])
        if len(parts) == 1 and width == columns:
            found = self.leaf(_PANEL if self.takes(_PANEL, F) else _RAW, F, F)
            return found["TAU"], found.get("Q")
        tau = zeros(self.kind, (*F.shape[:-2], width), self.kind.view(F, "a").dtype, F)
        for part in parts:
            panel = F[..., part.start :, part]
            tau[..., part], T = self._qr(panel, level + 1)
            if part.stop < columns:
                self.reflect(panel, tau[..., part], F[..., part.start :, part.stop :], True, T)
        return tau, None

    def reflect(self, panel: Array, tau: Array, X: Array, adjoint: bool, T: Array = None) -> None:
        """X becomes (I - V T V^H) X, or with T^H. Zeros above the diagonal of V and below that of T make everything a
        product."""
        V = self._reflectors(panel)
        if T is None:
            T = self._by_columns(V, tau) if self.steps.by_columns else self._compact(V, tau)
        W = self._multiply(V, X, None, form=TALL_AS)
        W = self._multiply(T, W, None, form=TALL_AS if adjoint else PLAIN)
        self._subtract(V, W, X)

    def compact(self, panel: Array, tau: Array) -> Array:
        """T of I - V T V^H, the product of the reflectors below the diagonal of the panel."""
        return self._compact(self._reflectors(panel), tau)

    def _reflectors(self, panel: Array) -> Array:
        V = self.kind.module.tril(panel, -1)
        self.kind.diagonals(V)[...] = 1
        return V

    def _compact(self, V: Array, tau: Array) -> Array:
        """T from T^-1 = diag(1 / tau) + (the upper triangle of V^H V): a unit triangular solve, also if some tau is
        zero."""
        square = self._multiply(V, V, None, form=TALL_AS)
        above = self.kind.module.triu(square, 1) * tau[..., :, None]
        T = zeros(self.kind, tuple(above.shape), self.kind.view(V, "a").dtype, V)
        self.kind.diagonals(T)[...] = tau
        self._solve(above, T, "left", "upper", "N", True)
        return T

    def _by_columns(self, V: Array, tau: Array) -> Array:
        T = zeros(self.kind, (*V.shape[:-2], V.shape[-1], V.shape[-1]), self.kind.view(V, "a").dtype, V)
        for i in range(V.shape[-1]):
            T[..., i, i] = tau[..., i]
            if i:
                square = self._multiply(V[..., :i], V[..., i : i + 1], None, form=TALL_AS)
                column = self._multiply(T[..., :i, :i], square, None, -1.0)
                T[..., :i, i] = column[..., 0] * tau[..., i, None]
        return T

    def q(self, F: Array, tau: Array, columns: int) -> Array:
        """The first columns of Q: reflectors on those of the identity, the last first."""
        rows, width = F.shape[-2], tau.shape[-1]
        Q = identity(self.kind, (*F.shape[:-2], rows, columns), self.kind.view(F, "a").dtype, F)
        size = self.steps.blocks[0] if self.steps.blocks else self.steps.leaf
        for start in reversed(range(0, width, size)):
            part = slice(start, min(start + size, width))
            self.reflect(F[..., start:, part], tau[..., part], Q[..., start:, start:], False)
        return Q

    def q_adjoint(self, F: Array, tau: Array, B: Array) -> Array:
        """Q^H B."""
        X = copied(self.kind, B)
        self.apply_q(F, tau, X, True)
        return X

    def apply_q(self, F: Array, tau: Array, X: Array, adjoint: bool) -> None:
        """X becomes Q^H X (first reflectors first) or Q X (last ones first), in place."""
        width, size = tau.shape[-1], self.steps.blocks[0] if self.steps.blocks else self.steps.leaf
        starts = range(0, width, size)
        for start in starts if adjoint else reversed(starts):
            part = slice(start, min(start + size, width))
            self.reflect(F[..., start:, part], tau[..., part], X[..., start:, :], adjoint)


def _cut(A: Array, rows: slice, columns: slice) -> Array:
    return None if A is None else A[..., rows, columns]
