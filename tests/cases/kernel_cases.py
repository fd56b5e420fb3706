"""Names of cases, and launches of one kernel on stacks of matrices: what the cases of batched families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mansard.backends import cpu, cuda, emulated
from mansard.plan.problem import Problem

BACKENDS = {"cpu": cpu, "cuda": cuda, "emulated": emulated}


def numbered(cases: list[tuple[Problem, Any]]) -> Callable[[tuple[Problem, Any]], str]:
    """Name cases by variant, dtype, sizes, and their number among `cases`."""

    def case_id(case: tuple[Problem, Any]) -> str:
        problem, config = case
        sizes = "x".join(str(size) for _, size in problem.sizes)
        return f"{config.VARIANT}-{problem.dtype}-{sizes}-{cases.index(case)}"

    return case_id


def launch_of(space: Any, emit: Any) -> Callable[..., None]:
    """Return a function that launches a family's kernel on stacks laid out as the problem says."""

    def launch(
        problem: Problem, config: Any, backend: str, stacks: Any, alpha: complex = 1.0, beta: complex = 0.0
    ) -> None:
        where = BACKENDS[backend].backend()
        reason = space.illegal(problem, config, where.device)
        assert reason is None, reason
        strides = tuple(stride for stack in stacks for stride in stack.strides)
        scalars = (complex(alpha).real, complex(alpha).imag, complex(beta).real, complex(beta).imag)
        kernel = emit.kernel(problem, config, where.device, strides)
        where.prepare(kernel)(tuple(stack.pointer for stack in stacks), scalars, 0)
        where.synchronize()

    return launch
