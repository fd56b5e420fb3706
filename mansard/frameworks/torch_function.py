"""One `torch.autograd.Function` for all operations: backward, forward mode and vmap by the table of rules.

Inside PyTorch's compiler, where tensors have no values, the operation becomes an operator (`torch_operators.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import Transformed
from .pullbacks import RULES, Rule
from .pullbacks.rule import Given

_FORWARD: Any = torch.autograd.forward_ad
_WITH_VALUES = (torch.Tensor, torch.nn.Parameter)


class Call:
    """A rule with the options of one call: an argument that torch.func passes on without a look inside."""

    __slots__ = ("options", "rule")

    def __init__(self, rule: Rule, options: dict[str, Any]) -> None:
        self.rule, self.options = rule, options

    def given(self, ctx: Any) -> Given:
        """What the rule kept of a call."""
        _, count, shapes = ctx.told
        saved = iter(ctx.saved_tensors)
        operands = [next(saved) if i in self.rule.operands else None for i in range(len(shapes))]
        results = [next(saved) if i in self.rule.results else None for i in range(count)]
        return Given(operands, results, self.options)


def apply(name: str, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """The function of a rule, recorded for every derivative that PyTorch asks for."""
    recorded = Recorded if torch._C._are_functorch_transforms_active() else Eager
    return recorded.apply(Call(RULES[name], options), *operands)


class Eager(torch.autograd.Function):
    """Any operation with a rule: the first argument is the `Call`, the others are its operands."""

    @staticmethod
    def forward(ctx: Any, call: Call, *operands: Any) -> Any:
        result = execute(call, operands)
        Eager.remember(ctx, (call, *operands), result)
        return result

    @staticmethod
    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        call, *operands = inputs
        results = output if isinstance(output, tuple) else (output,)
        rule = call.rule
        ctx.told = call, len(results), [one.shape for one in operands]
        kept = [operands[i] for i in rule.operands if i < len(operands)]
        for i in rule.results:
            kept.append(results[i])
        ctx.save_for_backward(*kept)
        if rule.tangent is not None and _forward_mode():
            ctx.save_for_forward(*kept)
        if rule.constant:
            ctx.mark_non_differentiable(*(results[i] for i in rule.constant))
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        (call, _, shapes), needed = ctx.told, ctx.needs_input_grad[1:]
        if all(one is None for one in cotangents):
            return None, *(None for _ in needed)
        found = call.rule.pullback(call.given(ctx), cotangents, needed)
        return None, *map(_summed, found, needed, shapes)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> Any:
        call, count, _shapes = ctx.told
        if call.rule.tangent is None:
            raise NotImplementedError(
                f"{call.rule.name} has no forward-mode derivative: use reverse mode (torch.func.vjp, jacrev, backward)"
            )
        if all(one is None for one in tangents):
            return None if count == 1 else (None,) * count
        found = tuple(call.rule.tangent(call.given(ctx), tangents))
        return found[0] if count == 1 else found


class Recorded(Eager):
    """The same for torch.func, whose form of functions costs 25 us more per call."""

    @staticmethod
    def forward(call: Call, *operands: Any) -> Any:  # type: ignore[override]  # no context
        return execute(call, operands)

    setup_context = staticmethod(Eager.remember)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, *operands: Any) -> Any:
        places, stacked = in_dims[1:], None if call.rule.stacks else call.rule.stacked
        if not call.rule.stacks and stacked is None:
            found = _one_by_one(call, operands, places, info.batch_size)
        else:
            ranks = [one.dim() - (place is not None) for one, place in zip(operands, places, strict=True)]
            moved = [_in_front(one, place, max(ranks)) for one, place in zip(operands, places, strict=True)]
            found = Recorded.apply(call, *moved) if stacked is None else stacked(*moved, **call.options)
        return found, (0,) * len(found) if isinstance(found, tuple) else 0


def _forward_mode() -> bool:
    """Whether somebody may ask for forward-mode derivatives."""
    return torch._C._are_functorch_transforms_active() or _FORWARD._current_level >= 0


def _summed(gradient: Any, needed: bool, shape: Any) -> Any:
    """A gradient in the shape of its operand, which was broadcast; None where nobody needs it."""
    if gradient is None or not needed:
        return None
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)


def _in_front(operand: Any, place: int | None, rank: int) -> Any:
    """The operand with its mapped dimension first, before leading dimensions of other operands."""
    if place is None:
        return operand
    operand = operand.movedim(place, 0)
    return operand[(slice(None), *(None,) * (rank + 1 - operand.dim()))]


def _one_by_one(call: Call, operands: Sequence[Any], places: Sequence[Any], count: int) -> Any:
    """Results of a function of single matrices, one after the other, stacked."""
    each = [
        Recorded.apply(
            call, *(one if place is None else one.select(place, i) for one, place in zip(operands, places, strict=True))
        )
        for i in range(count)
    ]
    return tuple(map(torch.stack, zip(*each, strict=True))) if isinstance(each[0], tuple) else torch.stack(each)


# ---- values, or an operator ---------------------------------------------------------------------------------


def execute(call: Call, operands: Sequence[Any]) -> Any:
    """The results: of Mansard's function, or of the operator in a graph that PyTorch traces."""
    for one in operands:
        if type(one) not in _WITH_VALUES and _is_traced(one):
            return _operator(call, operands)
    if torch._C._len_torch_dispatch_stack():
        return _operator(call, operands)
    try:
        found = call.rule.plain(*operands, **call.options)
    except Transformed as refusal:
        if "forward-mode" not in str(refusal):
            raise
        found = call.rule.plain(*map(_primal, operands), **call.options)
    return tuple(found) if type(found) is not torch.Tensor and isinstance(found, tuple) else found


def _is_traced(one: Any) -> bool:
    """Whether a tensor stands for one in a graph of PyTorch's compiler."""
    fake, functional = (
        sys.modules.get(f"torch._subclasses.{name}") for name in ("fake_tensor", "functional_tensor")
    )
    return (fake is not None and isinstance(one, fake.FakeTensor)) or (
        functional is not None and isinstance(one, functional.FunctionalTensor)
    )


def _operator(call: Call, operands: Sequence[Any]) -> Any:
    from .torch_operators import through_operator

    return through_operator(call.rule, operands, call.options)


def _primal(one: Any) -> Any:
    """A dual tensor's values."""
    return torch.autograd.forward_ad.unpack_dual(one).primal if isinstance(one, torch.Tensor) else one
