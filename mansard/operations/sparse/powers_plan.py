"""What `ms.matrix_powers` returns: checks, brings vectors to the matrix' order and back, and explains itself."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ... import settings
from ...arrays import kinds as arrays
from ...backends.select import ReferenceBackend, select
from ...codegen.geometry import Device
from ...errors import UnsupportedProblem
from ...kernels.sparse.powers import emit, spec
from . import powers_choice
from .convert import Source, library, new_values, tensor
from .operand import Held, Storage, described
from .powers_choice import Choice
from .powers_plain import Plain
from .powers_run import Passes, Products, Ranges, Runner
from .powers_task import Options, Task


class Powers:
    """What `matrix_powers` returns. It can be used from several streams and from several threads at once; each has
    work space of its own."""

    def __init__(
        self, task: Task, ordered: Any, source: Source, backend: Any, options: Options, held: Held | None = None,
        choice: Choice | None = None,
    ) -> None:  # fmt: skip
        """The matrix is `ordered` by levels, or `held` as for products (then `choice` says why). A `choice` for an
        ordered matrix is taken as it is."""
        self._task, self._ordered, self._source, self._backend, self._options = task, ordered, source, backend, options
        self._held = held
        self.shape, self.n = task.shape(source.rows.shape[0]), source.rows.shape[0]
        self.device, self.dtype = source.device, np.dtype(task.dtype)
        self.problem = self._problem()
        empty = self.problem.P == 0 or self.n == 0
        if empty or isinstance(backend, ReferenceBackend):
            self._runner: Runner | None = None
        elif held is not None:
            assert choice is not None
            self._runner = Plain(self.problem, held, choice, backend, task.packed(), options.threads)
            self.choice = self._runner.choice
        else:
            self._runner = self._make(choice)

    def __reduce__(self) -> tuple[Any, ...]:
        where, choice = self._backend, getattr(self, "choice", None)
        given = (self._task, self._ordered, self._source, self._options, self._held)
        return _made_again, (*given, where.name, where.device, choice)

    @property
    def stored(self) -> Storage:
        """The matrix as it is read."""
        return self._ordered.sell if self._held is None else self._held.storage

    @property
    def is_running(self) -> bool:
        """Whether kernels run, and not the array library."""
        return self._runner is not None

    @property
    def is_permuted(self) -> bool:
        """Whether the matrix' rows are in another order than the caller's."""
        return self._held is None and self._ordered.permutation is not None

    def _problem(self) -> Any:
        task, sell = self._task, self.stored
        coefficients = task.coefficients
        return spec.problem(
            task.dtype, self.n, sell.nnz, task.p, values=sell.values_dtype, index=sell.index, C=getattr(sell, "C", 32),
            NVECS=task.columns, shifted=bool(np.any(coefficients[:, 1])),
            three_term=bool(np.any(coefficients[:, 2])), output=task.output,
            sets=1 if task.weights is None or task.weights.ndim == 1 else len(task.weights),
            ragged=getattr(sell, "lengths", None) is not None,
        )  # fmt: skip

    def _make(self, choice: Choice | None) -> Runner:
        refusal = spec.refusal(self.problem)
        if refusal:
            raise UnsupportedProblem(refusal)
        device, options = self._backend.device, self._options
        threads = options.threads or settings.current().threads
        self.choice = choice or powers_choice.choose(self.problem, self._ordered, device, options.execution, threads)
        arguments = (self.problem, self._ordered, self.choice, self._backend, self._task.packed())
        if self.choice.execution == "persistent":
            return Passes(*arguments, limit=options.limit)
        if self.choice.execution == "plain" and Plain.serves(self._task, self.problem.NNZ):
            held = Held(self._ordered.sell, self._ordered.xp, self.device, False, None)
            plain = Plain(self.problem, held, *arguments[2:], options.threads)
            self.choice = plain.choice
            return plain
        if device.backend == "cpu":
            return Ranges(*arguments, threads=threads)
        return Products(*arguments, graph=options.graph)

    # ---- calls ----------------------------------------------------------------------------------------------

    def __call__(self, x: Any, out: Any = None) -> Any:
        """The powers of x, in the order of A's rows."""
        return self._run(x, out, self.is_permuted)

    def permuted(self, x: Any, out: Any = None) -> Any:
        """The same with x and the result in the order that the matrix is stored in: entry i is row `permutation[i]`."""
        return self._run(x, out, False)

    @property
    def permutation(self) -> Any:
        """Row i of the stored matrix is row permutation[i] of A: int32, where A is."""
        return self._ordered.permutation if self.is_permuted else self._source.xp.arange(self.n, dtype=np.int32)

    def _run(self, x: Any, out: Any, reordered: bool) -> Any:
        kind = arrays.kind_of(x, "x")
        if kind.name == "JAX":
            return self._through_jax(kind, x, out, reordered)
        x = self._checked(kind, x)
        if out is None:
            out = kind.empty(self.shape, self._task.dtype, x)
        else:
            self._check_out(kind, x, out)
        if self._runner is None:
            return self._library(x, out)
        stream = kind.stream_of(self.device)()
        if reordered:
            self._reordered(kind.address(x), kind.address(out), stream)
        else:
            self._direct(kind.address(x), kind.address(out), stream, lambda: _copy(x, out))
        if kind.written is not None:
            kind.written((out,))
        return self._first(x, out) if reordered else out

    def _through_jax(self, kind: Any, x: Any, out: Any, reordered: bool) -> Any:
        if out is not None:
            raise TypeError("out cannot be written for JAX arrays: leave it out and use the result")
        return kind.wrap(self._run(kind.unwrap(x, "x"), None, reordered))

    def _first(self, x: Any, out: Any) -> Any:
        if self._task.output == "all":
            _copy(x, out)
        return out

    def _direct(self, x: int, out: int, stream: int, copy: Any) -> None:
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

    def _permute(self, count: int, source: int, target: int, order: Any, stream: int) -> None:
        assert self._runner is not None
        held = self.__dict__.setdefault("_permutes", {})
        if count not in held:
            held[count] = self._backend.prepare(emit.permute(self.problem, self._backend.device, count))
        held[count]((source, target, self._runner.address(order)), (), stream)

    def _library(self, x: Any, out: Any) -> Any:
        """The array library's own products: nothing to compute, or nothing to compile with."""
        task, rows = self._task, self._source.rows
        A = library(self._source.xp).csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        own = (
            x
            if hasattr(x, "__array_interface__") or type(x).__module__.startswith("cupy")
            else self._source.xp.asarray(x)
        )
        powers = self._source.xp.stack(spec.reference(A, own, task.coefficients))
        if task.output == "combination":
            result = self._source.xp.tensordot(self._source.xp.asarray(task.weights), powers, 1)
        else:
            result = powers if task.output == "all" else powers[-1]
        result = result.astype(task.dtype)
        out[...] = result if type(out) is type(result) else _as(out, result)
        return out

    # ---- checks ---------------------------------------------------------------------------------------------

    def _checked(self, kind: Any, x: Any) -> Any:
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

    def _check_out(self, kind: Any, x: Any, out: Any) -> None:
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

    def with_values(self, data: Any) -> Powers:
        """A plan for other values of the same pattern, in the order of A as sorted CSR."""
        xp, rows = self._source.xp, self._source.rows
        data = new_values(data, xp)
        if data.shape != (rows.nnz,):
            raise ValueError(f"data has shape {data.shape}, the pattern {rows.nnz} entries")
        if not np.can_cast(str(data.dtype), rows.values_dtype, "same_kind"):
            raise TypeError(f"data has dtype {data.dtype} and A {rows.values_dtype}: convert it first")
        data = data.astype(rows.values_dtype)
        source = Source(type(rows)(rows.shape, rows.indptr, rows.indices, data), xp, self._source.device)
        if self._held is not None:
            held, choice = self._held.with_values(data), self.choice
            return Powers(self._task, None, source, self._backend, self._options, held, choice)
        return Powers(self._task, self._ordered.with_values(data), source, self._backend, self._options)

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


def _made_again(
    task: Task, ordered: Any, source: Source, options: Options, held: Held | None, backend: str, device: Device,
    choice: Choice | None,
) -> Powers:  # fmt: skip
    """A plan as it was pickled. On a device like the first one it runs in the same way; on another one an ordered
    matrix is looked at anew."""
    where = select(source.device, backend if backend in ("emulated", "reference") else None)
    choice = choice if held is not None or where.device == device else None
    return Powers(task, ordered, source, where, options, held, choice)


def _dense(view: Any) -> bool:
    """Without gaps, the last index fastest."""
    step = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def _copy(x: Any, out: Any) -> None:
    out[0] = x


def _as(out: Any, result: Any) -> Any:
    """A NumPy or CuPy array as what `out` is."""
    return tensor(result).to(out.device)
