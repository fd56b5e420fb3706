"""Protocol of a backend: compiles and loads a kernel, and returns a function that launches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source

# operand addresses, scalars (alpha and beta as real and imaginary parts), stream handle
Launch = Callable[[tuple[int, ...], tuple[float, ...], int], None]


class Described(Protocol):
    """A device by its facts; it may be absent, and kernels for it compiled all the same."""

    name: str
    device: Device

    def log(self, source: Source) -> str:
        """The compiler's report for `source`."""
        ...


class Backend(Described, Protocol):
    """Builds, loads and launches kernels on one device."""

    def prepare(self, kernel: Kernel) -> Launch:
        """Compile (or fetch) and load; the result launches on the operands it is given."""
        ...
