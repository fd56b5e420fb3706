"""Factorizations of ragged batches: matrices of one size are one batch, which reads and writes them where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..plan.problem import DTYPES
from . import arrays, stacks
from .factor_face import Operation, Part
from .factor_task import empty, library
from .ragged import Ragged


def answer_ragged(operation: Operation, given: list[Any], out: Any) -> tuple[Any, ...]:
    """Matrices as Ragged, rows (pivots, tau) as lists, numbers as one array, all in the order of the batch."""
    kind, count = _checked(operation, given, out)
    first = next(one for one in given if isinstance(one, Ragged))
    lists = [one.to_list() if isinstance(one, Ragged) else list(one) for one in given]
    shapes = [tuple(tuple(map(int, some[i].shape)) for some in lists) for i in range(count)]
    results = [_place(part, shapes, first) if part.what == "matrix" else None for part in operation.parts]
    if out is not None:
        _check_shapes(out, results[0])
        results[0] = out
    places = [None if one is None else one.to_list() for one in results]
    groups: dict[Any, list[int]] = {}
    for i, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(i)
    found = []
    for members in groups.values():
        some = [[one[i] for i in members] for one in lists]
        found.append(operation.run(kind, some, [None if p is None else [p[i] for i in members] for p in places]))
    order = [i for members in groups.values() for i in members]
    return tuple(
        results[k] if part.what == "matrix" else _gathered(kind, part, [one[k] for one in found], order, first)
        for k, part in enumerate(operation.parts)
    )


def _checked(operation: Operation, given: list[Any], out: Any) -> tuple[Any, int]:
    """One library, device, dtype and length."""
    known: list[tuple[str, Ragged]] = []
    for name, one in (*zip(operation.names, given, strict=True), ("out", out)):
        if isinstance(one, Ragged):
            known.append((name, one))
        elif one is not None and not (name in operation.integers and stacks.is_list(one)):
            raise TypeError(f"{name} is a {type(one).__name__}: beside a Ragged, pass a Ragged")
    (first_name, first), count = known[0], len(known[0][1])
    for name, one in known[1:]:
        if one._kind is not first._kind:
            raise TypeError(f"{first_name} has {first._kind.name} arrays and {name} {one._kind.name} arrays")
        if one._view.dtype != first._view.dtype:
            raise TypeError(
                f"{first_name} has dtype {first._view.dtype} and {name} {one._view.dtype}: convert one of them"
            )
    arrays.same_device([(name, one._view) for name, one in known])
    for name, other in zip(operation.names, given, strict=True):
        if len(other) != count:
            raise ValueError(f"{first_name} has {count} matrices and {name} {len(other)}: one for each is needed")
    assert first._view.dtype in DTYPES
    return first._kind, count


def _place(part: Part, shapes: list[Any], like: Ragged) -> Ragged:
    sizes = np.array([part.shape(*some) for some in shapes], np.int64).reshape(-1, 2)
    return Ragged.empty(sizes[:, 0], sizes[:, 1], like=like.buffer)


def _check_shapes(out: Ragged, wanted: Ragged | None) -> None:
    assert wanted is not None
    if len(out) != len(wanted):
        raise ValueError(f"out has {len(out)} matrices and the result {len(wanted)}")
    for i, (found, expected) in enumerate(zip(out.shapes, wanted.shapes, strict=True)):
        if found != expected:
            raise ValueError(f"out[{i}] has shape {found}, the result {expected}")


def _gathered(kind: Any, part: Part, found: list[Any], order: list[int], like: Ragged) -> Any:
    """Of the groups, in the order of the batch."""
    if part.what == "row":
        rows: list[Any] = [None] * len(order)
        for i, one in zip(order, (row for some in found for row in some), strict=True):
            rows[i] = one
        return rows
    if not found:
        dtype = "int32" if part.what == "info" else like._view.dtype
        return empty(kind, (0,), dtype, like.buffer)
    module, back = library(kind), np.argsort(np.array(order))
    if kind.name == "PyTorch":
        return module.cat(found)[module.from_numpy(back).to(found[0].device, non_blocking=True)]
    return module.concatenate(found)[module.asarray(back)]
