"""Protocol of a backend: compiles and loads a kernel, and returns a function that launches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import SCALARS, Source

# operand addresses, scalars (alpha and beta as real and imaginary parts), stream handle
Launch = Callable[[tuple[int, ...], tuple[float, ...], int], None]


class CpuEntry(NamedTuple):
    """A launch on a CPU as data, for the native launcher."""

    backend: str  # "cpu"
    function: int  # address
    arguments: bytes  # with null in the place of operands and scratch, factors 1 and 0
    operands: int  # addresses at the front of the arguments
    partial_bytes: int


class CudaEntry(NamedTuple):
    """A launch on a GPU as data, for the native launcher."""

    backend: str  # "cuda"
    launch: int  # addresses of cuLaunchKernel, or its cooperative relative, and of cuStreamIsCapturing
    is_capturing: int
    function: int
    sizes: tuple[int, int, int, int, int]  # of the grid, of a block, of dynamic shared memory
    arguments: bytes
    operands: int
    cooperative: bool
    workspace: Callable[[int], tuple[int, int]]  # partial sums and counters of a stream


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


_UNSCALED = (1.0, 0.0, 0.0, 0.0)  # alpha = 1, beta = 0


def operands_of(kernel: Kernel) -> int:
    """Addresses of operands at the front of a kernel's arguments."""
    return next(i for i, field in enumerate(kernel.source.arguments) if field.name == "partials")


def unscaled_arguments(kernel: Kernel) -> bytes:
    """The arguments of a kernel with null addresses, and with alpha = 1 and beta = 0 where it has factors."""
    fields = kernel.source.arguments
    scalars = _UNSCALED if fields[-len(SCALARS) :] == SCALARS else ()
    nulls = (0,) * (operands_of(kernel) + 2)  # and two of scratch
    return kernel.source.packing.pack(*nulls, *kernel.fixed, *scalars)
