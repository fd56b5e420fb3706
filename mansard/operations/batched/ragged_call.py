"""Products of ragged batches: validation, the result's place, and the run that belongs to a triple of layouts."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind, Matrices
from ...backends.select import select
from ...errors import UnsupportedProblem
from ...kernels.batched.ragged_gemm import spec
from ...plan.problem import DTYPES, ITEMSIZE
from .. import ragged_layout
from .. import run as call
from ..ragged import Ragged, allocate_beside
from ..ragged_layout import Layout
from ..ragged_lists import answer_lists, differ
from .interleaved import Interleaved, multiply_interleaved
from .list_products import multiply_each
from .ragged_run import RaggedRun
from .ragged_warm import WarmProduct, recall


class Side(NamedTuple):
    """An operand: a ragged batch, or one matrix for all."""

    ragged: Ragged
    step: int  # 0: one for all
    rows: Array  # of op(.), None where only the device knows
    columns: Array


class Pair:
    """What follows from the layouts of A and B."""

    def __init__(self) -> None:
        self.results: dict[Hashable, tuple[Layout, int]] = {}
        self.runs: WeakKeyDictionary[Layout, dict[Hashable, RaggedRun]] = WeakKeyDictionary()
        self.warm: dict[Hashable, WarmProduct] = {}  # by form and backend


def multiply_special(*operands: Matrices) -> Callable[..., Matrices] | None:
    """The function that multiplies these, if one of them is a Ragged, an Interleaved, or a list of different shapes."""
    if any(isinstance(one, Ragged) for one in operands):
        return multiply_ragged
    if any(differ(one) for one in operands):
        return _multiply_lists
    return multiply_interleaved if any(isinstance(one, Interleaved) for one in operands) else None


def _multiply_lists(A: Matrices, B: Matrices, out: Matrices, *options: Any) -> list[Matrices]:
    return answer_lists(multiply_ragged, ("A", "B"), (A, B, out), options, multiply_each)


def multiply_ragged(
    A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None, form: Any,
    names: tuple[str, str] = ("A", "B"),
) -> Ragged:  # fmt: skip
    """alpha op(A_i) op(B_i) + beta out_i for all i. Nothing is written before every argument has been checked."""
    warm_key = (form, backend)
    again = recall(A, B, out, (alpha, beta), warm_key)
    if again is not None:
        return again
    a, b = side_of(A, names[0], form.trans_a), side_of(B, names[1], form.trans_b)
    kind = check_kinds(names, a.ragged, b.ragged, out)
    if out is None and beta != 0.0:
        raise ValueError("beta scales the content of out: pass out")
    count = count_of(names, a, b)
    pairs = a.ragged.layout.pairs
    pair = pairs.get(b.ragged.layout) or pairs.setdefault(b.ragged.layout, Pair())
    dtype, device = a.ragged._view.dtype, a.ragged._view.device
    key = (form.trans_a, form.trans_b, a.step, b.step, dtype)
    if key not in pair.results and (out is None or (a.rows is not None and b.rows is not None)):
        a, b = known(a, form.trans_a), known(b, form.trans_b)
        _check_inner(names, a, b, count)
        rows, columns = (np.broadcast_to(one, (count,)) for one in (a.rows, b.columns))
        pair.results[key] = ragged_layout.packed(rows, columns, ragged_layout.ALIGNMENT // ITEMSIZE[dtype])
    is_new = out is None
    if out is None:
        out = allocate_beside(a.ragged, *pair.results[key])
    else:
        _check_out(names, out, a.ragged, b.ragged, count)
    chosen = select(device, backend)
    runs = pair.runs.setdefault(out.layout, {})
    held = (dtype, device, chosen.name, kind, form, a.step, b.step)
    if held not in runs:
        if key in pair.results:
            check_result(out, pair.results[key][0])
        problem = spec.problem(dtype, count, **form._asdict())
        layouts = (a.ragged.layout, b.ragged.layout, out.layout)
        runs[held] = RaggedRun(kind, problem, chosen, _tables(layouts), (a.step, b.step))
    scaling = call.scalars(runs[held].problem, alpha, beta)
    runs[held].run((a.ragged, b.ragged, out), scaling, beta != 0.0)
    if is_new and chosen.name == "cpu" and kind.on_host_alone and a.step and b.step:
        tables = runs[held].tables((a.ragged, b.ragged, out))
        pair.warm[warm_key] = WarmProduct(runs[held], pair.results[key], tables, dtype)
    if kind.written is not None:
        kind.written((out.buffer,))
    return out  # type: ignore[no-any-return]


def _tables(layouts: tuple[Layout, Layout, Layout]) -> tuple[tuple[Array, Array, Array], ...] | None:
    """The sizes of a run as the host knows them; None where it does not. A run must not hold on to layouts."""
    return tuple(one.host() for one in layouts) if all(one.known for one in layouts) else None


def side_of(operand: Matrices, name: str, transposed: bool = False) -> Side:
    """An operand as a Ragged: itself, or one matrix that serves all."""
    if isinstance(operand, Ragged):
        operand._renew(name)
        if not operand.layout.known:
            return Side(operand, 1, None, None)
        rows, columns, _ = operand.layout.host()
        return Side(operand, 1, columns, rows) if transposed else Side(operand, 1, rows, columns)
    kind = arrays.kind_of(operand, name)
    view = kind.view(operand, name) if not kind.immutable else None
    if view is None or len(view.shape) != 2:
        shape = tuple(getattr(operand, "shape", ()))
        raise TypeError(f"{name} is a {kind.name} array of shape {shape}: beside a Ragged, pass a Ragged or a matrix")
    if view.dtype not in DTYPES:
        raise UnsupportedProblem(f"{name} has dtype {view.dtype}; supported are {', '.join(DTYPES)}: convert it first")
    layout = ragged_layout.single(*map(int, view.shape))
    return known(Side(Ragged._of(kind, kind.plain(operand).reshape(-1), layout), 0, None, None), transposed)


def known(side: Side, transposed: bool = False) -> Side:
    """With the sizes, which are fetched where only the device has them."""
    if side.rows is not None:
        return side
    rows, columns, _ = side.ragged.layout.host()
    return side._replace(rows=columns, columns=rows) if transposed else side._replace(rows=rows, columns=columns)


def check_kinds(names: tuple[str, str], A: Ragged, B: Ragged, out: Matrices) -> Kind:
    """The one array library of all operands, which have one dtype and one device."""
    first, given = names[0], [(names[0], A), (names[1], B)]
    if out is not None:
        if not isinstance(out, Ragged):
            raise TypeError(f"out is a {type(out).__name__}: the results of ragged batches need a Ragged")
        out._renew("out")
        given.append(("out", out))
    for name, one in given[1:]:
        if one._kind is not A._kind:
            raise TypeError(f"{first} has {A._kind.name} arrays and {name} {one._kind.name} arrays: convert one")
        if one._view.dtype != A._view.dtype:
            raise TypeError(f"{first} has dtype {A._view.dtype} and {name} {one._view.dtype}: convert one of them")
    arrays.same_device([(name, one._view) for name, one in given])
    return A._kind


def count_of(names: tuple[str, str], a: Side, b: Side) -> int:
    """Matrices of the result."""
    if a.step and b.step and len(a.ragged) != len(b.ragged):
        (first, second), lengths = names, (len(a.ragged), len(b.ragged))
        raise ValueError(f"{first} has {lengths[0]} matrices and {second} {lengths[1]}: one for each is needed")
    return len(a.ragged if a.step else b.ragged)


def _check_inner(names: tuple[str, str], a: Side, b: Side, count: int) -> None:
    left, right = (np.broadcast_to(one, (count,)) for one in (a.columns, b.rows))
    if (left != right).any():
        i = int(np.argmax(left != right))
        one, other = (f"{name}[{i}]" if side.step else name for name, side in zip(names, (a, b), strict=True))
        raise ValueError(f"{one} has {left[i]} columns and {other} {right[i]} rows: both need the same number")


def _check_out(names: tuple[str, str], out: Ragged, A: Ragged, B: Ragged, count: int) -> None:
    if len(out) != count:
        raise ValueError(f"out has {len(out)} matrices and the result {count}")
    if out._view.readonly:
        raise ValueError("out is read-only")
    for name, one in zip(names, (A, B), strict=True):
        if overlap(out, one):
            raise ValueError(f"out overlaps {name}: the result needs memory of its own")


def overlap(one: Ragged, other: Ragged) -> bool:
    """Whether two batches may have an element in common."""
    (low, high), (first, last) = _bytes(one), _bytes(other)
    return first < high and low < last


def _bytes(ragged: Ragged) -> tuple[int, int]:
    """Byte range of memory that a batch can read or write."""
    first, last = ragged.layout.reach(len(ragged.buffer))
    item = ITEMSIZE[ragged._view.dtype]
    return ragged._view.address + first * item, ragged._view.address + last * item


def check_result(out: Ragged, wanted: Layout) -> None:
    """Sizes of `out`, where the host knows them, and a place of its own for each matrix."""
    if not out.layout.known:
        return
    for name, found, expected in zip(("rows", "columns"), out.layout.host(), wanted.host(), strict=False):
        if (found != expected).any():
            i = int(np.argmax(found != expected))
            raise ValueError(f"out[{i}] has {found[i]} {name}, the result {expected[i]}")
    twice = out.layout.overlapping()
    if twice:
        raise ValueError(f"out[{twice[0]}] and out[{twice[1]}] overlap: every result needs a place of its own")
