"""From a stored sparse matrix and vectors to a plan: validation, the problem, and what is launched."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.kinds import View
from ...arrays.types import Array, Kind
from ...backends.base import Backend
from ...backends.select import select
from ...codegen.geometry import Kernel
from ...errors import UnsupportedProblem
from ...kernels.sparse import spmv
from ...plan import dispatch, pin
from ...plan.plan import Plan
from ...plan.problem import DTYPES, ITEMSIZE, Options, Problem
from ...plan.route import OWN_ROUTINE, Choice, Library, Request
from .. import direct
from .. import run as call
from ..launcher import LAUNCHER
from .operand import Held, layout
from .spmv_run import ProductRun

SLICE = spmv.spec.MOST_VECTORS


class Form(NamedTuple):
    """What is computed beside the matrix: with its conjugate, as a recurrence (alpha A x + beta x + gamma z)."""

    conj: bool = False
    recurrence: bool = False


_PLAIN = Form()


class Vectors(NamedTuple):
    """A vector, or a block of them (n, columns), as kernels see it."""

    view: View
    columns: int
    pitch: int  # between rows
    ready: bool  # rows are adjacent or a pitch apart, each without gaps; else a copy is


def apply(
    kind: Kind, held: Held, x: Array, out: Array = None, alpha: complex = 1.0, beta: complex = 0.0, z: Array = None,
    gamma: complex = 0.0, backend: str | None = None, form: Form = _PLAIN,
) -> Array:  # fmt: skip
    """alpha A x + beta out, or alpha A x + beta x + gamma z, by a plan made before where there is one; `kind` is the
    library of x."""
    if kind.immutable:
        return _through_jax(kind, held, x, out, (alpha, beta), z, gamma, backend, form)
    signature = kind.signature
    for one in (out, z):
        if one is not None and type(one) is not type(x):
            arrays.common_kind([("x", x), ("z" if one is z else "out", one)])
    of_out, of_z = None if out is None else signature(out), None if z is None else signature(z)
    key = (kind, signature(x), of_out, of_z, backend, form, z is not None and z is out)
    run = held.plans.get(key)
    if run is None or pin.pins():
        shape, common = kind.view(x, "x").shape, _promoted(held, kind, x)
        if common is not None:
            run = _converting(kind, held, common, backend, form)
            held.plans.keep(key, run)
            return run(x, None, out, alpha, beta, z, gamma)
        if len(shape) == 2 and shape[1] > SLICE:
            return _in_slices(held, kind, x, out, alpha, beta, z, gamma, backend, form)
        planned = plan_product(held, x, out, z, backend, form).run
        run = planned.bound() if isinstance(planned, ProductRun) else planned
        held.plans.keep(key, run)
    return run(x, None, out, alpha, beta, z, gamma)


def bind(kind: Kind, held: Held, x: Array, backend: str | None, form: Form) -> object:
    """A native path of products with arrays like x, which `LAUNCHER.module.again` takes; None where there is none. It
    does not keep the matrix alive."""
    run, module = held.plans.get((kind, kind.signature(x), None, None, backend, form, False)), LAUNCHER.module
    found = None if run is None or module is None or pin.pins() else direct.description(run)
    told = None if found is None else direct.told(found, _left_to_python)
    return None if told is None or module is None else module.bind(told, x)


def _left_to_python(*given: object) -> None:
    """Stands for the general path, which `again` leaves to its caller."""


def launcher(
    kind: Kind, held: Held, x: Array, out: Array, backend: str | None, form: Form
) -> Callable[[int, int, int], None] | None:  # fmt: skip
    """A function of the addresses of vectors like x and `out`, and of a stream, that launches `out` = A x; None where a
    product is more than one launch, or the array library's."""
    key = (kind, kind.signature(x), kind.signature(out), None, backend, form, False)  # as `apply` asks
    run = held.plans.made(key, lambda: plan_product(held, x, out, None, backend, form).run)
    return run.launcher() if isinstance(run, ProductRun) else None


def _through_jax(
    kind: Kind, held: Held, x: Array, out: Array, factors: tuple[complex, complex], z: Array, gamma: complex,
    backend: str | None, form: Form,
) -> Array:  # fmt: skip
    """The product of JAX arrays, on views of their buffers."""
    if out is not None:
        raise TypeError("out is a JAX array, which cannot be written to: leave it out and use the result")
    values = held.storage.values_dtype  # JAX's rules are not NumPy's: without x64, there is no double precision
    given = [None if one is None else kind.promoted(one, values) for one in (x, z)]
    x, z = (None if one is None else kind.unwrap(one, name) for one, name in zip(given, ("x", "z"), strict=True))
    inner = arrays.kind_of(x, "x")
    _check_dtypes(held, inner.view(x, "x"))
    return kind.wrap(apply(inner, held, x, None, *factors, z, gamma, backend, form))


