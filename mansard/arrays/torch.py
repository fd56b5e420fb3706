"""PyTorch tensors on the CPU or on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import CudaAfterFork, Transformed
from ..plan.problem import DTYPES
from . import torch_linalg, triangles
from .gemm import Gemm, Product
from .torch_linalg import TorchLinalg
from .torch_state import autocast_state, has_tangent, is_transformed, signer, version_raiser
from .types import Maker, StreamSource
from .view import View, dense_strides, extent, no_stream


class TorchKind:
    """torch.Tensor, and subclasses that leave its functions alone (torch.nn.Parameter)."""

    name, package = "PyTorch", "torch"
    immutable = False
    answer = None
    promotes = False
    batches_matmul = True
    prefers_blas = False
    cublas_dtypes = ("float64", "complex128")  # of the others allow_tf32 decides, in every call
    has_numpy_methods = False
    on_host_alone = False
    most_eigenproblems = 65_535  # cuSOLVER's XsyevBatched
    spmv = None

    def __init__(self) -> None:
        self.module: Any = (torch := sys.modules["torch"])
        self._names = {getattr(torch, name): name for name in DTYPES}
        self._records = torch.is_grad_enabled
        self._forward = sys.modules["torch.autograd.forward_ad"]
        self.signature = signer(torch, self._forward)
        self._traced = torch._C._get_tracing_state
        self.written = version_raiser(torch)
        self._from_numpy = torch.from_numpy
        self._is_autocast, self._without_autocast = autocast_state(torch)

    def view(self, array: Any, argument: str) -> View:
        """Describe a tensor; one that has no data, or whose gradient would be lost, raises an error that names the
        argument."""
        if self._traced() is not None:
            raise TypeError(f"{argument} is traced by torch.jit, which cannot look into Mansard: call it outside")
        self.refuse_derivatives(array, argument)
        if array.is_nested:
            raise TypeError(f"{argument} is a nested tensor: pass ms.Ragged.from_list(list({argument}.unbind()))")
        if array.layout is not self.module.strided:
            raise TypeError(f"{argument} has layout {array.layout}, not a dense one: pass {argument}.to_dense()")
        if array.is_neg():
            raise TypeError(f"{argument} is lazily negated: pass {argument}.resolve_neg()")
        name = self._names.get(array.dtype, str(array.dtype).removeprefix("torch."))
        device = (array.device.type, array.device.index or 0)
        address = self._address(array, argument)
        found = View(address, tuple(array.shape), array.stride(), name, device, False, array.is_conj())
        self._check_storage(array, found, argument)
        return found

    def refuse_derivatives(self, array: Any, argument: str) -> None:
        """Refuse a tensor that records gradients: Mansard would drop them."""
        if is_transformed(self.module, array):
            raise Transformed(
                f"{argument} is traced by torch.func or torch.vmap (vmap, grad, jvp, functionalize), which cannot look "
                "into Mansard: call it outside, on batches (..., rows, columns) instead of vmap",
                "torch",
            )
        if array.requires_grad and self._records():
            raise Transformed(
                f"{argument} requires a gradient and Mansard records none: pass {argument}.detach(), or call inside "
                "torch.no_grad()",
                "torch",
            )
        if self._forward._current_level >= 0 and has_tangent(array):
            raise Transformed(
                f"{argument} is a dual tensor of forward-mode differentiation and Mansard records no derivatives: "
                f"pass torch.autograd.forward_ad.unpack_dual({argument}).primal",
                "torch",
            )

    def _address(self, array: Any, argument: str) -> int:
        """Address of the data; raise TypeError for tensors without any."""
        try:
            address = array.data_ptr()
        except RuntimeError:
            address = 0
        if array.is_meta or ((address == 0 or array._is_zerotensor()) and 0 not in array.shape):
            where = f" (device {array.device})" if array.is_meta else ""
            raise TypeError(f"{argument} is a tensor without data{where}: pass one whose values are in memory")
        return address  # type: ignore[no-any-return]

    def _check_storage(self, array: Any, view: View, argument: str) -> None:
        """Every entry lies inside the storage, which can be resized while tensors look at it, and where PyTorch expects
        it: memory of other libraries may begin anywhere, and PyTorch's own copies of it crash (complex128)."""
        if 0 in view.shape:
            return
        item = array.element_size()
        if view.address % item:
            raise ValueError(
                f"{argument} begins between multiples of its {item} bytes per element, as no tensor of PyTorch's own "
                "does: copy the memory that it was made from"
            )
        first = view.address - array.storage_offset() * item
        low, high = extent(view, item)
        there = array.untyped_storage().nbytes()
        if low < first or high > first + there:
            raise ValueError(
                f"{argument} reaches beyond its storage, which was resized to {there} bytes: "
                "pass a tensor whose values are in memory"
            )

    def address(self, array: Any) -> int:
        return array.data_ptr()  # type: ignore[no-any-return]

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        # dtype and device come along; new_empty costs 2 us more
        try:
            made = like.new_empty_strided(shape, (shape[1], 1) if len(shape) == 2 else dense_strides(shape))
        except RuntimeError as error:
            raise _not_allocated(error, shape) from error
        if type(made) is not type(like) and type(made) is not self.module.Tensor:
            raise TypeError(
                f"PyTorch makes no tensors with data now but a {type(made).__name__}: call Mansard outside of the mode "
                "(FakeTensorMode, torch.export) that is active"
            )
        return made

    def plain(self, array: Any) -> Any:
        """A contiguous tensor that holds its values literally."""
        try:
            return array.resolve_conj().resolve_neg().contiguous()
        except RuntimeError as error:
            raise _not_allocated(error, tuple(array.shape)) from error

    def stream_of(self, device: tuple[str, int]) -> Callable[[], int]:
        """A function that names the caller's current stream on the device. Plans ask for it once: PyTorch builds with
        CUDA raise on machines without a GPU as soon as any stream is asked for."""
        if device[0] != "cuda":
            return no_stream
        # the raw handle: building a Stream object would cost more than the launch
        return partial(self.module._C._cuda_getCurrentRawStream, device[1])

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        if self._is_autocast():
            with self._without_autocast():
                return self.matmul(a, b, out)
        try:
            return a @ b if out is None else self.module.matmul(a, b, out=out)
        except RuntimeError as error:
            raise _not_allocated(error, (*a.shape[:-1], *b.shape[-1:])) from error

    def conj(self, array: Any) -> Any:
        return array.conj()

    def allocate(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return like.new_empty(shape, dtype=getattr(self.module, dtype))

    def allocator(self, shape: tuple[int, ...], dtype: str, of_operand: str) -> Callable[[Any], Any]:
        if dtype == of_operand and len(shape) > 1:
            return lambda like: self.empty(shape, dtype, like)
        own, steps = getattr(self.module, dtype), dense_strides(shape)
        return lambda like: like.new_empty_strided(shape, steps, dtype=own)

    def maker(self, shape: tuple[int, ...], dtype: str, of_operand: str) -> Maker:
        given, function = (shape, dense_strides(shape)), self.module.Tensor.new_empty_strided
        if dtype == of_operand:
            return Maker(function, given, takes_like=True)
        return Maker(function, (*given, getattr(self.module, dtype)), ("dtype",), takes_like=True)

    def stream_source(self, device: tuple[str, int]) -> StreamSource | None:
        return StreamSource(self.stream_of(device), by_dlpack=True, ordinal=device[1]) if device[0] == "cuda" else None

    def arange(self, count: int, like: Any) -> Any:
        return self.module.arange(count, device=like.device)

    def astype(self, array: Any, dtype: Any) -> Any:
        return array.to(getattr(self.module, dtype) if isinstance(dtype, str) else dtype)

    def diagonals(self, array: Any) -> Any:
        return array.diagonal(0, -2, -1)

    def triangle(self, array: Any, lower: bool) -> Any:
        return (self.module.tril if lower else self.module.triu)(array)

    def put_triangle(self, array: Any, values: Any, lower: bool) -> None:
        triangles.put(self.module, array, values, lower)

    def mirror(self, array: Any, lower: bool, conjugated: bool) -> None:
        triangles.mirror(self.module, array, lower, conjugated)

    def take_along(self, array: Any, index: Any, axis: int) -> Any:
        return self.module.take_along_dim(array, index, axis)

    def put_along(self, array: Any, index: Any, values: Any, axis: int) -> None:
        array.scatter_(axis, index.expand(values.shape), values)

    def upload(self, array: Any, like: Any) -> Any:
        if like.is_cpu:
            return self._from_numpy(np.asarray(array))  # a third of the time of as_tensor
        return self.module.as_tensor(np.asarray(array), device=like.device)

    def download(self, array: Any) -> Any:
        try:
            return array.numpy()
        except (RuntimeError, TypeError):  # it records a gradient, is lazily conjugated or negated, or lies on a GPU
            return array.detach().resolve_conj().resolve_neg().cpu().numpy()

    def unwrap(self, array: Any, argument: str) -> Any:
        plain = self.plain(array.detach())
        return plain.numpy() if plain.is_cpu else import_module("cupy").from_dlpack(plain)

    def wrap(self, array: Any) -> Any:
        return self.module.from_numpy(array) if isinstance(array, np.ndarray) else self.module.from_dlpack(array)

    def check_matmul(self, dtypes: dict[str, str]) -> None:
        for name, dtype in dtypes.items():
            if dtype not in (*DTYPES, *_MULTIPLIED):
                raise TypeError(f"{name} has dtype {dtype}, which PyTorch does not multiply: convert it first")
        (first, one), (second, other) = dtypes.items()
        if one != other:
            raise TypeError(f"{first} has dtype {one} and {second} {other}: convert one of them")

    @property
    def linalg(self) -> TorchLinalg:
        return TorchLinalg(self.module)

    def load_cublas(self) -> None:
        """Do nothing: PyTorch has it loaded."""

    def gemm(self, views: Sequence[View], layouts: Sequence[tuple[str, int]]) -> Product | None:
        return torch_linalg.gemm(self.module, views[0].dtype)

    def strided_gemm(self, gemm: Gemm) -> Product | None:
        return torch_linalg.strided_gemm(self.module, gemm)

    def memory(self, size: int, device: tuple[str, int]) -> Any:
        where = device[0] if device[0] == "cpu" else f"{device[0]}:{device[1]}"
        return self.module.empty(size, dtype=self.module.uint8, device=where)

    def over(self, memory: Any, offset: int, view: View) -> Any:
        dtype = getattr(self.module, view.dtype)
        entries = memory[offset : offset + (len(memory) - offset) // dtype.itemsize * dtype.itemsize].view(dtype)
        made = entries.as_strided(view.shape, view.strides)
        return made.conj() if view.conjugated else made


_MULTIPLIED = ("float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64")  # dtypes beside `DTYPES`


def _not_allocated(error: RuntimeError, shape: tuple[int, ...]) -> Exception:
    """Why PyTorch made no tensor: no memory on a CPU, CUDA in a forked child, or its own error."""
    if "CUDA error: initialization error" in str(error):  # PyTorch checks for forks only before its own first call
        return CudaAfterFork()
    if "DefaultCPUAllocator" not in str(error):
        return error
    return MemoryError(f"no memory for a tensor of shape {shape}: pass fewer matrices, or fewer rows")


def refusal(kind: type, argument: str) -> TypeError | None:
    """Why tensors of a subclass of torch.Tensor are not taken; None for those that are."""
    torch = sys.modules["torch"]
    plain = torch.Tensor
    functions = (plain.__torch_function__.__func__, torch._C._disabled_torch_function_impl)
    own = kind.__torch_function__  # type: ignore[attr-defined]
    if kind.__torch_dispatch__ is plain.__torch_dispatch__ and getattr(own, "__func__", own) in functions:  # type: ignore[attr-defined]
        return None
    name = f"{kind.__module__}.{kind.__name__}"
    if kind.__name__ in ("FakeTensor", "FunctionalTensor"):
        return Transformed(
            f"{argument} is a {name}, which has no data: PyTorch is tracing (torch.compile, torch.export) and cannot "
            "look into Mansard: call it outside, or inside a function under torch.compiler.disable",
            "torch",
        )
    return TypeError(
        f"{argument} is a {name}, a subclass of torch.Tensor with functions of its own: pass the tensor that it holds, "
        f"or {argument}.as_subclass(torch.Tensor)"
    )
