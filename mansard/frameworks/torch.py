"""Calls of public functions whose operands PyTorch transforms: derivatives, torch.func, torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import Transformed
from ..operations.batched.interleaved import Interleaved
from ..operations.ragged import Ragged
from .torch_calls import CALLS, USUAL, Unrecorded
from .torch_factors import CALLS as FACTORS
from .torch_function import is_ordinary, recorded
from .torch_sparse import CALLS as SPARSE
from .torch_statuses import CALLS as STATUSES

_CALLS = CALLS | FACTORS | SPARSE | STATUSES
_USUAL = {torch.Tensor, torch.nn.Parameter, str, int, float, bool, type(None)}
_BATCHES = (Ragged, Interleaved)


def answer(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    refusal: Transformed | None = None,
) -> Any:
    """The result of `function`, known as `name` (`gram`, `linalg.solve`), on transformed operands. Without a `refusal`
    an operand requires a gradient, and the function was not asked yet."""
    if not kwargs and refusal is None:
        usual = USUAL.get((name, len(args)))
        if usual is not None and is_ordinary(args):
            return recorded(usual, *args)
    if refusal is None and not torch.is_grad_enabled():
        try:
            return function(*args, **kwargs)
        except Transformed as found:
            refusal = found
    call = _CALLS.get(name)
    if call is None:
        if refusal is None:
            return function(*args, **kwargs)
        raise refusal
    if kwargs and kwargs.get("out") is not None:
        raise Transformed(
            f"out cannot record derivatives, as PyTorch's own out: leave it out, or call {name} inside torch.no_grad() "
            f"({refusal or 'an operand requires a gradient'})",
            "torch",
        )
    listed = False
    for one in (*args, *kwargs.values()) if kwargs else args:
        if type(one) not in _USUAL:
            if isinstance(one, list):
                listed = True
                break
            if isinstance(one, _BATCHES):
                if refusal is None:
                    return function(*args, **kwargs)  # which names the argument that it refuses
                raise _batch_refused(name, one, refusal)
    if refusal is not None and not listed:
        _refuse_functionalize(refusal)
    try:
        return _element_by_element(name, call, args, kwargs) if listed else call(*args, **kwargs)
    except Unrecorded as why:
        raise Transformed(str(why), "torch") from refusal


def _element_by_element(name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lists of results of lists of operands; operands that are no lists serve every element. Factors are tuples of
    lists: (lu, piv), or (c, lower) with one flag for all."""
    operands = [part for one in (*args, *kwargs.values()) for part in (one if isinstance(one, tuple) else (one,))]
    lengths = {len(one) for one in operands if isinstance(one, list)}
    if len(lengths) != 1:
        raise ValueError(f"{name}: lists of {' and '.join(map(str, sorted(lengths)))} operands: pass as many of each")

    def at(one: Any, i: int) -> Any:
        if isinstance(one, tuple):
            return tuple(at(part, i) for part in one)
        return one[i] if isinstance(one, list) else one

    results = [
        call(*(at(one, i) for one in args), **{key: at(one, i) for key, one in kwargs.items()})
        for i in range(lengths.pop())
    ]
    if name == "blas.dot":
        return torch.stack(results)
    if not results or not isinstance(results[0], tuple):
        return results
    columns = [list(column) for column in zip(*results, strict=True)]
    form: Any = type(results[0])
    return form(*columns) if hasattr(form, "_fields") else tuple(columns)


def _batch_refused(name: str, batch: Any, refusal: Transformed | None) -> Transformed:
    kind = type(batch).__name__
    remedy = "to_list()" if kind == "Ragged" else "deinterleave"
    return Transformed(
        f"{refusal or 'an operand requires a gradient'}; derivatives are not recorded for {kind} batches: call {name} "
        f"on lists or stacks ({remedy}), or inside torch.no_grad()",
        "torch",
    )


def _refuse_functionalize(refusal: Transformed) -> None:
    """torch.func.functionalize has no rule for functions outside of PyTorch."""
    if not torch._C._are_functorch_transforms_active():
        return
    if torch._C._functorch.peek_interpreter_stack().key() == torch._C._functorch.TransformType.Functionalize:
        raise refusal
