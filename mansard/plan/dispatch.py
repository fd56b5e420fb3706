"""Which kernel answers a problem: pinned > tuned > model > default, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import units
from ..codegen.geometry import Device
from ..errors import IllegalConfig
from ..kernels import family_of
from ..kernels.family import Family
from ..machine import machine
from ..records import database
from . import pin, predict
from .problem import Problem


@dataclass(frozen=True)
class Choice:
    """What will run: a configuration of a family, or the vendor's routine, and why."""

    family: Family
    config: Any  # None: the vendor's routine
    origin: str  # pinned | tuned | model | default | vendor | empty
    reason: str


def choose(problem: Problem, device: Device) -> Choice:
    """The best known way to answer `problem` on `device`."""
    family = family_of(problem.operation)
    if any(size == 0 for name, size in problem.sizes if name != "NRHS"):  # without right-hand sides there are factors
        return Choice(family, None, "empty", "a size is zero: nothing to multiply")
    pinned = pin.pins()
    if pinned:
        return _pinned(family, problem, device, pinned)
    refusal = family.spec.refusal(problem)
    if refusal:
        return Choice(family, None, "vendor", refusal)
    record = database.best(problem, device, family)
    if record:
        return Choice(family, record.config, record.origin, record.reason)
    return _modelled(family, problem, device)


def _modelled(family: Family, problem: Problem, device: Device) -> Choice:
    ceilings = machine.known(device)
    config = predict.choose(family, problem, device, ceilings)
    if config is None:
        return Choice(family, None, "vendor", f"no configuration of {problem.operation} is legal on {device.name}")
    estimate = predict.seconds(family, problem, config, device, ceilings)
    text = f"no tuning record for this shape on {device.name}; about {units.duration(estimate, 3)} by the model"
    return Choice(family, config, "model", text)


def _pinned(family: Family, problem: Problem, device: Device, pinned: dict[str, Any]) -> Choice:
    if pinned.get("VARIANT") == "vendor":
        return Choice(family, None, "pinned", "the vendor's routine was pinned")
    variant = pinned.get("VARIANT")
    base = family.defaults.default(problem, device, variant=variant)
    if base is None and variant and variant in family.space.VARIANTS:  # no rule fits, but what was pinned may
        base = family.space.VARIANTS[variant]()
    values = family.space.to_dict(base) if base else {}
    unknown = [name for name in pinned if name not in values]
    if unknown and "VARIANT" not in pinned:
        unknown = _switch_variant(family, problem, device, values, pinned)
    if unknown:
        raise IllegalConfig(
            f"{problem.operation}: pinned {', '.join(unknown)} is no parameter of {values.get('VARIANT')}"
        )
    config = family.space.from_dict({**values, **pinned})
    reason = family.space.illegal(problem, config, device)
    if reason:
        raise IllegalConfig(f"{problem.operation}: pinned configuration {config}: {reason}")
    return Choice(family, config, "pinned", "pinned " + ", ".join(f"{k}={v}" for k, v in pinned.items()))


def _switch_variant(
    family: Family, problem: Problem, device: Device, values: dict[str, Any], pinned: dict[str, Any]
) -> list[str]:
    """Pinned names that the default variant lacks may belong to another one; `values` becomes that one's default."""
    for variant in family.space.VARIANTS:
        base = family.defaults.default(problem, device, variant=variant)
        if base and all(name in family.space.to_dict(base) for name in pinned):
            values.clear()
            values.update(family.space.to_dict(base))
            return []
    return [name for name in pinned if name not in values]
