"""Factorizations of ragged batches: checks, and the answer where no run takes all sizes (`Operation.ragged`). Then
matrices of one size are one batch. Where they are many and small they are gathered into a stack and scattered again;
where they are few or large, kernels read and write them where they are."""

from __future__ import annotations

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, Kind, Matrices
from ...plan.problem import DTYPES
from .. import stacks
from ..ragged import Ragged
from ..ragged_lists import as_ragged, place_of, ragged_like_earlier, scatter
from ..ragged_vectors import Places, Vectors
from .face import Operation, Part, check_described, check_matrices, promoted
from .sorted import check_shapes

_FEW, _LARGE = 16, 128 * 128  # matrices, and elements of one, that are worth a look at each


def answer_ragged(operation: Operation, given: list[Matrices], out: Matrices) -> tuple[Matrices, ...]:
    """Matrices as Ragged, rows (pivots, tau) as Vectors, numbers as one array, all in the order of the batch."""
    kind, count = _checked(operation, given, out)
    whole = None if operation.ragged is None else operation.ragged(*given, out)
    if whole is not None:
        return whole
    first = next(one for one in given if isinstance(one, Ragged))
    groups = _groups(given, count)
    results = [_place(part, groups, first) if part.what == "matrix" else None for part in operation.parts]
    if out is not None:
        assert results[0] is not None
        check_shapes(out, results[0])
        results[0] = out
    found = [_answer_group(operation, kind, given, results, members) for _, members in groups]
    order = np.concatenate([members for _, members in groups]) if groups else np.empty(0, np.int64)
    return tuple(
        results[k] if part.what == "matrix"
        else _vectors(kind, [one[k] for one in found], groups) if part.what == "row"
        else _numbers(kind, part, [one[k] for one in found], order, first)
        for k, part in enumerate(operation.parts)
    )  # fmt: skip


def answer_lists(kind: Kind, operation: Operation, given: list[Matrices], out: Matrices) -> tuple[Matrices, ...]:
    """The answer for lists of matrices that differ in shape: copied into ragged batches, with lists as results."""
    batches = _like_earlier_lists(kind, operation, given) if out is None else None
    if batches is None:
        given = promoted(kind, operation, given)
        check_described(kind, operation, given, out)
        for name, one in zip(operation.names, given, strict=True):
            if name not in operation.integers:
                check_matrices(one, name)
        batches = [
            one if name in operation.integers else as_ragged(kind, one, name)
            for name, one in zip(operation.names, given, strict=True)
        ]
    found = list(answer_ragged(operation, batches, None if out is None else place_of(kind, out)))
    if out is not None:
        found[0] = scatter(kind, out, found[0])
    return tuple(one.to_list() if isinstance(one, Ragged | Vectors) else one for one in found)


def _like_earlier_lists(kind: Kind, operation: Operation, given: list[Matrices]) -> list[Matrices] | None:
    """Ragged batches of lists of matrices, if arrays like all of these, of one dtype, have been looked at before."""
    found, dtypes = [], set()
    for name, one in zip(operation.names, given, strict=True):
        if name not in operation.integers:
            one = ragged_like_earlier(kind, one) if stacks.is_list(one) and len(one[0].shape) == 2 else None
            if one is None:
                return None
            dtypes.add(one._view.dtype)
        found.append(one)
    return found if len(dtypes) == 1 else None


Groups = list[tuple[tuple[tuple[int, ...], ...], Array]]  # shapes of the arguments, and the matrices that have them


def _groups(given: list[Matrices], count: int) -> Groups:
    """The shapes of all arguments, and which matrices have them; those of the first matrix come first."""
    if not count:
        return []
    which = np.zeros(count, np.int64)
    for one in given:
        tables = one.layout.host()[:2] if isinstance(one, Ragged) else [np.array([len(row) for row in one])]
        for table in tables:
            which = np.unique(which * (table.max() + 1) + table, return_inverse=True)[1]
    members = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    members.sort(key=lambda some: int(some[0]))
    return [(tuple(_shape(one, int(some[0])) for one in given), some) for some in members]


