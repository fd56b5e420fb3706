"""Who answers a call, decided before anything is compiled: pinned > tuned > rule > model, with the reason.

Operations ask `decide` and execute its route; `mansard explain` asks it with the same request. `choose` is the part of
it that picks the kernel of a family.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from ..backends import cpu
from ..codegen.geometry import Device
from ..errors import IllegalConfig
from ..kernels import family_of
from ..kernels.family import Family
from ..machine import machine
from ..records import database
from . import first_calls, handover, pin, predict, tall_skinny_rules
from .problem import Options, Problem
from .route import OWN_ROUTINE, REFERENCE, Choice, Kernel, Library, Nothing, Request


def decide(problem: Problem, request: Request) -> Choice:
    """The route that answers `problem` for whoever asks: the first candidate."""
    return next(candidates(problem, request))


def candidates(problem: Problem, request: Request) -> Iterator[Choice]:
    """All routes that come into question, the preferred one first. Later ones cost nothing unless they are asked for.

    A pin precedes records, records precede rules, and what is known of libraries precedes the family's own kernel. A
    backend that the caller named (`may_hand_over` is False) keeps its kernels where there are any.
    """
    if _is_empty(problem):
        yield choose(problem, request.device)
        return
    yield from handover.settled(problem, request)
    is_free = request.may_hand_over and not pin.pins()
    if request.backend == REFERENCE and not pin.pins():
        yield handover.without_compiler(problem, request)
        return
    if not pin.pins():
        yield from handover.not_worth_compiling(problem, request)
    if is_free:
        yield from handover.faster_than_kernel(problem, request)
    choice = choose(problem, request.device)
    if not isinstance(choice.route, Kernel):
        yield handover.without_kernel(problem, choice, request)
        return
    if request.backend == REFERENCE:
        yield handover.without_compiler(problem, request)
        return
    if is_free:
        yield from tall_skinny_rules.predicted_slower(problem, choice, request)
    yield choice


def choose(problem: Problem, device: Device) -> Choice:
    """The kernel of the family for `problem` on `device`, or the library if a pin, the family or a record says so."""
    family = family_of(problem.operation)
    if _is_empty(problem):
        return Choice(family, Nothing("a size is zero: nothing to multiply"), "empty")
    pinned = pin.pins()
    if pinned:
        return _pinned(family, problem, device, pinned)
    refusal = family.spec.refusal(problem)
    if refusal:
        return Choice(family, Library(OWN_ROUTINE, refusal), "rule")
    record = database.best(problem, device, family)
    if record is None and (kernel := first_calls.any_sizes(problem, device)):
        return _if_ready(Choice(family, kernel, "rule"), problem, device)
    if record is None:
        return _if_ready(_predicted(family, problem, device), problem, device)
    route = Library(OWN_ROUTINE, record.reason) if record.config is None else Kernel(record.config, record.reason)
    return _if_ready(Choice(family, route, "tuned"), problem, device)


def _if_ready(choice: Choice, problem: Problem, device: Device) -> Choice:
    """The choice; the library instead of a CPU kernel that the cache does not hold and no compiler here can make."""
    if device.backend != "cpu" or choice.config is None or cpu.can_compile():
        return choice
    if cpu.is_ready(choice.family.emit.source(problem, choice.config, "cpu")):
        return choice
    reason = "the cache does not hold its kernel, and no C++ compiler is here: install g++, or precompile it elsewhere"
    return Choice(choice.family, Library(OWN_ROUTINE, reason), "rule")


def _is_empty(problem: Problem) -> bool:
    """Whether a size is zero. Factorizations without right-hand sides have factors to compute, and iterations and back
    transformations without room for rotations (CAPACITY) have values and reflections."""
    sided = dict(problem.traits).get("want", "solve") in ("solve", "swap")
    return any(size == 0 for name, size in problem.sizes if name != "CAPACITY" and (name != "NRHS" or sided))


def _predicted(family: Family, problem: Problem, device: Device) -> Choice:
    """The kernel where nothing was recorded: by the family's rules, or by the model."""
    ceilings = machine.known(device)
    config, origin = predict.choose(family, problem, device, ceilings)
    if config is None:
        reason = f"no configuration of {problem.operation} is legal on {device.name}"
        return Choice(family, Library(OWN_ROUTINE, reason), origin)
    estimate = predict.seconds(family, problem, config, device, ceilings)
    text = f"no tuning record for this shape on {device.name}; about {units.duration(estimate, 3)} by the model"
    return Choice(family, Kernel(config, text), origin)


def _pinned(family: Family, problem: Problem, device: Device, pinned: Options) -> Choice:
    if pinned.get("VARIANT") == "vendor":
        return Choice(family, Library(OWN_ROUTINE, "the vendor's routine was pinned"), "pinned")
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
    names = ", ".join(f"{name}={value}" for name, value in pinned.items())
    return Choice(family, Kernel(config, f"pinned {names}"), "pinned")


def _switch_variant(family: Family, problem: Problem, device: Device, values: Options, pinned: Options) -> list[str]:
    """Pinned names that the default variant lacks may belong to another one; `values` becomes that one's default."""
    for variant in family.space.VARIANTS:
        base = family.defaults.default(problem, device, variant=variant)
        if base and all(name in family.space.to_dict(base) for name in pinned):
            values.clear()
            values.update(family.space.to_dict(base))
            return []
    return [name for name in pinned if name not in values]
