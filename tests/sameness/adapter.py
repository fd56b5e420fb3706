"""All that the recording knows of the library's internals: problems, choices, texts and compilers.

When the package is reorganised this module follows; the problems and the recordings do not change.
"""

from __future__ import annotations

import importlib
import json
import subprocess
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import mansard
from mansard.backends import emulated
from mansard.codegen.geometry import Device, Kernel
from mansard.compile import cxx, nvrtc
from mansard.compile.key import INCLUDE_DIRS
from mansard.kernels import FAMILIES
from mansard.kernels.batched import ragged_gemm
from mansard.kernels.batched.gemm import interleaved
from mansard.kernels.sparse.powers import fit
from mansard.kernels.sparse.powers import spec as powers_spec
from mansard.kernels.sparse.powers import work as powers_work
from mansard.kernels.tall_skinny import small_step
from mansard.kernels.traits import problem_from_dict
from mansard.machine import machine
from mansard.plan import dispatch, explain
from mansard.plan.problem import Problem
from mansard.plan.route import OWN_ROUTINE

from . import codehash

PACKAGE = Path(mansard.__file__).resolve().parent
CEILINGS = Path(__file__).with_name("h200.json")  # measured on the device that the shipped tables were measured on
TARGETS = ("sm_90a", "emulated", "cpu")
# A CPU that does not depend on the one at hand: two cores, AVX-512.
_CPU = Device("cpu", "CPU of the recording", "x86_64", multiprocessors=2, vector_bytes=64, l2_bytes=1 << 20)
_CPU_ARCH = "-march=x86-64-v4"
_FAMILIES = {family.name: family for family in FAMILIES}
# The public operations that may ask for a family's kernels; each decides for itself when a library is better.
_OPERATIONS = {"gram": ("gram", "matmul"), "tsmm": ("tsmm", "matmul"), "tsm2r": ("tsm2r", "matmul"),
               "gemm": ("gemm", "matmul"), "ragged_gemm": (), "small_step": ()}  # fmt: skip
_ROUTES = {OWN_ROUTINE: "vendor", "no kernel": "empty"}  # words of the recordings for what answers
_NOT_ASKED = {"gemv": ("N",), "matmul_gram": ("layout_a", "layout_w", "pitch_w")}  # follow from other fields


class _Placed:
    """A backend that describes a device and runs nothing."""

    def __init__(self, name: str, device: Device) -> None:
        self.name, self.device = name, device


def prepare() -> None:
    """Make the H200's measured ceilings known in this process's cache folder, as `mansard info` does on an H200."""
    machine.save(machine.from_values(json.loads(CEILINGS.read_text())), explain.NOMINAL["sm_90a"])


def versions() -> dict[str, str]:
    """The compilers that digests depend on."""
    return {"nvrtc": nvrtc.version(), "c++": cxx.find_compiler()[1]}


def outcome(entry: dict[str, Any], target: str) -> dict[str, Any]:
    """What one problem gets on one target: configuration, origin, routes, and its kernels' launches and digests.

    `entry` has `family`, `dtype`, `fields`, and maybe `config`, a configuration that is not left to the library.
    """
    where = _target(target)
    family, problem = _FAMILIES[entry["family"]], described(entry)
    configs, origin, routes = _chosen(entry, family, problem, where)
    found: dict[str, Any] = {"origin": origin, "configs": [family.space.to_dict(config) for config in configs]}
    if routes:
        found["routes"] = routes
    kernels = _kernels(entry, family, problem, configs, where.device)
    return found | {"kernels": [_digested(kernel, target) for kernel in kernels]}


def described(entry: dict[str, Any]) -> Problem:
    """The problem that an entry describes in plain values."""
    family = _FAMILIES[entry["family"]]
    special = {"band", "part", "size_class", "counted", *_NOT_ASKED.get(entry["family"], ())}
    fields = {name: value for name, value in entry["fields"].items() if name not in special}
    return family.spec.problem(entry["dtype"], **fields)


def entry_of(problem: Problem, config: Any = None) -> dict[str, Any]:
    """A problem, and maybe a configuration, in plain values: the inverse of `described`."""
    fields = {**dict(problem.sizes), **dict(problem.traits)}
    for name in _NOT_ASKED.get(problem.operation, ()):
        fields.pop(name, None)
    entry = {"family": problem.operation, "dtype": problem.dtype, "fields": fields}
    return entry if config is None else entry | {"config": _FAMILIES[problem.operation].space.to_dict(config)}


@lru_cache(maxsize=3)
def _target(name: str) -> Any:
    if name == "cpu":
        return _Placed("cpu", _CPU)
    return emulated.backend() if name == "emulated" else explain.Absent(explain.NOMINAL[name])


def _chosen(entry: dict[str, Any], family: Any, problem: Problem, where: Any) -> tuple[list[Any], str, dict[str, str]]:
    """Configurations (more than one where several launches share the work), their origin, and who answers whom."""
    if "config" in entry:
        config = family.space.from_dict(entry["config"])
        return ([], "illegal", {}) if family.space.illegal(problem, config, where.device) else ([config], "given", {})
    if family is ragged_gemm.FAMILY:
        return [_ragged_config(entry, problem, where.device)], "rule", {}
    if family is small_step.FAMILY:
        config = None if where.name == "cpu" else family.defaults.default(problem, where.device)
        return ([config], "rule", {}) if config is not None else ([], "none", {})
    if _is_interleaved(problem, where.device):
        return [interleaved.default(problem)], "rule", {}
    if "band" in entry["fields"] and where.name != "cpu":
        passes, _ = fit.passes(problem, _band(entry, problem), where.device)
        return list(passes), "fitted" if passes else "none", {}
    choice = dispatch.choose(problem, where.device)
    asking = _OPERATIONS.get(entry["family"], (entry["family"],))
    routes = {operation: _route(problem, where, operation) for operation in asking}
    return ([] if choice.config is None else [choice.config]), choice.origin, routes


