"""Configurations of all families: conversion to and from records, residency on a GPU, the first legal rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from ...codegen.geometry import Device
from ...errors import IllegalConfig
from ...machine import occupancy
from ...plan.problem import Problem
from ...rules import shown
from . import fields

Config = TypeVar("Config")
MOST_THREADS = 1024  # of a block, on every GPU
MOST_REGISTERS = 255  # of a thread, on every GPU


class Resources(Protocol):
    """Resources of a thread block (threads, registers, shared memory), as a family's `work.py` gives them."""

    def threads(self, problem: Problem, c: Any, /) -> int: ...

    def registers(self, problem: Problem, c: Any, /) -> int: ...

    def shared_bytes(self, problem: Problem, c: Any, /) -> int: ...


class Legality(Protocol):
    """Legality of a configuration, as a family's `space.py` decides it."""

    def illegal(self, problem: Problem, config: Any, device: Device, /) -> str | None: ...


class OnGpu:
    """Base of configurations of CUDA kernels, which the emulator runs too."""

    VARIANT: ClassVar[str]
    TARGET: ClassVar[Literal["cuda"]] = "cuda"

    @classmethod
    def header(cls) -> str:
        """File of the kernel, in the family's folder."""
        return f"kernel_{cls.VARIANT}.cuh"


class OnCpu:
    """Base of configurations of SIMD kernels."""

    VARIANT: ClassVar[str]
    TARGET: ClassVar[Literal["cpu"]] = "cpu"
    HEADER: ClassVar[str] = "kernel.hpp"

    @classmethod
    def header(cls) -> str:
        """File of the kernel, in the family's folder."""
        return cls.HEADER


