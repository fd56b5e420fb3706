"""`mansard info`: what is here, what is missing and how to get it, and this machine's measured ceilings."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import native, private, settings, units
from ..backends import cpu, cuda
from ..backends.cuda_driver import driver
from ..compile import cxx, nvrtc
from ..compile.cache import default_cache
from ..errors import BackendUnavailable, MansardError
from ..version import __version__
from . import energy, machine, noise
from .calibrate import calibrate
from .machine import Machine

# name -> module, distributions that provide it, what it is for
_LIBRARIES = {
    "NumPy": ("numpy", ("numpy",), ""),
    "SciPy": ("scipy", ("scipy",), "pip install scipy: sparse matrices"),
    "CuPy": ("cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"), "pip install 'mansard[cuda]': arrays on NVIDIA GPUs"),
    "PyTorch": ("torch", ("torch",), "pip install torch: only if you use tensors"),
    "JAX": ("jax", ("jax",), "pip install jax: only if you use JAX arrays"),
    "rich": ("rich", ("rich",), "pip install rich: progress bars"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--remeasure",
        dest="measure",
        action="store_true",
        default=None,
        help="measure the ceilings again; without it, only those never measured, or measured on a busy machine, are",
    )
    how.add_argument("--no-measure", dest="measure", action="store_false", help="measure nothing")
    how.add_argument("--forget", action="store_true", help="forget the stored ceilings and stop")
    parser.add_argument("--full", action="store_true", help="show every probe, shape and footprint with its spread")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="only this kind of device")


def run(args: argparse.Namespace) -> int:
    """Collect, measure where asked, print."""
    if args.forget:
        return _forget(args.device)
    facts = surroundings()
    if not args.json:
        print(_facts_text(facts), flush=True)
    machines, failed = [], False
    for backend in list(_backends(args.device)):
        try:
            machines.append(_ceilings(backend, args.measure))
        except MansardError as error:
            failed = True
            print(f"{backend.device.name}: the ceilings could not be measured: {error}", file=sys.stderr)
            machines.append(machine.known(backend.device))
        if not args.json:
            print("\n" + ceilings_text(machines[-1], args.full))
    if args.json:
        print(json.dumps({**facts, "machines": [asdict(one) for one in machines]}, indent=1))
    return int(failed)


def _forget(device: str | None) -> int:
    names = machine.forget(device)
    if not names:
        print("no ceilings are stored" + (f" of {device} devices" if device else ""))
    for name in names:
        print(f"forgot the ceilings of {name}")
    return 0


# --- What is here ------------------------------------------------------------------------------------------------


def surroundings() -> dict[str, Any]:
    """Versions of everything Mansard works with, None where it is missing, and what to do about that."""
    missing = {}
    libraries = {}
    for name, (module, distributions, remedy) in _LIBRARIES.items():
        libraries[name] = _version(module, distributions)
        if libraries[name] is None:
            missing[name] = remedy
    for name, reason in (("CPU kernels", cpu.unavailable()), ("GPU", cuda.unavailable()), ("NVRTC", nvrtc.available())):
        if reason:
            missing[name] = reason
    folder, host = settings.current().cache_dir, cpu.backend().device
    return {
        "mansard": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "libraries": libraries,
        "nvrtc": None if nvrtc.available() else nvrtc.version(),
        "compiler": None if cxx.available() else ": ".join(cxx.find_compiler()),
        "launcher": native.state(),
        "cpu": f"{host.name}, {host.multiprocessors} threads, {host.vector_bytes}-byte vectors",
        **_gpus(),
        "energy": _energy(),
        "cache": {"folder": str(folder), "writable": _writable(str(folder))},
        "compiling": default_cache().seconds_by_family(),
        "missing": missing,
    }


def _version(module: str, distributions: tuple[str, ...]) -> str | None:
    """Version of a package from its metadata: importing some of them takes seconds."""
    if importlib.util.find_spec(module) is None:
        return None
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown version"


def _gpus() -> dict[str, Any]:
    try:
        found = driver()
        devices = [found.device(ordinal) for ordinal in range(found.device_count())]
    except MansardError:
        return {"driver": None, "gpus": []}
    texts = [f"{d.name}, {d.arch}, {d.multiprocessors} multiprocessors, {d.l2_bytes >> 20} MiB L2" for d in devices]
    return {"driver": f"CUDA {found.version()}", "gpus": texts}


def _energy() -> dict[str, str]:
    """The energy counter of every device, or why there is none."""
    devices: dict[str, Any] = {"CPU": cpu.backend()}
    if cuda.unavailable() is None:
        devices |= {f"GPU {ordinal}": cuda.backend(ordinal) for ordinal in range(driver().device_count())}
    return {name: energy.unreadable(one) or energy.counter(one).about for name, one in devices.items()}


def _writable(folder: str) -> bool:
    try:
        private.make_folder(Path(folder))
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _facts_text(facts: dict[str, Any]) -> str:
    cache = facts["cache"]
    rows = [
        ("Mansard", facts["mansard"]),
        ("Python", facts["python"]),
        *((name, version or "-") for name, version in facts["libraries"].items()),
        ("NVRTC", facts["nvrtc"] or "-"),
        ("C++ compiler", facts["compiler"] or "-"),
        ("Calls by", facts["launcher"]),
        ("CPU", facts["cpu"]),
        ("NVIDIA driver", facts["driver"] or "-"),
        *((f"GPU {number}", text) for number, text in enumerate(facts["gpus"])),
        *((f"Joules of {name}", text) for name, text in facts["energy"].items()),
        ("Cache", cache["folder"] + ("" if cache["writable"] else "  (cannot be written: set MANSARD_CACHE_DIR)")),
    ]
    lines = [f"{name:<14} {value}" for name, value in rows]
    if facts["compiling"]:
        lines += ["", "Compiled kernels in the cache: number, seconds together, seconds of the slowest"]
    for name, one in facts["compiling"].items():
        lines.append(f"  {name:<22} {one['kernels']:5.0f} {one['seconds']:9.1f} {one['slowest']:7.1f}")
    if facts["missing"]:
        lines += ["", "Missing"] + [f"  {name}: {remedy}" for name, remedy in facts["missing"].items()]
    return "\n".join(lines)


# --- Ceilings ----------------------------------------------------------------------------------------------------


def _backends(device: str | None) -> Iterator[Any]:
    """The backends that can be measured here; asking for one that is not here says why."""
    if device != "cuda" and cpu.unavailable() is None:
        yield cpu.backend()
    if device == "cpu":
        return
    reason = cuda.unavailable()
    if reason is None:
        for ordinal in range(driver().device_count()):
            yield cuda.backend(ordinal)
    elif device == "cuda":
        raise BackendUnavailable(reason)


def _ceilings(backend: Any, measure: bool | None) -> Machine:
    known = machine.known(backend.device)
    if measure is False or (measure is None and known.measured and not known.noise):
        return known
    with _display(backend.device.name) as progress:
        return calibrate(backend, progress)


@contextmanager
def _display(device: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal that has rich, lines elsewhere; always on stderr, so that output can be piped."""
    if sys.stderr.isatty() and importlib.util.find_spec("rich"):
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"measuring {device}")
            yield lambda label, done, total: bar.update(
                task, completed=done, total=total, description=f"{device}: {label}"
            )
    else:
        yield lambda label, done, total: print(f"[{done + 1}/{total}] {device}: {label}", file=sys.stderr, flush=True)


