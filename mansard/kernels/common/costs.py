"""Costs and remarks that several families state alike: parts of their `work.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...codegen.geometry import Device
from ...machine.machine import Machine
from ...machine.roofline import Work
from ...plan.problem import Problem

FP64_TENSOR_REGISTERS = 64  # below this limit ptxas refuses a kernel with float64 tensor instructions


def no_reduction(problem: Problem, c: Any, device: Device, machine: Machine) -> float:
    """Seconds for a reduction across blocks: there is none, each block finishes its own results."""
    return 0.0


def full_bandwidth(problem: Problem, c: Any) -> float:
    """Share of the bandwidth that loads and stores reach: all of it."""
    return 1.0


def no_limits(problem: Problem, c: Any, device: Device, machine: Machine) -> dict[str, float]:
    """Seconds of resources beyond memory and arithmetic: none is modelled."""
    return {}


def memory_bound(
    work: Callable[[Problem], Work], problem: Problem, c: Any, device: Device, machine: Machine
) -> list[str]:  # fmt: skip
    """The bound of Masliah et al. for `explain`: bandwidth times flops per byte (n B / 16 for A B + C in float64)."""
    least = work(problem)
    if not least.bytes:
        return []
    rate = least.flops / least.bytes * machine.copy_bandwidth
    return [f"bound    P_max = {rate / 1e12:.3g} TFLOP/s: {least.flops / least.bytes:.3g} flops per byte moved"]