def _shape(operand: Matrices, index: int) -> tuple[int, ...]:
    if not isinstance(operand, Ragged):
        return tuple(map(int, operand[index].shape))
    rows, columns, _ = operand.layout.host()
    return int(rows[index]), int(columns[index])


def _answer_group(
    operation: Operation, kind: Kind, given: list[Matrices], results: list[Matrices], members: Array
) -> list[Matrices]:
    """The results of matrices of one size; those that have places are there."""
    largest = max(_elements(one, members) for one in (*given, *results) if isinstance(one, Ragged))
    if len(members) < _FEW or largest > _LARGE:
        which = members.tolist()
        places = [None if one is None else [one[i] for i in which] for one in results]
        return list(operation.run(kind, [[one[i] for i in which] for one in given], places))
    stack = [_stack(kind, one, members) for one in given]
    found = list(operation.run(kind, stack, [None] * len(results)))
    for place, value in zip(results, found, strict=True):
        if place is not None:
            place.buffer[_indices(kind, place, members)] = value.reshape(-1)
    return found


def _elements(ragged: Ragged, members: Array) -> int:
    rows, columns = _shape(ragged, int(members[0]))
    return rows * columns


def _stack(kind: Kind, operand: Matrices, members: Array) -> Array:
    """Copies of some matrices (or rows), one after the other."""
    if not isinstance(operand, Ragged):
        return kind.module.stack([operand[i] for i in members.tolist()])
    shape = _shape(operand, int(members[0]))
    return operand.buffer[_indices(kind, operand, members)].reshape(len(members), *shape)


def _indices(kind: Kind, ragged: Ragged, members: Array) -> Array:
    """Of all their elements in the buffer."""
    starts, each = ragged.layout.host()[2][members], _elements(ragged, members)
    here = kind.upload(np.ascontiguousarray(starts), ragged.buffer)
    return (here[:, None] + kind.arange(each, ragged.buffer)).reshape(-1)


def _checked(operation: Operation, given: list[Matrices], out: Matrices) -> tuple[Kind, int]:
    """One library, device, dtype and length."""
    known: list[tuple[str, Ragged]] = []
    for name, one in (*zip(operation.names, given, strict=True), ("out", out)):
        if isinstance(one, Ragged):
            one._renew(name)
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


def _place(part: Part, groups: list[tuple[tuple[tuple[int, ...], ...], Array]], like: Ragged) -> Ragged:
    sizes = np.empty((sum(len(members) for _, members in groups), 2), np.int64)
    for shapes, members in groups:
        sizes[members] = part.shape(*shapes)
    return Ragged.empty(sizes[:, 0], sizes[:, 1], like=like.buffer)


def _vectors(kind: Kind, found: list[Matrices], groups: Groups) -> Vectors:
    """Pivots, tau or values of the groups' matrices, in the order of the batch."""
    arrays_of = [kind.module.stack(list(one)) if stacks.is_list(one) else kind.plain(one) for one in found]
    widths, members = [int(one.shape[-1]) for one in arrays_of], [some for _, some in groups]
    length = np.zeros(sum(map(len, members)), np.int64)
    for some, width in zip(members, widths, strict=True):
        length[some] = width
    return Vectors([one.reshape(-1) for one in arrays_of], Places.of_stacks(members, widths, length))


def _numbers(kind: Kind, part: Part, found: list[Array], order: Array, like: Ragged) -> Array:
    """Numbers of the groups' matrices, in the order of the batch."""
    if not found:
        dtype = "int32" if part.what == "info" else like._view.dtype
        return kind.allocate((0,), dtype, like.buffer)
    return kind.module.concatenate(found)[kind.upload(np.argsort(order), found[0])]
