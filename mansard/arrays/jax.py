"""JAX arrays, through DLPack: a call unwraps them, works on their memory without a copy, and returns a JAX array."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import Transformed
from .view import View

_DOUBLE = ("float64", "complex128")
_NUMBERS = ("float32", "float64", "complex64", "complex128")


class JaxKind:
    """jax.Array. JAX arrays cannot change."""

    name = "JAX"
    immutable = True  # results are new arrays
    answer = None

    def __init__(self) -> None:
        self._jax = sys.modules["jax"]
        self.module = self._jax.numpy  # for what is made of results

    def view(self, array: Any, argument: str) -> View:
        """Plans hold arrays that can be written to again and again, which JAX arrays cannot."""
        raise TypeError(f"{argument} is a JAX array, which plans do not take: pass numpy.asarray({argument})")

    def unwrap(self, array: Any, argument: str) -> Any:
        """A NumPy or CuPy view of a JAX array's buffer (no copy); arrays without one buffer here raise an error."""
        if array.is_deleted():
            raise ValueError(f"{argument} was deleted or donated: pass an array that still has its values")
        devices = array.devices()
        if len(devices) > 1 or not array.is_fully_addressable:
            raise ValueError(
                f"{argument} is spread over {len(devices)} devices: pass jax.device_put({argument}, jax.devices()[0])"
            )
        array.block_until_ready()  # JAX's own streams are not ours to order with
        on_cpu = next(iter(devices)).platform == "cpu"
        try:
            return np.from_dlpack(array) if on_cpu else _cupy().from_dlpack(array)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(
                f"{argument} has dtype {array.dtype}, which does not leave JAX ({error}): convert it first"
            ) from error

    def promoted(self, array: Any, dtype: str) -> Any:
        """The array in the dtype that jax.numpy gives its product with entries of `dtype`; as it is where that is one
        that JAX does not promote here, or no number that kernels know."""
        own = np.dtype(array.dtype)
        is_known = own.kind in "iub" or own.name in _NUMBERS
        if not is_known or (dtype in _DOUBLE and self.module.result_type(float) != np.float64):
            return array
        return array.astype(self.module.result_type(array, np.dtype(dtype)))

    def wrap(self, array: Any) -> Any:
        """A NumPy or CuPy array as a JAX array."""
        if not isinstance(array, np.ndarray):
            sys.modules["cupy"].cuda.get_current_stream().synchronize()
        return self._jax.dlpack.from_dlpack(array)


def _cupy() -> Any:
    """CuPy, imported when the first JAX array on a GPU comes: calls with arrays on the CPU never need it."""
    import cupy

    return cupy


def is_tracer(kind: type) -> bool:
    """Whether values of a type stand for arrays inside one of JAX's transformations."""
    return any(base.__name__ == "Tracer" and base.__module__.partition(".")[0] == "jax" for base in kind.__mro__)


def refusal(kind: type, argument: str) -> TypeError | None:
    """Why values of one of JAX's types are not taken; None for those that are."""
    if is_tracer(kind):
        return Transformed(
            f"{argument} is traced by JAX (inside jit, grad or vmap) and has no values yet: call Mansard outside of "
            "them, or through jax.pure_callback",
            "jax",
        )
    if "PRNG" in kind.__name__:
        return TypeError(f"{argument} is an array of random keys: pass jax.random.key_data of it")
    return None
