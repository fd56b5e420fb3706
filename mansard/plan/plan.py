"""A plan: one problem, one chosen kernel, ready to run. It executes, explains itself and shows its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import units
from ..backends.base import Described, Launch
from ..codegen.geometry import Kernel
from ..kernels.common import team
from ..machine import machine, roofline
from .problem import Problem
from .route import Choice


@dataclass
class Plan:
    """What `ms.plan(...)` returns. Call it with arrays like the ones it was made for.

    `run` is the operation's fast path, without checks; calling the plan checks first that the arrays fit. A plan
    pickles as its `recipe`: what was asked for, without arrays. Whoever loads it makes the plan again, for the device,
    the records and the kernels there.
    """

    problem: Problem
    choice: Choice
    backend: Described
    kernel: Kernel | None
    run: Callable[..., Any]
    verify: Callable[..., None]
    launch: Launch | None = None  # the backend's prepared launch, which takes addresses
    is_direct: bool = False  # one launch with the addresses of A, B and the result is all that a call does
    recipe: Callable[[], Plan] | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __call__(self, A: Any, B: Any = None, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        self.verify(A, B, out)
        return self.run(A, B, out, alpha, beta)

    def __reduce__(self) -> tuple[object, ...]:
        if self.recipe is None:
            raise TypeError("only plans of ms.plan and of a sparse matrix's plan() can be pickled or copied")
        return _made_again, (self.recipe,)

    def source(self) -> str:
        """The generated text that was compiled; empty where no kernel of its own runs."""
        return self.kernel.source.text if self.kernel else ""

    def log(self) -> str:
        """What the compiler reported: registers, spills, warnings."""
        return self.backend.log(self.kernel.source) if self.kernel else ""

    def explain(self) -> str:
        """What runs and why, the limit of this device for this problem, and which limit it is."""
        work = self.choice.family.work.work(self.problem)
        ceilings = machine.known(self.backend.device)
        bound = roofline.time_bound(work, ceilings)
        lines = [
            str(self.problem),
            f"device   {self.backend.device.name} ({self.backend.name})",
            f"runs     {self.choice}",
            f"because  {self.choice.origin}: {self.choice.reason}",
            f"moves    {units.volume(work.read)} in, {units.volume(work.written)} out, "
            f"{units.quantity(work.flops, 'FLOP')}",
            f"limit    {units.duration(bound.seconds)}, set by {bound.limit} "
            + "(" + ", ".join(f"{name} {units.duration(seconds)}" for name, seconds in bound.parts.items()) + ")",
            f"ceilings {ceilings.origin}",
        ]  # fmt: skip
        if self.kernel and self.backend.name != "cpu":
            geometry = self.kernel.geometry
            lines.insert(3, f"launch   {geometry.grid[0]} x {geometry.grid[1]} blocks of {geometry.block} threads, "
                            f"{geometry.shared_bytes} bytes of shared memory")  # fmt: skip
        if self.kernel and self.backend.name == "cpu":
            lines.insert(3, team.remark(work, self.backend.device))
        if self.backend.name != "cpu":
            lines += self.choice.family.remarks(self.problem, self.choice.config, self.backend.device, ceilings)
        return "\n".join(lines)


def _made_again(recipe: Callable[[], Plan]) -> Plan:
    return recipe()