def _route(problem: Problem, where: Any, operation: str) -> str:
    """`kernel`, or how else a public operation answers the problem."""
    plan = explain.plan_without_arrays(problem, where, operation)
    return "kernel" if plan.kernel else _ROUTES.get(str(plan.choice), str(plan.choice))


def _is_interleaved(problem: Problem, device: Device) -> bool:
    """Whether the stacks are interleaved: on GPUs those have a kernel beside the family's."""
    return problem.operation == "gemm" and problem.stack_c == "interleaved" and device.backend != "cpu"


def _ragged_config(entry: dict[str, Any], problem: Problem, device: Device) -> Any:
    """The kernel for one class of sizes, or of the sort; on CPUs one kernel serves all."""
    if device.backend == "cpu":
        return ragged_gemm.defaults.default(problem, device)
    size_class = entry["fields"]["size_class"]
    if isinstance(size_class, int):
        return ragged_gemm.defaults.of_class(problem, size_class, device, problem.BATCH * entry["fields"]["counted"])
    return ragged_gemm.defaults.sorts(ragged_gemm.defaults.merged_from(problem))[size_class == "place"]


def _band(entry: dict[str, Any], problem: Problem) -> fit.Pattern:
    """The pattern of a matrix with equally long rows that reach `band` rows ahead."""
    width = problem.NNZ // problem.ROWS
    chunks = -(-problem.ROWS // powers_spec.CHUNK)
    chunk_bytes = powers_spec.CHUNK * width * (problem.itemsize + powers_spec.INDICES[problem.index])

    def reach(rows: int) -> Any:
        tiles = -(-problem.ROWS // rows)
        return np.minimum(tiles - 1, (np.arange(tiles) * rows + rows - 1 + entry["fields"]["band"]) // rows)

    return fit.Pattern(np.full(chunks, chunk_bytes), float(width), reach)


def _kernels(
    entry: dict[str, Any], family: Any, problem: Problem, configs: list[Any], device: Device
) -> list[Kernel]:  # fmt: skip
    emit, part = family.emit, entry["fields"].get("part")
    if part is not None:  # the small kernels beside those of powers
        if device.backend == "cpu" and part != "permute":
            return []
        made = {"fill": lambda: emit.fill(problem, device, 1), "permute": lambda: emit.permute(problem, device, 1),
                "combine": lambda: emit.combine(problem, device)}  # fmt: skip
        return [made[part]()]
    if family is small_step.FAMILY:
        return [emit.kernel(problem, config, device) for config in configs]
    if family is ragged_gemm.FAMILY:
        fixed = (1, 1, 1 << 20) if device.backend == "cpu" else (1, 1)
        return [emit.kernel(problem, config, device, fixed) for config in configs]
    if _is_interleaved(problem, device):
        return [interleaved.kernel(problem, device, family.spec.strides(problem))]
    if "band" in entry["fields"] and device.backend != "cpu":
        parts = [problem.replace(P=sum(powers_work.retained(config.RETAIN))) for config in configs]
        return [emit.kernel(part, config, device) for part, config in zip(parts, configs, strict=True)]
    return [emit.kernel(problem, config, device, family.spec.strides(problem)) for config in configs]


def _digested(kernel: Kernel, target: str) -> dict[str, Any]:
    launch = {**asdict(kernel.geometry), "grid": list(kernel.geometry.grid), "fixed": list(kernel.fixed)}
    if target == "sm_90a":
        built = nvrtc.compile_cuda(kernel.source, target)
        found = nvrtc.resources(built.log)
        info = {"registers": found.registers, "spilled": found.spill_bytes}
        return {"code": codehash.of_cubin(built.binary.read_bytes()), "launch": launch, "info": info}
    return {"code": _preprocessed(kernel, target), "launch": launch}


def _preprocessed(kernel: Kernel, target: str) -> str:
    flags = cxx.CPU_FLAGS if target == "cpu" else cxx.KERNEL_FLAGS
    if kernel.source.cooperative:
        flags += ("-DMANSARD_EMULATED_COOPERATIVE",)
    usable = [_CPU_ARCH if flag == "-march=native" else flag for flag in flags]
    folders = [f"-I{folder}" for folder in INCLUDE_DIRS]
    command = [cxx.find_compiler()[0], *usable, *folders, "-E", "-x", "c++", "-"]
    run = subprocess.run(command, input=kernel.source.text, capture_output=True, text=True, check=True)
    return codehash.of_preprocessed(run.stdout, tuple(flags))


def recorded() -> list[dict[str, Any]]:
    """The problems of the tuning tables that ship, in plain values, each once."""
    lines = [line for path in sorted(PACKAGE.glob("tune/data/cuda-nvidia-h200-132/*.jsonl")) for line in path.open()]
    problems = {problem_from_dict(json.loads(line)["problem"]): None for line in lines}
    return [entry_of(problem) for problem in problems]


def known_cases() -> list[dict[str, Any]]:
    """Problems and configurations of the families' test cases, which between them reach every branch of the kernels."""
    found = []
    for path in sorted(Path(__file__).resolve().parent.parent.glob("*_cases.py")):
        module = importlib.import_module(path.stem)
        for name, values in sorted(vars(module).items()):
            pairs = values if name.isupper() and isinstance(values, list) else []
            for pair in pairs:
                if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Problem):
                    problem, config = pair
                    known = problem.operation in _FAMILIES and hasattr(config, "VARIANT")
                    if known and described(entry := entry_of(problem, config)) == problem:
                        found.append(entry)
    return found