def ceilings_text(one: Machine, full: bool = False) -> str:
    """The table of a machine's ceilings, with units."""
    rows = [
        ("read", units.rate(one.read_bandwidth, "B/s"), ("read", "read_ring", "dot")),
        ("copy (read + written)", units.rate(one.copy_bandwidth, "B/s"), ("copy", "copy_ring")),
        ("scale (read + written)", units.rate(one.scale_bandwidth, "B/s"), ("scale", "scale_ring")),
        *((f"multiply-add {d}", units.rate(v, "FLOP/s"), (f"fma_{d}",)) for d, v in sorted(one.fma.items())),
        *(
            (f"tensor cores {d}", units.rate(v, "FLOP/s"), (f"tensor_{_PROBED.get(d, d)}",))
            for d, v in sorted(one.tensor.items())
        ),
        ("memory latency", units.duration(one.latency_seconds), ("latency",)),
        ("launch", units.duration(one.launch_seconds), ("launch",)),
        *_device_rows(one),
    ]
    lines = [f"Ceilings of {one.device} ({one.origin})"]
    lines += [f"  {name:<24}{value:>16}{_shape_note(one, probes)}" for name, value, probes in rows]
    lines += _warnings(one)
    return "\n".join(lines + (_full_text(one) if full else _cache_text(one)))


