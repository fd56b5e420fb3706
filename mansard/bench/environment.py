"""Where a result comes from: device, driver, versions, date, commit, command. A number without them is a rumour."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__, settings

_PACKAGES = ("numpy", "scipy", "torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-nvrtc", "matplotlib")


def describe(backend: Any) -> dict[str, Any]:
    """The environment of a run on `backend`."""
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
        "packages": _packages(),
        "openblas_thread_timeout": settings.current().openblas_thread_timeout or "unset: its workers spin after a call",
    }
    facts["commit"], facts["dirty"] = _commit()
    facts["sources"] = _sources()
    if backend.name == "cuda":
        facts["driver"] = query("driver_version")
    return facts


def query(fields: str) -> str:
    """What nvidia-smi says; empty where it is not installed."""
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


def _sources() -> str:
    """A digest of the package: results of other sources are never mixed into a continued run."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cuh", ".hpp", ".h")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _commit() -> tuple[str, bool]:
    """The commit of the checkout this package runs from, and whether files differ from it; empty without git."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "", False
    try:
        head, status = (
            subprocess.run(
                ["git", "-C", str(root), *words], check=False, capture_output=True, text=True, timeout=10
            ).stdout
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
        return head.strip(), bool(status.strip())
    except (OSError, subprocess.TimeoutExpired):
        return "", False
