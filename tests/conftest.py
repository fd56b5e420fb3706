"""Fixtures: one numerical test body runs on every backend that is here; those that are not are skipped by name."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import mansard.settings
from mansard.api import factor_plan, gemm_call, gemv_call, matmul, triangular_call
from mansard.backends import cpu, cuda, emulated
from mansard.model import machine

UNAVAILABLE = {"cpu": cpu.unavailable, "emulated": emulated.unavailable, "cuda": cuda.unavailable}
needs_cpu = pytest.mark.skipif(cpu.unavailable() is not None, reason=f"cpu: {cpu.unavailable()}")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "examples of test_boundary_fuzz.py: 10000 and more look everywhere"
    parser.addoption("--boundary-examples", type=int, default=250, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """All tests of a run share one fresh kernel cache, unless the caller names one."""
    if "MANSARD_CACHE_DIR" not in os.environ:
        root = Path(config.rootpath) / ".pytest_cache" / "mansard"
        os.environ["MANSARD_CACHE_DIR"] = str(root)
    mansard.settings.reread()


def pytest_report_header() -> list[str]:
    """What this run will not test, said before it starts."""
    backends = [f"{name}: {reason()}" for name, reason in UNAVAILABLE.items() if reason()]
    libraries = [name for name in ("torch", "jax", "cupy") if importlib.util.find_spec(name) is None]
    spared = (
        ["most cases of each kind of kernel and dtype (sparing.py): GPUs go through all"]
        if UNAVAILABLE["cuda"]()
        else []
    )
    return [f"not tested here: {what}" for what in (*backends, *libraries, *spared)]


@pytest.fixture(params=["cpu", "emulated", "cuda"])
def backend(request: pytest.FixtureRequest) -> str:
    """Name of a backend; the test is skipped, with the reason, where it cannot run."""
    return usable(request.param)


@pytest.fixture(params=["emulated", "cuda"])
def gpu_backend(request: pytest.FixtureRequest) -> str:
    """The real GPU and its emulation."""
    return usable(request.param)


def usable(name: str) -> str:
    reason = UNAVAILABLE[name]()
    if reason:
        pytest.skip(f"{name}: {reason}")
    return name


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder for this test alone."""
    monkeypatch.setenv("MANSARD_CACHE_DIR", str(tmp_path / "cache"))
    mansard.settings.reread()
    machine._load.cache_clear()
    yield tmp_path / "cache"
    monkeypatch.undo()
    mansard.settings.reread()
    machine._load.cache_clear()


@pytest.fixture
def no_plans() -> None:
    """Nothing is known from calls of other tests."""
    modules = (factor_plan, gemm_call, gemv_call, triangular_call)
    for known in (*(module._PLANS for module in modules), factor_plan._QUICK, matmul._RUNS):
        known.clear()
