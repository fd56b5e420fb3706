"""Between callers and stacks: lists, JAX arrays, ragged batches and dtypes of all kinds in, the same kinds out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array, Call, Kind, Matrices
from ...plan.problem import DTYPES
from .. import stacks
from ..launcher import LAUNCHER
from ..ragged import Ragged
from ..ragged_lists import differ
from .info import has_nonzero, lets_fetch

# (kind, arguments, places for the results or None each) -> results; of lists, stacks
Run = Callable[[Kind, list[Matrices], list[Matrices]], Sequence[Matrices]]


class Part(NamedTuple):
    """One result of an operation."""

    what: str  # matrix, row (pivots, tau), value or info (one number per matrix)
    shape: Callable[..., tuple[int, int]] = lambda *sizes: (0, 0)  # of a matrix, from the shapes of the arguments


class Operation(NamedTuple):
    """An operation on matrices: what it is given, and gives."""

    run: Run
    parts: tuple[Part, ...]
    names: tuple[str, ...] = ("a",)
    integers: tuple[str, ...] = ()  # arguments that are not promoted: pivots
    # (arguments..., out) -> results of a ragged batch; None: not of this one, sizes are answered one after the other
    ragged: Callable[..., tuple[Matrices, ...] | None] | None = None
    name: str = ""  # for operands that are spread over processes or chunks, and answer in a way of their own
    options: tuple[tuple[str, Any], ...] = ()  # for them, too


def answer(operation: Operation, given: list[Matrices], out: Matrices = None) -> tuple[Matrices, ...]:
    """The results, lists of lists and ragged ones of ragged batches. `out` is for the first of them."""
    if any(isinstance(one, Ragged) for one in (*given, out)):
        from .ragged import answer_ragged

        found = answer_ragged(operation, given, out)
        if out is not None and out._kind.written is not None:
            out._kind.written((out.buffer,))
        return found
    kind = stacks.common_kind((*zip(operation.names, given, strict=True), ("out", out)))
    if kind is None:
        return tuple(_NONE[part.what]() for part in operation.parts)
    if kind.answer is not None:
        return _elsewhere(kind.answer, operation, given, out)
    if kind.immutable:
        return _through_jax(kind, operation, given, out)
    if any(differ(one) for one in (*given, out)):
        from .ragged import answer_lists

        return answer_lists(kind, operation, given, out)
    _refuse_subclasses(operation, given)
    given = promoted(kind, operation, given)
    check_described(kind, operation, given, out)
    places = [out, *(None for _ in operation.parts[1:])]
    listed = any(stacks.is_list(one) for one in (*given, out))
    results = operation.run(kind, given, places)
    if out is not None and kind.written is not None:
        kind.written(out if stacks.is_list(out) else (out,))
    return tuple(
        list(found) if listed and part.what in ("matrix", "row") and not stacks.is_list(found) else found
        for part, found in zip(operation.parts, results, strict=True)
    )


def _refuse_subclasses(operation: Operation, given: list[Matrices]) -> None:
    """Refuse instances of subclasses of ndarray: results may have to be of their class (`mansard.frameworks.numpy`)."""
    for name, one in zip(operation.names, given, strict=True):
        if isinstance(one, np.ndarray) and arrays.known_kind(one) is None:
            found = type(one).__name__
            raise TypeError(f"{name} is a {found}, a subclass of numpy.ndarray: pass numpy.asarray({name})")


# results of an empty list
_NONE: dict[str, Callable[[], Matrices]] = {
    "matrix": list, "row": list, "value": lambda: np.empty(0), "info": lambda: np.empty(0, np.int32),
}  # fmt: skip


def _elsewhere(
    answers: Callable[[Call], tuple[Matrices, ...]], operation: Operation, given: list[Matrices], out: Matrices
) -> tuple[Matrices, ...]:
    """The results of operands that answer calls themselves."""

    def run(given: dict[str, Matrices], options: dict[str, Any]) -> tuple[Matrices, ...]:
        return answer(operation, [given[name] for name in operation.names], given.get("out"))

    named = dict(zip(operation.names, given, strict=True)) | ({} if out is None else {"out": out})
    return answers(Call(operation.name, named, dict(operation.options), run))


def _through_jax(kind: Kind, operation: Operation, given: list[Matrices], out: Matrices) -> tuple[Matrices, ...]:
    if out is not None:
        raise TypeError("out is a JAX array, which cannot be written to: leave it out and use the result")
    held = [stacks.unwrapped(kind, one, name) for name, one in zip(operation.names, given, strict=True)]
    found = answer(operation, held)
    return tuple([_wrapped(kind, x) for x in one] if stacks.is_list(one) else _wrapped(kind, one) for one in found)


def _wrapped(kind: Kind, array: Array) -> Array:
    if isinstance(array, np.ndarray):
        return kind.wrap(np.require(array, requirements=["C", "W"]))
    return kind.wrap(array) if hasattr(array, "__dlpack__") else array


def promoted(kind: Kind, operation: Operation, given: list[Matrices]) -> list[Matrices]:
    """One dtype that LAPACK knows: NumPy's rules for NumPy arrays, others are not converted silently."""
    names = [name for name in operation.names if name not in operation.integers]
    matrices = {name: one for name, one in zip(operation.names, given, strict=True) if name in names}
    found = {name: _dtype(kind, one, name) for name, one in matrices.items()}
    first = next(iter(found.values()))
    if not kind.promotes:
        for name, dtype in found.items():
            if dtype not in DTYPES:
                raise TypeError(f"{name} has dtype {dtype}; supported are {', '.join(DTYPES)}: convert it first")
            if dtype != first:
                raise TypeError(f"{names[0]} has dtype {first} and {name} {dtype}: convert one of them")
        return given
    if first in DTYPES and len(set(found.values())) == 1:
        return given
    common = np.result_type(*(_numeric(name, dtype) for name, dtype in found.items()))
    return [
        one if name not in names else [x.astype(common, copy=False) for x in one] if stacks.is_list(one)
        else one.astype(common, copy=False)
        for name, one in zip(operation.names, given, strict=True)
    ]  # fmt: skip


