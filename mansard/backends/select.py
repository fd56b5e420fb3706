"""Choice of the backend: by where the arrays live, unless the caller or the settings say otherwise."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

from .. import settings
from ..codegen.geometry import Device
from ..errors import BackendUnavailable, MansardWarning
from . import cpu, cuda, emulated

NAMES = ("cpu", "cuda", "emulated", "reference")


class ReferenceBackend:
    """The array library's own matrix product. Serves where no kernel can be compiled, and as a yardstick."""

    name = "reference"

    def __init__(self, device: Device) -> None:
        self.device = device


def select(device: tuple[str, int], asked: str | None) -> Any:
    """The backend for arrays on `device`; `asked` overrides the choice for CPU arrays."""
    where, ordinal = device
    if asked is not None and asked not in NAMES:
        raise ValueError(f"backend={asked!r} is not one of {', '.join(NAMES)}")
    if where == "cuda":
        if asked == "reference":
            return ReferenceBackend(cuda.backend(ordinal).device)
        if asked not in (None, "cuda"):
            raise ValueError(f"backend={asked!r} cannot reach arrays on a GPU: copy them to the CPU first")
        return _usable(cuda, ordinal)
    if where != "cpu":
        raise BackendUnavailable(f"no backend for arrays on {where}: move them to the CPU or to an NVIDIA GPU")
    name = asked or settings.current().backend
    if name == "cuda":
        raise ValueError("backend='cuda' needs arrays on a GPU: pass CuPy arrays or CUDA tensors")
    if name == "reference":
        return ReferenceBackend(cpu.backend().device)
    return _usable({"cpu": cpu, "emulated": emulated}[name])


def _usable(module: Any, *arguments: int) -> Any:
    reason = _unavailable(module)
    if reason is None:
        return module.backend(*arguments)
    if module is emulated:
        raise BackendUnavailable(reason)
    warnings.warn(
        f"{reason}. Until then the array library's own product answers, at its speed.", MansardWarning, stacklevel=2
    )
    return ReferenceBackend(Device(module.__name__.rpartition(".")[2], "unknown", "", 1))


@lru_cache(maxsize=8)
def _unavailable(module: Any) -> str | None:
    return module.unavailable()  # type: ignore[no-any-return]
