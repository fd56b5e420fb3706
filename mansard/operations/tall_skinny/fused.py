"""Passes over tall blocks that end with the Gram matrix of what they wrote: `matmul_gram` and `project`.

`multiplied` is the only place that says how such a pass is made: by the kernel that forms both at once, or by a product
and a `gram` of its result where that kernel does not fit.
"""

from __future__ import annotations

from collections.abc import Callable

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Call, Kind
from ...errors import UnsupportedProblem
from ...plan.problem import DTYPES, ITEMSIZE, Options
from .. import run as call
from .. import warm
from .fused_runs import keep, named, product_run, projection_run
from .gram import gram
from .matmul import matmul
from .matmul_gram_call import plan_matmul_gram


def matmul_gram(
    V: Array, S: Array, *, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0, backend: str | None = None
) -> tuple[Array, Array]:
    """W = alpha V S + beta out and its Gram matrix W^H W.

    One pass reads V and writes W where a kernel covers the shape; elsewhere `gram` reads W once more
    (`ms.plan(...).explain()` says which). NaN and infinity propagate.

    Parameters
    ----------
    V : (K, M) array
    S : (M, N) array of the same kind, dtype and device
    out : (K, N) array that receives W; it may be V if S is square
    backend : as for `matmul`

    Returns
    -------
    W, (K, N), and W^H W, (N, N): arrays of the same kind, on the same device; W is `out` if it was given.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> W, G = ms.matmul_gram(np.eye(3, 2), np.array([[1.0, 1.0], [0.0, 2.0]]))
    >>> G
    array([[1., 1.],
           [1., 5.]])
    """
    what = named("matmul_gram", backend, out, V)
    known = warm.recall(what, (V, S), out) if beta == 0.0 or out is not None else None
    if known is not None and (found := known(V, S, out, alpha, beta)) is not None:
        return found  # type: ignore[no-any-return]  # what `keep` left
    given = {"V": V, "S": S} | ({} if out is None else {"out": out})
    kind, views = checked(given)
    if kind.immutable:
        return through_jax(kind, matmul_gram, given, dict(alpha=alpha, beta=beta, backend=backend))
    v, s = views["V"], views["S"]
    if v.shape[1] != s.shape[0]:
        raise ValueError(f"V has {v.shape[1]} columns and S {s.shape[0]} rows: both need the same number")
    if out is None and beta != 0.0:
        raise ValueError("beta scales the content of out: pass out")
    check_out(views, (v.shape[0], s.shape[1]), may_be="V", apart=("S",))
    run = product_run(V, S, out, backend)
    keep(what, kind, (V, S), out, run)
    return run(V, S, out, alpha, beta)


def project(V: Array, W: Array, *, out: Array = None, backend: str | None = None) -> tuple[Array, Array]:
    """W' = W - V (V^H W) and its Gram matrix W'^H W': the part of W that is orthogonal to the columns of V.

    `gram(V, W)` is the first pass. The second one subtracts, and forms the Gram matrix of what it writes where a kernel
    covers the shape. The columns of V must be orthonormal, which is not checked. NaN and infinity propagate.

    Parameters
    ----------
    V : (K, M) array with orthonormal columns
    W : (K, N) array of the same kind, dtype and device
    out : (K, N) array that receives W'; it may be W
    backend : as for `matmul`

    Returns
    -------
    W', (K, N), and W'^H W', (N, N): arrays of the same kind, on the same device; W' is `out` if it was given.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> rest, G = ms.project(np.eye(3, 1), np.ones((3, 2)))
    >>> rest.T
    array([[0., 1., 1.],
           [0., 1., 1.]])
    """
    what = named("project", backend, out, W)
    known = warm.recall(what, (V, W), out)
    if known is not None and (found := known(V, W, out, -1.0, 1.0)) is not None:
        return found  # type: ignore[no-any-return]  # what `keep` left
    given = {"V": V, "W": W} | ({} if out is None else {"out": out})
    kind, views = checked(given)
    if kind.immutable:
        return through_jax(kind, project, given, dict(backend=backend))
    check_same_rows(views, "V", "W")
    check_out(views, views["W"].shape, may_be="W", apart=("V",))
    run = projection_run(V, W, out, backend)
    keep(what, kind, (V, W), out, run, replaced=1)
    return run(V, W, out, -1.0, 1.0)


