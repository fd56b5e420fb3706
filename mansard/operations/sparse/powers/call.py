"""`ms.matrix_powers`: v_0 .. v_p of a recurrence with a sparse matrix, which is read less often than p times."""

from __future__ import annotations

import statistics
from contextlib import suppress
from functools import partial
from typing import Any

from ....arrays.types import SparseMatrix
from ....backends.base import Backend
from ....backends.select import ReferenceBackend
from ....errors import MansardError
from ....machine.measure import measure
from ....plan import pin
from ....records import findings
from . import plan
from .order.ordered import Orders
from .run import Powers
from .task import LIMIT, Options, Task

_TRIALS = 3  # samples of each of two ways on a GPU
_TURNS = 5  # of both ways on a CPU


def matrix_powers(
    A: SparseMatrix,
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
    basis : "monomial" (v_k = A^k x), ("newton", shifts) (with real A, shifts come in adjacent conjugate pairs),
        ("chebyshev", low, high), or (alphas, betas, gammas) of v_(k+1) = (alpha_k A + beta_k I) v_k + gamma_k v_(k-1)
    execution : "plain": p products, one after the other. "groups": rows are grouped by breadth-first levels, and all
        powers of a group are computed while it is in the cache (on GPUs a launch per group, as one CUDA graph).
        "persistent": the same in one launch (GPUs). None takes what the model or a record says is fastest
    output : "all", "last" (v_p alone), or ("combination", c): the sum of c[k] v_k, one for every row of c
    columns : vectors side by side: x is (n,) for 1, else (n, columns)
    dtype : of the vectors, A's unless coefficients are complex
    index, values : how A is stored, as for `ms.sparse.matrix`
    order : "auto", "given" or "search": whether rows may be reordered; "none": neither reordered nor grouped
    threads : threads of a CPU
    limit : seconds after which blocks of a persistent launch stop waiting for each other; the next call raises

    Returns
    -------
    A plan P. `P(x)` is an array (p + 1, n), or (p + 1, n, columns), of x's library and device; `P(x, out)` writes it.
    Every execution gives the same bits. p products read A p times; a blocked execution reads it fewer times.
    A matrix that is not square raises ValueError.

    Cost: 2 p nnz flops per vector, 8 p nnz for complex numbers. Plain execution moves the stored values and column
    indices of A p times, and every v_k two or three times. Blocked execution moves A about once where p levels of
    it fit the cache; `P.explain()` has the bytes of this matrix.

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> P = ms.matrix_powers(scipy.sparse.diags_array([1.0, 2.0, 3.0]), 2)
    >>> P(np.ones(3))
    array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 4., 9.]])
    """
    if execution not in (None, *plan.EXECUTIONS):
        raise ValueError(f"execution={execution!r} is not one of {', '.join(map(repr, plan.EXECUTIONS))}")
    if order not in ("auto", "given", "search", "none"):
        raise ValueError(f"order={order!r} is not one of 'auto', 'given', 'search', 'none'")
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise ValueError(f"columns={columns!r} is no positive number of vectors")
    task = Task(p, basis, output, columns)
    orders = Orders(A, backend, index, values)
    task.settle_dtype(orders.source.rows.values_dtype, dtype)
    options = Options(execution, threads, graph, limit)
    if execution is None and order == "auto":
        found = findings.recall(orders.backend.device, orders.source.rows, f"powers {task.p}")
        if found:
            with suppress(MansardError, ValueError):  # remembered by another version, whose parameters are no more
                return as_found(task, orders, options, found)
    return planned(task, orders, options, _useful(order, task, options))


def _useful(order: str, task: Task, options: Options) -> str:
    """No order where products run one after the other: these need none."""
    return "none" if options.execution == "plain" or task.p < 2 else order


def as_found(task: Task, orders: Orders, options: Options, found: dict[str, Any]) -> Powers:
    """The plan with the parameters of a finding: an execution, the budget of level groups, and what is pinned."""
    pins = dict(found)
    options = options._replace(execution=pins.pop("execution", None), budget=pins.pop("budget", None))
    with pin.pin(**pins):
        return planned(task, orders, options, _useful("auto", task, options))


def planned(task: Task, orders: Orders, options: Options, order: str) -> Powers:
    """A plan for the matrix in this order: by the one route that was chosen, or by the faster of two."""
    source, backend = orders.source, orders.backend
    if isinstance(backend, ReferenceBackend) or not task.p or not source.rows.shape[0]:
        return Powers(task, source, backend, options, None, orders.by_level("none"))
    made = [
        Powers(task, source, backend, options, choice, ordered or orders.held())
        for choice, ordered in plan.routes(task, orders, options, order)
    ]
    return made[0] if len(made) == 1 else _faster(made[0], made[1], backend)


def _faster(one: Powers, other: Powers, backend: Backend) -> Powers:
    """The one that takes less time with a vector of ones; the second where there is no room to try.

    On CPUs both take turns, and the first must be faster by more than noise, call by call: threads that wait for each
    other have good moments that do not last.
    """
    xp = one._source.xp
    try:
        x, out = xp.ones(one.n, one.dtype), xp.empty(one.shape, one.dtype)
        runs = [partial(each, x, out) for each in (one, other)]
        if backend.name == "cpu":
            turns = [[measure(run, backend, repeats=1, warmup=1).best for run in runs] for _ in range(_TURNS)]
            return one if statistics.median(first / second for first, second in turns) * plan.GAIN < 1 else other
        seconds = [measure(run, backend, repeats=_TRIALS).best for run in runs]
    except MemoryError:
        return other
    return other if seconds[0] > seconds[1] else one