def _promoted(held: Held, kind: Kind, x: Array) -> str | None:
    """The dtype that NumPy's rules give a product whose vectors are integers, or narrower than the matrix; None if x
    has it already, if it is no dtype of ours, and where the array library does not promote."""
    if not kind.promotes:
        return None
    given, values = x.dtype.name, held.storage.values_dtype
    if x.dtype.kind not in "iub" and (given not in DTYPES or spmv.spec.narrows(values, given)):
        return None
    return str(np.result_type(given, values))


def _converting(kind: Kind, held: Held, dtype: str, backend: str | None, form: Form) -> Callable[..., Array]:
    """A run that converts x and z before the product."""

    def run(
        x: Array, _: None, out: Array, alpha: complex, beta: complex, z: Array = None, gamma: complex = 0.0
    ) -> Array:  # fmt: skip
        x = kind.astype(x, dtype)
        z = None if z is None else kind.astype(z, dtype)
        return apply(kind, held, x, out, alpha, beta, z, gamma, backend, form)

    return run


def _in_slices(
    held: Held, kind: Kind, x: Array, out: Array, alpha: complex, beta: complex, z: Array, gamma: complex,
    backend: str | None, form: Form,
) -> Array:  # fmt: skip
    """So many columns at a time as one kernel takes; slices are views."""
    view = vectors_of(kind, x, "x", held.storage.shape[1], "columns").view
    if out is None:
        if beta != 0.0 and not form.recurrence:
            raise ValueError("beta scales the content of out: pass out")
        out = kind.empty((held.storage.shape[0], view.shape[1]), view.dtype, x)
    else:
        check_out(kind, out, held.storage.shape[0], x)
    for first in range(0, view.shape[1], SLICE):
        part = slice(first, first + SLICE)
        apply(
            kind, held, x[:, part], out[:, part], alpha, beta, None if z is None else z[:, part], gamma, backend, form
        )  # fmt: skip
    return out


def plan_product(
    held: Held, x: Array, out: Array = None, z: Array = None, backend: str | None = None, form: Form = _PLAIN
) -> Plan:
    """A plan of A x. Nothing is written before every argument has been checked."""
    kind = arrays.common_kind([("x", x), *((name, one) for name, one in (("out", out), ("z", z)) if one is not None)])
    rows, cols = held.storage.shape
    if form.recurrence and rows != cols:
        raise ValueError(f"A is {rows} x {cols}: a recurrence needs a square matrix")
    X = vectors_of(kind, x, "x", cols, "columns")
    _check_dtypes(held, X.view)
    _check_device(held, X.view)
    Y = None if out is None else check_out(kind, out, rows, x)
    Z = None if z is None else vectors_of(kind, z, "z", rows, "rows")
    if Z is not None and (Z.view.shape != X.view.shape or Z.view.dtype != X.view.dtype):
        raise ValueError(f"z is {Z.view.dtype} {Z.view.shape} and x {X.view.dtype} {X.view.shape}: they must agree")
    arrays.same_device([("x", X.view), ("z", (Z or X).view)])
    chosen = select(X.view.device, backend)
    problem = _problem(held, X, Y, Z, form)
    pitches = tuple(X.columns if one is None or not one.ready else one.pitch for one in (X, Y, Z))
    launch, choice, kernel = prepared(held, problem, chosen, pitches, backend is None and library_wins(problem, chosen))
    run = ProductRun(kind, problem, chosen, held, launch, choice.config, (X, Y, Z), (*pitches, *layout(held.storage)))
    verify = call.make_verify(kind, x, None, out, ("x", "B"))
    return Plan(problem, choice, chosen, kernel, run, verify, launch)


def prepared(
    held: Held, problem: Problem, backend: Backend, pitches: tuple[int, ...], library: bool
) -> tuple[Any, Choice, Kernel | None]:
    """The launch (None: the array library answers), what was chosen and why, and the kernel. `library`: it is faster
    where nothing was measured."""
    prefer = _preferred(held, problem, backend)
    with pin.pin(**prefer) if prefer else nullcontext():
        choice = dispatch.decide(problem, Request.of(backend, "spmv"))
    if library and not prefer and choice.origin in ("rule", "model"):
        reason = "rows differ so much in length that cuSPARSE was faster (H200: 0.8 of our time)"
        choice = Choice(choice.family, Library(OWN_ROUTINE, reason), "rule")
    return call.prepare(spmv.emit, problem, backend, (*pitches, *layout(held.storage)), choice=choice)