def multiplied(
    V: Array, S: Array, out: Array, base: Array, alpha: complex, beta: complex, backend: str | None
) -> tuple[Array, Array]:  # fmt: skip
    """W = alpha V S + beta base, and W^H W: by one kernel where there is one, else a product and its `gram`. Without a
    base, beta multiplies what `out` holds."""
    run = plan_matmul_gram(V, S, out, base, backend)
    if run is not None:
        return run(V, S, out, base, alpha, beta)
    if base is not None and base is not out:
        kind = arrays.kind_of(V, "V")
        out = kind.empty(tuple(base.shape), kind.view(V, "V").dtype, V) if out is None else out
        out[...] = base
    W = matmul(V, S, out=out, alpha=alpha, beta=beta, backend=backend)
    return W, gram(W, backend=backend)


def checked(given: dict[str, Array]) -> tuple[Kind, dict[str, View]]:
    """The kind of all arguments and their views: matrices of one supported dtype on one device."""
    kind = arrays.common_kind(list(given.items()))
    if kind.immutable:
        return kind, {}
    views = {name: kind.view(array, name) for name, array in given.items()}
    first, dtype = next((name, view.dtype) for name, view in views.items())
    for name, view in views.items():
        if len(view.shape) != 2:
            raise ValueError(f"{name} has shape {view.shape}: a matrix (two dimensions) is needed")
        if view.dtype not in DTYPES:
            raise UnsupportedProblem(
                f"{name} has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first"
            )
        if view.dtype != dtype:
            raise TypeError(f"{first} has dtype {dtype} and {name} {view.dtype}: convert one of them")
    arrays.same_device(list(views.items()))
    return kind, views


def check_same_rows(views: dict[str, View], first: str, second: str) -> None:
    rows, others = views[first].shape[0], views[second].shape[0]
    if rows != others:
        raise ValueError(f"{first} has {rows} rows and {second} {others}: both need the same number")


def check_out(views: dict[str, View], shape: tuple[int, ...], may_be: str, apart: tuple[str, ...] = ()) -> None:
    """The result's shape, writable, and either exactly in the place of `may_be` or away from every operand."""
    out = views.get("out")
    if out is None:
        return
    call.check_out(out, (shape[0], shape[1]))
    low, high = arrays.extent(out, ITEMSIZE[out.dtype])
    for name in (may_be, *apart):
        view = views[name]
        if name == may_be and (out.address, out.shape, out.strides) == (view.address, view.shape, view.strides):
            continue
        first, last = arrays.extent(view, ITEMSIZE[view.dtype])
        if first < high and low < last:
            raise ValueError(f"out overlaps {name}: the result needs memory of its own")


def through_jax(
    kind: Kind, function: Callable[..., tuple[Array, ...]], given: dict[str, Array], options: Options
) -> tuple[Array, ...]:  # fmt: skip
    """The same call on what is inside JAX arrays; results are JAX arrays again, masks of columns stay NumPy's. Operands
    that answer calls themselves do so."""
    if kind.answer is not None:
        run = lambda given, options: function(**given, **options)  # noqa: E731
        found: tuple[Array, ...] = kind.answer(Call(function.__name__, given, options, run))
        return found
    if "out" in given:
        raise TypeError("out is a JAX array, which cannot be written to: leave it out and use the result")
    results = function(**{name: kind.unwrap(array, name) for name, array in given.items()}, **options)
    return tuple(result if result.dtype == bool else kind.wrap(result) for result in results)
