"""One `torch.autograd.Function` for all operations: backward, forward mode and vmap by the table of rules.

Inside PyTorch's compiler, where tensors have no values, the operation becomes an operator (`torch_operators.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch

from ..errors import Transformed
from .pullbacks import RULES, Rule
from .pullbacks.rule import Given

_FORWARD: Any = torch.autograd.forward_ad
_WITH_VALUES = frozenset((torch.Tensor, torch.nn.Parameter))


class Call:
    """A rule with options: an argument that torch.func passes on without a look inside. Calls with the same options
    share it."""

    __slots__ = ("_kept", "function", "keeps_results", "options", "rule")

    def __init__(self, rule: Rule, options: dict[str, Any]) -> None:
        self.rule, self.options = rule, options
        self.function = partial(rule.plain, **options) if options else rule.plain
        self.keeps_results = bool(rule.results or rule.constant or rule.saving)  # not operands alone
        self._kept: dict[tuple[bool, ...], tuple[int, ...]] = {}  # by the gradients that are needed

    def kept(self, needed: tuple[bool, ...]) -> tuple[int, ...]:
        """The operands to keep for gradients with respect to some of them."""
        try:
            return self._kept[needed]
        except KeyError:
            return self._kept.setdefault(needed, self.rule.kept(len(needed), needed))


class Told(NamedTuple):
    """What backward is told beside tensors: where these belong."""

    call: Call
    results: int  # how many there are
    shapes: list[Any]  # of the operands
    kept: tuple[int, ...]  # operands among the saved tensors, which come first
    forms: Sequence[tuple[Any, ...]] = ()  # shape, dtype and device of every result, for `by_transposition`

    def given(self, ctx: Any) -> Given:
        """What the rule kept of a call."""
        saved, rule = ctx.saved_tensors, self.call.rule
        operands: list[Any] = [None] * len(self.shapes)
        for i, one in zip(self.kept, saved, strict=False):
            operands[i] = one
        results: list[Any] = [None] * self.results
        first = len(self.kept)
        for i, one in zip(rule.results, saved[first:], strict=False):
            results[i] = one
        return Given(operands, results, self.call.options, self.shapes, saved[first + len(rule.results) :])


def apply(name: str, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """The function of a rule, recorded for every derivative that PyTorch asks for."""
    call = Call(RULES[name], options) if name.startswith("sparse") else call_of(name, tuple(options.items()))
    if torch._C._are_functorch_transforms_active():
        return Recorded.apply(call, *operands)
    return recorded(call, *operands)


@lru_cache(maxsize=512)
def call_of(name: str, options: tuple[tuple[str, Any], ...] = ()) -> Call:
    """The one `Call` of a rule with these options. Patterns of sparse matrices are no such options: they would live as
    long as the process."""
    return Call(RULES[name], dict(options))


def is_ordinary(operands: Sequence[Any]) -> bool:
    """Whether reverse mode is all that is wanted of a call on matrices, or stacks of them."""
    for one in operands:
        if type(one) not in _WITH_VALUES or one.dim() < 2:
            return False
    return torch.is_grad_enabled() and not _forward_mode()


class Eager(torch.autograd.Function):
    """Any operation with a rule: the first argument is the `Call`, the others are its operands."""

    @staticmethod
    def forward(ctx: Any, call: Call, *operands: Any) -> Any:
        if call.keeps_results or _forward_mode():
            found = None if call.rule.saving is None else _saving(call, operands)
            if found is None:
                found = execute(call, operands), ()
            Eager.remember(ctx, (call, *operands), *found)
            return found[0]
        result = execute(call, operands)  # what follows is `remember` for products, in half its time
        kept = call.kept(ctx.needs_input_grad[1:])
        ctx.save_for_backward(*[operands[i] for i in kept])
        ctx.told = Told(call, len(result) if type(result) is tuple else 1, [one.shape for one in operands], kept)
        ctx.set_materialize_grads(False)
        return result

    @staticmethod
    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any, more: Sequence[Any] = ()) -> None:
        call, *operands = inputs
        rule, in_forward_mode = call.rule, _forward_mode()
        indices = call.kept((True,) * len(operands) if in_forward_mode else ctx.needs_input_grad[1:])
        results = output if isinstance(output, tuple) else (output,)
        saved = [operands[i] for i in indices]
        if rule.results:
            saved += [results[i] for i in rule.results]
        ctx.save_for_backward(*saved, *more)
        if in_forward_mode:
            ctx.save_for_forward(*saved)
        if rule.constant:
            ctx.mark_non_differentiable(*(results[i] for i in rule.constant))
        transposes = in_forward_mode and rule.tangent is None
        forms = [(one.shape, one.dtype, one.device) for one in results] if transposes else ()
        ctx.told = Told(call, len(results), [one.shape for one in operands], indices, forms)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        told, needed = ctx.told, ctx.needs_input_grad[1:]
        cotangents = tuple(map(_with_memory, cotangents))
        if all(one is None for one in cotangents):
            return None, *(None for _ in needed)
        found = told.call.rule.pullback(told.given(ctx), cotangents, needed)
        return None, *map(_summed, found, needed, told.shapes)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> Any:
        told = ctx.told
        call, count = told.call, told.results
        tangents = tuple(map(_with_memory, tangents))
        if all(one is None for one in tangents):
            return None if count == 1 else (None,) * count
        if call.rule.tangent is None:
            found = tuple(by_transposition(told, told.given(ctx), tangents))
        else:
            found = tuple(call.rule.tangent(told.given(ctx), tangents))
        return found[0] if count == 1 else found


def by_transposition(told: Told, given: Given, tangents: Sequence[Any]) -> Sequence[Any]:
    """Tangents of the results by the pullback: J^H is linear in the cotangents, and its own pullback is J."""
    rule, needed = told.call.rule, [one is not None for one in tangents]
    places = [i for i in range(told.results) if i not in rule.constant]

    def pulled(*cotangents: Any) -> Any:
        every: list[Any] = [None] * told.results
        for i, one in zip(places, cotangents, strict=True):
            every[i] = one
        found = map(_summed, rule.pullback(given, every, needed), needed, given.shapes)
        return tuple(one for one in found if one is not None)

    zeros = [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in (told.forms[i] for i in places)]
    given_tangents = tuple(one for one in tangents if one is not None)
    if torch._C._are_functorch_transforms_active():
        transposed = torch.func.vjp(pulled, *zeros)[1](given_tangents)
    else:
        again = torch.is_grad_enabled()  # whether this tangent may be differentiated
        with torch.enable_grad():
            gradients = pulled(*(one.requires_grad_() for one in zeros))
        transposed = torch.autograd.grad(
            gradients, zeros, given_tangents, create_graph=again, allow_unused=True, materialize_grads=True
        )
    found: list[Any] = [None] * told.results
    for i, one in zip(places, transposed, strict=True):
        found[i] = one
    return found


# `Function.apply` begins with 3 us of questions that concern functions with `setup_context` alone
recorded: Callable[..., Any] = super(torch.autograd.Function, Eager).apply


class Recorded(Eager):
    """The same for torch.func, whose form of functions costs 25 us more per call."""

    @staticmethod
    def forward(call: Call, *operands: Any) -> Any:  # type: ignore[override]  # no context
        return execute(call, operands)

    setup_context = staticmethod(Eager.remember)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, *operands: Any) -> Any:
        places, stacked = in_dims[1:], None if call.rule.stacks else call.rule.stacked
        if any(i < len(places) and places[i] is not None for i in call.rule.alone):
            stacked = None
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


def _with_memory(one: Any) -> Any:
    """A cotangent or tangent as rules take it: None for PyTorch's zeros without memory, lazy negation carried out."""
    if one is None or one._is_zerotensor():
        return None
    return one.resolve_neg() if one.is_neg() else one


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
        found = call.function(*operands)
    except TypeError as refusal:
        dual = isinstance(refusal, Transformed) and "forward-mode" in str(refusal)
        if not dual and not any(map(_is_zero, operands)):
            raise
        found = call.function(*map(_filled, operands))
    return tuple(found) if isinstance(found, tuple) else found


