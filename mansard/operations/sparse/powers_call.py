"""`ms.matrix_powers`: v_0 .. v_p of a recurrence with a sparse matrix, which is read less often than p times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ...backends import select
from ...backends.select import ReferenceBackend
from ...machine.measure import measure
from ...records import findings
from . import convert, powers_basis, powers_choice, powers_matrix
from .convert import Source
from .operand import Held
from .powers_choice import Choice
from .powers_plain import Plain
from .powers_plan import Powers
from .powers_run import LIMIT
from .powers_task import Options, Task


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
    budget = powers_choice.level_budget(where.device)
    in_order = cache(lambda how: powers_matrix.ordered(source, how, budget, index, values, where.device))
    kept = cache(lambda: powers_matrix.kept(source, index, values, backend))

    def make(how: str | None) -> Powers:
        return planned(task, source, where, Options(how, threads, graph, limit), in_order, kept, lazy)

    if execution is None and order == "auto" and findings.recall(where.device, source.rows, f"powers {p}"):
        from ...sparse import tuning

        return tuning.as_tuned(make, source.rows, p, where.device)
    return make(execution)


def planned(
    task: Task, source: Source, where: Any, options: Options, in_order: Callable[[str], Any], kept: Callable[[], Held],
    order: str,
) -> Powers:  # fmt: skip
    """The plan for a matrix in this order, or, where products run plainly, as it is `kept` for these. Reordered rows
    may speed up products too (H200, delaunay: 1.9 times), so that large matrices are tried both ways."""
    asked, library = options.execution, isinstance(where, ReferenceBackend)
    serves = not library and source.rows.shape[0] > 0 and task.p > 0 and Plain.serves(task, source.rows.nnz)

    def plainly(choice: Choice) -> Powers:
        return Powers(task, None, source, where, options, kept(), choice)

    if serves and order == "none" and (asked == "plain" or task.p < 2):
        return plainly(Choice("plain", "asked for" if asked else "one power is one product", None))
    if serves and asked is None and convert.is_skewed(source.rows, source.xp):
        return plainly(Choice("plain", "a few rows are so long that no order blocks the matrix", None))
    made = Powers(task, in_order(order), source, where, options)
    if asked is not None or library or not made.is_running:
        return made
    plain = made.choice.execution == "plain"
    if plain and order == "auto" and made.is_permuted:  # in vain; rows as they are may be read less often
        given = Powers(task, in_order("none"), source, where, options)
        if not serves or given.choice.execution != "plain":
            return given
    if not serves:
        return made
    if plain and (order in ("none", "given") or not made.is_permuted):
        return plainly(made.choice)
    tried = source.rows.nnz >= _MEASURED and (where.name == "cpu" or (plain and where.name == "cuda"))
    if order == "auto" and tried:
        return _faster(made, plainly(made.choice if plain else _INSTEAD), where)
    return plainly(made.choice) if plain and order == "auto" else made


_MEASURED = 1 << 18  # entries, from which both ways are tried
_INSTEAD = Choice("plain", "measured: faster than groups of rows", None)


def _faster(one: Powers, other: Powers, backend: Any) -> Powers:
    """The one that takes less time with a vector of ones; the second where there is no room to try."""
    xp = one._source.xp
    try:
        x, out = xp.ones(one.n, one.dtype), xp.empty(one.shape, one.dtype)
        seconds = [measure(partial(plan, x, out), backend, repeats=_TRIALS).best for plan in (one, other)]
    except MemoryError:
        return other
    if seconds[0] > seconds[1]:
        return other
    if one.choice.execution == "plain":
        one.choice = replace(one.choice, reason=f"{one.choice.reason}; rows by level, measured: faster all the same")
    return one


_TRIALS = 3
