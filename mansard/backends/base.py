"""Protocol of a backend: compiles and loads a kernel, and returns a function that launches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source

# operand addresses, scalars (alpha and beta as real and imaginary parts), stream handle
Launch = Callable[[tuple[int, ...], tuple[float, ...], int], None]


class Backend(Protocol):
    """Builds, loads and launches kernels on one device."""

    name: str
    device: Device

    def prepare(self, kernel: Kernel) -> Launch:
        """Compile (or fetch) and load; the result launches on the operands it is given."""
        ...

    def log(self, source: Source) -> str:
        """The compiler's report for `source`."""
        ...
