"""Kernel families: a Protocol for each of their five modules, and the `Family` that holds them.

Every family builds its `FAMILY` once, in its `__init__.py`. Members that only some families have (a shorter list of
candidates, remarks for `explain`, ...) are fields of `Family` with a default, so that no caller has to probe for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..codegen.geometry import Device, Kernel
from ..codegen.instantiate import Source
from ..machine.machine import Machine
from ..machine.roofline import Work
from ..plan.problem import Problem
from .common.configs import OnCpu, OnGpu

# Parameters are Any below: a family takes its own configurations alone, which a caller has from the same family.
Config: TypeAlias = OnGpu | OnCpu


class Spec(Protocol):
    """`spec.py`: which problems the family accepts, and the answer in NumPy."""

    @property
    def LONG(self) -> tuple[str, ...]:
        """Sizes in which a tuning record may differ from the problem it answers."""

    @property
    def SHAPES(self) -> Mapping[str, tuple[str, str]]:
        """Names of the sizes that are the rows and columns of each operand with a pitch."""

    @property
    def problem(self) -> Callable[..., Problem]:
        """Make a problem from a dtype, sizes in capitals, and traits."""

    @property
    def reference(self) -> Callable[..., Any]:
        """The answer in NumPy, in the operands' own precision."""

    def refusal(self, problem: Problem, /) -> str | None:
        """Why the family has no kernel for the problem, or None if it has."""

    def shape(self, problem: Problem, operand: str, /) -> tuple[int, int]:
        """Rows and columns of an operand; none where it is absent."""

    def strides(self, problem: Problem, /) -> tuple[int, ...]:
        """The integers that `emit.kernel` takes, for dense operands: what a plan without arrays is made with."""


class Space(Protocol):
    """`space.py`: the configurations of the family's kernels."""

    @property
    def VARIANTS(self) -> Mapping[str, type[Config]]:
        """Class of each kind of kernel, by its VARIANT."""

    def illegal(self, problem: Problem, config: Any, device: Device, /) -> str | None:
        """Why the configuration cannot be used for the problem on the device, or None if it can."""

    def candidates(self, problem: Problem, device: Device, /) -> Iterator[Config]:
        """Every legal configuration worth considering."""

    def to_dict(self, config: Any, /) -> dict[str, Any]:
        """The form in which a configuration is stored."""

    def from_dict(self, values: Mapping[str, Any], /) -> Config:
        """The inverse of `to_dict`; raises IllegalConfig for values that the variant does not declare."""


class Costs(Protocol):
    """`work.py`: what a problem must move and compute, and what a configuration takes."""

    def work(self, problem: Problem, /) -> Work:
        """The least a call must move and compute."""

    def threads(self, problem: Problem, config: Any, /) -> int:
        """Threads per block."""

    def shared_bytes(self, problem: Problem, config: Any, /) -> int:
        """Dynamic shared memory per block."""

    def registers(self, problem: Problem, config: Any, /) -> int:
        """32-bit registers per thread, estimated."""

    def limits(self, problem: Problem, config: Any, device: Device, machine: Machine, /) -> dict[str, float]:
        """Seconds that each resource of the device needs at the least."""

    def reduction_seconds(self, problem: Problem, config: Any, device: Device, machine: Machine, /) -> float:
        """Seconds for the final reduction across blocks."""

    def bandwidth_share(self, problem: Problem, config: Any, /) -> float:
        """Share of the bandwidth that the configuration's loads and stores reach."""

    def bytes_in_flight(self, problem: Problem, config: Any, /) -> int:
        """Bytes that a multiprocessor has under way at once, for Little's law."""

    def executed_flops(self, problem: Problem, config: Any, /) -> int:
        """Flops that the kernel executes, padding included."""


class Emit(Protocol):
    """`emit.py`: source text and launch geometry."""

    def source(self, problem: Problem, config: Any, target: str, /) -> Source:
        """Source text of the kernel for `cuda`, `emulated` or `cpu`."""

    def kernel(self, problem: Problem, config: Any, device: Device, strides: tuple[int, ...], /) -> Kernel:
        """Source, launch geometry and the integers that are known when planning."""


class Defaults(Protocol):
    """`defaults.py`: what to use before anything was measured."""

    def default(self, problem: Problem, device: Device, variant: str | None = None) -> Config | None:
        """The first legal rule, None if there is none; `variant` restricts it to one kind of kernel."""

    def ranked(self, problem: Problem, device: Device, /) -> Iterator[Config]:
        """Configurations from the best guess to the one that always works."""


def _never_short(problem: Problem) -> bool:
    return False


def _no_remarks(problem: Problem, config: Any, device: Device, machine: Machine) -> list[str]:
    return []


def _nothing_swept(problem: Problem, device: Device) -> Iterator[Config]:
    return iter(())


@dataclass(frozen=True, eq=False)
class Family:
    """A kernel family: its five modules, and what some families state beyond them."""

    name: str
    spec: Spec
    space: Space
    work: Costs
    emit: Emit
    defaults: Defaults
    trusts_rules: bool = False  # rules choose: the roofline model does not see what decides here
    alike: tuple[str, ...] = ()  # traits that do not change the speed: a record may differ in them
    # the CPU kernel whose sizes are arguments: it answers where the work does not earn a kernel of its own
    runtime: Config | None = None
    # configurations that may win, where `space.candidates` has many that cannot
    likely: Callable[[Problem, Device], Iterator[Config]] | None = None
    # configurations that records by ranges of sizes name for a problem, the best first; they precede the model
    swept: Callable[[Problem, Device], Iterator[Config]] = _nothing_swept
    # whether a problem is over before a ring of copies is set up: records do not speak for the other kind
    is_short: Callable[[Problem], bool] = _never_short
    # lines that `explain` adds below the roofline, on GPUs
    remarks: Callable[[Problem, Any, Device, Machine], list[str]] = _no_remarks

    def hopeful(self, problem: Problem, device: Device) -> Iterator[Config]:
        """Configurations that the model ranks."""
        return (self.likely or self.space.candidates)(problem, device)

    def __repr__(self) -> str:
        return f"<family {self.name}>"
