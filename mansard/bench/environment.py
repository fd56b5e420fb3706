"""Environment of a result: device, driver, versions, date, commit, command."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from typing import Any

from .. import __version__, settings
from . import provenance

_PACKAGES = ("numpy", "scipy", "torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-nvrtc", "matplotlib")


def describe(backend: Any, commit: str = "") -> dict[str, Any]:
    """The environment of a run on `backend`; `commit` is the one that the sources are said to be from."""
    device = backend.device
    facts: dict[str, Any] = {
        "device": device.name if backend.name != "cpu" else f"{device.name}, {device.multiprocessors} threads",
        "backend": backend.name,
        "arch": device.arch,
        "multiprocessors": device.multiprocessors,
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": " ".join(["mansard", *sys.argv[1:]]),
        "version": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "threads": settings.current().threads,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "packages": _packages(),
        "openblas_thread_timeout": settings.current().openblas_thread_timeout or "unset: its workers spin after a call",
    }
    facts |= provenance.describe(commit)
    if backend.name == "cuda":
        facts["driver"], facts["card"] = query("driver_version"), query("uuid")
    return facts


def query(fields: str) -> str:
    """Ask nvidia-smi for `fields` of the first GPU; empty where it is not installed."""
    try:
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)
        return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