def vectors_of(kind: Kind, array: Array, name: str, length: int, of_what: str) -> Vectors:
    """A vector (n,) or block of vectors (n, columns) as kernels see it."""
    view = kind.view(array, name)
    if len(view.shape) not in (1, 2):
        raise ValueError(f"{name} has shape {view.shape}: a vector (n,) or vectors side by side (n, k) are needed")
    if view.shape[0] != length:
        raise ValueError(f"{name} has {view.shape[0]} entries along its first dimension and A {length} {of_what}")
    columns = 1 if len(view.shape) == 1 else view.shape[1]
    row, column = (view.strides[0], 1) if len(view.shape) == 1 else view.strides
    dense = length <= 1 or row == 1 if columns == 1 else column == 1 and (length <= 1 or row >= columns)
    aligned = view.address % ITEMSIZE.get(view.dtype, 1) == 0
    ready = bool(dense and aligned and not view.conjugated)
    return Vectors(view, columns, row if ready and columns > 1 and length > 1 else columns, ready)


def check_out(kind: Kind, out: Array, rows: int, x: Array) -> Vectors:
    """The result's place: its shape and dtype, writable, apart from x."""
    given, like = kind.view(out, "out"), kind.view(x, "x")
    call.check_out(given, (rows, *like.shape[1:]))
    if given.dtype != like.dtype:
        raise TypeError(f"x has dtype {like.dtype} and out {given.dtype}: convert one of them")
    if given.device != like.device:
        raise ValueError(f"x is on {like.device[0]} and out on {given.device[0]}: move one of them")
    item = ITEMSIZE.get(like.dtype, 1)
    (low, high), (first, last) = arrays.extent(given, item), arrays.extent(like, item)
    if low < last and first < high and low < high and _interleaved(given, like, item) is False:
        raise ValueError("out overlaps x: the result needs memory of its own")
    return vectors_of(kind, out, "out", rows, "rows")


def _interleaved(one: View, other: View, item: int) -> bool:
    """Whether two blocks are different columns of one array."""
    if len(one.shape) != 2 or one.strides != other.strides or one.strides[1] != 1 or not one.strides[0]:
        return False
    apart = (other.address - one.address) // item % one.strides[0]
    return bool(one.shape[1] <= apart and apart + other.shape[1] <= one.strides[0])


def _check_dtypes(held: Held, x: View) -> None:
    if x.dtype not in DTYPES:
        raise UnsupportedProblem(f"x has dtype {x.dtype}; supported are {', '.join(DTYPES)}: convert it first")
    values = held.storage.values_dtype
    if not spmv.spec.narrows(values, x.dtype):
        raise TypeError(
            f"A holds {values} and x {x.dtype}, which is narrower: convert x, or store A with values={x.dtype!r}"
        )


def _check_device(held: Held, x: View) -> None:
    if x.device != held.device:
        here, there = ":".join(map(str, held.device)), ":".join(map(str, x.device))
        raise ValueError(f"A is on {here} and x on {there}: move one of them")


def _problem(held: Held, X: Vectors, Y: Vectors | None, Z: Vectors | None, form: Form) -> Problem:
    rows, cols = held.storage.shape
    vector = 1
    if X.columns > 1:
        given = [one for one in (X, Y, Z) if one is not None]
        vector = min((_together(one) for one in given), default=1)
        vector = min(vector, _adjacent(X.columns, X.view.dtype))
    return spmv.spec.problem(
        X.view.dtype, rows, cols, held.storage.nnz, X.columns, recurrence=form.recurrence,
        conj=form.conj and held.storage.values_dtype.startswith("complex"), vector=vector, **held.traits,
    )  # fmt: skip


def _together(vectors: Vectors) -> int:
    """Columns that one load of 16 bytes or less can take, wherever a row begins."""
    count = _adjacent(vectors.pitch, vectors.view.dtype)
    while vectors.ready and vectors.view.address % (count * ITEMSIZE[vectors.view.dtype]):
        count //= 2
    return max(1, count)


def _adjacent(columns: int, dtype: str) -> int:
    count = 16 // ITEMSIZE[dtype]
    while columns % count:
        count //= 2
    return count


def library_wins(problem: Problem, backend: Backend) -> bool:
    """Whether cuSPARSE is to be called: one vector, rows of very different lengths, nothing measured or pinned."""
    skewed = problem.format == "csr" and problem.skewed and problem.NVECS == 1
    same = problem.values == problem.dtype and not problem.recurrence
    return bool(backend.name == "cuda" and skewed and same and not pin.pins())


def _preferred(held: Held, problem: Problem, backend: Backend) -> Options:
    """Lanes per row that the matrix was made with (csr, one vector), unless something is pinned."""
    on_gpu = backend.name in ("cuda", "emulated") and problem.format == "csr" and problem.NVECS == 1
    if held.threads is None or not on_gpu or pin.pins() or 0 in (size for _, size in problem.sizes):
        return {}
    return {"VARIANT": "csr", "THREADS": held.threads}
