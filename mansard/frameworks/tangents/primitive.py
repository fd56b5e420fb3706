"""Primitives of JAX, one for each operation: shapes without values, a call back to Mansard, and batching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from ...operations.single_launch import LIBRARY, SingleLaunch
from . import host, native

buffer_callback: Any = None
with suppress(ImportError):  # JAX before 0.6.1
    buffer_callback = import_module("jax.experimental.buffer_callback").buffer_callback

Array = Any
Primitive = Any  # jax.extend.core.Primitive: JAX has no types for it
Apply = Callable[..., list[Array]]
Shape = tuple[int, ...]
Result = tuple[Shape, Any]  # shape and dtype

_extend: Any = jax.extend.core
_struct: Any = jax.ShapeDtypeStruct
_spec: Any = jax.sharding.PartitionSpec
finfo: Any = jnp.finfo

NAMES: dict[str, Primitive] = {}


@dataclass(frozen=True)
class Rules:
    """An operation, as JAX's transformations see it. Options are keywords, static and hashable."""

    name: str
    shapes: Callable[..., list[Result]]  # (operands' shapes and dtypes, options) -> results
    host: host.Host
    cores: tuple[int, ...]  # dimensions of each operand behind those of the batch: 2 for a matrix, 1 for a vector
    # (results, operands, tangents or None each, options) -> tangents of the results, None for zero
    tangent: Callable[..., list[Array | None]] | None = None
    # (cotangents or None each, operands, None for the one that is asked for, its shape, options) -> its cotangent
    transpose: Callable[..., Array] | None = None
    # (operands with the mapped dimension in front or not, which ones have it, options) -> results, or None
    batch: Callable[..., list[Array] | None] | None = None
    why_not: str = ""  # has no tangent: the remedy
    # (stand-ins for operands, options) -> what answers the call without Python; None: always called back
    describe: native.Describe | None = None
    # (what the described launch writes) -> results
    finish: Callable[..., Sequence[Array]] = lambda *written: written
    # (operands, options) -> results by XLA's own operations, where the array library answers
    by_xla: Callable[..., Sequence[Array]] | None = None


def define(rules: Rules) -> Callable[..., list[Array]]:
    """A primitive with these rules; the function that applies it returns the list of its results."""
    primitive = NAMES[rules.name] = _extend.Primitive(f"mansard.{rules.name}")
    primitive.multiple_results = True
    primitive.def_impl(partial(_evaluate, primitive))
    primitive.def_abstract_eval(partial(_abstract, rules))
    mlir.register_lowering(primitive, mlir.lower_fun(partial(_call_back, rules), multiple_results=True))
    for platform in native.PLATFORMS if rules.describe else ():
        lowering = mlir.lower_fun(partial(_call, rules, platform), multiple_results=True)
        mlir.register_lowering(primitive, lowering, platform=platform)
    ad.primitive_jvps[primitive] = partial(_jvp, rules, primitive)
    if rules.transpose is not None:
        ad.primitive_transposes[primitive] = partial(_transpose, rules)
    batching.primitive_batchers[primitive] = partial(_batch, rules, primitive)
    return partial(_apply, primitive)


def lead(*operands: tuple[Any, int]) -> Shape:
    """Leading dimensions of the result, from operands (or what has a shape) and their numbers of own dimensions."""
    return tuple(jnp.broadcast_shapes(*(tuple(one.shape[: one.ndim - core]) for one, core in operands)))


def reduced(array: Array, shape: Shape) -> Array:
    """The cotangent of an operand of this shape, summed over the leading dimensions that it was broadcast along."""
    extra = array.ndim - len(shape)
    axes = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and array.shape[i + extra] != 1)]
    return jnp.sum(array, axes).reshape(shape) if axes else array


def conj(array: Array) -> Array:
    return jnp.conj(array) if jnp.iscomplexobj(array) else array


def t(array: Array) -> Array:
    """Transposed matrices of a stack."""
    return array.swapaxes(-1, -2)


def h(array: Array) -> Array:
    """Transposed and conjugated matrices of a stack."""
    return conj(t(array))


def or_nan(array: Array, info: Array, own: int = 2) -> Array:
    """NaN where `info` says that there is no result; `own` is the number of an entry's dimensions behind the batch."""
    return jnp.where(info.reshape(info.shape + (1,) * own) == 0, array, jnp.nan)


# ---- what JAX asks of a primitive -------------------------------------------------------------------------


def _abstract(rules: Rules, *operands: Any, **options: Any) -> list[Any]:
    like = max(operands, key=lambda one: len(_varying(one)))
    found = []
    for shape, dtype in rules.shapes(*operands, **options):
        result = jax.core.ShapedArray(tuple(shape), jnp.dtype(dtype))
        if _varying(like):
            sharding = like.sharding.update(spec=_spec(*(None,) * len(shape)))
            result = like.update(shape=result.shape, dtype=result.dtype, weak_type=False, sharding=sharding)
        found.append(result)
    return found


