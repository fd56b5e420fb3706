"""Predicted time of a configuration: roofline, degraded by too few bytes in flight and padded arithmetic, plus fixed
costs of launching and reducing. It ranks candidates; measurement decides."""

from __future__ import annotations

from typing import Literal

from ..codegen.geometry import Device
from ..kernels.family import Config, Family
from ..machine import occupancy, roofline
from ..machine.machine import Machine
from .problem import Problem


def choose(
    family: Family, problem: Problem, device: Device, machine: Machine
) -> tuple[Config | None, Literal["rule", "model"]]:
    """The configuration for a problem that nothing was recorded for, and who chose it; None if nothing is legal.

    A record by ranges of sizes that covers the problem precedes the model, where the family asks for it (`swept`).
    The family's rule chooses on CPUs, where the family says so (`trusts_rules`), and where it is about as good as the
    least predicted time, because rules were found by measurement. Elsewhere the model does.
    """
    if device.backend == "cuda":
        for config in family.swept(problem, device):
            return config, "rule"
    rule = family.defaults.default(problem, device)
    if device.backend != "cuda" or rule is None or family.trusts_rules:
        return rule, "rule"
    ranked = [(seconds(family, problem, config, device, machine), config) for config in family.hopeful(problem, device)]
    best = min(ranked, key=lambda pair: pair[0], default=None)
    if best is None or seconds(family, problem, rule, device, machine) <= _AS_GOOD * best[0]:
        return rule, "rule"
    return best[1], "model"


_AS_GOOD = 1.02


def seconds(family: Family, problem: Problem, config: Config, device: Device, machine: Machine) -> float:
    """Predicted time of one call."""
    work = family.work.work(problem)
    bound = roofline.time_bound(work, machine)
    if device.backend == "cpu":
        return bound.seconds + machine.launch_seconds
    in_flight: int = family.work.bytes_in_flight(problem, config)
    efficiency = occupancy.little_efficiency(
        in_flight, machine.read_bandwidth, machine.loaded_latency, device.multiprocessors
    )
    efficiency *= family.work.bandwidth_share(problem, config)
    times = [
        bound.parts["memory"] / max(efficiency, 1e-3),
        *family.work.limits(problem, config, device, machine).values(),
    ]
    # resources overlap, but not perfectly: what is not the bottleneck still costs a little
    overlapped = max(times) + _OVERLAP_LOSS * (sum(times) - max(times))
    reduction = family.work.reduction_seconds(problem, config, device, machine)
    return float(machine.launch_seconds + overlapped + reduction)


_OVERLAP_LOSS = 0.05
