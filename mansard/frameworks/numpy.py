"""Operands that NumPy's functions take beyond arrays of one dtype: nested lists of numbers, subclasses of ndarray,
foreign byte orders, and operands of different dtypes.

A public function refuses such operands before anything is written. Here they become arrays of one dtype, by the rules
of promotion of their library (NumPy's, which are CuPy's, or JAX's), and the function is called again. Operands that
nothing can be done about are refused as before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from numbers import Number
from typing import Any

import numpy as np

from ..arrays.kinds import library_of
from ..operations.ragged import Ragged
from ..plan.problem import DTYPES

# parameters that are operands; of tuples only the first entry is a matrix (beside pivots, or a flag)
_OPERANDS = ("a", "b", "A", "B", "x", "y", "V", "W", "S", "against")
_TUPLES = ("lu_and_piv", "c_and_lower")
_IN_PLACE = "blas.swap"  # changes its operands: copies in another dtype would be changed instead
_TOLERANCES = ("tol", "rtol", "rcond")

# functions of numpy.linalg -> the operand whose class results take, and which of several results do (None: the one)
_CLASS_OF: dict[str, tuple[str, tuple[int, ...] | None]] = {
    "cholesky": ("a", None), "cond": ("x", ()), "det": ("a", ()), "eigh": ("a", (1,)), "eigvalsh": ("a", ()),
    "inv": ("a", None), "lstsq": ("b", (0, 1)), "matrix_rank": ("A", ()), "norm": ("x", ()), "pinv": ("a", None),
    "qr": ("a", (0, 1)), "slogdet": ("a", ()), "solve": ("b", None), "svd": ("a", (0, 2)), "svdvals": ("x", ()),
}  # fmt: skip
_RAW = (0,)  # of qr(mode="raw"): tau is a plain array


def answer(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], refusal: Exception
) -> Any:
    """The result of `function`, known as `name` (`gram`, `linalg.solve`), for operands that became arrays of one
    dtype; the refusal is raised again if they were already, or cannot become such arrays."""
    try:
        bound = signature(function).bind(*args, **kwargs)
    except TypeError:
        raise refusal from None
    of_numpy = name.removeprefix("linalg.") if name.startswith("linalg.") else ""
    wrapped = _CLASS_OF.get(of_numpy)
    if name == _IN_PLACE:
        raise refusal
    given = bound.arguments
    before = dict(given)
    for key in _TOLERANCES:
        if isinstance(given.get(key), list | tuple):
            given[key] = np.asarray(given[key])
    for key in _OPERANDS:
        if key in given:
            given[key] = _as_array(given[key], wrapped is not None)
    for key in _TUPLES:
        if isinstance(given.get(key), tuple) and given[key]:
            given[key] = (_as_array(given[key][0], False), *given[key][1:])
    _promote(given)
    if all(one is before[key] for key, one in given.items()):
        raise refusal
    found = function(*bound.args, **bound.kwargs)
    return found if wrapped is None else _in_class(found, before.get(wrapped[0]), _results(wrapped[1], given))


def _results(which: tuple[int, ...] | None, given: dict[str, Any]) -> tuple[int, ...] | None:
    """Which results take the class of an operand, for these options."""
    if "compute_uv" in given and not given["compute_uv"]:
        return ()
    mode = given.get("mode")
    return _RAW if mode == "raw" else None if mode == "r" else which


def _in_class(found: Any, like: Any, which: tuple[int, ...] | None) -> Any:
    """Results as NumPy gives them for a subclass of ndarray; others as they are."""
    if not isinstance(like, np.ndarray) or type(like) is np.ndarray or which == ():
        return found
    if which is None:
        return like.__array_wrap__(found)
    parts = [like.__array_wrap__(one) if i in which else one for i, one in enumerate(found)]
    return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)


# ---- operands -----------------------------------------------------------------------------------------------


def _as_array(operand: Any, of_numpy: bool) -> Any:
    """Numbers in nested lists, and subclasses without meaning, as arrays; a list of arrays with its arrays converted.
    `of_numpy`: the function is one of NumPy's, which also takes np.matrix and foreign byte orders."""
    if isinstance(operand, list | tuple):
        if _is_numbers(operand):
            return np.asarray(operand)
        converted = [_as_array(one, of_numpy) if isinstance(one, np.ndarray) else one for one in operand]
        return converted if any(x is not y for x, y in zip(converted, operand, strict=True)) else operand
    if isinstance(operand, Number | np.generic):
        return np.asarray(operand)
    if not isinstance(operand, np.ndarray):
        return operand
    if type(operand) is not np.ndarray and (_is_plain(type(operand)) or (of_numpy and _is_simple(type(operand)))):
        operand = np.asarray(operand)
    if of_numpy and type(operand) is np.ndarray and not operand.dtype.isnative and operand.dtype.kind in "biufc":
        operand = operand.astype(operand.dtype.newbyteorder("="))
    return operand