def _varying(aval: Any) -> frozenset[str]:
    """Axes of a mesh that values vary over, inside of shard_map."""
    axes = getattr(aval, "manual_axis_type", None)
    return frozenset(getattr(aval, "vma", ()) if axes is None else axes.varying)


def _aval(array: Array) -> Any:
    get: Any = jax.typeof if hasattr(jax, "typeof") else vars(jax.core)["get_aval"]
    return get(array)


def _apply(primitive: Primitive, *operands: Array, **options: Any) -> list[Array]:
    """Operands that are the same on every device of a shard_map count as varying beside others that do."""
    if len(operands) > 1 and hasattr(jax.lax, "pcast"):
        each = [_varying(_aval(one)) for one in operands]
        union = frozenset[str]().union(*each)
        operands = tuple(
            one if axes == union else jax.lax.pcast(one, tuple(union - axes), to="varying")
            for one, axes in zip(operands, each, strict=True)
        )
    return list(primitive.bind(*operands, **options))


def _call(rules: Rules, platform: str, *operands: Array, **options: Any) -> Sequence[Array]:
    """What a program compiled for `platform` does: launch a kernel, compute by XLA, or call back."""
    assert rules.describe is not None
    found = native.described(rules.describe, platform, operands, options)
    if isinstance(found, SingleLaunch):
        return rules.finish(*native.call(found, platform, operands))
    if found == LIBRARY and rules.by_xla is not None:
        return rules.by_xla(*operands, **options)
    return _call_back(rules, *operands, **options)


def _call_back(rules: Rules, *operands: Array, **options: Any) -> Sequence[Array]:
    """A call of Python from the compiled program."""
    results = [_struct(shape, dtype) for shape, dtype in rules.shapes(*operands, **options)]
    if buffer_callback is None:
        return list(
            jax.pure_callback(lambda *them: host.pure(rules.host, options, results, them), results, *operands)
        )  # fmt: skip

    def run(context: Any, filled: Sequence[Any], *lent: Any) -> None:
        host.run(rules.host, options, context, filled, lent)

    return list(buffer_callback(run, results)(*operands))


def _evaluate(primitive: Primitive, *operands: Array, **options: Any) -> list[Array]:
    """Values, as a compiled program gives them: a transformation without jit computes what one with it does."""
    return list(_compiled(primitive, tuple(options.items()))(*operands))


@lru_cache(maxsize=1024)
def _compiled(primitive: Primitive, options: tuple[tuple[str, Any], ...]) -> Callable[..., list[Array]]:
    return jax.jit(lambda *operands: primitive.bind(*operands, **dict(options)))


def _jvp(
    rules: Rules, primitive: Primitive, primals: Sequence[Array], tangents: Sequence[Array], **options: Any
) -> tuple[list[Array], list[Array]]:
    results = primitive.bind(*primals, **options)
    if rules.tangent is None:
        raise NotImplementedError(f"{rules.name} has no derivative here: {rules.why_not}")
    given = [None if isinstance(one, ad.Zero) or not _is_inexact(one) else one for one in tangents]
    found = rules.tangent(results, primals, given, **options)
    return results, [_zero(value) if one is None else one for one, value in zip(found, results, strict=True)]


def _zero(result: Array) -> Any:
    return ad.Zero(_aval(result).to_tangent_aval())


def _is_inexact(array: Array) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def _transpose(rules: Rules, cotangents: Sequence[Array], *operands: Array, **options: Any) -> list[Array | None]:
    given = [None if isinstance(one, ad.Zero) else one for one in cotangents]
    is_asked: Any = ad.is_undefined_primal
    asked = [is_asked(one) for one in operands]
    assert sum(asked) == 1 and rules.transpose is not None  # tangents are linear in one operand at a time
    known = [None if unknown else one for one, unknown in zip(operands, asked, strict=True)]
    shape = tuple(operands[asked.index(True)].aval.shape)
    found = None if given[0] is None else rules.transpose(given, known, shape, **options)
    return [found if unknown else None for unknown in asked]


def _batch(
    rules: Rules, primitive: Primitive, operands: Sequence[Array], axes: Sequence[int | None], **options: Any
) -> tuple[list[Array], list[int]]:
    """Mapped dimensions go to the front, where operations have their batches."""
    moved = [one if axis is None else jnp.moveaxis(one, axis, 0) for one, axis in zip(operands, axes, strict=True)]
    mapped = [axis is not None for axis in axes]
    results = None if rules.batch is None else rules.batch(moved, mapped, **options)
    if results is None:
        results = _apply(primitive, *aligned(moved, mapped, rules.cores), **options)
    return list(results), [0] * len(results)


def aligned(operands: Sequence[Array], mapped: Sequence[bool], cores: Sequence[int]) -> list[Array]:
    """Operands whose leading dimensions broadcast: where some have more of them, the mapped one stays in front."""
    own = [one.ndim - core - is_mapped for one, core, is_mapped in zip(operands, cores, mapped, strict=True)]
    most = max(own)
    return [
        one.reshape(one.shape[:1] + (1,) * (most - count) + one.shape[1:]) if is_mapped else one
        for one, count, is_mapped in zip(operands, own, mapped, strict=True)
    ]
