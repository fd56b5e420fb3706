"""Kernels that calls ask for: prepared, named while they compile, and recorded for `mansard precompile`.

With `MANSARD_RECORD=file` every problem that a kernel is prepared for becomes a line of JSON in the file, whether the
kernel was compiled before or not. A line holds the problem, not code: reading it back checks every value, and a
configuration passes the checks of its family.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from types import NoneType
from typing import NamedTuple

from .. import notices, private, settings, untrusted
from ..backends.base import Backend, Launch
from ..codegen.geometry import Device, Kernel
from ..errors import IllegalConfig, MansardError
from ..kernels import family_of
from ..kernels.family import Config, Emit
from ..kernels.traits import problem_from_dict
from ..plan import dispatch
from ..plan.problem import Options, Problem
from ..untrusted import Damaged
from .launcher import LAUNCHER

_ANY_SIZES = "runtime"  # variant of kernels that are the same for all sizes
_MOST_STRIDES = 64  # integers of a kernel that are known when planning: the longest list has 12


def prepared(
    emit: Emit, problem: Problem, config: Config, backend: Backend, strides: tuple[int, ...] = ()
) -> tuple[Launch, Kernel]:
    """The launch and the kernel of a configuration, compiled where the cache has none."""
    kernel = emit.kernel(problem, config, backend.device, strides)
    path = settings.current().record
    if path is not None:
        private.append_line(path, json.dumps(described(problem, config, backend.device, strides)))
    if backend.name != "emulated":
        LAUNCHER.start()
    with notices.compiling(title(problem, config)):
        return backend.prepare(kernel), kernel


def title(problem: Problem, config: Config | None = None) -> str:
    """A problem in a few words, `lu solve, float64, 16 x 16, NRHS 1`, or a kernel that is compiled for all sizes."""
    if config is not None and config.VARIANT == _ANY_SIZES:
        return f"{problem.operation}, {problem.dtype}, sizes as arguments"
    want = dict(problem.traits).get("want")
    sizes = {name: value for name, value in problem.sizes if name != "BATCH" and not (name == "NRHS" and not value)}
    order = [str(sizes.pop(name)) for name in ("M", "N", "K") if name in sizes]
    more = [f"{name} {value}" for name, value in sizes.items()]
    name = f"{problem.operation} {want}" if want else problem.operation
    return ", ".join([name, problem.dtype, *([" x ".join(order)] if order else []), *more])


def described(problem: Problem, config: Config, device: Device, strides: tuple[int, ...]) -> Options:
    """A kernel in plain values. The configuration is left out where any CPU may choose its own. A GPU is described, so
    that a machine without one can compile for it."""
    line: Options = {
        "problem": {
            "operation": problem.operation, "dtype": problem.dtype, "sizes": dict(problem.sizes),
            "traits": dict(problem.traits),
        },
        "strides": [int(stride) for stride in strides], "backend": device.backend,
    }  # fmt: skip
    if device.backend == "cuda":
        line["device"] = asdict(device)
    if device.backend == "cuda" or dispatch.choose(problem, device).config != config:
        line["config"] = family_of(problem.operation).space.to_dict(config)
    return line


class Recorded(NamedTuple):
    """A line that was read back."""

    problem: Problem
    strides: tuple[int, ...]
    backend: str
    config: Config | None = None  # None: to be chosen
    device: Device | None = None  # a GPU


def read(content: bytes) -> Recorded:
    """What a line describes; `Damaged` if it describes nothing that a family knows."""
    line = untrusted.parse(content)
    if not isinstance(line, dict) or line.get("backend") not in ("cpu", "cuda", "emulated"):
        raise Damaged("is no problem with a backend")
    strides, config, device = line.get("strides"), line.get("config"), line.get("device")
    if not isinstance(strides, list) or len(strides) > _MOST_STRIDES or not all(type(one) is int for one in strides):
        raise Damaged("has strides that are no integers")
    if not isinstance(config, dict | NoneType):
        raise Damaged("has a configuration without names")
    try:
        problem = problem_from_dict(line.get("problem"))
        chosen = None if config is None else family_of(problem.operation).space.from_dict(config)
        gpu = None if device is None else _gpu(device)
    except MansardError as error:
        raise Damaged(str(error)) from None
    return Recorded(problem, tuple(strides), line["backend"], chosen, gpu)


def _gpu(values: object) -> Device:
    """A described GPU; its architecture reaches the compiler's command line."""
    names = {field.name for field in fields(Device)}
    if not isinstance(values, dict) or not set(values) <= names or values.get("backend") != "cuda":
        raise Damaged("describes no GPU")
    if not re.fullmatch(r"sm_[0-9]{2,3}[af]?", str(values.get("arch"))) or not isinstance(values.get("name"), str):
        raise Damaged("describes a GPU without a name or an architecture")
    numbers = {name: value for name, value in values.items() if name not in ("backend", "name", "arch")}
    if not all(type(value) is int and 0 <= value < 1 << 62 for value in numbers.values()):
        raise Damaged("describes a GPU by other things than numbers")
    try:
        return Device(**values)
    except TypeError as error:
        raise Damaged(f"describes no GPU ({error})") from None


def kernel_of(line: Recorded, device: Device) -> Kernel | None:
    """The kernel that a call on `device` would prepare; None where a library answers there."""
    problem, family = line.problem, family_of(line.problem.operation)
    config = dispatch.choose(problem, device).config if line.config is None else line.config
    if config is None:
        return None
    reason = family.space.illegal(problem, config, device)
    if reason:
        raise IllegalConfig(f"{problem.operation}: recorded configuration {config}: {reason}")
    return family.emit.kernel(problem, config, device, line.strides)
