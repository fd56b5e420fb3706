"""cuBLAS through ctypes: products on a captured stream, which CuPy refuses to call, and those that the native launcher
calls without Python code.

The library is the one that the process has loaded already. Handles are ours. Python's has no workspace where a stream
is captured: a graph would go on using it while others do.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from ctypes import byref, c_int, c_longlong, c_size_t, c_void_p
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from ..errors import BackendUnavailable, LaunchError
from .cuda_driver import Driver, driver, loaded_library, within

_NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")
_OPERAND = (c_void_p, c_int)  # where it is, and its leading dimension
_SIZES = (c_void_p, *(c_int,) * 5)  # handle, two operations, m, n, k
_ARGUMENTS = {
    "gemm": (*_SIZES, c_void_p, *_OPERAND, *_OPERAND, c_void_p, *_OPERAND),
    "gemmStridedBatched": (*_SIZES, c_void_p, *(*_OPERAND, c_longlong) * 2, c_void_p, *_OPERAND, c_longlong, c_int),
}
_FORMAT = {"s": "2f8x", "d": "2d", "c": "2f8x", "z": "2d"}  # of a factor, real and imaginary, in 16 bytes
_WORKSPACE = 32 << 20  # bytes that NVIDIA recommends for Hopper; fewer would change the choice of an algorithm there
_PER_THREAD_STREAM = 2


class Cublas:
    """The products, by their names without the letter for the type."""

    def __init__(self, lib: Any = None) -> None:
        self.lib = loaded_library(_NAMES, ": a graph cannot hold this product") if lib is None else lib
        self.lib.cublasSetStream_v2.argtypes = (c_void_p, c_void_p)
        self.lib.cublasSetWorkspace_v2.argtypes = (c_void_p, c_void_p, c_size_t)
        self._handles: dict[object, c_void_p] = {}
        self._workspaces: dict[tuple[int, int, int], int] = {}  # device, stream, thread -> address
        self._lock = Lock()

    def call(
        self, letter: str, name: str, device: int, stream: int, arguments: tuple[Any, ...],
        workspace: tuple[int | None, int] = (None, 0),
    ) -> None:  # fmt: skip
        """On a stream of the current device; `arguments` are those behind the handle."""
        routine = self.routine(letter, name)
        with self._lock:
            handle = self._handle(device)
            self._check(self.lib.cublasSetStream_v2(handle, stream), "cublasSetStream")
            self._check(self.lib.cublasSetWorkspace_v2(handle, *workspace), "cublasSetWorkspace")
            self._check(routine(handle, *arguments), f"cublas{letter.upper()}{name}")

    def routine(self, letter: str, name: str) -> Any:
        """The function of a product."""
        found = getattr(self.lib, f"cublas{letter.upper()}{name}" + ("_v2" if name == "gemm" else ""))
        if found.argtypes is None:
            found.argtypes = _ARGUMENTS[name]
        return found

    def native_handle(self, device: int) -> int:
        """The handle that the native launcher alone uses, made where the device is current."""
        with self._lock:
            return self._handle(("native", device)).value or 0

    def workspace(self, device: int, stream: int, owner: Driver) -> tuple[int, int]:
        """Address and bytes of a stream's own workspace. What is queued on one stream runs in turn, so that all handles
        may use it; it is never freed."""
        key = (device, stream, threading.get_ident() if stream == _PER_THREAD_STREAM else 0)
        with self._lock:
            if key not in self._workspaces:
                self._workspaces[key] = owner.allocate(_WORKSPACE)
            return self._workspaces[key], _WORKSPACE

    def _handle(self, key: object) -> c_void_p:
        if key not in self._handles:
            handle = c_void_p()
            self._check(self.lib.cublasCreate_v2(byref(handle)), "cublasCreate")
            self._handles[key] = handle
        return self._handles[key]

    @staticmethod
    def _check(status: int, what: str) -> None:
        if status:
            raise LaunchError(f"{what}: cuBLAS status {status}")


@lru_cache(maxsize=1)
def cublas() -> Cublas:
    return Cublas()


# ---- products as launches ----------------------------------------------------------------------------------


class Columnwise(NamedTuple):
    """Products C = op(A) op(B) as cuBLAS is asked for them. `order` says which of the operands A (0), B (1) and C (2)
    are its left one, its right one and its result; the other fields of operands are in this order."""

    letter: str
    operations: tuple[int, int]
    sizes: tuple[int, int, int]  # m, n, k
    order: tuple[int, int, int]
    pitches: tuple[int, int, int]
    steps: tuple[int, int, int]  # numbers between matrices
    batch: int


class CublasEntry(NamedTuple):
    """A product as data, for the native launcher (`native/products.hpp`)."""

    backend: str  # "cublas"
    is_capturing: int  # addresses of functions
    current_context: int
    context: int
    set_stream: int
    set_workspace: int
    routine: int
    handle: int
    numbers: tuple[int, int, int, int, int]  # two operations, m, n, k
    operands: tuple[tuple[int, int, int], ...]  # which, its leading dimension, and the step between matrices
    batch: int
    factors: bytes  # alpha = 1 and beta = 0
    workspace: Callable[[int], tuple[int, int]]


class CublasLaunch:
    """Products of arrays that lie alike: call it with the addresses of A, B and C, and a stream."""

    def __init__(self, library: Cublas, owner: Driver, device: int, product: Columnwise) -> None:
        self._library, self._driver, self._device, self._product = library, owner, device, product
        self._name = "gemm" if product.batch == 1 else "gemmStridedBatched"
        self._factors = struct.pack(f"={_FORMAT[product.letter]}", 1, 0) + bytes(16)
        self._held = ctypes.create_string_buffer(self._factors, len(self._factors))
        self._alpha = ctypes.addressof(self._held)

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        """A product with alpha = 1 and beta = 0, whatever the current context; it may be captured in a graph."""
        with within(self._driver, self._device):
            captured = self._driver.capture_id(c_void_p(stream))
            space = (None, 0) if captured else self._library.workspace(self._device, stream, self._driver)
            self._library.call(
                self._product.letter, self._name, self._device, stream, self._arguments(pointers), space
            )  # fmt: skip

    def _arguments(self, pointers: tuple[int, ...]) -> tuple[Any, ...]:
        """Arguments of cuBLAS's function for operands at these addresses, without the handle, which comes first."""
        product, batched = self._product, self._product.batch > 1
        left, right, result = (
            (pointers[side], pitch, *((step,) * batched))
            for side, pitch, step in zip(product.order, product.pitches, product.steps, strict=True)
        )
        end = (product.batch,) * batched
        return (*product.operations, *product.sizes, self._alpha, *left, *right, self._alpha + 16, *result, *end)

    @property
    def entry(self) -> CublasEntry:
        """The launch as data."""
        product, lib, of_driver = self._product, self._library.lib, self._driver.lib
        routine = self._library.routine(product.letter, self._name)
        with within(self._driver, self._device):
            context = self._driver.current_context().value or 0
            handle = self._library.native_handle(self._device)
        return CublasEntry(
            "cublas", _address(of_driver.cuStreamIsCapturing), _address(of_driver.cuCtxGetCurrent), context,
            _address(lib.cublasSetStream_v2), _address(lib.cublasSetWorkspace_v2), _address(routine), handle,
            (*product.operations, *product.sizes),
            tuple(zip(product.order, product.pitches, product.steps, strict=True)), product.batch, self._factors,
            lambda stream: self._library.workspace(self._device, stream, self._driver),
        )  # fmt: skip


def _address(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


def launch(device: int, product: Columnwise) -> CublasLaunch | None:
    """Products on a device by the process's cuBLAS; None where it has loaded none."""
    try:
        return CublasLaunch(cublas(), driver(), device, product)
    except BackendUnavailable:
        return None
