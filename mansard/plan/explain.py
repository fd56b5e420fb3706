"""Plans without arrays: which kernel a problem gets, why, and what limits it, on this device or on one that is absent.

`mansard explain` (operations/command.py) prints them.
"""

from __future__ import annotations

from .. import units
from ..backends import cpu
from ..backends.base import Described
from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source
from ..compile import nvrtc
from ..errors import MansardError
from ..machine import nominal, occupancy
from . import dispatch
from .plan import Plan
from .problem import Problem
from .route import REFERENCE, Request

# Devices that can be explained without having one: the data sheet's facts, under the name the driver gives them, so
# that ceilings and tuning records of a real one apply. By architecture (sm_90a keeps the name of its own instructions)
# and by machine.
NOMINAL = {
    sheet.device.arch if capability <= 90 else f"sm_{capability}": sheet.device
    for capability, sheet in nominal.by_capability().items()
}
MACHINES = {
    name.removeprefix("NVIDIA ").removeprefix("GeForce ").split("-")[0].split(" 80GB")[0].replace(" ", "").lower():
    sheet.device for name, sheet in nominal.sheets().items()
}  # fmt: skip


class Absent:
    """A device that is described but not here: kernels for it can be written and compiled, not run."""

    def __init__(self, device: Device) -> None:
        self.name, self.device = device.backend, device

    def log(self, source: Source) -> str:
        return nvrtc.compile_cuda(source, self.device.arch).log


def plan_without_arrays(problem: Problem, backend: Described, operation: str = "") -> Plan:
    """What a call of `operation` with NumPy (on GPUs, CuPy) arrays would plan; it cannot be run. Without the operation,
    the kernel that its family has for the problem."""
    choice = dispatch.decide(problem, _request(problem, backend, operation))
    kernel: Kernel | None = None
    if choice.config is not None:
        kernel = choice.family.emit.kernel(problem, choice.config, backend.device, choice.family.spec.strides(problem))
    return Plan(problem, choice, backend, kernel, _needs_arrays, _needs_arrays)


def _request(problem: Problem, backend: Described, operation: str) -> Request:
    """The request that a call makes. The emulator answers only who names it, and CPUs without a compiler have no
    kernels."""
    name = REFERENCE if backend.name == "cpu" and cpu.unavailable() else backend.name
    if operation == "matmul" and problem.operation in ("gemm", "gemv") and problem.BATCH > 1:
        operation = problem.operation  # stacks of matrices, not two of them
    batches, is_free = backend.name != "cpu", bool(operation) and name != "emulated"  # NumPy's matmul does not
    return Request(
        operation, name, backend.device, batches, may_hand_over=is_free, spares_compiling=is_free, may_divide=True
    )  # fmt: skip


def resources_text(plan: Plan) -> str:
    """What the assembler reports of the kernel, where NVRTC is here; empty otherwise."""
    if plan.kernel is None or plan.backend.name != "cuda" or nvrtc.available():
        return ""
    found = nvrtc.resources(plan.log())
    geometry, device = plan.kernel.geometry, plan.backend.device
    blocks = occupancy.blocks_per_multiprocessor(device, geometry.block, found.registers, geometry.shared_bytes)
    return (
        f"compiled {found.registers} registers, {found.spill_bytes} bytes spilled; "
        f"{units.count(blocks, 'block')} ({blocks * geometry.block // 32} warps) per multiprocessor"
    )


def _needs_arrays(*_: object, **__: object) -> None:
    """Stands where a plan keeps its fast path."""
    raise MansardError("this plan was made without arrays, only to be read: mansard.plan makes one that runs")
