"""Kernels as custom calls of XLA: the compiled program calls them itself, without Python.

While a program is lowered, the call is planned for operands of its shapes. If the plan is one launch of one kernel on
the operands' own memory, the kernel is entered in the library of `mansard/xla/calls.hpp` under a number, and the
program gets a custom call with this number, the record of the kernel's arguments, and the buffer of each pointer. The
number stands for the kernel's code and launch, so that it means the same in every process, and programs may come from
JAX's cache. Everything else calls back to Python (`host.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import jax
import numpy as np

from ...codegen.geometry import Kernel
from ...compile import cxx
from ...compile.key import headers_mention
from ...errors import BackendUnavailable, CompileError
from ...operations.single_launch import SingleLaunch

_TEXT = '#include "mansard/xla/calls.hpp"\n'
PLATFORMS = ("cpu", "cuda")  # JAX's names; those of our backends
_TARGETS = {"cpu": ("mansard_on_cpu", "cpu"), "cuda": ("mansard_on_gpu", "CUDA")}  # handler, XLA's name
_COUNTER_BYTES = 1024  # COUNTERS words of mansard/gpu/reduce.cuh
_NOWHERE, _APART = 1 << 30, 1 << 44  # addresses that nobody reads, each operand far from the next

Answer = SingleLaunch | Literal["library"] | None
Describe = Callable[..., Answer]  # asked with arrays like the operands, without memory, and with options


def described(describe: Describe, platform: str, operands: Sequence[Any], options: dict[str, Any]) -> Answer:
    """Return who answers a call in a program for `platform`: a launch, the array library, or (None) the call back."""
    if options.get("backend") not in (None, platform):
        return None
    found = describe(*(_stand_in(one, i, platform) for i, one in enumerate(operands)), **options)
    if isinstance(found, SingleLaunch) and (found.backend != platform or _library() is None):
        return None
    return found


def call(direct: SingleLaunch, platform: str, operands: Sequence[Any]) -> list[Any]:
    """The kernel's results, in the order of the description; the primitive may have fewer. They come row after row, as
    operands do."""
    results = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in direct.results]
    attributes = {
        "kernel": np.int64(_entered(direct.kernel, platform)),
        "record": np.array(direct.record(), np.int64), "places": np.array(direct.places, np.int64),
    }  # fmt: skip
    return list(_ffi().ffi_call(_target(platform), results)(*operands, **attributes))


def _stand_in(operand: Any, number: int, platform: str) -> Any:
    """An array for planning: shape, dtype and alignment of one of XLA's, at an address that nobody reads."""
    shape, dtype, address = tuple(operand.shape), np.dtype(operand.dtype), _NOWHERE + number * _APART
    if platform == "cpu":
        facts = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}
        return np.asarray(SimpleNamespace(__array_interface__=facts))
    cupy: Any = import_module("cupy")
    ordinal = cupy.cuda.runtime.getDevice()
    memory = cupy.cuda.UnownedMemory(address, max(1, dtype.itemsize * int(np.prod(shape))), None, ordinal)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))


# ---- the library of handlers --------------------------------------------------------------------------------


def _ffi() -> Any:
    """JAX's foreign function interface; raises ImportError where a version of JAX has none in this form."""
    return import_module("jax.ffi")


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """The compiled handlers; None where this version of JAX, or this machine without a compiler, has none."""
    try:
        headers, version = Path(_ffi().include_dir()), import_module("jaxlib").__version__
        entry = cxx.compile_extension(_TEXT, f"jaxlib_{version}", headers)
    except (ImportError, AttributeError, BackendUnavailable, CompileError):
        return None
    return ctypes.CDLL(str(entry.binary))


@lru_cache(maxsize=2)
def _target(platform: str) -> str:
    """The name under which XLA knows the handler for a platform, registered when it is first needed."""
    symbol, name = _TARGETS[platform]
    library = _library()
    assert library is not None
    _ffi().register_ffi_target(symbol, _ffi().pycapsule(getattr(library, symbol)), platform=name)
    return symbol


# ---- kernels ------------------------------------------------------------------------------------------------


def _entered(kernel: Kernel, platform: str) -> int:
    """The number of a kernel, entered for every device of the platform."""
    number = _number(kernel)
    if (platform, number) not in _ENTERED:
        (_enter_on_cpu if platform == "cpu" else _enter_on_gpus)(kernel, number)
        _ENTERED[platform, number] = kernel
    return number


_ENTERED: dict[tuple[str, int], Kernel] = {}


def _number(kernel: Kernel) -> int:
    """63 bits that stand for a kernel's text and its launch."""
    facts = f"{kernel.source.target}\n{kernel.source.text}\n{kernel.geometry}"
    return int.from_bytes(sha256(facts.encode()).digest()[:8], "little") >> 1


def _enter(
    kernel: Kernel, number: int, device: int, function: int, zeroed_bytes: int = 0, cooperative: bool = False
) -> None:  # fmt: skip
    library, geometry = _library(), kernel.geometry
    assert library is not None
    grid = (ctypes.c_uint * 3)(*geometry.grid)
    library.mansard_enter(
        ctypes.c_int64(number), device, ctypes.c_void_p(function), ctypes.c_int64(geometry.partial_bytes),
        ctypes.c_int64(zeroed_bytes), grid, geometry.block, geometry.shared_bytes, int(cooperative),
    )  # fmt: skip


def _enter_on_cpu(kernel: Kernel, number: int) -> None:
    binary = cxx.compile_cpu(kernel.source).binary
    _enter(kernel, number, 0, ctypes.cast(ctypes.CDLL(str(binary)).kernel, ctypes.c_void_p).value or 0)


def _enter_on_gpus(kernel: Kernel, number: int) -> None:
    """Enter the kernel for all GPUs that JAX uses here: which one a program will run on is not known yet."""
    from ...backends import cuda

    counts = headers_mention(kernel.source.text, "counters")  # finished blocks, or the next tile
    zeroed = _COUNTER_BYTES + kernel.geometry.sum_bytes if counts else 0
    for ordinal in {device.local_hardware_id or 0 for device in jax.local_devices(backend="cuda")}:
        backend = cuda.backend(ordinal)
        _enter_driver(backend.driver.lib)
        launch: Any = backend.prepare(kernel)
        _enter(kernel, number, ordinal, launch.function.value, zeroed, launch.cooperative)


@lru_cache(maxsize=1)
def _enter_driver(driver: Any) -> None:
    """Tell the handler where the driver's functions are."""
    library = _library()
    assert library is not None
    names = ("cuCtxGetDevice", "cuMemsetD8Async", "cuLaunchKernel", "cuLaunchCooperativeKernel")
    library.mansard_enter_driver(*(ctypes.cast(getattr(driver, name), ctypes.c_void_p) for name in names))
