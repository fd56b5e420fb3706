"""Public functions, and products with stored matrices, in graphs of torch.compile: each is one node, and nobody looks
inside.

PyTorch's compiler (torch._dynamo) traces Python. It is told about exported functions once it is loaded, which a finder
of modules notices: importing it for that would take seconds, and a look in every call would be too late for the first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_COMPILER = "torch._dynamo"
_exported: list[Callable[..., object]] = []
_methods: list[tuple[type, Callable[..., object]]] = []


def allow(function: Callable[..., object]) -> None:
    """Make calls of the function nodes of PyTorch's graphs."""
    _exported.append(function)
    compiler = sys.modules.get(_COMPILER)
    if hasattr(compiler, "allow_in_graph"):  # loaded to the end
        compiler.allow_in_graph(function)  # type: ignore[union-attr]


def allow_method(owner: type, method: Callable[..., object]) -> None:
    """Make calls of a method, which takes tensors and gives one, nodes of PyTorch's graphs. Objects of its class do not
    change, and equal themselves alone: they are constants of the graph, which is made anew for another object."""
    _methods.append((owner, method))
    compiler = sys.modules.get(_COMPILER)
    if hasattr(compiler, "allow_in_graph"):
        _allow_method(compiler, owner, method)  # type: ignore[arg-type]


def _allow_method(compiler: ModuleType, owner: type, method: Callable[..., object]) -> None:
    """What `torch._dynamo.nonstrict_trace` does, without a wrapper around the method. In a PyTorch that keeps its books
    otherwise the method breaks the graph."""
    rules, pytree = compiler.trace_rules, sys.modules["torch.utils._pytree"]
    try:
        books = rules._allowed_callable_ids, rules._nonstrict_trace_callable_ids
        is_constant, register = pytree.is_constant_class, pytree.register_constant
    except AttributeError:
        return
    if not is_constant(owner):
        register(owner)
    for book in books:
        book.add(id(method))


def _tell(compiler: ModuleType) -> None:
    """Tell the compiler, which was just loaded, about everything that was exported, and to break its graphs at other
    functions of Mansard: they read addresses."""
    compiler.trace_rules.add("mansard")
    for function in _exported:
        compiler.allow_in_graph(function)
    for owner, method in _methods:
        _allow_method(compiler, owner, method)


class _Finder(MetaPathFinder):
    """Finds nothing but the compiler, and acts when it has been loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _COMPILER:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_tell(module: ModuleType) -> None:
            load(module)
            _tell(module)

        spec.loader.exec_module = load_and_tell  # type: ignore[method-assign]
        return spec


if hasattr(sys.modules.get(_COMPILER), "allow_in_graph"):
    _tell(sys.modules[_COMPILER])
else:
    sys.meta_path.insert(0, _Finder())
