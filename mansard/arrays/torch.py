"""PyTorch tensors on the CPU or on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import CudaAfterFork
from ..plan.problem import DTYPES
from .view import View, dense_strides, extent, no_stream


class TorchKind:
    """torch.Tensor, and subclasses that leave its functions alone (torch.nn.Parameter)."""

    name = "PyTorch"
    immutable = False

    def __init__(self) -> None:
        self._torch = torch = sys.modules["torch"]
        self._names = {getattr(torch, name): name for name in DTYPES}
        self._records = torch.is_grad_enabled
        self._forward = sys.modules["torch.autograd.forward_ad"]
        self.signature = _signer(torch, self._forward)
        self._traced = torch._C._get_tracing_state
        self.written = _version_raiser(torch)
        self._left_out = False

    def view(self, array: Any, argument: str) -> View:
        """Describe a tensor; one that has no data, or whose gradient would be lost, raises an error that names the
        argument."""
        self._leave_out_of_graphs()
        if self._traced() is not None:
            raise TypeError(f"{argument} is traced by torch.jit, which cannot look into Mansard: call it outside")
        self.refuse_derivatives(array, argument)
        if array.is_nested:
            raise TypeError(f"{argument} is a nested tensor: pass ms.Ragged.from_list(list({argument}.unbind()))")
        if array.layout is not self._torch.strided:
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
        if _is_transformed(self._torch, array):
            raise TypeError(
                f"{argument} is traced by torch.func or torch.vmap (vmap, grad, jvp, functionalize), which cannot look "
                "into Mansard: call it outside, on batches (..., rows, columns) instead of vmap"
            )
        if array.requires_grad and self._records():
            raise TypeError(
                f"{argument} requires a gradient and Mansard records none: pass {argument}.detach(), or call inside "
                "torch.no_grad()"
            )
        if self._forward._current_level >= 0 and _tangent(array):
            raise TypeError(
                f"{argument} is a dual tensor of forward-mode differentiation and Mansard records no derivatives: "
                f"pass torch.autograd.forward_ad.unpack_dual({argument}).primal"
            )

    def _leave_out_of_graphs(self) -> None:
        """Tell torch.compile, once somebody has loaded it, to call Mansard's functions instead of tracing into them:
        their graph would break off at every address."""
        rules = sys.modules.get("torch._dynamo.trace_rules")
        if rules is not None and not self._left_out:
            self._left_out = True
            rules.add("mansard")

    def _address(self, array: Any, argument: str) -> int:
        """Address of the data; raise TypeError for tensors without any."""
        try:
            address = array.data_ptr()
        except RuntimeError:
            address = 0
        if array.is_meta or (address == 0 and 0 not in array.shape):
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
        if type(made) is not type(like) and type(made) is not self._torch.Tensor:
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
        return partial(self._torch._C._cuda_getCurrentRawStream, device[1])

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        try:
            return self._torch.matmul(a, b, out=out)
        except RuntimeError as error:
            raise _not_allocated(error, (*a.shape[:-1], *b.shape[-1:])) from error

    def conj(self, array: Any) -> Any:
        return array.conj()


def _signer(torch: Any, forward: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The function that tells tensors apart: what it gives is cheap, hashable, and different whenever planning could
    differ. What `view` refuses has a signature that no accepted tensor has: it is never found among plans, whatever was
    planned before, and so comes to `view`."""
    records, turned = torch.is_grad_enabled, frozenset((torch.complex64, torch.complex128))

    def signature(array: Any) -> tuple[Any, ...]:
        # flat, and the device by number: hashing a torch.device costs as much as all the rest
        try:
            address, dtype = array.data_ptr(), array.dtype
            return (
                array.shape, array.stride(), dtype, address & 15 if address else None,
                "" if array.is_cpu else array.get_device() if array.is_cuda else array.device,
                dtype in turned and array.is_conj(), array.is_neg(), array.untyped_storage().nbytes() > 0,
                (array.requires_grad and records()) or (forward._current_level >= 0 and _tangent(array)),
            )  # fmt: skip
        except RuntimeError:  # no storage or no strides: sparse, nested, wrapped by a transformation
            return (object(),)

    return signature


def _version_raiser(torch: Any) -> Callable[[Any], None] | None:
    """The function that raises the version counters of tensors whose values Mansard has overwritten: backward then
    refuses what it saved of them before. Tensors of inference mode have no counter and are passed over. None: PyTorch
    is too old to have such a function."""
    public = getattr(torch.autograd.graph, "increment_version", None)
    if public is None:
        return None
    try:
        raise_versions: Callable[[Any], None] = torch._C._increment_version  # half the time of the public one
        raise_versions(())
    except (AttributeError, TypeError):  # it has another name, or takes one tensor at a time
        return partial(_each, public)
    return raise_versions


def _each(function: Callable[[Any], None], arrays: Any) -> None:
    for array in arrays:
        function(array)


def _not_allocated(error: RuntimeError, shape: tuple[int, ...]) -> Exception:
    """Why PyTorch made no tensor: no memory on a CPU, CUDA in a forked child, or its own error."""
    if "CUDA error: initialization error" in str(error):  # PyTorch checks for forks only before its own first call
        return CudaAfterFork()
    if "DefaultCPUAllocator" not in str(error):
        return error
    return MemoryError(f"no memory for a tensor of shape {shape}: pass fewer matrices, or fewer rows")


def _tangent(array: Any) -> bool:
    """Whether a tensor carries a forward-mode derivative; asked only while a level of it is open."""
    unpack = sys.modules["torch.autograd.forward_ad"].unpack_dual
    return unpack(array).tangent is not None


def _is_transformed(torch: Any, array: Any) -> bool:
    """Whether a tensor stands for another one inside a transformation of torch.func."""
    wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)
    return bool(wrapped is not None and wrapped(array)) or bool(torch._is_functional_tensor(array))


def refusal(kind: type, argument: str) -> str:
    """Why tensors of a subclass of torch.Tensor are not taken; empty for those that are."""
    torch = sys.modules["torch"]
    plain = torch.Tensor
    functions = (plain.__torch_function__.__func__, torch._C._disabled_torch_function_impl)
    own = kind.__torch_function__  # type: ignore[attr-defined]
    if kind.__torch_dispatch__ is plain.__torch_dispatch__ and getattr(own, "__func__", own) in functions:  # type: ignore[attr-defined]
        return ""
    name = f"{kind.__module__}.{kind.__name__}"
    if kind.__name__ == "FakeTensor":
        return (
            f"{argument} is a {name}, which has no data: PyTorch is tracing (torch.compile, torch.export) and cannot "
            "look into Mansard: call it outside, or inside a function under torch.compiler.disable"
        )
    return (
        f"{argument} is a {name}, a subclass of torch.Tensor with functions of its own: pass the tensor that it holds, "
        f"or {argument}.as_subclass(torch.Tensor)"
    )
