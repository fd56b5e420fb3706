"""`ms.matrix_powers`: v_0 .. v_p of a recurrence with a sparse matrix, which is read less often than p times."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np

from .. import settings
from ..backends import select
from ..backends.select import ReferenceBackend
from ..errors import UnsupportedProblem
from ..families.powers import emit, spec
from ..plan import pin
from ..sparse.convert import Source, library, tensor
from ..tune import sparse_records
from . import arrays, powers_basis, powers_choice, powers_matrix
from .powers_run import LIMIT, Passes, Plain, Products, Ranges, Runner
from .powers_task import Options, Task

BUDGET = 8 << 20  # bytes of a level that need not be narrower


def matrix_powers(
    A: Any,
    p: int,
    basis: Any = "monomial",
    *,
    execution: str | None = None,
    output: Any = "all",
    columns: int = 1,
    dtype: str | None = None,
    index: str | None = None,
    values: str | None = None,
    order: str = "auto",
    threads: int | None = None,
    graph: bool = True,
    limit: float = LIMIT,
    backend: str | None = None,
) -> Powers:
    """A plan for powers of a square sparse matrix: `P(x)` is the array [v_0, v_1, ..., v_p] with v_0 = x.

    Parameters
    ----------
    A : matrix of scipy.sparse, cupyx.scipy.sparse, torch (CSR, COO) or `ms.sparse.matrix`
    p : products with A
    basis : "monomial" (v_k = A^k x), ("newton", shifts) (conjugate pairs of shifts behind each other stay real),
        ("chebyshev", low, high), or (alphas, betas, gammas) of v_(k+1) = (alpha_k A + beta_k I) v_k + gamma_k v_(k-1)
    execution : "plain" (p products), "groups" (level by level; on GPUs a launch each, as a CUDA graph), "persistent"
        (GPUs: one launch), or None: what should be fastest
    output : "all", "last" (v_p alone), or ("combination", c): the sum of c[k] v_k, one for every row of c
    columns : vectors side by side: x is (n,) for 1, else (n, columns)
    dtype : of the vectors, A's unless coefficients are complex
    index, values : how A is stored, as for `ms.sparse.matrix`
    order : "auto", "given" or "search": whether rows may be reordered; "none": and no levels looked for
    threads : of CPUs
    limit : seconds after which blocks of a persistent launch give up waiting, which the next call raises

    >>> import numpy as np, scipy.sparse
    >>> P = matrix_powers(scipy.sparse.diags_array([1.0, 2.0, 3.0]), 2)
    >>> P(np.ones(3))
    array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 4., 9.]])
    """
    if execution not in (None, *powers_choice.EXECUTIONS):
        raise ValueError(f"execution={execution!r} is not one of {', '.join(map(repr, powers_choice.EXECUTIONS))}")
    if order not in ("auto", "given", "search", "none"):
        raise ValueError(f"order={order!r} is not one of 'auto', 'given', 'search', 'none'")
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise ValueError(f"columns={columns!r} is no positive number of vectors")
    p = powers_basis.count(p)
    task = Task(p, powers_basis.coefficients(basis, p), *powers_basis.wanted(output, p), columns)
    source = powers_matrix.read(A)
    task.settle_dtype(source.rows.values_dtype, dtype)
    where = select.select(source.device, backend)
    lazy = order if execution != "plain" and p > 1 and not isinstance(where, ReferenceBackend) else "none"
    in_order = cache(lambda how: powers_matrix.ordered(source, how, BUDGET, index, values))

    def make(how: str | None) -> Powers:
        return planned(task, source, where, Options(how, threads, graph, limit), in_order, lazy)

    if execution is None and order == "auto" and sparse_records.recall(where.device, source.rows, f"powers {p}"):
        from ..sparse import tuning

        return tuning.as_tuned(make, source.rows, p, where.device)
    return make(execution)


def planned(
    task: Task, source: Source, where: Any, options: Options, in_order: Callable[[str], Any], order: str
) -> Powers:
    """The plan for a matrix in this order; its rows stay where they are if products run plainly all the same."""
    made = Powers(task, in_order(order), source, where, options)
    if options.execution is None and order == "auto" and made.is_permuted_in_vain:
        made = Powers(task, in_order("none"), source, where, options)
    return made


class Powers:
    """What `matrix_powers` returns. It can be used from several streams, not from several threads at once."""

    def __init__(self, task: Task, ordered: Any, source: Source, backend: Any, options: Options) -> None:
        self._task, self._ordered, self._source, self._backend, self._options = task, ordered, source, backend, options
        self.shape, self.n = task.shape(source.rows.shape[0]), source.rows.shape[0]
        self.device, self.dtype = source.device, np.dtype(task.dtype)
        self.problem = self._problem()
        empty = self.problem.P == 0 or self.n == 0
        self._runner: Runner | None = None if empty or isinstance(backend, ReferenceBackend) else self._make()

    @property
    def is_permuted_in_vain(self) -> bool:
        """Whether products run plainly all the same: rows might have stayed where they were."""
        levels = self._ordered.levels
        return self._runner is not None and self.choice.execution == "plain" and levels is not None and not levels.kept

    def _problem(self) -> Any:
        task, sell = self._task, self._ordered.sell
        coefficients = task.coefficients
        return spec.problem(
            task.dtype, self.n, sell.nnz, task.p, values=sell.values_dtype, index=sell.index, C=sell.C,
            NVECS=task.columns, shifted=bool(np.any(coefficients[:, 1])),
            three_term=bool(np.any(coefficients[:, 2])), output=task.output,
            sets=1 if task.weights is None or task.weights.ndim == 1 else len(task.weights),
            ragged=sell.lengths is not None,
        )  # fmt: skip

    def _make(self) -> Runner:
        refusal = spec.refusal(self.problem)
        if refusal:
            raise UnsupportedProblem(refusal)
        device, options = self._backend.device, self._options
        threads = options.threads or settings.current().threads
        self.choice = powers_choice.choose(self.problem, self._ordered, device, options.execution, threads)
        arguments = (self.problem, self._ordered, self.choice, self._backend, self._task.packed())
        if self.choice.execution == "persistent":
            return Passes(*arguments, limit=options.limit)
        if device.backend == "cpu":
            return Ranges(*arguments, threads=threads)
        if self.choice.execution != "plain" or pin.pins() or not Plain.serves(self.problem):
            return Products(*arguments, graph=options.graph)
        runner = Plain(*arguments)
        self.choice = runner.choice
        return runner

    # ---- calls ----------------------------------------------------------------------------------------------

    def __call__(self, x: Any, out: Any = None) -> Any:
        """The powers of x, in the order of A's rows."""
        return self._run(x, out, self._ordered.permutation is not None)

    def permuted(self, x: Any, out: Any = None) -> Any:
        """The same with x and the result in the order that the matrix is stored in: entry i is row `permutation[i]`."""
        return self._run(x, out, False)

    @property
    def permutation(self) -> Any:
        """Row i of the stored matrix is row permutation[i] of A: int32, where A is."""
        order = self._ordered.permutation
        return self._ordered.xp.arange(self.n, dtype=np.int32) if order is None else order

    def _run(self, x: Any, out: Any, reordered: bool) -> Any:
        kind = arrays.kind_of(x, "x")
        if kind.name == "JAX":
            return kind.wrap(self._run(kind.unwrap(x), out, reordered))
        x = self._checked(kind, x)
        if out is None:
            out = kind.empty(self.shape, self._task.dtype, x)
        else:
            self._check_out(kind, x, out)
        if self._runner is None:
            return self._library(x, out)
        stream = kind.stream(self.device[1])
        if reordered:
            self._reordered(kind.address(x), kind.address(out), stream)
        else:
            self._direct(kind.address(x), kind.address(out), stream, lambda: _copy(x, out))
        return self._first(x, out) if reordered else out

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
        view = kind.view(x)
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
        view, own = kind.view(out), kind.view(x)
        if kind is not arrays.kind_of(out, "out") or view.device != self.device or view.dtype != self._task.dtype:
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
        data = xp.asarray(data)
        if data.shape != (rows.nnz,):
            raise ValueError(f"data has shape {data.shape}, the pattern {rows.nnz} entries")
        if not np.can_cast(str(data.dtype), rows.values_dtype, "same_kind"):
            raise TypeError(f"data has dtype {data.dtype} and A {rows.values_dtype}: convert it first")
        data = data.astype(rows.values_dtype)
        source = Source(type(rows)(rows.shape, rows.indptr, rows.indices, data), xp, self._source.device)
        return Powers(self._task, self._ordered.with_values(data), source, self._backend, self._options)

    def check(self) -> None:
        """Waits for the calls made so far, and raises if one of them gave up waiting."""
        if isinstance(self._runner, Passes):
            self._runner.settled()
            self._runner.check()

    def explain(self) -> str:
        """What runs and why: levels, groups, configuration, prediction."""
        sell, levels = self._ordered.sell, self._ordered.levels
        stored = float(sell.widths.sum()) * sell.C / max(1, sell.nnz)
        size = f"{sell.buffer.size / 1e6:.4g} MB as sell-{sell.C}, {stored:.3g} entries per entry"
        lines = [str(self.problem), f"stored: {size}"]
        if levels is not None:
            lines.append(f"levels: {levels.count}, the widest has {levels.widest} rows; from {levels.found}")
        if self._runner is None:
            return "\n".join([*lines, "execution: the array library's own products (nothing to do, or no compiler)"])
        choice = self.choice
        lines.append(f"execution: {choice.execution} ({choice.reason})")
        for config in choice.passes or (choice.config,):
            lines.append(f"  {config}")
        if choice.ranges is not None and len(choice.ranges) > 2:
            lines.append(f"groups: {len(choice.ranges) - 1}, each power {choice.lag} behind the one before")
        lines += [f"predicted: {name} {seconds * 1e6:.4g} us" for name, seconds in choice.seconds]
        return "\n".join(lines)

    def __repr__(self) -> str:
        what = "nothing" if self._runner is None else self.choice.execution
        return f"<Powers p={self._task.p} of {self.n} x {self.n} {self.dtype}, {what}>"


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