def _device_rows(one: Machine) -> list[tuple[str, str, tuple[str, ...]]]:
    if "threads" in one.details:
        return [("parallel region", units.duration(one.grid_barrier_seconds), ("fork",))]
    if one.device == "cpu":
        return []
    return [("graph step", units.duration(one.graph_step_seconds), ("graph_step",)),
            ("grid barrier", units.duration(one.grid_barrier_seconds), ("grid_barrier",))]  # fmt: skip


def _probes(one: Machine) -> dict[str, dict[str, dict[str, float]]]:
    return one.details.get("probes", {})  # type: ignore[return-value]


def _shape_note(one: Machine, names: tuple[str, ...]) -> str:
    """The winning shape of a ceiling, and its spread."""
    shapes = [item for name in names for item in _probes(one).get(name, {}).items()]
    if not shapes:
        return ""
    _, shape, spread = max((entry["value"], shape, entry["spread"]) for shape, entry in shapes)
    return f"  +- {100 * spread:.1f} %  {shape}"


def _warnings(one: Machine) -> list[str]:
    details: Any = one.details
    shares = noise.Shares(details.get("others"), details.get("stolen"), 0.0)
    disturbed = one.noise or noise.of_surroundings(shares, 1)
    texts = []
    if disturbed:
        texts += ["measured on a busy machine, ceilings may be too low:", *(f"  {text}" for text in disturbed)]
        texts.append("  run `mansard info --remeasure` when the machine is idle")
    if "not_kept" in details:
        texts += ["a new measurement was not kept, the machine was busy:", *(f"  {t}" for t in details["not_kept"])]
        texts.append("  if the machine has changed for good, run `mansard info --forget` and measure again")
    if "not_stored" in details:
        texts.append(f"not stored: {details['not_stored']}: set MANSARD_CACHE_DIR to a folder that can be written to")
    if str(details.get("served_by", "memory")) != "memory":
        texts.append(f"served by {details['served_by']}")
    texts += [f"{name} failed: {reason}" for name, reason in dict(details.get("failures", {})).items()]
    return [f"  note: {text}" if text[0] != " " else f"      {text}" for text in texts]


def _cache_text(one: Machine) -> list[str]:
    if not one.cache_bandwidth:
        return []
    curve = ", ".join(f"{units.capacity(size)} {units.rate(rate, 'B/s')}" for size, rate in one.cache_bandwidth)
    return [f"  read by footprint        {curve}"]


def _ramp_text(one: Machine) -> list[str]:
    """Overhead and bandwidth of small kernels (equation 4.12), as text."""
    ramp: Any = one.details.get("ramp", {})
    if "bandwidth" not in ramp:
        return []
    overhead, rate = units.duration(ramp["overhead_seconds"]), units.rate(ramp["bandwidth"], "B/s")
    return [f"  small kernels           {overhead} + bytes / {rate}"]


def _full_text(one: Machine) -> list[str]:
    lines = [*_cache_text(one), *_ramp_text(one)]
    for probe, shapes in _probes(one).items():
        for shape, entry in shapes.items():
            unit = "FLOP/s" if probe.startswith(("fma", "tensor")) else "B/s"
            value = units.duration(entry["value"]) if entry["value"] < 1 else units.rate(entry["value"], unit)
            lines.append(f"  {probe:<20}{value:>16}  +- {100 * entry['spread']:.1f} %  {shape}")
    notes = {name: value for name, value in one.details.items() if name not in _SHOWN_ELSEWHERE}
    return lines + [f"  {name}: {value}" for name, value in notes.items()]


_SHOWN_ELSEWHERE = ("probes", "failures", "ramp", "noise", "not_kept", "not_stored")
_PROBED = {"tf32": "float32"}  # what goes in and comes out