def _is_traced(one: Any) -> bool:
    """Whether a tensor stands for one in a graph of PyTorch's compiler."""
    fake, functional = (
        sys.modules.get(f"torch._subclasses.{name}") for name in ("fake_tensor", "functional_tensor")
    )
    return (fake is not None and isinstance(one, fake.FakeTensor)) or (
        functional is not None and isinstance(one, functional.FunctionalTensor)
    )


def _saving(call: Call, operands: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
    """The results, and what spares backward work; None where a rule saves nothing, or nothing can be saved."""
    assert call.rule.saving is not None
    if _forward_mode() or torch._C._len_torch_dispatch_stack() or not _WITH_VALUES.issuperset(map(type, operands)):
        return None
    if any(map(_is_zero, operands)):
        return None
    return call.rule.saving(*operands, **call.options)


def _operator(call: Call, operands: Sequence[Any]) -> Any:
    from .torch_operators import through_operator

    return through_operator(call.rule, operands, call.options)


def _is_zero(one: Any) -> bool:
    """Whether this is a tensor of PyTorch's zeros without memory."""
    return isinstance(one, torch.Tensor) and one._is_zerotensor()


def _filled(one: Any) -> Any:
    """Values in memory: of a dual tensor, and of zeros without any."""
    if not isinstance(one, torch.Tensor):
        return one
    primal = torch.autograd.forward_ad.unpack_dual(one).primal if _FORWARD._current_level >= 0 else one
    return primal.clone() if primal._is_zerotensor() else primal
