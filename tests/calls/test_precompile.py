"""Compilations: mentioned when they take long, recorded, made ahead, and found in a copied cache without a compiler."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from devices import H200

import mansard as ms
from mansard import cli, notices, settings
from mansard.backends import cpu
from mansard.compile import cxx
from mansard.compile.cache import Built, Cache
from mansard.compile.key import make_key
from mansard.errors import MansardWarning, UsageError
from mansard.kernels.batched import gemm
from mansard.kernels.tall_skinny import gram
from mansard.operations import precompile, recording
from mansard.plan import dispatch
from mansard.untrusted import Damaged

V = np.arange(40.0).reshape(20, 2)


class Heard(logging.Handler):
    """Remembers what is logged, and says when something was."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.event.set()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What compilations say, with no patience."""
    handler, logger = Heard(), logging.getLogger("mansard")
    monkeypatch.setattr(notices, "AFTER", 0.0)
    monkeypatch.delenv("MANSARD_QUIET", raising=False)
    settings.reread()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    monkeypatch.undo()
    settings.reread()


def built(folder: Path) -> Built:
    (folder / "kernel.so").write_bytes(b"code")
    return Built("kernel.so", "")


# --- notices -----------------------------------------------------------------------------------------------


def test_a_long_compilation_is_mentioned_once(tmp_path: Path, heard: Heard) -> None:
    def build(folder: Path) -> Built:
        assert heard.event.wait(60)
        with notices.announced(tmp_path):  # headers that are precompiled for it
            return built(folder)

    key = make_key("int x;", (), "compiler 1", "arch")
    with notices.compiling("gemm, float64, 2 x 2 x 2"):
        Cache(tmp_path).get_or_build(key, "kernel.cpp", build)
    Cache(tmp_path).get_or_build(key, "kernel.cpp", build)
    (line,) = heard.lines
    assert line.startswith("mansard: compiling gemm, float64, 2 x 2 x 2 (once: it is kept in")
    assert str(tmp_path) in line and "MANSARD_QUIET=1" in line
    ((what, seconds),) = Cache(tmp_path).compiled()
    assert what == "gemm, float64, 2 x 2 x 2" and seconds >= 0


