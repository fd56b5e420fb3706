"""PyTorch tensors and JAX arrays as arguments of the solvers, which compute with NumPy and CuPy.

Arguments become NumPy or CuPy arrays in the same memory. Results, the x of a callback, and what a function M takes and
returns are arrays of the caller's library again. On a GPU, work is enqueued on the caller's current stream.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from ...arrays import kinds as arrays
from ...arrays.types import Array
from ...operations.sparse.matrix import matrix

F = TypeVar("F", bound=Callable[..., Any])


def for_callers(vectors: tuple[str, ...], operators: tuple[str, ...] = (), callback: str = "") -> Callable[[F], F]:
    """Let a solver take tensors and JAX arrays as the parameters of these names: `vectors` are arrays, `operators` may
    also be functions and matrices, and `callback` is a function of x or of a number."""

    def decorated(solve: F) -> F:
        form = signature(solve)

        @wraps(solve)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not any(_is_foreign(one) for one in (*args, *kwargs.values())):
                return solve(*args, **kwargs)
            bound = form.bind(*args, **kwargs)
            given = bound.arguments
            named = [(name, given[name]) for name in (*vectors, *operators) if _is_array(given.get(name))]
            if not any(_is_foreign(one) for _, one in named):  # tensors where no array belongs: the solver says so
                return solve(*args, **kwargs)
            with ExitStack() as stack:
                caller = _Caller(named, stack)
                given.update((name, caller.inside(one, name)) for name, one in named)
                for name in operators:
                    if _is_function(given.get(name)):
                        given[name] = caller.function(given[name], name)
                if given.get(callback) is not None:
                    given[callback] = caller.told(given[callback])
                return caller.outside(solve(*bound.args, **bound.kwargs))

        return cast(F, call)

    return decorated


def _is_array(operand: Any) -> bool:
    return arrays.library_of(type(operand)) is not None


def _is_foreign(operand: Any) -> bool:
    return arrays.library_of(type(operand)) in ("torch", "jax")


def _is_function(operand: Any) -> bool:
    return callable(operand) and not hasattr(operand, "__matmul__")


class _Caller:
    """The array library of one call, and the device and stream that its arrays are used on while `stack` is open."""

    def __init__(self, named: list[tuple[str, Array]], stack: ExitStack) -> None:
        self.kind: Any = arrays.common_kind(named)
        name, first = named[0]
        if self.kind.immutable:
            found = self.kind.unwrap(first, name)
            if not isinstance(found, np.ndarray):
                stack.enter_context(found.device)
            return
        if first.is_cuda:
            import cupy

            index = first.device.index or 0
            stack.enter_context(cupy.cuda.Device(index))
            stack.enter_context(cupy.cuda.ExternalStream(self.kind.stream_of(("cuda", index))(), index))

    def inside(self, array: Array, name: str) -> Any:
        """A NumPy or CuPy array in the same memory; a sparse tensor becomes a stored matrix."""
        if self.kind.immutable:
            return self.kind.unwrap(array, name)
        if str(array.layout).startswith("torch.sparse"):
            return matrix(array)
        dtype = self.kind.view(array, name).dtype
        if dtype == "bfloat16":
            raise TypeError(f"{name} has dtype bfloat16, which the solvers do not compute in: pass {name}.float()")
        return self.kind.unwrap(array, name)

    def outside(self, found: Any) -> Any:
        """Arrays as the caller's; anything else as it is."""
        if isinstance(found, tuple):
            return tuple(map(self.outside, found))
        if not _is_array(found):
            return found
        if self.kind.immutable and not found.flags.c_contiguous:
            found = found.copy()  # JAX takes no strides
        return self.kind.wrap(found)

    def function(self, M: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
        """A function of the caller's arrays as one of ours."""

        def applied(x: Any) -> Any:
            found = M(self.outside(self._lent(x)))
            return self.inside(found, f"{name}(x)") if _is_foreign(found) else found

        return applied

    def told(self, callback: Callable[[Any], object]) -> Callable[[Any], object]:
        """A callback that gets the caller's arrays."""
        return lambda x: callback(self.outside(self._lent(x)) if _is_array(x) else x)

    def _lent(self, x: Any) -> Any:
        """x, which solvers overwrite later: a copy where the caller's arrays never change."""
        return x.copy() if self.kind.immutable else x
