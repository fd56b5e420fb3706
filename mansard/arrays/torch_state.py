"""State of tensors that kernels do not see: signatures, version counters, derivatives and transformations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

_MAPPED = 1 << 40  # address from which on there is memory; below, it may be an offset from null


def signer(torch: Any, forward: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The function that tells tensors apart: what it gives is cheap, hashable, and different whenever planning could
    differ. What `view` refuses has a signature that no accepted tensor has: it is never found among plans, whatever was
    planned before, and so comes to `view`."""
    records, turned, mapped = torch.is_grad_enabled, frozenset((torch.complex64, torch.complex128)), _MAPPED

    def signature(array: Any) -> tuple[Any, ...]:
        # flat, and the device by number: hashing a torch.device costs as much as all the rest
        try:
            address, dtype = array.data_ptr(), array.dtype
            return (
                array.shape, array.stride(), dtype, address & 15 if address >= mapped or has_data(array) else None,
                "" if array.is_cpu else array.get_device() if array.is_cuda else array.device,
                dtype in turned and array.is_conj(), array.is_neg(),
                (array.requires_grad and records()) or (forward._current_level >= 0 and has_tangent(array)),
            )  # fmt: skip
        except RuntimeError:  # no storage or no strides: sparse, nested, wrapped by a transformation
            return (object(),)

    return signature


def has_data(array: Any) -> bool:
    """Whether a tensor has memory. One whose storage was resized to nothing, or of PyTorch's zeros without memory, lies
    at its offset from null."""
    return array.untyped_storage().nbytes() > 0 and not array._is_zerotensor() and array.data_ptr() > 0


def version_raiser(torch: Any) -> Callable[[Any], None] | None:
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


def has_tangent(array: Any) -> bool:
    """Whether a tensor carries a forward-mode derivative; asked only while a level of it is open. Sparse tensors do
    not: PyTorch makes none of values that do, and cannot unpack them."""
    unpack = sys.modules["torch.autograd.forward_ad"].unpack_dual
    return array.layout is sys.modules["torch"].strided and unpack(array).tangent is not None


def is_transformed(torch: Any, array: Any) -> bool:
    """Whether a tensor stands for another one inside a transformation of torch.func."""
    wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)
    return bool(wrapped is not None and wrapped(array)) or bool(torch._is_functional_tensor(array))


def autocast_state(torch: Any) -> tuple[Callable[[], bool], Callable[[], Any]]:
    """Whether torch.autocast is on for any device, and a context in which it is off. Only products by PyTorch itself
    ask: kernels compute in the dtype of their operands."""
    is_on = getattr(torch._C, "_is_any_autocast_enabled", None)
    if is_on is None:  # an older PyTorch
        return lambda: bool(torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()), torch._C._DisableAutocast
    return is_on, torch._C._DisableAutocast
