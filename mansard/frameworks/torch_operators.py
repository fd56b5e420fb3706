"""Operators of `torch.ops.mansard`, which stand for Mansard's functions in graphs of torch.compile and torch.export.

Every rule is one operator (Tensor[] operands, str options) -> Tensor[]. Options are Python literals. Results are
row-major and share no memory, which is what the graph counts on. They are defined when this module is loaded: by the
first traced call, or by `import mansard.frameworks.torch_operators` before an exported program is loaded.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .pullbacks import RULES, Rule

_LIBRARY = torch.library.Library("mansard", "DEF")  # lives as long as the module


def _name(rule: Rule) -> str:
    return rule.name.replace(".", "_")


def through_operator(rule: Rule, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """The operator's results in the form that the function gives."""
    if rule.name not in _OPERATORS:
        raise TypeError(f"{rule.name} cannot be traced: call it under torch.compiler.disable")
    if not all(isinstance(one, torch.Tensor) for one in operands):
        raise TypeError(f"{rule.name}: operands of a traced call are tensors: convert the others with torch.as_tensor")
    found = _OPERATORS[rule.name](list(operands), repr(options))
    return found[0] if len(found) == 1 else tuple(found)


def _run(rule: Rule, operands: list[Any], options: str) -> list[Any]:
    """The function's results, row-major and apart from each other."""
    found = rule.plain(*(one.detach() for one in operands), **literal_eval(options))
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
    assert rule.like is not None
    found = rule.like(*operands, **literal_eval(options))
    return [one.new_empty(one.shape) for one in (found if isinstance(found, tuple | list) else (found,))]


def _defined(rule: Rule) -> Callable[..., Any]:
    name = _name(rule)
    _LIBRARY.define(f"{name}(Tensor[] operands, str options) -> Tensor[]")
    _LIBRARY.impl(name, partial(_run, rule), "CompositeExplicitAutograd")
    torch.library.register_fake(f"mansard::{name}", partial(_shapes, rule), lib=_LIBRARY)
    operator: Callable[..., Any] = getattr(torch.ops.mansard, name).default
    return operator


_OPERATORS = {rule.name: _defined(rule) for rule in RULES.values() if rule.like is not None}
