"""Runs a planned batch of products on arrays: results, addresses, launches, and the array library where it answers."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_size_t, c_void_p
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.gemm import Product
from ...arrays.kinds import View
from ...arrays.types import Array, Kind, Matrices
from ...backends.base import Launch
from ...backends.cuda_driver import Driver
from ...errors import LaunchError
from ...kernels.batched.gemm import emit
from ...kernels.family import Emit
from ...plan.problem import ITEMSIZE, Problem
from ...plan.route import REFERENCE
from .. import library_launch, stacks
from .. import run as call
from ..direct import Direct, described
from ..stacks import Batch, Operand
from .library import host_launch, product_launch, strided_product

_MOST_WORK = 10_000  # steps in which NumPy may decide whether two views share memory


class BatchRun:
    """Runs a plan. `fast` is the path of stacks that one launch does, without scaling; `general` does the rest."""

    emit: Emit = emit  # of the kernels
    names = ("A", "B")  # of the operands, in messages

    def __init__(
        self, kind: Kind, problem: Problem, backend: Any, batch: Batch, launch: Any, form: Any,
        copies: tuple[bool, bool, bool], given: tuple[Operand, ...],
    ) -> None:  # fmt: skip
        self.kind, self.problem, self.backend, self.batch = kind, problem, backend, batch
        self.launch, self.form, self.copies, self.given = launch, form, copies, given
        a, b = given[:2]
        self.listed = a.listed or b.listed
        self.shape = self._result_shape()
        self.item, self.stream = ITEMSIZE[problem.dtype], kind.stream_of(a.view.device)
        self.empty = 0 in (*batch.shape, *(size for _, size in problem.sizes))
        # how far each array reaches from its address, to see whether `out` overlaps an input
        self._reach = [arrays.reach(operand.view, self.item) for operand in given]
        self._accumulating: list[Launch | None] = []  # the launch that reads C, once it was needed
        self._library: list[Product | None] = []  # and the library's routine that does
        self._addressed = any(one.listed for one in batch.operands) or any(t is not None for t in batch.walk.tables)
        simple = launch is not None and not (self._addressed or self.listed or any(copies))
        simple = simple and len(batch.walk.starts) == 1
        self.fast = self._make_fast() if simple else self._by_library() if launch is None else self.general

    def _by_library(self) -> Callable[..., Matrices]:
        """The fast path where the array library answers: its own product, bound here."""
        general, multiply = self.general, self._multiplier()
        if (direct := self._by_blas()) is not None:
            return direct
        if self.empty or self.listed or self.kind.prefers_blas or multiply is None:
            return general
        if len(self.given) == 3:
            return self._by_library_into() if self._is_direct() else general

        def fast(A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0) -> Matrices:
            if alpha != 1.0 or beta != 0.0 or out is not None:
                return general(A, B, out, alpha, beta)
            return multiply(A, B)

        return fast

    def _by_blas(self) -> Callable[..., Matrices] | None:
        """The fast path where cuBLAS, or NumPy's BLAS, can be called directly; None elsewhere."""
        if self.empty or any(one.listed for one in self.given) or self.backend.name == REFERENCE:
            return None
        launch = None if any(self.copies) else product_launch(self.kind, self.problem, self.batch)
        if launch is None:
            launch = host_launch(self.kind, self.problem, self._as_given())
        if launch is None:
            return None
        device, dtype = self.given[0].view.device, self.problem.dtype
        place = library_launch.Place(self.kind, device, self.shape, dtype, tuple(self._reach))
        return library_launch.fast_path(place, launch, self.general)

    def _as_given(self) -> Batch:
        """The batch of the arrays as they are given: BLAS gathers what it does not read as it lies."""
        a, b = self.given[:2]
        c = self.given[2] if len(self.given) == 3 else stacks.result_of(a, b, self.batch.shape)
        return stacks.batch_of(a, b, c, self.batch.shape)

    def _by_library_into(self) -> Callable[..., Matrices]:
        """`_by_library` where the result's place is given, and lies as the library wants it."""
        general, multiply, address, apart = self.general, self.kind.matmul, self.kind.address, self._check_apart
        (first_a, last_a), (first_b, last_b), (first_c, last_c) = self._reach

        def fast(A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0) -> Matrices:
            if alpha != 1.0 or beta != 0.0 or out is None:
                return general(A, B, out, alpha, beta)
            a, b, c = address(A), address(B), address(out)
            low, high = c + first_c, c + last_c
            if (a + first_a < high and low < a + last_a) or (b + first_b < high and low < b + last_b):
                apart(A, B, out)
            return multiply(A, B, out)

        return fast

    def _multiplier(self) -> Callable[[Array, Array], Array] | None:
        """The library's product of operands as they are given; None where they are transposed or conjugated."""
        return None if any(self.form) else self.kind.matmul

    def _result_shape(self) -> tuple[int, ...]:
        a, b = self.given[:2]
        return (*self.batch.shape, *((a.rows,) * (not a.vector)), *((b.columns,) * (not b.vector)))

    def _make_fast(self) -> Callable[..., Matrices]:
        address, stream, plain, general = self.kind.address, self.stream, self.launch, self.general
        empty, shape, dtype, apart = self.kind.empty, self.shape, self.problem.dtype, self._check_apart
        unit = call.scalars(self.problem, 1.0, 0.0)
        (first_a, last_a), (first_b, last_b), (first_c, last_c) = (*self._reach, (0, 0))[:3]
        held: tuple[Any, ...] = (None,) * 4  # the last factors, and what they mean

        def fast(A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0) -> Matrices:
            nonlocal held
            launch, scaling = plain, unit
            if alpha != 1.0 or beta != 0.0:
                own = held  # another thread may put its own there meanwhile
                if own[0] != alpha or own[1] != beta:
                    own = held = (alpha, beta, *self._scaled(alpha, beta))
                launch, scaling = own[2:]
                if launch is None or (out is None and beta != 0.0):
                    return general(A, B, out, alpha, beta)
            a, b = address(A), address(B)
            if out is None:
                out = empty(shape, dtype, A)
                c = address(out)
            else:
                c = address(out)
                low, high = c + first_c, c + last_c
                if (a + first_a < high and low < a + last_a) or (b + first_b < high and low < b + last_b):
                    apart(A, B, out)
            launch((a, b, c), scaling, stream())
            return out

        return described(fast, self._direct(shape))

    def _direct(self, shape: tuple[int, ...], like: int = 0, in_place: int = 0) -> Direct:
        """The fast path as the native launcher takes it."""
        dtype, placed = self.problem.dtype, len(self.given) == 3
        return Direct(
            self.kind, self.launch, self.given[0].view.device, (0, 1, 2), (self.kind.maker(shape, dtype, dtype),),
            self._reach if placed else (), like=like, in_place=in_place,
            scalars=call.scalars(self.problem, 1.0, 0.0),
        )  # fmt: skip

    def _scaled(self, alpha: complex, beta: complex) -> tuple[Launch | None, tuple[float, ...]]:
        """The launch for these factors, None if there is none, and the factors as it takes them."""
        scaling = call.scalars(self.problem, alpha, beta)
        return self.launch if beta == 0.0 else self._launch_that_reads(), scaling

    def general(
        self, A: Matrices, B: Matrices, out: Matrices = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Matrices:
        """The same with scaling, copies, lists, several launches, or the array library's routine."""
        scaling = call.scalars(self.problem, alpha, beta)
        if out is None and beta != 0.0:
            raise ValueError("beta scales the content of out: pass out")
        if out is not None:
            self._check_apart(A, B, out)
        if self.copies[2] and out is not None and self.launch is not None:
            return self._assign(out, self.general(A, B, None, alpha), beta)
        launch = self.launch if beta == 0.0 or self.launch is None else self._launch_that_reads()
        if launch is None:
            return self._vendor(A, B, out, alpha, beta)
        A, B = (
            stacks.copy(self.kind, array, operand) if copied else array
            for array, operand, copied in zip((A, B), self.given, self.copies, strict=False)
        )
        result = self._fresh(A[0] if stacks.is_list(A) else A) if out is None else out
        self._launch_all(launch, (A, B, result), scaling)
        return list(result) if out is None and self.listed else result

    def _launch_that_reads(self) -> Launch | None:
        """For beta; not prepared before somebody asks, as few do. None: the array library answers."""
        if not self._accumulating:
            problem = self.problem.replace(accumulate=True)
            self._accumulating.append(call.prepare(self.emit, problem, self.backend, self.batch.strides)[0])
        return self._accumulating[0]

    def _launch_all(
        self, launch: Launch, given: tuple[Matrices, Matrices, Matrices], scaling: tuple[float, ...]
    ) -> None:
        stream = self.stream()
        if self._addressed:
            pointers, held = self._tables(given, stream)
            launch(pointers, scaling, stream)
            del held  # memory of the stream's: what comes next there may take it
            return
        a, b, c = map(self.kind.address, given)
        item = self.item
        for start_a, start_b, start_c in self.batch.walk.starts:
            launch((a + start_a * item, b + start_b * item, c + start_c * item), scaling, stream)

    def _tables(self, given: tuple[Matrices, ...], stream: int) -> tuple[tuple[int, ...], Array]:
        """What a launch is handed: addresses, or the addresses of arrays of them, and who keeps these arrays."""
        many = [self._addresses(side, array) for side, array in enumerate(given)]
        host = np.concatenate([found for found in many if found is not None])
        first, held = int(host.ctypes.data), host
        if self.backend.name == "cuda":
            like = given[0][0] if stacks.is_list(given[0]) else given[0]
            held = self.kind.empty((1, -(-host.nbytes // self.item)), self.problem.dtype, like)
            first = self.kind.address(held)
            _upload(self.backend.driver, first, host, stream)
        pointers = []
        for array, found in zip(given, many, strict=True):
            pointers.append(self.kind.address(array) if found is None else first)
            first += 0 if found is None else found.nbytes
        return tuple(pointers), held

    def _addresses(self, side: int, array: Matrices) -> Array:
        """Of the matrices of an operand that has no single step, in the order of the batch; None if it has."""
        table = self.batch.walk.tables[side]
        if stacks.is_list(array):
            return np.fromiter(map(self.kind.address, array), np.int64, len(array))
        return None if table is None else self.kind.address(array) + table * self.item

    def _fresh(self, like: Array) -> Array:
        return self.kind.empty(self.shape, self.problem.dtype, like)

    def _check_apart(self, A: Matrices, B: Matrices, out: Matrices) -> None:
        if self.listed or self.given[2].listed:
            return self._check_lists_apart(A, B, out)
        low, high = (self.kind.address(out) + end for end in self._reach[2])
        for side, array in ((0, A), (1, B)):
            at, (first, last) = self.kind.address(array), self._reach[side]
            if at + first < high and low < at + last and self._share(side, array, out):
                raise ValueError(call.OVERLAPS.format(self.names[side]))

    def _share(self, side: int, array: Matrices, out: Matrices) -> bool:
        """Whether two arrays in the same region have an entry in common; yes if that is too hard to say."""
        one, other = (
            _as_numpy(self.given[i].view, self.kind.address(x), self.item) for i, x in ((side, array), (2, out))
        )
        try:
            return bool(np.shares_memory(one, other, max_work=_MOST_WORK))  # type: ignore[arg-type]
        except RuntimeError:
            return True

    def _check_lists_apart(self, A: Matrices, B: Matrices, out: Matrices) -> None:
        """Only equal addresses are found; what arrays of lists share otherwise is the caller's business."""
        places = self._matrices(2, out)
        if len(np.unique(places)) < len(places):
            raise ValueError("out holds an array twice: every product needs a place of its own")
        for side, array in ((0, A), (1, B)):
            if bool(np.isin(self._matrices(side, array), places).any()):
                raise ValueError(call.OVERLAPS.format(self.names[side]))

    def _matrices(self, side: int, array: Matrices) -> Matrices:
        """Addresses of an operand's matrices, in a call with lists."""
        if stacks.is_list(array):
            return np.fromiter(map(self.kind.address, array), np.int64, len(array))
        operand = self.given[side]
        step = operand.strides[0] if operand.strides else 0
        return self.kind.address(array) + self.item * step * np.arange(prod(operand.shape), dtype=np.int64)

    def _vendor(self, A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex) -> Matrices:
        """The array library's own product; also the answer to empty problems."""
        if self.empty:
            product = self._fresh(A[0] if stacks.is_list(A) else A)
            product[...] = 0
            product = list(product) if self.listed else product
        elif self.listed:
            count = self.batch.shape[0]
            product = [self._product(*pair, alpha) for pair in zip(_each(A, count), _each(B, count), strict=True)]
        elif not self.kind.prefers_blas and out is not None and self._is_direct() and alpha == 1.0 and beta == 0.0:
            return self.kind.matmul(*self._turned(A, B), out)
        elif (out is not None or self.kind.prefers_blas) and (strided := self._strided()) is not None:
            result = self._fresh(A) if out is None else out
            strided(A, B, result, alpha, beta)
            return result
        else:
            product = self._product(A, B, alpha)
        return product if out is None else self._assign(out, product, beta)

    def _strided(self) -> Product | None:
        """The library's routine with factors and strides, looked for when it is first needed; None: there is none."""
        if not self._library:
            unread = any(self.copies)
            self._library.append(None if unread else strided_product(self.kind, self.problem, self.batch))
        return self._library[0]

    def _is_direct(self) -> bool:
        """Whether `out`, which is given, lies as array libraries want it."""
        if self.given[2].listed or self.given[0].vector or self.given[1].vector:
            return False
        found, wanted = self.given[2], stacks.result_of(self.given[0], self.given[1], self.batch.shape)
        return (found.strides, found.row, found.column) == (wanted.strides, wanted.row, wanted.column)

    def _product(self, A: Matrices, B: Matrices, alpha: complex) -> Matrices:
        product = self.kind.matmul(*self._turned(A, B))
        return product if alpha == 1.0 else product * alpha

    def _turned(self, A: Matrices, B: Matrices) -> tuple[Matrices, Matrices]:
        form, found = self.form, []
        for array, trans, conj in ((A, form.trans_a, form.conj_a), (B, form.trans_b, form.conj_b)):
            turned = array.swapaxes(-1, -2) if trans else array
            found.append(self.kind.conj(turned) if conj and self.problem.is_complex else turned)
        return found[0], found[1]

    def _assign(self, out: Matrices, product: Matrices, beta: complex) -> Matrices:
        many = stacks.is_list(out) or stacks.is_list(product)
        for place, value in zip(out, product, strict=True) if many else ((out, product),):
            place[...] = value if beta == 0.0 else value + place * beta
        return out


def _each(operand: Matrices, count: int) -> Matrices:
    """One matrix after the other; a single one again and again."""
    if not stacks.is_list(operand) and (len(operand.shape) == 2 or operand.shape[0] != count):
        return [operand if len(operand.shape) == 2 else operand[0]] * count
    return operand


def _upload(driver: Driver, address: int, words: Array, stream: int) -> None:
    """Onto the GPU, in the order of the stream; `words` are read before this returns."""
    if driver.capture_id(c_void_p(stream)):
        raise LaunchError("a graph cannot hold the addresses of a list or of a broadcast that needs them: pass stacks")
    status = driver.lib.cuMemcpyHtoDAsync_v2(
        c_void_p(address), c_void_p(int(words.ctypes.data)), c_size_t(words.nbytes), c_void_p(stream)
    )
    driver.check(status, f"copy of {len(words)} addresses")


def _as_numpy(view: View, address: int, itemsize: int) -> Array:
    """For comparisons of addresses and strides; what is there is not touched, and may be a GPU's."""
    strides = tuple(stride * itemsize for stride in view.strides)
    facts = {"data": (address, True), "shape": view.shape, "typestr": f"|V{itemsize}", "strides": strides, "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=facts))