def up(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def piece(total: int, limit: int) -> int:
    """The largest of the fewest balanced pieces of `total` that keep to the limit."""
    return up(total, up(total, limit))


def power_below(count: float) -> int:
    """The largest power of two that is not larger than `count`, at least one."""
    return 1 << (max(1, int(count)).bit_length() - 1)


def to_dict(config: Any) -> dict[str, Any]:
    """The form in which a configuration is stored: its variant first, then its parameters."""
    return {"VARIANT": config.VARIANT, **asdict(config)}


def from_dict(operation: str, variants: Mapping[str, type[Config]], values: Mapping[str, Any]) -> Config:
    """The inverse of `to_dict`, for values that anyone may have written: names and values that the variant does not
    declare (`fields.py`) raise IllegalConfig."""
    values = dict(values)
    variant = values.pop("VARIANT", None)
    if not isinstance(variant, str) or variant not in variants:
        raise IllegalConfig(f"{operation}: VARIANT={shown(variant)} is not one of {', '.join(variants)}")
    kind = variants[variant]
    return kind(**fields.checked(operation, kind, values))


def too_large(
    work: Resources, problem: Problem, config: Any, device: Device, together: bool = False
) -> str | None:  # fmt: skip
    """Why a multiprocessor has no room for the blocks of a configuration, or None if it has. Each of its four quarters
    holds its share of the warps: of every block, or (`together`) of all blocks, where these have less than four."""
    threads, count = work.threads(problem, config), config.BLOCKS_PER_SM
    registers = needed_registers(work, problem, config, device)
    if threads > MOST_THREADS:
        return f"{threads} threads exceed a block's {MOST_THREADS}"
    warps = 4 * (up(threads * count, 128) if together else up(threads, 128) * count)
    limit = min(MOST_REGISTERS, device.registers_per_multiprocessor // (warps * 32) // 8 * 8)
    if registers > limit:
        return f"about {registers} registers per thread, {limit} fit"
    shared = work.shared_bytes(problem, config)
    room = min(device.shared_per_block, device.shared_per_multiprocessor // config.BLOCKS_PER_SM - 1024)
    return f"{shared} bytes of shared memory, {room} are there" if shared > room else None


_FITTED = 90  # compute capability whose compiled kernels the estimates of registers were fitted to
_MARGIN = 12  # estimated registers per one that the compiler may take beyond them for other targets: 9 of 92 were seen
_SPARE = 24  # registers that it takes beyond them at the most, of kernels with long unrolled code


def needed_registers(work: Resources, problem: Problem, config: Any, device: Device) -> int:
    """Estimated registers per thread, with some to spare on GPUs to which the estimate was not fitted. A family whose
    kernels take more than the margin there says so in `unfitted_registers`."""
    registers = work.registers(problem, config)
    if device.capability == _FITTED:
        return registers
    unfitted = getattr(work, "unfitted_registers", work.registers)
    with_margin = min(MOST_REGISTERS, registers + registers // _MARGIN)
    return int(max(with_margin, registers, unfitted(problem, config)))


def with_spare_registers(work: Resources, problem: Problem, config: Config, device: Device, least: int = 0) -> Config:
    """Reduce the blocks per multiprocessor until each thread has `_SPARE` registers beyond the estimate, so that
    nothing spills on GPUs to which the estimates were not fitted. `least` bounds estimates that count on spills."""
    if device.capability == _FITTED:
        return config
    needed = min(MOST_REGISTERS, max(least, work.registers(problem, config)) + _SPARE)
    quarter = device.registers_per_multiprocessor // 4 // (32 * up(needed, 8) * 8)  # warps with room, of each quarter
    blocks = 4 * quarter // up(work.threads(problem, config), 32)
    return replace(config, BLOCKS_PER_SM=max(1, min(config.BLOCKS_PER_SM, blocks)))  # type: ignore[type-var, attr-defined]


def fullest(config: Any, most: int, refused: Callable[[Any], str | None]) -> Any:
    """The configuration with as many blocks per multiprocessor, `most` of them, as are not refused; None if none is."""
    for blocks in range(most, 0, -1):
        fitting = replace(config, BLOCKS_PER_SM=blocks)
        if refused(fitting) is None:
            return fitting
    return None


def resident(
    work: Resources,
    problem: Problem,
    config: Any,
    device: Device,
    *,
    quarters: bool = True,
    most: int = 16,
    refused: Callable[[Any], str | None] | None = None,
) -> Any:
    """The configuration with as many blocks per multiprocessor as fit, None if not even one does.

    Warps are counted as if every block had its share of them in each of the four `quarters` of a multiprocessor; blocks
    of less than four warps can share these. Fewer blocks are tried as long as a number is `refused`.
    """
    threads = up(work.threads(problem, config), 128) * 128 if quarters else work.threads(problem, config)
    registers = needed_registers(work, problem, config, device)
    shared = work.shared_bytes(problem, config)
    fit = min(most, occupancy.blocks_per_multiprocessor(device, threads, registers, shared))
    if threads > MOST_THREADS:
        return None
    return fullest(config, fit, refused or (lambda fitting: None))


def fitting(
    problem: Problem,
    device: Device,
    rough: Iterable[Any],
    resident: Callable[[Problem, Any, Device], Any],
    illegal: Callable[[Problem, Any, Device], str | None],
    fewer: int = 0,
) -> Iterator[Any]:
    """Every configuration once that is legal with as many blocks per multiprocessor as fit, and with up to `fewer`
    blocks less, whose threads have more registers."""
    fullest = (resident(problem, config, device) for config in rough)
    found = (replace(c, BLOCKS_PER_SM=c.BLOCKS_PER_SM - less) for c in fullest if c is not None
             for less in range(min(fewer + 1, c.BLOCKS_PER_SM)))  # fmt: skip
    yield from dict.fromkeys(c for c in found if illegal(problem, c, device) is None)


def elsewhere(config: Any, device: Device) -> str | None:
    """Why a configuration is not for this kind of device, or None if it is."""
    if (config.TARGET == "cpu") == (device.backend == "cpu"):
        return None
    return f"{config.VARIANT} is for {'CPUs' if config.TARGET == 'cpu' else 'GPUs'}"


def illegal_on_cpus(space_cpu: Legality, problem: Problem, config: Any, device: Device) -> str | None:
    """Why a configuration cannot be used, if it or the device is a CPU's; None if it can."""
    return elsewhere(config, device) or space_cpu.illegal(problem, config, device)


def first_legal(space: Legality, ranked: Iterable[Any], problem: Problem, device: Device, variant: str | None) -> Any:
    """The first legal one; `variant` restricts it to one kind of kernel."""
    for config in ranked:
        if variant in (None, config.VARIANT) and space.illegal(problem, config, device) is None:
            return config
    return None
