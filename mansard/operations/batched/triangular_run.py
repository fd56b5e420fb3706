"""Runs a planned batch of triangular systems: by one kernel, by blocks along the diagonal, or by a library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...arrays.kinds import View
from ...arrays.types import Array, Kind, Matrices
from ...plan.problem import Problem
from .. import run as call
from .. import stacks
from ..direct import described
from ..factor.task import identity
from .gemm_call import Form, multiply
from .gemm_run import BatchRun

Solve = Callable[[Array, Array, Array], Array]  # (A, B, out or None) -> X
Way = Callable[[Matrices, Matrices, complex], Matrices]  # (A, X, alpha): X, which is B before, becomes the solution


class SolveRun(BatchRun):
    """As for products; X may take B's place. `way` says who answers where no single kernel does."""

    way: Way | None = None

    def _result_shape(self) -> tuple[int, ...]:
        b = self.given[1]
        return (*self.batch.shape, b.rows, b.columns)

    def _by_blas(self) -> None:
        """None: no product solves a system."""

    def _make_fast(self) -> Callable[..., Matrices]:
        return self._fast_into(self.shape, self.general)

    def _fast_into(self, shape: tuple[int, ...], general: Callable[..., Matrices]) -> Callable[..., Matrices]:
        address, stream, launch, empty = self.kind.address, self.stream, self.launch, self.kind.empty
        dtype, apart = self.problem.dtype, self._check_apart
        unit = call.scalars(self.problem, 1.0, 0.0)
        (first_a, last_a), (first_b, last_b), (first_x, last_x) = (*self._reach, (0, 0))[:3]
        alike = len(self.given) == 3 and _lies_alike(self.given[1].view, self.given[2].view)

        def fast(A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0) -> Matrices:
            if alpha != 1.0 or beta != 0.0:
                return general(A, B, out, alpha, beta)
            a, b = address(A), address(B)
            if out is None:
                out = empty(shape, dtype, B)
                x = address(out)
            else:
                x = b if out is B else address(out)
                low, high = x + first_x, x + last_x
                in_place = alike and x == b
                if (a + first_a < high and low < a + last_a) or (
                    not in_place and b + first_b < high and low < b + last_b
                ):
                    apart(A, B, out)
            launch((a, b, x), unit, stream())
            return out

        return described(fast, self._direct(shape, like=1, in_place=2 if alike else 0))

    def by_library(self, solve: Solve) -> Callable[..., Matrices]:
        """The fast path where a library answers (A, B, out) without a factor, bound when the systems are planned."""
        general, apart = self.general, self._check_apart

        def fast(A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0) -> Matrices:
            if alpha != 1.0 or beta != 0.0:
                return general(A, B, out, alpha, beta)
            if out is not None:
                apart(A, B, out)
            return solve(A, B, out)

        return fast

    def of_vectors(self) -> Callable[..., Matrices]:
        """The same for B and `out` without their last dimension, which has length one: making views would cost as much
        as all the rest."""

        def general(
            A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
        ) -> Matrices:
            result = self.general(A, B[..., None], None if out is None else out[..., None], alpha, beta)
            return result[..., 0] if out is None else out

        return general if self.fast == self.general else self._fast_into(self.shape[:-1], general)

    def general(
        self, A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        """The same with scaling, copies, lists, several launches, or without a kernel."""
        if beta != 0.0:
            raise ValueError("a triangular system has no beta: leave it out")
        scaling = call.scalars(self.problem, alpha, 0.0)
        if out is not None:
            self._check_apart(A, B, out)
        if self.copies[2] and out is not None:  # arrays of a list that differ in their strides
            return self._assign(out, self.general(A, B, None, alpha), 0.0)
        result = self._fresh(B[0] if stacks.is_list(B) else B) if out is None else out
        if self.launch is not None:
            A, B = (
                stacks.copy(self.kind, array, operand) if copied else array
                for array, operand, copied in zip((A, B), self.given, self.copies, strict=False)
            )
            self._launch_all(self.launch, (A, B, result), scaling)
        elif not self.empty:
            self._in_place(A, B, result, alpha if self.problem.is_complex else complex(alpha).real)
        return list(result) if out is None and self.listed else result

    def _in_place(self, A: Matrices, B: Matrices, X: Matrices, alpha: complex) -> None:
        assert self.way is not None
        X = list(X) if self.listed and not stacks.is_list(X) else X
        if X is not B:
            for i, place in enumerate(X) if stacks.is_list(X) else ((None, X),):
                place[...] = B if i is None else matrix_of(B, i)
        self.way(A, X, alpha)

    def _check_apart(self, A: Matrices, B: Matrices, out: Matrices) -> None:
        """Out may be B, exactly."""
        if self.given[1].listed or self.given[2].listed or self.given[0].listed:
            return self._check_lists_apart(A, B, out)
        b, x = self.kind.address(B), self.kind.address(out)
        same = b == x and _lies_alike(self.given[1].view, self.given[2].view)
        low, high = x + self._reach[2][0], x + self._reach[2][1]
        for side, array, at in ((0, A, self.kind.address(A)), (1, B, b)):
            first, last = self._reach[side]
            apart = at + first >= high or low >= at + last or (same and side == 1)
            if not apart and self._share(side, array, out):
                raise ValueError(_OVERLAPS.format("ab"[side], "" if side == 0 else ", or b itself"))

    def _check_lists_apart(self, A: Matrices, B: Matrices, out: Matrices) -> None:
        """Only equal addresses are found; what arrays of lists share otherwise is the caller's business."""
        places, b, c = self._matrices(2, out), self.given[1], self.given[2]
        if len(np.unique(places)) < len(places):
            raise ValueError("out holds an array twice: every solution needs a place of its own")
        if bool(np.isin(self._matrices(0, A), places).any()):
            raise ValueError(_OVERLAPS.format("a", ""))
        if self.copies[1] or self.copies[2]:  # all of B is read before anything is written
            return
        sources, taken = self._matrices(1, B), places
        if len(sources) == len(places) and (b.row, b.column) == (c.row, c.column):
            taken = places[sources != places]
            sources = sources[sources != places]
        if bool(np.isin(sources, taken).any()):
            raise ValueError(_OVERLAPS.format("b", ", or b itself"))


class SplitRun(SolveRun):
    """Runs kernels that write a part of the result while others still read B: `way` answers where `out` is B."""

    def _make_fast(self) -> Callable[..., Matrices]:
        fast, general, kind = super()._make_fast(), self.general, self.kind

        def apart(
            A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
        ) -> Matrices:
            if out is not None and is_same(kind, B, out):
                return general(A, B, out, alpha, beta)
            return fast(A, B, out, alpha, beta)

        return fast if len(self.given) == 2 else apart

    def general(
        self, A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        """As for systems, or where `out` is B, or has an array of it, by another way."""
        if out is None or not is_same(self.kind, B, out):
            return super().general(A, B, out, alpha, beta)
        assert self.way is not None
        self._check_apart(A, B, out)
        self.way(A, out, alpha)
        return out


_OVERLAPS = "out overlaps {}: the result needs memory of its own{}"


def is_same(kind: Kind, B: Matrices, out: Matrices) -> bool:
    if stacks.is_list(B) or stacks.is_list(out):
        pairs = zip(B, out, strict=False) if stacks.is_list(B) and stacks.is_list(out) else ()
        return any(is_same(kind, b, one) for b, one in pairs)
    if kind.address(B) != kind.address(out):
        return False
    b, c = kind.view(B, "b"), kind.view(out, "out")
    return (b.address, b.shape, b.strides) == (c.address, c.shape, c.strides)


def _lies_alike(one: View, other: View) -> bool:
    return (one.shape, one.strides, one.conjugated) == (other.shape, other.strides, other.conjugated)


def matrix_of(operand: Matrices, index: int) -> Array:
    """The matrix of an operand that goes with the result of this number, in a call with lists."""
    if not stacks.is_list(operand) and len(operand.shape) == 2:
        return operand
    return operand[index if len(operand) > 1 else 0]


def refuse_singular(kind: Kind, A: Matrices) -> None:
    """One look at all diagonals; it waits for the device."""
    if stacks.is_list(A):
        order = A[0].shape[-1]
        diagonals = kind.empty((len(A), order), kind.view(A[0], "a[0]").dtype, A[0])
        for i, one in enumerate(A):
            diagonals[i] = one.diagonal(0, -2, -1)
    else:
        diagonals = A.diagonal(0, -2, -1)
    zero = diagonals == 0
    if not bool(zero.any()):
        return
    matrix = tuple(int(i) for i in np.argwhere(np.asarray(zero.any(-1).tolist()))[0])
    entry, name = zero[matrix].tolist().index(True), f"a[{', '.join(map(str, matrix))}]" if matrix else "a"
    raise np.linalg.LinAlgError(f"{name} is singular: entry {entry} of its diagonal is zero")


# ---- blocks along the diagonal ----------------------------------------------------------------------------


class Blocked:
    """Halves, and halves of halves, down to blocks of this order: one half of X is solved for, its part of the other
    half is subtracted by a product, and so on. With `invert`, blocks are inverted once, and multiplied by."""

    def __init__(
        self, kind: Kind, problem: Problem, order: int, backend: str | None, solve: Way, invert: Way | None = None
    ) -> None:
        self.kind, self.order, self.backend, self.solve, self.invert = kind, order, backend, solve, invert
        self.left, self.trans = problem.side == "left", problem.trans in "TC"
        self.conj, self.dtype = problem.trans in "CR" and problem.is_complex, problem.dtype
        lower = (problem.uplo == "lower") != self.trans
        self.forward = lower == self.left  # the first rows (or columns) of X are known first

    def __call__(self, A: Matrices, X: Matrices, alpha: complex) -> None:
        size = (A[0] if stacks.is_list(A) else A).shape[-1]
        if size <= self.order:
            (self._by_inverse if self.invert else self.solve)(A, X, alpha)
            return
        middle = -(-size // (2 * self.order)) * self.order
        one, other = slice(0, middle), slice(middle, size)
        if not self.forward:
            one, other = other, one
        first, rest = self._part(X, one), self._part(X, other)
        self(_cut(A, one, one), first, alpha)
        beside = _cut(A, other, one) if self.left != self.trans else _cut(A, one, other)
        self._multiply(beside, first, rest, -1.0, alpha)
        self(_cut(A, other, other), rest, 1.0)

    def _part(self, X: Matrices, which: slice) -> Matrices:
        return _cut(X, which, slice(None)) if self.left else _cut(X, slice(None), which)

    def _multiply(self, A: Matrices, X: Matrices, out: Matrices, alpha: complex, beta: complex) -> Matrices:
        """alpha op(A) X + beta out, or X on the left."""
        if self.left:
            return multiply(A, X, out, alpha, beta, self.backend, Form(self.trans, self.conj))
        return multiply(X, A, out, alpha, beta, self.backend, Form(False, False, self.trans, self.conj))

    def _by_inverse(self, A: Matrices, X: Matrices, alpha: complex) -> None:
        assert self.invert is not None
        inverse = [self._identity(one) for one in A] if stacks.is_list(A) else self._identity(A)
        self.invert(A, inverse, 1.0)
        product = self._multiply(inverse, X, None, alpha, 0.0)
        for place, value in zip(X, product, strict=True) if stacks.is_list(X) else ((X, product),):
            place[...] = value

    def _identity(self, like: Array) -> Array:
        return identity(self.kind, tuple(like.shape), self.dtype, like)


def _cut(operand: Matrices, rows: slice, columns: slice) -> Matrices:
    if stacks.is_list(operand):
        return [one[rows, columns] for one in operand]
    return operand[..., rows, columns]
