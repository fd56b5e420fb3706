"""Source text of kernels: what the `emit` modules of all families share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from ...codegen.geometry import Device
from ...codegen.instantiate import CPP_TYPES, Field, Source, instantiate
from ...machine.roofline import Work
from ...plan.problem import Problem
from . import team

ON_CPU = "cpu"  # TARGET of SIMD kernels


class Threads(Protocol):
    """Threads of a block, for launch bounds, as a family's `work.py` gives them."""

    def threads(self, problem: Problem, c: Any, /) -> int: ...


class Resources(Threads, Protocol):
    """Threads, blocks and shared memory, for the launch geometry of a batch (`work.py`)."""

    def blocks(self, problem: Problem, c: Any, device: Device, /) -> int: ...

    def shared_bytes(self, problem: Problem, c: Any, /) -> int: ...


class CpuSpace(Protocol):
    """Workspace of a batch on CPUs, for its launch geometry (`space_cpu.py`)."""

    def workspace_bytes(self, problem: Problem, c: Any, threads: int, /) -> int: ...


def source(
    problem: Problem,
    config: Any,
    target: str,
    *,
    work: Threads,
    folder: str,
    title: str,
    constants: Mapping[str, Any],
    arguments: tuple[Field, ...],
    types: Mapping[str, str] | None = None,
    function: str = "",
    without: tuple[str, ...] = (),
    cooperative: bool = False,
) -> Source:
    """Text of the kernel of `config` for `target` (cuda, emulated or cpu).

    `folder` is the family's below `kernels`; the function is named after the family (or `function`) and the variant.
    The parameters of the configuration, but `without` these, follow the `constants` and replace those of the same name.
    """
    values = {name: value for name, value in asdict(config).items() if name not in without}
    bounds = None if config.TARGET == ON_CPU else (work.threads(problem, config), config.BLOCKS_PER_SM)
    return instantiate(
        title=f"{problem.operation}: {title}, {config.VARIANT}",
        header=f"kernels/{folder}/{config.header()}",
        function=f"{function or problem.operation}_{config.VARIANT}",
        target=target,
        types={"T": CPP_TYPES[problem.dtype], **(types or {})},
        constants={**constants, **values},
        arguments=arguments,
        bounds=bounds,
        cooperative=cooperative,
    )


def matrices(*names: str, written: str | tuple[str, ...]) -> tuple[Field, ...]:
    """Pointers to single matrices; those in `written` are results."""
    return tuple(Field(name, f"{'' if name in written else 'const '}Params::T*", "pointer") for name in names)


def integers(names: Iterable[str], config: Any = None, more: Iterable[str] = ("threads",)) -> tuple[Field, ...]:
    """Sizes and strides; of a CPU's `config`, followed by `more`."""
    on_cpu = config is not None and config.TARGET == ON_CPU
    return tuple(Field(name, "long long", "integer") for name in (*names, *(more if on_cpu else ())))


def threads(config: Any, device: Device, work: Work | None = None) -> tuple[int, ...]:
    """The value of the argument `threads`, which only kernels of CPUs have: as many as the work is worth; all of them
    where the kernel looks at the work itself."""
    if config.TARGET != ON_CPU:
        return ()
    return (device.multiprocessors if work is None else team.size(work, device),)