def _dtype(kind: Kind, operand: Matrices, name: str) -> str:
    if stacks.is_list(operand):
        found = [_dtype(kind, one, f"{name}[{i}]") for i, one in enumerate(operand)]
        for i, dtype in enumerate(found):
            if dtype != found[0] and not kind.promotes:
                raise TypeError(f"{name}[0] has dtype {found[0]} and {name}[{i}] {dtype}: convert one of them")
        return str(np.result_type(*found)) if kind.promotes else found[0]
    if kind.promotes and operand.dtype.kind in "iub":  # is converted, whatever its strides and byte order
        return str(operand.dtype.name)
    return str(kind.view(operand, name).dtype)


def check_described(kind: Kind, operation: Operation, given: list[Matrices], out: Matrices) -> None:
    """Refuse arguments that `promoted` did not look at, and that no kernel may see: tensors without data, gradients;
    and arguments on different devices."""
    if out is not None:
        stacks.described(kind, out, "out")
    for name, one in zip(operation.names, given, strict=True):
        if name in operation.integers and not kind.promotes:
            stacks.described(kind, one, name)
    if not kind.on_host_alone:
        _check_devices(kind, [*zip(operation.names, given, strict=True), ("out", out)])


def _check_devices(kind: Kind, named: list[tuple[str, Matrices]]) -> None:
    """Refuse arguments on different devices; of lists, which are checked elsewhere, the first array is looked at."""
    given = [(name, one if stacks.is_list(one) else [one]) for name, one in named if one is not None]
    if len(given) > 1:
        arrays.same_device([(name, kind.view(one[0], name)) for name, one in given if len(one)])


def _numeric(name: str, dtype: str) -> Any:
    """What NumPy's linear algebra makes of a dtype."""
    if dtype in DTYPES:
        return np.dtype(dtype)
    if dtype.startswith(("int", "uint", "bool")):
        return np.dtype("float64")
    raise TypeError(f"{name} has dtype {dtype}; supported are {', '.join(DTYPES)} and integers: convert it first")


# ---- checks -----------------------------------------------------------------------------------------------


def check_matrices(operand: Matrices, name: str, square: bool = False) -> tuple[int, int]:
    """Rows and columns of a stack or list; NumPy's exceptions, with the argument's name."""
    for i, one in enumerate(operand) if stacks.is_list(operand) else ((None, operand),):
        which, shape = name if i is None else f"{name}[{i}]", tuple(one.shape)
        if len(shape) < 2:
            raise np.linalg.LinAlgError(f"{which} has shape {shape}: a matrix or a stack of matrices is needed")
        if square and shape[-1] != shape[-2]:
            raise np.linalg.LinAlgError(f"{which} has shape {shape}: its last two dimensions must be square")
    shape = tuple((operand[0] if stacks.is_list(operand) else operand).shape)
    return int(shape[-2]), int(shape[-1])


def check_rows(rows: int, operand: Matrices, names: tuple[str, str]) -> None:
    """As many rows as the matrices have."""
    found = check_matrices(operand, names[1])[0]
    if found != rows:
        raise ValueError(f"{names[0]} has {rows} rows and {names[1]} {found}: both need the same number")


def is_vector(operand: Matrices) -> bool:
    """NumPy's rule: only a one-dimensional array is a vector; a list of them holds a vector for each matrix."""
    first = operand[0] if stacks.is_list(operand) and operand else operand
    return getattr(first, "ndim", 0) == 1


_FEW = 4096  # infos, which take no longer to fetch than one


def first_bad(info: Array) -> tuple[tuple[int, ...], int] | None:
    """Index and value of the first entry that is not zero; waits for the device."""
    is_zero = LAUNCHER.is_zero
    found = None if is_zero is None else is_zero(info)
    if found is None and is_zero is not None and lets_fetch(info):  # from its device: is asked for the first time
        found = is_zero(info)
    if found:
        return None
    few = prod(info.shape) <= _FEW  # are fetched at once; of many only the answer whether one is not zero
    if not few:
        bad = has_nonzero(info)
        if not (bool(info.any()) if bad is None else bad):
            return None
    host = info.get() if hasattr(info, "get") else np.asarray(info.cpu() if hasattr(info, "cpu") else info)
    if few and not host.any():
        return None
    at = tuple(int(i) for i in np.argwhere(host)[0])
    return at, int(host[at])


def named(name: str, at: tuple[int, ...]) -> str:
    """a[3], or a where there is but one."""
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def scalar(array: Array) -> Array:
    """A number of its own where NumPy would give one."""
    return array[()] if isinstance(array, np.ndarray) and array.ndim == 0 else array