def _is_numbers(operand: Any) -> bool:
    """Whether a list, or the first of the lists in it, begins with a number; an empty one counts."""
    while isinstance(operand, list | tuple):
        if not operand:
            return True
        operand = operand[0]
    return isinstance(operand, Number | np.generic)


def _own(kind: type) -> set[str]:
    """Attributes that a subclass of ndarray defines itself."""
    return {name for base in kind.__mro__[: kind.__mro__.index(np.ndarray)] for name in vars(base)}


def _is_simple(kind: type) -> bool:
    """Whether NumPy's functions look at the numbers of a subclass alone: it has no protocol of its own."""
    return not issubclass(kind, np.ma.MaskedArray) and not _own(kind) & {"__array_ufunc__", "__array_function__"}


def _is_plain(kind: type) -> bool:
    """Whether a subclass means no more than its numbers."""
    return _is_simple(kind) and not _own(kind) & {"__array_wrap__", "__getitem__", "__mul__", "__matmul__"}


# ---- dtypes -------------------------------------------------------------------------------------------------


def _promote(given: dict[str, Any]) -> None:
    """Bring arrays of NumPy, CuPy or JAX to their common dtype."""
    common = common_dtype([array for key in given for array in _arrays_of(key, given[key])])
    if common is None:
        return
    for key in _OPERANDS:
        if key in given:
            given[key] = _cast(given[key], common)
    for key in _TUPLES:
        if key in given:
            given[key] = (_cast(given[key][0], common), *given[key][1:])


def common_dtype(found: Sequence[Any]) -> np.dtype[Any] | None:
    """The dtype that arrays of one library are promoted to; None if they have one, or if one of theirs is a dtype that
    no kernel and no rule knows. Of JAX arrays it is what jax.numpy makes of them: without x64, no double precision."""
    dtypes = {array.dtype for array in found}
    libraries = {library_of(type(array)) for array in found}
    if len(dtypes) < 2 or len(libraries) > 1:
        return None
    if not all(one.isnative and (one.name in DTYPES or one.kind in "iub") for one in dtypes):
        return None
    rules: Any = sys.modules["jax.numpy"].result_type(*found) if libraries == {"jax"} else np.result_type(*dtypes)
    common = np.dtype(rules)
    return common if common.name in DTYPES else None


def _is_promoted(held: Any) -> bool:
    """Whether an array's dtype may change: not one of PyTorch, which refuses other dtypes itself, nor a subclass."""
    return type(held) is np.ndarray or (held is not None and library_of(type(held)) in ("cupy", "jax"))


def _arrays_of(key: str, operand: Any) -> Iterator[Any]:
    """The arrays of an operand that may be promoted."""
    if key in _TUPLES:
        key, operand = "a", operand[0]
    if key in _OPERANDS:
        for one in operand if isinstance(operand, list | tuple) else (operand,):
            held = one.buffer if isinstance(one, Ragged) else one
            if _is_promoted(held):
                yield held


def _cast(operand: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(operand, list | tuple):
        cast = [_cast(one, dtype) for one in operand]
        return cast if any(x is not y for x, y in zip(cast, operand, strict=True)) else operand
    if isinstance(operand, Ragged):
        buffer = _cast(operand.buffer, dtype)
        return operand if buffer is operand.buffer else Ragged._of(operand._kind, buffer, operand.layout)
    return operand.astype(dtype) if _is_promoted(operand) and operand.dtype != dtype else operand
