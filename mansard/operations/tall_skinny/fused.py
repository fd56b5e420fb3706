"""Passes over tall blocks that end with the Gram matrix of what they wrote: `matmul_gram` and `project`.

`multiplied` is the only place that says how such a pass is made: by the kernel that forms both at once, or by a product
and a `gram` of its result where that kernel does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Call, Kind
from ...backends.select import select
from ...errors import UnsupportedProblem
from ...plan.handover import FEWEST_ON_CPUS
from ...plan.problem import DTYPES, ITEMSIZE, Options
from .. import run as call
from .. import warm
from .gram import gram
from .matmul import matmul
from .matmul_gram_call import plan_matmul_gram


def matmul_gram(
    V: Array, S: Array, *, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0, backend: str | None = None
) -> tuple[Array, Array]:
    """W = alpha V S + beta out and its Gram matrix W^H W.

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
    what = ("matmul_gram", backend) if alpha == 1.0 and beta == 0.0 else None
    found = None if what is None else _recalled(what, V, S, out)
    if found is not None:
        return found
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
    run = partial(_product_and_gram, backend)
    if what is not None and _keep(what, kind, views, (V, S), out, "V", run):
        return run(V, S, out)
    return multiplied(V, S, out, None, alpha, beta, backend)


def project(V: Array, W: Array, *, out: Array = None, backend: str | None = None) -> tuple[Array, Array]:
    """W' = W - V (V^H W) and its Gram matrix W'^H W': what is left of W beside the orthonormal columns of V.

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
    what = ("project", backend)
    found = _recalled(what, V, W, out)
    if found is not None:
        return found
    given = {"V": V, "W": W} | ({} if out is None else {"out": out})
    kind, views = checked(given)
    if kind.immutable:
        return through_jax(kind, project, given, dict(backend=backend))
    check_same_rows(views, "V", "W")
    check_out(views, views["W"].shape, may_be="W", apart=("V",))
    run = partial(_projection, kind, backend)
    if _keep(what, kind, views, (V, W), out, "W", run):
        return run(V, W, out)
    rest, _, G = projected(V, W, out, backend)
    return rest, G


# ---- later calls on CPUs, where no kernel does both --------------------------------------------------------


def _recalled(what: Hashable, first: Array, second: Array, out: Array) -> tuple[Array, Array] | None:
    """The results, where a call on arrays like these was checked before."""
    run = warm.recall(what, (first, second), out)
    found: tuple[Array, Array] | None = None if run is None else run(first, second, out)
    return found


def _keep(
    what: tuple[str, str | None], kind: Kind, views: dict[str, View], given: tuple[Array, Array], out: Array,
    may_be: str, run: Callable[[Array, Array, Array], tuple[Array, Array]],
) -> bool:  # fmt: skip
    """Leave `run` for later calls on arrays of a CPU like these, where it is not called if `out` overlaps an operand
    that it may not be. Whether it answers this call, too, which gives the same bits every time."""
    place = views.get("out")
    if views["V"].device[0] != "cpu" or select(views["V"].device, what[1]).name == "emulated":
        return False
    if place is None:
        warm.keep(what, given, out, run)
        return True
    one, other = (views[name] for name in views if name != "out")
    same = (views[may_be].shape, views[may_be].strides) == (place.shape, place.strides)
    operands = (one, other) if may_be == "V" else (other, one)  # the first of them may be `out`
    overlap, address, turned = call.make_overlap(*operands, place, same), kind.address, may_be != "V"

    def apart(first: Array, second: Array, out: Array) -> tuple[Array, Array] | None:
        at = (address(second), address(first)) if turned else (address(first), address(second))
        return None if overlap(*at, address(out)) else run(first, second, out)

    warm.keep(what, given, out, apart)
    return True


def _product_and_gram(backend: str | None, V: Array, S: Array, out: Array) -> tuple[Array, Array]:
    W = matmul(V, S, out=out, backend=backend)
    return W, gram(W, backend=backend)


def _projection(kind: Kind, backend: str | None, V: Array, W: Array, out: Array) -> tuple[Array, Array]:
    C = gram(V, W, backend=backend)
    if out is None:
        out = kind.empty(W.shape, kind.view(W, "W").dtype, W)
    if W.shape[0] < FEWEST_ON_CPUS:  # a library multiplies, and adds in passes of its own: one of them is enough
        kind.module.subtract(W, matmul(V, C, backend=backend), out=out)
        return out, gram(out, backend=backend)
    if out is not W:
        out[...] = W
    rest = matmul(V, C, out=out, alpha=-1.0, beta=1.0, backend=backend)
    return rest, gram(rest, backend=backend)


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


def projected(V: Array, W: Array, out: Array, backend: str | None) -> tuple[Array, Array, Array]:
    """W' = W - V C, C = V^H W, and W'^H W'."""
    C = gram(V, W, backend=backend)
    rest, G = multiplied(V, C, out, W, -1.0, 1.0, backend)
    return rest, C, G


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
