"""Operations: one object for each function that users call, and the path that every call takes.

What a name stands for beyond its calls (options, sizes, kernel families, reference) is in `registry.py`.

A call looks the signatures of its arrays up in the cache of plans. On a hit the plan's fast path runs; nothing else is
asked. Otherwise `_first_call` finds out what the operands are (arrays of one library, lists, JAX arrays, ragged or
interleaved batches), has the operation plan for them, and remembers the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from ..arrays import kinds
from ..arrays.types import Call, Kind, Matrices
from ..plan import pin
from ..plan.plan import Plan
from . import stacks
from .batch_checks import is_empty_list, nothing, through_jax
from .launcher import LAUNCHER, Answers, Entry
from .plans import PLANS

Planner = Callable[[Matrices, Matrices, Matrices, str | None, Any], Plan]  # (A, B, out, backend, form) -> plan
# who answers for such operands; None: arrays and lists
Special = Callable[[Matrices, Matrices, Matrices], Callable[..., Matrices] | None]

_get, _pinned, _known_kind = PLANS.get, pin.pins, kinds.known_kind


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation that users call by `name`: its planner and the operands it takes."""

    name: str
    plan: Planner
    operands: tuple[str, str] = ("A", "B")  # their names in messages
    lists: bool = True  # lists of arrays are batches
    special: Special | None = None
    in_place: bool = False  # the result may begin where A does, which is planned otherwise


def enters(
    function: Callable[..., Matrices], operation: Operation, form: Hashable, folds: bool = False,
    options: Mapping[str, Sequence[object]] | None = None, form_of: Callable[..., Hashable] | None = None,
) -> None:  # fmt: skip
    """Say that `function(A, B, out=out, alpha=alpha, beta=beta)` is `call(operation, A, B, out, alpha, beta, None,
    form)`, with or without B and the named arguments, so that the native launcher answers later calls before any code
    of the function runs. `folds`: function(A, A) is function(A). `options`: the values of its other arguments, the
    default first, for which the form is `form_of(*values)`."""
    given = options or {}
    forms = {values: form_of(*values) for values in product(*given.values())} if form_of else {}
    defaults = tuple(values[0] for values in given.values())
    function.__dict__["entry"] = operation, form, folds, tuple(given), defaults, forms


def entry_of(function: Callable[..., object]) -> Entry | None:
    """What `enters` said about a function; None: nothing."""
    found: Entry | None = function.__dict__.get("entry")
    return found


def call(
    operation: Operation,
    A: Matrices,
    B: Matrices,
    out: Matrices,
    alpha: complex,
    beta: complex,
    backend: str | None,
    form: Hashable,
) -> Matrices:
    """Run an operation on arrays: by the plan for arrays like these, or by a new one."""
    natively = LAUNCHER.call
    if natively is not None:
        return natively(operation, A, B, out, alpha, beta, backend, form)
    LAUNCHER.counted()
    return _call(operation, A, B, out, alpha, beta, backend, form)


def _call(
    operation: Operation, A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex, backend: str | None,
    form: Hashable,
) -> Matrices:  # fmt: skip
    """`call` without the native launcher."""
    key = _key(operation, A, B, out, backend, form)
    run = None if key is None else _get(key)
    if run is not None and not _pinned():
        return run(A, B, out, alpha, beta)
    return _first_call(operation, key, A, B, out, alpha, beta, backend, form)


def _recall(
    operation: Operation, backend: str | None, form: Hashable, A: Matrices, B: Matrices, out: Matrices
) -> Callable[..., Matrices] | None:
    """The fast path that a call on these arrays would take; None: there is none."""
    key = _key(operation, A, B, out, backend, form)
    return None if key is None or _pinned() else _get(key)


def _key(
    operation: Operation, A: Matrices, B: Matrices, out: Matrices, backend: str | None, form: Hashable
) -> Hashable:
    """The key of a call in the cache of plans; None where the operands are no arrays of one known type."""
    kind = _known_kind(A)
    if kind is None or not (B is None or type(B) is type(A)) or not (out is None or type(out) is type(A)):
        return None
    signature = kind.signature
    of_b = None if B is None else signature(B)
    if out is None:
        return (operation, kind, signature(A), of_b, backend, form)
    if operation.in_place:
        return (operation, kind, signature(A), of_b, signature(out), begins_at(kind, A, out), backend, form)
    return (operation, kind, signature(A), of_b, of_b if out is B else signature(out), backend, form)


LAUNCHER.serves("call", Answers(_call, _recall))


def _again(operation: Operation, given: dict[str, Matrices], options: dict[str, Any]) -> Matrices:
    """Run an operation on operands that are given by name."""
    A, B, out = (given.get(name) for name in (*operation.operands, "out"))
    return call(operation, A, B, out, **options)


def begins_at(kind: Kind, A: Matrices, out: Matrices) -> bool:
    """Whether the result begins where A does; arrays without an address are left to planning, which refuses them."""
    try:
        return bool(kind.address(out) == kind.address(A))
    except RuntimeError:
        return False


def _first_call(
    operation: Operation, key: Hashable, A: Matrices, B: Matrices, out: Matrices, alpha: complex, beta: complex,
    backend: str | None, form: Hashable,
) -> Matrices:  # fmt: skip
    if key is None:
        special = operation.special and operation.special(A, B, out)
        if special:
            return special(A, B, out, alpha, beta, backend, form)
        names = (*operation.operands, "out")
        given = [(name, one) for name, one in zip(names, (A, B, out), strict=True) if one is not None]
        kind = stacks.common_kind(given) if operation.lists else kinds.common_kind(given)
        if kind is None or is_empty_list(A) or is_empty_list(B):
            return nothing(operation.operands, A, B, out)
        if kind.answer is not None:
            options = {"alpha": alpha, "beta": beta, "backend": backend, "form": form}
            return kind.answer(Call(operation.name, dict(given), options, partial(_again, operation)))
        if kind.immutable:
            return through_jax(
                kind, operation.operands, A, B, out,
                lambda a, b: call(operation, a, b, None, alpha, beta, backend, form),
            )  # fmt: skip
        in_place = operation.in_place and out is not None and not stacks.is_list(out) and begins_at(kind, A, out)
        key = (operation, kind, *(stacks.signature(kind, one) for one in (A, B, out)), in_place, backend, form)
    run = PLANS.made(key, lambda: operation.plan(A, B, out, backend, form).run)
    return run(A, B, out, alpha, beta)
