"""Calls of public functions whose operands JAX transforms: under jit, grad, jvp, vmap, in scan and in shard_map.

Every function has a twin in `tangents/` with the same parameters (without `out`), made of JAX's primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import Signature, signature
from typing import Any

from ..errors import Transformed
from .numpy import common_dtype
from .tangents import derived, factors, orthogonal, powers, products, sparse, spectral, systems, triangular, updates
from .tangents import vectors as of_vectors
from .tangents.checks import operand

_MODULES: tuple[Any, ...] = (
    products, of_vectors, updates, triangular, systems, factors, spectral, orthogonal, derived, sparse, powers,
)  # fmt: skip
TWINS: dict[str, Callable[..., Any]] = {
    name: function for module in _MODULES for name, function in module.PUBLIC.items()
}
_OPERANDS = ("A", "B", "V", "S", "W", "a", "b", "x", "y", "z", "lu", "piv", "c", "data")
_PROMOTED = tuple(name for name in _OPERANDS if name not in ("piv", "lu", "c", "data"))
_PAIRS = {"lu_and_piv": ("lu", "piv"), "c_and_lower": ("c", "")}  # arguments that are tuples of operands
REMEDIES = {
    "cholesky_qr": "looks at values to decide what comes next: use ms.linalg.qr",
    "orthogonalize": "looks at values to decide what comes next: use ms.project and ms.linalg.qr",
    "linalg.ormqr": "is not known there: use ms.matmul with Q",
    **dict.fromkeys(("linalg.larfb", "linalg.larft"), "is not known there: use ms.matmul with V and T"),
    "linalg.laswp": "is not known there: use jax.numpy.take_along_axis",
    "linalg.tridiagonalize": "has no derivative: use ms.linalg.eigh",
    "linalg.bidiagonalize": "has no derivative: use ms.linalg.svd",
}


def answer(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], refusal: Transformed
) -> Any:
    """The result of `function`, known as `name` (`gram`, `linalg.solve`), on traced operands."""
    twin = TWINS.get(name)
    if twin is None:
        if name in REMEDIES:
            raise TypeError(f"{refusal} (ms.{name} {REMEDIES[name]})") from None
        raise refusal
    given = _signature(function).bind(*args, **kwargs).arguments
    held = {"A": given.pop("self")} if "self" in given else {}  # a sparse matrix, or a plan of its powers
    if given.pop("out", None) is not None:
        raise TypeError("out is given and operands are traced by JAX, where nothing is written to: use the result")
    for argument, value in given.items():
        if argument in _PAIRS:
            parts = zip(value, _PAIRS[argument], strict=True)
            given[argument] = tuple(operand(one, part) if part else one for one, part in parts)
        elif argument in _OPERANDS and value is not None:
            given[argument] = operand(value, argument)
    _promote(given)
    given = held | given
    first = [one for one, value in _signature(twin).parameters.items() if value.kind is value.POSITIONAL_ONLY]
    positional = [given.pop(one) for one in first]
    return twin(*positional, **given)


def _promote(given: dict[str, Any]) -> None:
    """Bring operands to the dtype that jax.numpy promotes them to."""
    names = [one for one in given if given[one] is not None and (one in _PAIRS or one in _PROMOTED)]
    common = common_dtype([given[one][0] if one in _PAIRS else given[one] for one in names])
    for one in () if common is None else names:
        value = given[one]
        given[one] = (value[0].astype(common), *value[1:]) if one in _PAIRS else value.astype(common)


@lru_cache(maxsize=128)
def _signature(function: Callable[..., Any]) -> Signature:
    return signature(function)