def test_quiet_processes_and_commands_mention_nothing(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MANSARD_QUIET", "1")
    settings.reread()
    timers = []
    monkeypatch.setattr(threading, "Timer", lambda *given: timers.append(given))
    with notices.announced(tmp_path):
        pass
    assert not timers
    with cli._without_notices():
        logging.getLogger("mansard").warning("compiling")
    assert not heard.lines
    logging.getLogger("mansard").warning("compiling")
    assert heard.lines == ["compiling"]


@pytest.mark.parametrize("manifest", ['{"what": 3, "seconds": 1}', '{"what": "a", "seconds": -1}', "[]", "{"])
def test_damaged_manifests_are_left_out_of_the_compile_times(tmp_path: Path, manifest: str) -> None:
    entry = Cache(tmp_path).get_or_build(make_key("int x;", (), "compiler 1", "arch"), "kernel.cpp", built)
    assert next(Cache(tmp_path).compiled())[0] == notices.NAMELESS
    (entry.folder / "manifest.json").write_text(manifest)
    assert list(Cache(tmp_path).compiled()) == []


# --- records -----------------------------------------------------------------------------------------------


def line_of(problem: Any, device: Any = None, **changes: Any) -> bytes:
    device = device or cpu.backend().device
    config = dispatch.choose(problem, device).config
    strides = gemm.spec.strides(problem) if problem.operation == "gemm" else gram.spec.strides(problem)
    line = recording.described(problem, config, device, strides)
    return json.dumps({**line, **changes}).encode()


@needs_cpu
@pytest.mark.parametrize("device", [None, H200], ids=["cpu", "gpu"])
def test_a_recorded_problem_is_read_back(device: Any) -> None:
    """With the same kernel, to the last byte of its text."""
    where = device or cpu.backend().device
    problems = [gram.spec.problem("float32", 8, 8, 9000)]
    if device is None:
        problems.append(gemm.spec.problem("complex64", 4, 3, 2, 100, conj_a=True))
    for problem in problems:
        line = recording.read(line_of(problem, device))
        assert (line.problem, line.device) == (problem, device)
        config = dispatch.choose(problem, where).config
        family = gemm.FAMILY if problem.operation == "gemm" else gram.FAMILY
        expected = family.emit.kernel(problem, config, where, family.spec.strides(problem))
        assert recording.kernel_of(line, where) == expected


@needs_cpu
def test_lines_that_describe_nothing_are_refused() -> None:
    problem = gemm.spec.problem("float64", 2, 2, 2, 3)
    good = json.loads(line_of(problem))
    bad: list[dict[str, Any]] = [
        {"backend": "tpu"}, {"strides": "3"}, {"strides": [1.5]}, {"strides": [1] * 100}, {"problem": {}},
        {"problem": {**good["problem"], "operation": "rm"}}, {"problem": {**good["problem"], "sizes": {"M": 2}}},
        {"config": {"VARIANT": "no"}}, {"config": "x"}, {"device": {"backend": "cuda"}}, {"device": 3},
        {"device": {"backend": "cuda", "name": "a", "arch": "sm_90 -x", "multiprocessors": 1}},
        {"device": {"backend": "cuda", "name": "a", "arch": "sm_90a", "multiprocessors": "x"}},
    ]  # fmt: skip
    assert recording.read(json.dumps(good).encode()).problem == problem
    for change in bad:
        with pytest.raises(Damaged):
            recording.read(json.dumps({**good, **change}).encode())
    for content in (b"", b"[]", b"{", b"3"):
        with pytest.raises(Damaged):
            recording.read(content)


@needs_cpu
def test_problems_of_a_file_are_distinct_and_damaged_lines_are_named(tmp_path: Path) -> None:
    line = line_of(gemm.spec.problem("float64", 2, 2, 2, 3))
    (tmp_path / "problems").write_bytes(b"\n".join([line, b"{", line, line_of(gram.spec.problem("float64", 2, 2, 20))]))
    with pytest.warns(MansardWarning, match="line 2 is no JSON"):
        assert [one.problem.operation for one in precompile.recorded(tmp_path / "problems")] == ["gemm", "gram"]
    with pytest.raises(UsageError, match="is no file: record one with MANSARD_RECORD"):
        ms.precompile(tmp_path / "none")


# --- ahead -------------------------------------------------------------------------------------------------


@needs_cpu
def test_failures_are_reported_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    problems = [("gram", V), ("gram", V, {"unknown": 1}), ("matmul", np.ones((2, 3)), np.ones((2, 3)))]
    monkeypatch.setattr(precompile, "plan", lambda name, *given, **options: ms.plan(name, *given, **options))
    outcomes = ms.precompile(problems, threads=2, progress=lambda done, count, last: seen.append((done, count)))
    assert [bool(one.error) for one in outcomes] == [False, True, True] and seen == [(1, 3), (2, 3), (3, 3)]
    assert "no option unknown" in outcomes[1].error and "3 columns and B 2 rows" in outcomes[2].error
    assert ms.precompile([]) == []


def test_what_precompile_does_not_take() -> None:
    with pytest.raises(TypeError, match=r"problems\[1\] is no tuple"):
        ms.precompile([("gram", V), "gram"])
    with pytest.raises(ValueError, match="threads=0"):
        ms.precompile([("gram", V)], threads=0)
    with ms.pin(VARIANT="simd"), pytest.raises(UsageError, match="outside of"):
        ms.precompile([("gram", V)])


def test_ctrl_c_drops_what_has_not_begun() -> None:
    """The second task runs until Ctrl-C comes; of the thousands behind it, those that are taken before the queue is
    empty still run, in any case in their order."""
    ran: list[int] = []
    pressed = threading.Event()

    def interrupted(done: int, count: int, last: precompile.Outcome) -> None:
        pressed.set()
        raise KeyboardInterrupt

    def task(i: int) -> None:
        if i:
            pressed.wait(60)
        ran.append(i)

    with pytest.raises(KeyboardInterrupt):
        precompile._side_by_side([(str(i), partial(task, i)) for i in range(4000)], 1, interrupted)
    assert ran[0] == 0 and ran == sorted(ran) and len(ran) < 4000


PROGRAM = """
import numpy as np, mansard as ms
V, W = np.arange(40.0).reshape(20, 2), np.arange(60.0).reshape(20, 3)
assert np.array_equal(ms.gram(V), V.T @ V)
if not {recording}:
    assert ms.plan("gram", V).kernel is not None, ms.plan("gram", V).explain()
    assert "the cache does not hold its kernel" in ms.plan("gram", W).explain()
    assert np.array_equal(ms.gram(W), W.T @ W)  # the library answers
    assert np.array_equal(ms.matmul(np.ones((9, 2, 2)), np.ones((9, 2, 2))), np.full((9, 2, 2), 2.0))
"""


@needs_cpu
def test_a_copied_cache_serves_where_no_compiler_is(tmp_path: Path) -> None:
    """A run is recorded; `mansard precompile` fills another cache, a copy of which is all that a process without a
    compiler has."""
    record, first, other, copied = (tmp_path / name for name in ("problems", "first", "other", "copied"))

    def process(*command: str, cache: Path, **more: str) -> str:
        environment = {**os.environ, "MANSARD_CACHE_DIR": str(cache), "MANSARD_LIBRARY_BELOW": "0", **more}
        run = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return run.stdout + run.stderr

    shared = settings.current().cache_dir  # where this kernel may have been compiled before
    anywhere = shared if shared.exists() else first
    process("-c", PROGRAM.format(recording=True), cache=anywhere, MANSARD_RECORD=str(record))
    (line,) = precompile.recorded(record)
    assert line.problem.operation == "gram" and line.config is None
    output = process("-m", "mansard", "precompile", str(record), cache=other)
    assert "[1/1] gram, float64, 2 x 2 x 20:" in output and "1 problem ready, 0 failed" in output
    shutil.copytree(other, copied)
    copied.chmod(0o700)
    process("-c", PROGRAM.format(recording=False), cache=copied, MANSARD_CXX="/bin/false")


@needs_cpu
def test_without_a_compiler_and_without_kernels_nothing_can_be_had(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise cxx.BackendUnavailable("no C++ compiler found")

    assert cxx.unavailable() is None
    monkeypatch.setattr(cxx, "find_compiler", missing)
    cxx._filled_by.cache_clear()
    assert cxx.unavailable() == "no C++ compiler found" and not cpu.can_compile()
    cxx._filled_by.cache_clear()
