"""Fixtures: one numerical test body runs on every backend that is here; those that are not are skipped by name."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sparing

import mansard.settings
from mansard.backends import cpu, cuda, emulated
from mansard.compile import cxx, nvrtc
from mansard.machine import machine
from mansard.operations.plans import PLANS

UNAVAILABLE = {"cpu": cpu.unavailable, "emulated": emulated.unavailable, "cuda": cuda.unavailable}
needs_cpu = pytest.mark.skipif(cpu.unavailable() is not None, reason=f"cpu: {cpu.unavailable()}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slice-seed", type=int, help="which slice of the emulated cases runs (default: by the clock)")
    parser.addoption("--all-cases", action="store_true", help="run all emulated cases, not a slice")
    text = "examples of test_boundary_fuzz.py: 10000 and more look everywhere"
    parser.addoption("--boundary-examples", type=int, default=120, help=text)
    text = "skip each test at the point where it would compile a kernel, measure, or draw a report (`make check`)"
    parser.addoption("--quick", action="store_true", help=text)
    parser.addoption("--fuzz", action="store_true", help="all mutated files of test_fuzz.py instead of a few hundred")
    parser.addoption("--fuzz-seed", type=int, default=27, help="what the mutations are made from")


def pytest_configure(config: pytest.Config) -> None:
    """All tests of a run share one fresh kernel cache, unless the caller names one, and one slice of the cases."""
    worker = getattr(config, "workerinput", {})
    config.addinivalue_line("markers", "rotated(count): runs once in `count` runs of the whole suite; see sparing.py")
    sparing.begin(worker.get("slice_seed", config.getoption("--slice-seed")), config.getoption("--all-cases"))
    if "MANSARD_CACHE_DIR" not in os.environ:
        root = Path(config.rootpath) / ".pytest_cache" / "mansard"
        os.environ["MANSARD_CACHE_DIR"] = str(root)
    os.environ.setdefault("MANSARD_LIBRARY_BELOW", "0")  # kernels answer, however little they have to do
    os.environ.setdefault("MANSARD_QUIET", "1")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take three quarters of a GPU's memory
    mansard.settings.reread()
    if config.getoption("--quick"):
        _skip_what_takes_long()
    if not worker:
        config.pluginmanager.register(FailuresAtOnce(config))


class FailuresAtOnce:
    """Print name and error of a failed test when it is reported: a run that is stopped prints no summary. Of parallel
    runs this is the controller, which all workers report to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or not report.failed:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        text = (crash.message if crash else str(report.longrepr)).strip().partition("\n")[0]
        when = "" if report.when == "call" else f" ({report.when})"
        terminal.write_line(f"\nFAILED{when} {report.nodeid} - {text[:200]}")
        terminal.flush()


def _skip_what_takes_long() -> None:
    """Replace the compilers, and the benchmark's operands, measuring and drawing, by functions that skip the test."""
    from mansard.bench import contest, data, gallery, report

    places = ((cxx, "compile_cpu"), (cxx, "compile_emulated"), (nvrtc, "compile_cuda"), (data.Operands, "__init__"),
              (contest.Contest, "run"), (report, "write_report"), (gallery, "draw_all"))  # fmt: skip
    for place, name in places:
        setattr(place, name, _skipping(f"{place.__name__}.{name}"))


def _skipping(name: str) -> Callable[..., Any]:
    def skip(*given: Any, **more: Any) -> Any:
        pytest.skip(f"--quick: {name}", allow_module_level=True)  # tables of cases call functions when imported

    return skip


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of xdist collects what the others collect."""
    node.workerinput["slice_seed"] = sparing.SHARE.seed


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let nine tenths of the emulated tests and two thirds of those for CPUs rest, unless tests were named, and what is
    `rotated`, unless files were: see `sparing`."""
    if config.getoption("keyword") or any("::" in one for one in config.args):
        return
    rotates = not any(one.endswith(".py") for one in config.args)
    resting = {item: None for item in items if _rests(item) or (rotates and _is_rotated_out(item))}
    if resting:
        config.hook.pytest_deselected(items=list(resting))
        items[:] = [item for item in items if item not in resting]


def _rests(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    backends = [params[name] for name in ("backend", "gpu_backend", "name", "where") if name in params]
    lists = [mark.args[1] for mark in item.iter_markers("parametrize") if len(mark.args) > 1]
    return bool(backends) and sparing.rests(item.nodeid, backends[0], lists)


def _is_rotated_out(item: pytest.Item) -> bool:
    """Whether this is not the turn of a test that its module or itself has `rotated`."""
    mark = item.get_closest_marker("rotated")
    return mark is not None and sparing.is_rotated_out(item.nodeid, mark.args[0])


def pytest_collection_finish() -> None:
    sparing.SHARE.counting = False


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["slice"] = (sparing.SHARE.chosen, sparing.SHARE.cases)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    share, output = sparing.SHARE, getattr(node, "workeroutput", {})
    share.chosen, share.cases = output.get("slice", (share.chosen, share.cases))


def pytest_report_header() -> list[str]:
    """What this run will not test, said before it starts."""
    backends = [f"{name}: {reason()}" for name, reason in UNAVAILABLE.items() if reason()]
    libraries = [name for name in ("torch", "jax", "cupy") if importlib.util.find_spec(name) is None]
    spared = [] if sparing.takes_all() else [f"emulated cases outside {sparing.SHARE}"]
    return [f"not tested here: {what}" for what in (*backends, *libraries, *spared)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which share of the emulated cases this run was made of."""
    share = sparing.SHARE
    if share.cases:
        terminalreporter.write_line(f"cases in slices and turns: {share.chosen} of {share.cases} chosen ({share})")


_MOST_POOLED = 1 << 30  # bytes of a GPU that a process keeps for its next test


def pytest_runtest_teardown() -> None:
    """Give the memory of large operands back: several processes share a GPU."""
    for name, pooled, release in _POOLS:
        library = sys.modules.get(name)
        if library is not None and UNAVAILABLE["cuda"]() is None and pooled(library) > _MOST_POOLED:
            release(library)


_POOLS: tuple[tuple[str, Callable[[Any], int], Callable[[Any], None]], ...] = (
    ("cupy", lambda cupy: cupy.get_default_memory_pool().total_bytes(),
     lambda cupy: cupy.get_default_memory_pool().free_all_blocks()),
    ("torch", lambda torch: torch.cuda.memory_reserved(), lambda torch: torch.cuda.empty_cache()),
)  # fmt: skip


@pytest.fixture
def by_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Array libraries answer for kernels, so that nothing is compiled."""
    monkeypatch.setenv("MANSARD_BACKEND", "reference")
    mansard.settings.reread()
    yield
    monkeypatch.undo()
    mansard.settings.reread()


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
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without pictures, which take longer than all the rest; other tests draw all of them."""
    monkeypatch.setattr("mansard.bench.gallery.draw_all", lambda *_: {})


@pytest.fixture
def no_plans() -> None:
    """Nothing is known from calls of other tests."""
    PLANS.forget()


def wanted(name: str) -> Any:
    """An array library, imported; the test is skipped, by name, where it is not installed."""
    return pytest.importorskip(name, reason=f"{name} is not installed")
