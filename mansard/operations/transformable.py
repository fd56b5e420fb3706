"""Public functions, open to frameworks that transform programs: derivatives, tracing, vectorisation.

Kernels take arrays with values. An operand that stands for values still to come, or whose derivative is wanted, is
refused by its kind with `Transformed`, before anything is written. The exported function then hands the whole call to
the module of that library in `mansard.frameworks`, which knows derivatives. Operands that are refused for what they are
go to `mansard.frameworks.numpy`, which makes arrays of one dtype of what NumPy takes: nested lists, subclasses of
ndarray, different dtypes. Other calls never get there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module

from ..arrays.types import Array
from ..errors import Transformed, UnsupportedProblem
from . import graphs
from .launcher import LAUNCHER
from .operation import entry_of

# library -> module with `answer(name, function, args, kwargs, refusal)`; it lies above this one and is loaded by name
_FRAMEWORKS = {name: f"mansard.frameworks.{name}" for name in ("numpy", "torch", "jax")}


@cache
def _framework(library: str) -> Callable[..., object]:
    """The function that answers calls on a library's transformed operands."""
    found: Callable[..., object] = import_module(_FRAMEWORKS[library]).answer
    return found


def transformable(function: Callable[..., object], home: str) -> Callable[..., object]:
    """The function that `home` exports: `function`, or a framework's answer where an operand is `Transformed`."""
    name, entry = ".".join((*home.split(".")[1:], function.__name__)), entry_of(function)

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        if entry is not None and LAUNCHER.enter is not None:
            try:
                found = LAUNCHER.enter(entry, args, kwargs)
                if found is not NotImplemented:
                    return found
            except (Transformed, TypeError, UnsupportedProblem):  # which the function says again
                pass
        if LAUNCHER.wants_gradient(args):  # known without asking the function, which takes 20 us
            return _framework("torch")(name, function, args, kwargs)
        try:
            return function(*args, **kwargs)
        except Transformed as refusal:
            return _framework(refusal.library)(name, function, args, kwargs, refusal)
        except (TypeError, UnsupportedProblem) as refusal:
            return _framework("numpy")(name, function, args, kwargs, refusal)

    call.__module__ = home  # where pickles and readers find it
    graphs.allow(call)
    return call


def through_framework(
    name: str, function: Callable[..., object], args: tuple[object, ...], refusal: Transformed
) -> Array:
    """A framework's answer to a call of a method that refused an operand."""
    return _framework(refusal.library)(name, function, args, {}, refusal)
