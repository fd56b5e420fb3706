"""Routes: who computes the result of a call. A `Choice` is one of them with its origin.

Four kinds of routes are frozen objects that carry their reason: `Kernel` (one kernel of a family), `Steps` (an
algorithm made of other operations), `Library` (the array library, or LAPACK) and `Nothing` (a size is zero). The
origin says who decided:

    pinned  the caller, by `ms.pin`
    tuned   a record: times measured on this device
    rule    a refusal of the family, or a rule whose reason holds on every device
    model   predicted times
    empty   nobody: there is nothing to compute
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..backends.base import Described
from ..codegen.geometry import Device
from ..kernels.family import Config, Family

Origin = Literal["pinned", "tuned", "rule", "model", "empty"]
REFERENCE = "reference"  # name of the backend that has no kernels
OWN_ROUTINE = "the array library's own routine"


@dataclass(frozen=True)
class Kernel:
    """One kernel of the family, by its configuration."""

    config: Config
    reason: str


@dataclass(frozen=True)
class Steps:
    """An algorithm made of other operations, each of which is planned for itself."""

    name: str  # `blocks` or `factors`: how an operation tells its algorithms apart
    description: str  # for people
    reason: str
    block: int = 0  # order of the diagonal blocks, where the decision includes it


@dataclass(frozen=True)
class Library:
    """The array library, or LAPACK: `name` says which routine, for people."""

    name: str
    reason: str
    has_rival: bool = True  # whether a kernel could answer as well: tuning measures it


@dataclass(frozen=True)
class Nothing:
    """A size is zero: no kernel and no library is called."""

    reason: str


Route = Kernel | Steps | Library | Nothing


@dataclass(frozen=True)
class Choice:
    """The route that answers a problem of `family`, and who decided."""

    family: Family
    route: Route
    origin: Origin

    @property
    def config(self) -> Any:
        """The kernel's configuration; None for every other route."""
        return self.route.config if isinstance(self.route, Kernel) else None

    @property
    def reason(self) -> str:
        return self.route.reason

    @property
    def answered_by(self) -> str:
        """kernel, library, nothing or the name of the steps, in one word for records and tests."""
        return self.route.name if isinstance(self.route, Steps) else type(self.route).__name__.lower()

    def __str__(self) -> str:
        """What runs, in one line."""
        if isinstance(self.route, Kernel):
            values = self.family.space.to_dict(self.route.config)
            return " ".join(f"{name}={value}" for name, value in values.items())
        if isinstance(self.route, Nothing):
            return "no kernel"
        return self.route.name if isinstance(self.route, Library) else self.route.description


@dataclass(frozen=True)
class Request:
    """What a decision depends on beside the problem: who asks, where, and what is allowed."""

    operation: str  # the name that was called; empty: the family's kernel is meant
    backend: str  # cpu, cuda, emulated or reference
    device: Device
    library_batches: bool | None = None  # the array library multiplies stacks by one call of BLAS; None: nobody says
    may_hand_over: bool = False  # no backend was named: whoever is faster answers
    spares_compiling: bool = False  # no backend was named: work too little to earn a compilation goes to the library
    may_divide: bool = False  # algorithms of several steps may answer where no kernel can
    inverts: bool = False  # triangular systems: diagonal blocks are to be inverted

    @property
    def on_cpu(self) -> bool:
        """Whether the arrays are in the CPU's memory; the emulator's are."""
        return self.device.backend != "cuda"

    @staticmethod
    def of(backend: Described, operation: str = "", **allowed: Any) -> Request:
        """A request to a backend, or to the description of one."""
        return Request(operation, backend.name, backend.device, **allowed)
