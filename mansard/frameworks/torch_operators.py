"""Operators of `torch.ops.mansard`, which stand for Mansard's functions in graphs of torch.compile and torch.export.

Every rule is one operator (Tensor[] operands, str options) -> Tensor[]. Options are Python literals; a number stands
for a stored sparse matrix. Results are row-major and share no memory, which is what the graph counts on. Operators are
defined when this module is loaded: by the first traced call, or by `import mansard.frameworks.torch_operators` before
an exported program is loaded.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .pullbacks import RULES, Rule
from .pullbacks.sparse import PowersPattern, Side

_STORED: dict[str, type[Side] | type[PowersPattern]] = {"side": Side, "pattern": PowersPattern}  # by option
_LIBRARY = torch.library.Library("mansard", "DEF")  # lives as long as the module


def _name(rule: Rule) -> str:
    return rule.name.replace(".", "_")


def through_operator(rule: Rule, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """The operator's results in the form that the function gives."""
    if not all(isinstance(one, torch.Tensor) for one in operands):
        raise TypeError(f"{rule.name}: operands of a traced call are tensors: convert the others with torch.as_tensor")
    found = _OPERATORS[rule.name](list(operands), written(options))
    return found[0] if len(found) == 1 else tuple(found)


def written(options: dict[str, Any]) -> str:
    """Options as an operator takes them."""
    return repr({name: value.literal if name in _STORED else value for name, value in options.items()})


def _read(text: str) -> dict[str, Any]:
    """Options as a rule takes them."""
    options = literal_eval(text)
    return {name: _STORED[name].of(value) if name in _STORED else value for name, value in options.items()}


def _run(rule: Rule, operands: list[Any], options: str) -> list[Any]:
    """The function's results, row-major and apart from each other."""
    found = rule.plain(*(one.detach() for one in operands), **_read(options))
    results = found if isinstance(found, tuple) else (found,)
    known: set[int] = {one.untyped_storage().data_ptr() for one in operands}
    apart = []
    for one in results:
        one = torch.as_tensor(one).resolve_conj().contiguous()
        memory = one.untyped_storage().data_ptr()
        apart.append(one.clone() if memory in known and memory else one)
        known.add(memory)
    return apart


def _shapes(rule: Rule, operands: list[Any], options: str) -> list[Any]:
    """Results without values."""
    with torch._C._DisableAutocast():  # results have the dtype of the operands
        found = rule.like(*operands, **_read(options))
    return [one.new_empty(one.shape) for one in (found if isinstance(found, tuple | list) else (found,))]


def _defined(rule: Rule) -> Callable[..., Any]:
    name = _name(rule)
    _LIBRARY.define(f"{name}(Tensor[] operands, str options) -> Tensor[]")
    _LIBRARY.impl(name, partial(_run, rule), "CompositeExplicitAutograd")
    torch.library.register_fake(f"mansard::{name}", partial(_shapes, rule), lib=_LIBRARY)
    operator: Callable[..., Any] = getattr(torch.ops.mansard, name).default
    return operator


_OPERATORS = {rule.name: _defined(rule) for rule in RULES.values()}
