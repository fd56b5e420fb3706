"""`interleave`, `deinterleave` and products of interleaved batches: one matrix per lane of a vector, or of a warp."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind, Matrices
from ...backends.base import Backend, Launch
from ...backends.select import select
from ...kernels.batched.gemm import interleaved, spec
from ...plan.problem import DTYPES, ITEMSIZE, Options, Problem
from .. import run as call
from ..plans import PLANS
from ..recipes import realigned

_WARP, _VECTOR_BYTES = 32, 64


class Interleaved:
    """A stack of matrices of one shape whose entries (i, j) lie side by side: buffer[group, i, j, lane].

    `interleave` makes one, `deinterleave` converts it back. `ms.matmul`, and `gemm`, `syrk`, `herk`, `syr2k`, `her2k`,
    `trmm` and `trsm` of `ms.blas` take and return it; in products and triangular systems the other operand may be one
    ordinary matrix. The last group is padded: its surplus lanes hold no matrix.

    >>> import numpy as np, mansard as ms
    >>> x = ms.interleave(np.ones((3, 2, 2)))
    >>> x.shape, x.lanes, x.buffer.shape
    ((3, 2, 2), 8, (1, 2, 2, 8))
    """

    def __init__(self, buffer: Array, leading: tuple[int, ...]) -> None:
        self.buffer, self.leading = buffer, tuple(leading)
        self._kind = arrays.kind_of(buffer, "buffer")
        self._view = self._described("buffer")
        self.lanes = int(self._view.shape[3])

    def _renew(self, argument: str) -> None:
        """Describe the buffer again, for a call with this stack as an argument: since it was described it may have been
        resized or replaced, or may require a gradient."""
        before, name = self._view, f"{argument}.buffer"
        kind = arrays.kind_of(self.buffer, name)
        if kind is not self._kind:
            raise TypeError(f"{name} was a {self._kind.name} array and is a {kind.name} array: interleave again")
        self._view = self._described(name)
        if self._view.shape != before.shape:
            raise ValueError(f"{name} had shape {before.shape} and has {self._view.shape}: interleave again")

    def _described(self, name: str) -> View:
        view: View = self._kind.view(self.buffer, name)
        if view.dtype not in DTYPES:
            raise TypeError(f"{name} has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first")
        steps = arrays.dense_strides(view.shape)
        dense = len(view.shape) == 4 and (
            0 in view.shape
            or all(size == 1 or one == step for size, one, step in zip(view.shape, view.strides, steps, strict=True))
        )
        if not dense or view.conjugated or not _is_width(view.shape[3]):
            raise ValueError(f"{name} is no array (groups, rows, columns, lanes) without gaps: use ms.interleave")
        if prod(self.leading) > view.shape[0] * view.shape[3]:
            raise ValueError(
                f"{name} has {view.shape[0]} groups of {view.shape[3]} lanes: too few for a stack of {self.leading}"
            )
        return view

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.buffer, self.leading)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the stack: leading dimensions, rows, columns."""
        return (*self.leading, int(self._view.shape[1]), int(self._view.shape[2]))

    @property
    def dtype(self) -> Any:
        """dtype of the elements, as the array library names it."""
        return self.buffer.dtype

    @property
    def device(self) -> str:
        """`cpu`, or `cuda:` and a number."""
        where, ordinal = self._view.device
        return where if where == "cpu" else f"{where}:{ordinal}"

    def __len__(self) -> int:
        if not self.leading:
            raise TypeError("one matrix has no length")
        return self.leading[0]

    def __getitem__(self, index: int | tuple[int, ...]) -> Array:
        """One matrix: a view, nothing is copied."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.leading):
            raise IndexError(f"{len(index)} indices for leading dimensions {self.leading}: one for each is needed")
        at = 0
        for one, size in zip(index, self.leading, strict=True):
            at = at * size + range(size)[one]
        return self.buffer[at // self.lanes, :, :, at % self.lanes]

    def __repr__(self) -> str:
        return f"Interleaved({self.shape}, {self._view.dtype}, {self.lanes} lanes, {self.device})"


def _restored(buffer: Array, leading: tuple[int, ...]) -> Interleaved:
    """A stack as it was pickled."""
    return Interleaved(realigned(buffer), leading)


def interleave(a: Array, lanes: int | None = None) -> Interleaved:
    """Copy a stack (..., rows, columns) so that entry (i, j) of `lanes` matrices lies side by side.

    The copy pays where several operations follow: every SIMD lane, or thread of a warp, then works on a matrix of its
    own, and none is idle at any matrix size. `lanes` is 32 on GPUs and a cache line on CPUs unless given.

    Cost: every entry is read and written once; no flops.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> a = np.arange(12.0).reshape(3, 2, 2)
    >>> x = ms.interleave(a)
    >>> x
    Interleaved((3, 2, 2), float64, 8 lanes, cpu)
    >>> (ms.deinterleave(ms.matmul(x, x)) == a @ a).all()
    np.True_
    """
    kind = arrays.kind_of(a, "a")
    if kind.immutable:
        raise TypeError("a is a JAX array: pass a NumPy, CuPy or PyTorch array")
    view = kind.view(a, "a")
    if len(view.shape) < 2:
        raise ValueError(f"a has shape {view.shape}: a matrix or a stack of matrices is needed")
    if view.dtype not in DTYPES:
        raise TypeError(f"a has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first")
    width = lanes or (_WARP if view.device[0] == "cuda" else _VECTOR_BYTES // ITEMSIZE[view.dtype])
    if not _is_width(width):
        raise ValueError(f"lanes={lanes} is no power of two from 2 on")
    leading, (rows, columns) = tuple(map(int, view.shape[:-2])), map(int, view.shape[-2:])
    batch = prod(leading)
    flat = kind.plain(a).reshape(batch, rows, columns)
    whole, rest = divmod(batch, width)
    buffer = _buffer(kind, whole + (rest > 0), (rows, columns), width, view.dtype, flat)
    buffer[:whole] = flat[: whole * width].reshape(whole, width, rows, columns).swapaxes(1, 2).swapaxes(2, 3)
    if rest:
        buffer[whole] = 0
        buffer[whole, :, :, :rest] = flat[whole * width :].swapaxes(0, 1).swapaxes(1, 2)
    return Interleaved(buffer, leading)


def _is_width(lanes: int) -> bool:
    """Whether so many matrices can lie side by side: a power of two from 2 on."""
    return lanes >= 2 and not lanes & (lanes - 1)


def _buffer(kind: Kind, groups: int, sizes: tuple[int, int], width: int, dtype: str, like: Array) -> Array:
    shape = (groups, *sizes, width)
    return kind.empty((prod(shape[:3]), width), dtype, like).reshape(shape)


def beside(like: Interleaved, sizes: tuple[int, int]) -> Interleaved:
    """A batch of as many matrices of other sizes, for a result; what exists of it is not set."""
    view = like._view
    made = _buffer(like._kind, int(view.shape[0]), sizes, like.lanes, view.dtype, like.buffer)
    rest = prod(like.leading) % like.lanes
    if rest:
        made[-1, :, :, rest:] = 0
    return Interleaved(made, like.leading)


def deinterleave(x: Interleaved) -> Array:
    """Convert an `Interleaved` batch to an ordinary array (..., rows, columns); the entries are copied.

    Cost: every entry is read and written once; no flops.

    >>> import numpy as np, mansard as ms
    >>> ms.deinterleave(ms.interleave(np.ones((3, 2, 2)))).shape
    (3, 2, 2)
    """
    if not isinstance(x, Interleaved):
        raise TypeError(f"x is a {type(x).__name__}: deinterleave takes what interleave makes")
    x._renew("x")
    rows, columns = x.shape[-2:]
    batch, width = prod(x.leading), x.lanes
    flat = x._kind.empty((batch * rows, columns), x._view.dtype, x.buffer).reshape(batch, rows, columns)
    whole, rest = divmod(batch, width)
    flat[: whole * width].reshape(whole, width, rows, columns)[...] = x.buffer[:whole].swapaxes(2, 3).swapaxes(1, 2)
    if rest:
        flat[whole * width :] = x.buffer[whole, :, :, :rest].swapaxes(1, 2).swapaxes(0, 1)
    return flat.reshape(x.shape)


def multiply_interleaved(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Any
) -> Interleaved:  # fmt: skip
    """alpha op(A) op(B) + beta out; one of A and B may be an ordinary matrix that serves all."""
    given = {name: checked(one, name) for name, one in (("A", A), ("B", B), ("out", out)) if one is not None}
    stack = A if isinstance(A, Interleaved) else B
    kind = stack._kind
    for name, (view, of) in given.items():
        check_alike(name, view, of, stack)
    if out is None and beta != 0.0:
        raise ValueError("beta scales the content of out: pass out")
    (m, k), (deep, n) = _sizes(given["A"][0], form.trans_a), _sizes(given["B"][0], form.trans_b)
    if k != deep:
        raise ValueError(f"A has {k} columns and B {deep} rows: both need the same number")
    chosen = select(stack._view.device, backend)
    if out is None:
        out = beside(stack, (m, n))
    else:
        _check_out(out, (*stack.leading, m, n), given)
    operands = [_operand(one) for one in (A, B)]
    if 0 in (*stack.leading, m, n, k):
        out.buffer[...] = out.buffer * beta if beta != 0.0 else 0
        return out  # type: ignore[no-any-return]
    if chosen.name == "reference":
        return _by_library(kind, operands, out, (alpha, beta), form)
    problem = _problem((A, B, out), (m, n, k), form, beta != 0.0)
    strides = (*_strides(kind, operands[0], form.trans_a), *_strides(kind, operands[1], form.trans_b))
    launch = _launch(problem, chosen, (*strides, *_strides(kind, out.buffer, False)))
    pointers = tuple(kind.address(one) for one in (*operands, out.buffer))
    launch(pointers, call.scalars(problem, alpha, beta), kind.stream_of(stack._view.device)())
    if kind.written is not None:
        kind.written((out.buffer,))
    return out  # type: ignore[no-any-return]


def _operand(one: Matrices) -> Array:
    """The array behind it; a matrix that serves all without gaps."""
    return one.buffer if isinstance(one, Interleaved) else arrays.kind_of(one, "A").plain(one)


def _launch(problem: Problem, backend: Backend, strides: tuple[int, ...]) -> Launch:
    key = ("interleaved", problem, backend.name, backend.device.ordinal, strides)
    return PLANS.made(key, lambda: backend.prepare(interleaved.kernel(problem, backend.device, strides)))  # type: ignore[no-any-return]


def _problem(
    given: tuple[Matrices, Matrices, Interleaved], sizes: tuple[int, int, int], form: Any, accumulate: bool
) -> Problem:
    m, n, k = sizes
    width = given[2].lanes
    traits: Options = {}
    lines = {"a": (m, k), "b": (k, n)}
    for side, one, trans in (("a", given[0], form.trans_a), ("b", given[1], form.trans_b)):
        together = isinstance(one, Interleaved)
        traits[f"stack_{side}"] = "interleaved" if together else "shared"
        traits[f"layout_{side}"] = "col" if trans else "row"
        traits[f"pitch_{side}"] = lines[side][0 if trans else 1] * (width if together else 1)
    return spec.problem(
        given[2]._view.dtype, m, n, k, prod(given[2].leading), **traits, stack_c="interleaved", pitch_c=n * width,
        conj_a=form.conj_a, conj_b=form.conj_b, accumulate=accumulate,
    )  # fmt: skip


def _strides(kind: Kind, array: Array, trans: bool) -> tuple[int, int, int]:
    """Between groups, rows and columns of op(.)."""
    shape = tuple(map(int, array.shape))
    rows, columns, width = shape[1:] if len(shape) == 4 else (*shape, 1)
    row, column = (width, columns * width) if trans else (columns * width, width)
    return rows * columns * width if len(shape) == 4 else 0, row, column


def checked(one: Matrices, name: str) -> tuple[View, Interleaved | None]:
    """The view of an operand, and the stack it is."""
    if isinstance(one, Interleaved):
        one._renew(name)
        return one._view, one
    if name == "out":
        raise TypeError(f"out is a {type(one).__name__}: results of interleaved stacks need an Interleaved")
    kind = arrays.kind_of(one, name)
    shape = tuple(getattr(one, "shape", ()))
    if kind.immutable or len(shape) != 2:
        raise TypeError(f"{name} is a {kind.name} array of shape {shape}: beside an Interleaved, pass one or a matrix")
    return kind.view(one, name), None


def check_alike(name: str, view: View, of: Interleaved | None, stack: Interleaved) -> None:
    if view.dtype != stack._view.dtype:
        raise TypeError(f"the interleaved stack has dtype {stack._view.dtype} and {name} {view.dtype}: convert one")
    arrays.same_device([("the interleaved stack", stack._view), (name, view)])
    if of is None:
        return
    if of._kind is not stack._kind:
        raise TypeError(f"{name} has {of._kind.name} arrays, others {stack._kind.name} arrays: convert one of them")
    if of.leading != stack.leading:
        raise ValueError(f"{name} has leading dimensions {of.leading}, another stack {stack.leading}: they must agree")
    if of.lanes != stack.lanes:
        raise ValueError(f"{name} has {of.lanes} lanes, another stack {stack.lanes}: interleave both alike")


def _sizes(view: View, trans: bool) -> tuple[int, int]:
    rows, columns = map(int, view.shape[1:3] if len(view.shape) == 4 else view.shape)
    return (columns, rows) if trans else (rows, columns)


def _check_out(out: Interleaved, shape: tuple[int, ...], given: dict[str, tuple[View, Interleaved | None]]) -> None:
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, the result {shape}")
    if out._view.readonly:
        raise ValueError("out is read-only")
    item = ITEMSIZE[out._view.dtype]
    low, high = arrays.extent(out._view, item)
    for name in "AB":
        first, last = arrays.extent(given[name][0], item)
        if first < high and low < last:
            raise ValueError(f"out overlaps {name}: the result needs memory of its own")


def _by_library(
    kind: Kind, operands: list[Matrices], out: Interleaved, factors: tuple[complex, complex], form: Any
) -> Interleaved:
    """The array library's product of ordinary stacks."""
    sides = []
    for array, trans, conj in ((operands[0], form.trans_a, form.conj_a), (operands[1], form.trans_b, form.conj_b)):
        stack = array if len(array.shape) == 2 else array.swapaxes(2, 3).swapaxes(1, 2)
        turned = stack.swapaxes(-1, -2) if trans else stack
        sides.append(kind.conj(turned) if conj and np.dtype(out._view.dtype).kind == "c" else turned)
    product = kind.matmul(*sides) * factors[0]
    place = out.buffer.swapaxes(2, 3).swapaxes(1, 2)
    place[...] = product if factors[1] == 0.0 else product + place * factors[1]
    return out
