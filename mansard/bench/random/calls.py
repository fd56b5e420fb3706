"""Our entry in contests of drawn problems: the public function, called as its users do."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import mansard as ms

from ...errors import MansardError
from ...operations import registry
from ..entries import Entry
from ..rows import OURS
from .operations import Source, dense, kind
from .problem import Drawn

Pairs = list[tuple[Any, Any]]


def ours(source: Source, pairs: Pairs, outs: list[Any], asked: str | None) -> tuple[Entry, dict[str, Any]]:
    """Our entry, and the choice that answers it where one plan does. Its rows carry work and the problem on a line."""
    drawn = dense(source)
    options = {**drawn.options, **kind(drawn).fixed}
    written, call = _function(drawn, options)
    given = options | ({"backend": asked} if asked else {})
    operands = [tuple(one for one in pair if one is not None) for pair in pairs]

    def run(index: int) -> Any:
        out = outs[index]
        return call(*operands[index], **given) if out is None else call(*operands[index], out=out, **given)

    return Entry(OURS, written, run, lambda result: result, outs[0]), _choice(drawn, operands[0], outs[0], given)


def _function(drawn: Drawn, options: dict[str, Any]) -> tuple[str, Callable[..., Any]]:
    """The public function and how its call is written, `ms.blas.trsm(A, B, uplo='U', out=out)`."""
    public = registry.named(kind(drawn).public)
    operands = ["A", "B"][: max(1, len(drawn.operands) or public.required)]
    names = [*operands, *(f"{name}={value!r}" for name, value in options.items()), *(["out=out"] * bool(drawn.result))]
    home = public.home.replace("mansard", "ms", 1)
    return f"{home}.{public.name}({', '.join(names)})", getattr(import_module(public.home), public.name)


def _choice(drawn: Drawn, operands: tuple[Any, ...], out: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Configuration, route, origin and reason; nothing where a call is more than one plan, as of ragged batches."""
    if not drawn.operands:
        return {}
    planned = registry.named(kind(drawn).public).options
    known: Any = {name: value for name, value in given.items() if name in (*planned, "backend")}
    known |= {} if out is None else {"out": out}
    try:
        choice = ms.plan(kind(drawn).public, *operands, **known).choice
    except (MansardError, TypeError, ValueError, AttributeError):
        return {}
    values = choice.family.space.to_dict(choice.config) if choice.config else {}
    return {"config": values, "route": choice.answered_by, "origin": choice.origin, "reason": choice.reason}
