"""Derivative of one function: pullback, tangent, and which operands and results they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from inspect import unwrap
from typing import Any

import torch

Tensor = Any
Gradients = Sequence[Tensor]  # None where a gradient is zero, or not needed


@dataclass(frozen=True)
class Given:
    """Input of a derivative: operands and results that its rule keeps (None for others), options of the call, and what
    the rule's `saving` left, which counts as constant: a derivative that is differentiated again must not use it."""

    operands: Sequence[Tensor]
    results: Sequence[Tensor]
    options: dict[str, Any]
    shapes: Sequence[Any] = ()  # of all operands
    saved: Sequence[Tensor] = ()


@dataclass(frozen=True)
class Rule:
    """The derivative of one function of matrices.

    `run` names the public function, or is a function. `pullback(given, cotangents, needed)` returns a gradient for
    every operand, None for those that are not needed; a cotangent that is None is zero. Gradients may have the result's
    leading dimensions: they are summed back. `tangent(given, tangents)` returns a tangent for every result. `like` is
    the same function in PyTorch: shapes and dtypes of results where there are no values.
    """

    name: str
    run: str | Callable[..., Any]
    pullback: Callable[[Given, Gradients, Sequence[bool]], Gradients]
    like: Callable[..., Any]
    operands: tuple[int, ...] = ()  # kept for the derivative
    results: tuple[int, ...] = ()  # kept for the derivative
    tangent: Callable[[Given, Sequence[Tensor]], Sequence[Tensor]] | None = None
    constant: tuple[int, ...] = ()  # results without a derivative: pivots
    stacks: bool = True  # takes leading dimensions
    stacked: Callable[..., Any] | None = None  # the function of stacks, if `run` takes single matrices
    alone: tuple[int, ...] = ()  # operands of which `stacked` takes one for all
    # kept operands that the gradient of each operand needs; empty: it may need all of them
    uses: tuple[tuple[int, ...], ...] = ()
    # (operands, options) -> what `run` gives, and what spares backward work; None: nothing does
    saving: Callable[..., tuple[Any, Sequence[Tensor]] | None] | None = None

    def kept(self, count: int, needed: Sequence[bool]) -> tuple[int, ...]:
        """The operands to keep, of a call with `count` of them, for these gradients."""
        if len(self.uses) != count:
            return tuple(i for i in self.operands if i < count)
        wanted = {i for uses, is_needed in zip(self.uses, needed, strict=True) if is_needed for i in uses}
        return tuple(i for i in self.operands if i in wanted)

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The function on tensors that have values and record nothing."""
        return plain(self.run) if isinstance(self.run, str) else self.run


def is_final(*tensors: Tensor) -> bool:
    """Whether nobody differentiates what is computed of these tensors, and all of them have values: then one kernel may
    give a derivative, instead of functions that have derivatives themselves."""
    if torch.is_grad_enabled() or any(type(one) not in _WITH_VALUES for one in tensors):
        return False
    transformed = torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack()
    forward: Any = torch.autograd.forward_ad
    return not transformed and bool(forward._current_level < 0)


_WITH_VALUES = frozenset((torch.Tensor, torch.nn.Parameter))


def public(name: str) -> Callable[..., Any]:
    """A public function by its name (`gram`, `linalg.solve`)."""
    home, _, function = name.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"mansard.{home}" if home else "mansard"), function)
    return found


@cache
def plain(name: str) -> Callable[..., Any]:
    """A public function by its name, as it is below the frameworks."""
    found: Callable[..., Any] = unwrap(public(name))
    return found
