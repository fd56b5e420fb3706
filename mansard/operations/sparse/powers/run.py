"""What `ms.matrix_powers` returns: checks, brings vectors to the matrix' order and back, and explains itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import prod
from typing import Any

import numpy as np

from ....arrays import kinds as arrays
from ....arrays.types import Array, Kind
from ....arrays.view import View
from ....backends.base import Backend, Launch
from ....backends.select import ReferenceBackend, select
from ....codegen.geometry import Device
from ....errors import Transformed
from ....kernels.sparse.powers import emit, spec
from ... import graphs
from ...transformable import through_framework
from ..convert import Source, library, new_values
from ..matrix import Matrix, of_source
from ..operand import Held, Storage, described
from .execution.groups import CpuGroups, GpuGroups
from .execution.persistent import Passes
from .execution.plain import Plain
from .execution.runner import Runner
from .order.ordered import Ordered
from .plan import Choice, chosen, products_serve
from .task import Options, Task

_MOST_FITTING = 64  # signatures that a plan remembers


class Powers:
    """What `matrix_powers` returns. It can be used from several streams and from several threads at once; each has
    work space of its own."""

    def __init__(
        self,
        task: Task,
        source: Source,
        backend: Backend,
        options: Options,
        choice: Choice | None,
        matrix: Ordered | Held,
    ) -> None:
        """The matrix is in level order, or stored as for products. Without a choice the array library computes."""
        self._task, self._source, self._backend, self._options = task, source, backend, options
        self._planned, self._matrix = choice, matrix
        self._ordered: Any = None if isinstance(matrix, Held) else matrix
        self._fitting: set[Hashable] = set()  # signatures of vectors that were checked, and are read as they are
        self._stored: Matrix | None = None  # for products
        self._permutes: dict[int, Launch] = {}  # launches by the number of vectors that they permute
        self.n = source.rows.shape[0]
        self.shape, self.device, self.dtype = task.shape(self.n), source.device, np.dtype(task.dtype)
        self.problem = task.problem(matrix.storage if isinstance(matrix, Held) else matrix.layout)
        self._runner: Runner | None = None
        if choice is not None:
            self._runner = self._execution(choice)
            self.choice = self._runner.choice

    def _execution(self, choice: Choice) -> Runner:
        """What runs: kernels are compiled, and a matrix in level order is stored, from here on."""
        matrix, options, backend = self._matrix, self._options, self._backend
        if isinstance(matrix, Ordered) and choice.execution == "plain" and products_serve(self._task, matrix.rows.nnz):
            matrix = Held(matrix.sell, matrix.xp, self.device, False, None)
        coefficients = self._task.packed()
        if isinstance(matrix, Held):
            return Plain(self.problem, matrix, choice, backend, coefficients, options.threads, options.graph)
        arguments = (self.problem, matrix, choice, backend, coefficients)
        if choice.execution == "persistent":
            return Passes(*arguments, limit=options.limit)
        if backend.device.backend == "cpu":
            return CpuGroups(*arguments, threads=options.threads)
        return GpuGroups(*arguments, graph=options.graph)

    def __reduce__(self) -> tuple[object, ...]:
        given = (self._task, self._source, self._options, self._planned, self._matrix)
        return _unpickled, (*given, self._backend.name, self._backend.device)

    def __eq__(self, other: object) -> bool:  # PyTorch's compiler takes no constants without an `__eq__` of their own
        return self is other

    __hash__ = object.__hash__

    @property
    def stored(self) -> Storage:
        """The matrix as it is read."""
        return self._matrix.storage if isinstance(self._matrix, Held) else self._matrix.sell

    @property
    def is_permuted(self) -> bool:
        """Whether the matrix' rows are in another order than the caller's."""
        return self._ordered is not None and self._ordered.permutation is not None

    # ---- calls ----------------------------------------------------------------------------------------------

    def __call__(self, x: Array, out: Array = None) -> Array:
        """The powers of x, in the order of A's rows."""
        try:
            return self._run(x, out, self.is_permuted)
        except Transformed as refusal:
            return through_framework("Powers.__call__", Powers.__call__, (self, x, out), refusal)

    def permuted(self, x: Array, out: Array = None) -> Array:
        """The same with x and the result in the order that the matrix is stored in: entry i is row `permutation[i]`."""
        try:
            return self._run(x, out, False)
        except Transformed as refusal:
            return through_framework("Powers.permuted", Powers.permuted, (self, x, out), refusal)

    @property
    def permutation(self) -> Array:
        """Row i of the stored matrix is row permutation[i] of A: int32, where A is."""
        return self._ordered.permutation if self.is_permuted else self._source.xp.arange(self.n, dtype=np.int32)

    def _run(self, x: Array, out: Array, reordered: bool) -> Array:
        kind = arrays.kind_of(x, "x")
        if kind.immutable:
            return self._through_jax(kind, x, out, reordered)
        signature = (kind, kind.signature(x))
        if signature not in self._fitting:
            given, x = x, self._checked(kind, x)
            if x is given and len(self._fitting) < _MOST_FITTING:
                self._fitting.add(signature)
        if out is None:
            out = kind.empty(self.shape, self._task.dtype, x)
        else:
            self._check_out(kind, x, out)
        if self._runner is None:
            return self._library(kind, x, out)
        stream = kind.stream_of(self.device)()
        if reordered:
            self._reordered(kind.address(x), kind.address(out), stream)
        else:
            self._direct(kind.address(x), kind.address(out), stream, lambda: _copy(x, out))
        if kind.written is not None:
            kind.written((out,))
        return self._first(x, out) if reordered else out

    def _through_jax(self, kind: Kind, x: Array, out: Array, reordered: bool) -> Array:
        if out is not None:
            raise TypeError("out cannot be written for JAX arrays: leave it out and use the result")
        return kind.wrap(self._run(kind.unwrap(x, "x"), None, reordered))

    def _first(self, x: Array, out: Array) -> Array:
        if self._task.output == "all":
            _copy(x, out)
        return out

    def _direct(self, x: int, out: int, stream: int, copy: Callable[[], None]) -> None:
        """Results go where they belong."""
        runner, line = self._runner, self.n * self._task.columns * self.dtype.itemsize
        assert runner is not None
        if self._task.output == "all":
            fills = isinstance(runner, Passes)
            if not fills and out != x:
                copy()
            runner(x, out + line, 0, out if fills else 0, stream)
            return
        runner(x, runner.vectors(stream), out, 0, stream)

    def _reordered(self, x: int, out: int, stream: int) -> None:
        """x is brought to the matrix' order, and what comes out of it back."""
        runner, step = self._runner, self.n * self._task.columns
        assert runner is not None
        inside = runner.space("x", step, self._task.dtype, stream)
        self._permute(1, x, inside, self._ordered.permutation, stream)
        if self._task.output == "all":
            vectors = runner.vectors(stream)
            runner(inside, vectors, 0, 0, stream)
            self._permute(self._task.p, vectors, out + step * self.dtype.itemsize, self._ordered.inverse, stream)
            return
        count = prod(self.shape) // step
        result = runner.space("result", count * step, self._task.dtype, stream)
        runner(inside, runner.vectors(stream), result, 0, stream)
        self._permute(count, result, out, self._ordered.inverse, stream)

    def _permute(self, count: int, source: int, target: int, order: Array, stream: int) -> None:
        assert self._runner is not None
        if count not in self._permutes:
            self._permutes[count] = self._backend.prepare(emit.permute(self.problem, self._backend.device, count))
        self._permutes[count]((source, target, self._runner.address(order)), (), stream)

    def _library(self, kind: Kind, x: Array, out: Array) -> Array:
        """The array library's own products: nothing to compute, or nothing to compile with."""
        task, rows = self._task, self._source.rows
        A = library(self._source.xp).csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        powers = self._source.xp.stack(spec.reference(A, kind.unwrap(x, "x"), task.coefficients))
        if task.output == "combination":
            result = self._source.xp.tensordot(self._source.xp.asarray(task.weights), powers, 1)
        else:
            result = powers if task.output == "all" else powers[-1]
        out[...] = kind.wrap(result.astype(task.dtype))
        return out

    # ---- checks ---------------------------------------------------------------------------------------------

    def _checked(self, kind: Kind, x: Array) -> Array:
        view = kind.view(x, "x")
        shape = (self.n,) if self._task.columns == 1 else (self.n, self._task.columns)
        if view.shape != shape:
            raise ValueError(f"x has shape {view.shape}, the plan was made for {shape}")
        if view.dtype != self._task.dtype:
            raise TypeError(f"x has dtype {view.dtype}, the plan was made for {self._task.dtype}: convert x")
        if view.device != self.device:
            here, there = ":".join(map(str, self.device)), ":".join(map(str, view.device))
            raise ValueError(f"A is on {here} and x on {there}: move one of them")
        return x if _dense(view) and not view.conjugated else kind.plain(x)

    def _check_out(self, kind: Kind, x: Array, out: Array) -> None:
        if kind is not arrays.kind_of(out, "out"):
            raise TypeError(f"x is a {kind.name} array and out is not: convert one of them")
        view, own = kind.view(out, "out"), kind.view(x, "x")
        if view.device != self.device or view.dtype != self._task.dtype:
            raise TypeError(f"out must be an array like x: {self._task.dtype}, of the same library and device")
        if view.shape != self.shape or not _dense(view):
            raise ValueError(f"out has shape {view.shape}, the result {self.shape}, without gaps")
        if view.readonly or view.conjugated:
            raise ValueError("out is read-only, or lazily conjugated")
        item = self.dtype.itemsize
        (low, high), (first, last) = arrays.extent(view, item), arrays.extent(own, item)
        if first < high and low < last and not (self._task.output == "all" and first == low):
            raise ValueError("out overlaps x: only out[0] may be x itself")

    # ---- the rest -------------------------------------------------------------------------------------------

    def with_values(self, data: Array) -> Powers:
        """A plan for other values of the same pattern, in the order of A as sorted CSR."""
        xp, rows = self._source.xp, self._source.rows
        try:
            data = new_values(data, xp, self._source.device)
        except Transformed as refusal:
            answer: Powers = through_framework("Powers.with_values", Powers.with_values, (self, data), refusal)
            return answer
        if data.shape != (rows.nnz,):
            raise ValueError(f"data has shape {data.shape}, the pattern {rows.nnz} entries")
        if not np.can_cast(str(data.dtype), rows.values_dtype, "same_kind"):
            raise TypeError(f"data has dtype {data.dtype} and A {rows.values_dtype}: convert it first")
        data = data.astype(rows.values_dtype)
        source = Source(type(rows)(rows.shape, rows.indptr, rows.indices, data), xp, self._source.device)
        matrix = self._matrix.with_values(data)
        return Powers(self._task, source, self._backend, self._options, self._planned, matrix)

    def products(self) -> Matrix:
        """The matrix, stored for products; once for a plan."""
        if self._stored is None:
            name = self._backend.name if self._backend.name in ("emulated", "reference") else None
            self._stored = of_source(self._source, backend=name)
        return self._stored

    def check(self) -> None:
        """Waits for the calls made so far, and raises if one of them gave up waiting."""
        if isinstance(self._runner, Passes):
            self._runner.settled()
            self._runner.check()

    def explain(self) -> str:
        """What runs and why: levels, groups, configuration, prediction."""
        levels = None if self._ordered is None else self._ordered.levels
        lines = [str(self.problem), f"stored: {described(self.stored)}"]
        if levels is not None:
            lines.append(f"levels: {levels.count}, the widest has {levels.widest} rows; from {levels.found}")
        if self._runner is None:
            return "\n".join([*lines, "execution: the array library's own products (nothing to do, or no compiler)"])
        choice = self.choice
        lines.append(f"execution: {choice.execution} ({choice.reason})")
        lines += [f"  {config}" for config in choice.passes or (choice.config,) if config is not None]
        if choice.ranges is not None and len(choice.ranges) > 2:
            lines.append(f"groups: {len(choice.ranges) - 1}, each power {choice.lag} behind the one before")
        lines += [f"predicted: {name} {seconds * 1e6:.4g} us" for name, seconds in choice.seconds]
        return "\n".join(lines)

    def __repr__(self) -> str:
        what = "nothing" if self._runner is None else self.choice.execution
        return f"<Powers p={self._task.p} of {self.n} x {self.n} {self.dtype}, {what}>"


graphs.allow_method(Powers, Powers.__call__)


def _unpickled(
    task: Task, source: Source, options: Options, choice: Choice | None, matrix: Ordered | Held, backend: str,
    device: Device,
) -> Powers:  # fmt: skip
    """A plan as it was pickled. On a device like the first one it runs in the same way; on another one an ordered
    matrix is looked at anew."""
    where = select(source.device, backend if backend in ("emulated", "reference") else None)
    if isinstance(where, ReferenceBackend) or not task.p or not source.rows.shape[0]:
        choice = None
    elif isinstance(matrix, Ordered) and (choice is None or where.device != device):
        choice = chosen(task, matrix, where.device, options)
    return Powers(task, source, where, options, choice, matrix)


def _dense(view: View) -> bool:
    """Without gaps, the last index fastest."""
    step = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def _copy(x: Array, out: Array) -> None:
    out[0] = x
