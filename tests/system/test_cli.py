"""The command line as people use it: wrong words, missing things, closed pipes, Ctrl-C: one line, never a traceback."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tune_cases import SMALL, FakeBackend

import mansard.settings
from mansard import __version__, cli, options, units
from mansard.arrays import kinds as arrays
from mansard.backends import cpu, cuda
from mansard.bench import command as bench_command
from mansard.bench import named
from mansard.bench.cases import Size
from mansard.bench.extension import NOTHING
from mansard.cli import main
from mansard.errors import CompileError, LaunchError, known_text
from mansard.operations import command as explain_command
from mansard.operations import registry
from mansard.operations.factor.plan import plan_factor
from mansard.operations.factor.task import Task
from mansard.operations.sizes import Asked
from mansard.plan import explain, libraries
from mansard.plan.problem import ITEMSIZE
from mansard.tune import command
from mansard.tune.cases import CASES
from mansard.tune.session import Session, tune_problem

ROOT = Path(__file__).resolve().parents[2]
needs_no_gpu = pytest.mark.skipif(cuda.unavailable() is None, reason="there is a GPU")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a command."""
    try:
        status = main(list(words))
    except SystemExit as stop:
        status = int(stop.code or 0)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return status, shown.out, shown.err


# --- What was typed -----------------------------------------------------------------------------------------

WRONG = [
    ("inf", "did you mean 'info'?"),
    ("tune grm --m 4", "did you mean 'gram'?"),
    ("tune nothing --m 4", "there are gram, matmul"),
    ("tune --forget grm", "did you mean 'gram'?"),
    ("tune gram", "mansard tune gram --m 1:64"),
    ("tune", "mansard tune gram --m 1:64"),
    ("tune gram --m 0", "1 <= a <= b"),
    ("tune gram --m 1:999999999", "at most 100000"),
    ("tune gram --m 4 --dtype float46", "did you mean 'float64'?"),
    ("tune gram --m 4 --dtype ,", "dtypes are"),
    ("tune gram --m 4 --seconds soon", "number of seconds"),
    ("tune gram --m 4 --seconds -1", "number of seconds"),
    ("tune gram --m 4 --limit 0", "at least 1"),
    ("tune cholesky --m 4 --k 7 --backend emulated", "cholesky has no --k"),
    ("tune cholesky --m 4 --k 7 --device emulated", "cholesky has no --k"),
    ("tune matrix_powers --m 100 --k 7", "matrix_powers cannot be tuned: there are gram, matmul"),
    ("tune gemm --m 4 --same --backend emulated", "--same means that B is A"),
    ("explain slove --m 4 --batch 10", "did you mean 'solve'?"),
    ("explain solve_tri --m 4 --batch 10", "did you mean 'solve_triangular'? also near: "),
    ("explain gram --m 4", "gram needs --k"),
    ("explain gemm --m 4 --k 1e6", "gemm needs --batch, the number of matrices"),
    ("explain gram --m 4 --k abc", "'abc' is not a whole number"),
    ("explain gram --m 4 --k 1.5", "'1.5' is not a whole number"),
    ("explain gram --m 4 --k -3", "at least 0"),
    ("explain gram --m 4 --k 1e400", "not a whole number"),
    ("explain gram --m 4 --k nan", "not a whole number"),
    ("explain gram --m 4 --k 9^999999999999", "at most 2^48"),
    ("explain gram --m 4 --k 1e30", "at most 2^48"),
    ("explain gram --m 4 --k 10 --dtype flot64", "did you mean 'float64'?"),
    ("explain gram --m 4 --n 5 --k 10 --same", "--same means that B is A"),
    ("bench gramm", "did you mean 'gram'?"),
    ("bench slove", "did you mean 'solve'?"),
    ("bench --m 4", "name it, as in bench solve"),
    ("bench svd egih", "egih: name an operation"),
    ("bench factor --m 4", "name an operation"),
    ("bench solve --m 4 --k 7", "solve has no --k"),
    ("bench qr --m 4 --n 3", "leave --n out"),
    ("bench solve --set qick", "sets of factor are quick"),
    ("bench --set qick", "did you mean 'quick'?"),
    ("bench --set ,", "sets of gram are"),
    ("bench --repeats 0", "at least 1"),
    ("bench --elements many", "not a whole number"),
    ("info --remeasure --forget", "not allowed with"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_what_makes_no_sense_is_said_in_one_line(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capsys, *words.split())
    assert status == 2 and err.startswith("mansard: error: ") and said in err and len(err.splitlines()) <= 2


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version") == (0, f"mansard {__version__}\n", "")
    status, _, err = call(capsys)
    assert status == 2 and "explain" in err
    for name in cli.COMMANDS:
        status, out, _ = call(capsys, name, "--help")
        assert status == 0 and "--traceback" in out
        for odd in ("what was never measured is", "out of cache no more"):
            assert odd not in out


# --- What is missing ----------------------------------------------------------------------------------------


@needs_no_gpu
@pytest.mark.parametrize(
    "words", ["tune gram --m 4 --backend cuda", "info --device cuda --no-measure", "bench --device cuda"]
)
def test_without_a_gpu(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capsys, *words.split())
    assert status == 1 and "mansard: error: " in err and "NVIDIA driver" in err


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("no results")
    (tmp_path / "list.json").write_text("[1, 2]")
    for name in ("text", "list.json", "nowhere"):
        found, _, err = call(capsys, "report", str(tmp_path / name))
        assert found == (1 if name == "nowhere" else 2) and err.startswith("mansard: error: ") and str(tmp_path) in err
    found, _, err = call(capsys, "bench", "--device", "reference", "--out", str(tmp_path / "text" / "below"))
    assert found == 1 and "text" in err and "Not a directory" in err
    found, _, err = call(capsys, "report", str(ROOT / "results" / "h200"), "--to", str(tmp_path / "text" / "below"))
    assert found == 1 and "Not a directory" in err


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cpu, "unavailable", lambda: "no C++ compiler found: install g++")
    status, _, err = call(capsys, "tune", "gram", "--m", "4", "--backend", "cpu")
    assert (status, err) == (1, "mansard: error: no C++ compiler found: install g++\n")
    for operation, sizes in (("gram", "--m 4 --k 1e4"), ("matmul", "--m 1e5 --k 4"), ("solve", "--m 8 --batch 100")):
        status, out, _ = call(capsys, "explain", operation, *sizes.split(), "--device", "cpu")
        assert status == 0 and "the array library" in out and "no C++ compiler found" in out and "VARIANT" not in out


def test_a_compiler_that_does_not_run_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from mansard.compile import cxx

    monkeypatch.setattr(cxx.settings, "current", lambda: SimpleNamespace(cxx="/bin/false"))
    cxx.find_compiler.cache_clear()
    try:
        assert "no C++ compiler found that runs (looked for /bin/false)" in str(cxx.available())
    finally:
        cxx.find_compiler.cache_clear()


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MANSARD_CACHE_DIR", str(tmp_path / "file" / "cache"))
    mansard.settings.reread()
    try:
        status, _, err = call(capsys, "tune", "gram", "--m", "4", "--k", "100", "--backend", "emulated")
        assert status == 1 and "tuning records cannot be written; set MANSARD_CACHE_DIR" in err
        assert call(capsys, "info", "--forget")[0] == call(capsys, "tune", "--forget")[0] == 0
        status, out, _ = call(capsys, "info", "--no-measure", "--device", "cpu")
        assert status == 0 and "cannot be written" in out
    finally:
        monkeypatch.undo()
        mansard.settings.reread()


ERRORS = [
    (OSError(13, "Permission denied", "/root/x"), 1, "/root/x: Permission denied"),
    (MemoryError("Unable to allocate 8 PiB"), 1, "not enough memory: Unable to allocate 8 PiB"),
    (ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"), 1, "pip install matplotlib"),
    (LaunchError("lost"), 1, "lost"),
    (CompileError("g++ -O3", "x.cpp: In function\nx.cpp:3: error: no\n", "int\n"), 1, "g++ failed: x.cpp:3: error"),
]


@pytest.mark.parametrize(("error", "status", "said"), ERRORS, ids=[type(error).__name__ for error, _, _ in ERRORS])
def test_errors_from_outside_are_one_line(
    error: Exception, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(explain_command, "run", fail)
    words = ["explain", "gram", "--m", "4", "--k", "9"]
    found, _, err = call(capsys, *words)
    assert found == status and said in err and len(err.splitlines()) == 1
    with pytest.raises(type(error)):
        main([*words, "--traceback"])


def test_bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_command, "run", lambda args: {}["no such key"])
    with pytest.raises(KeyError):
        main(["explain", "gram", "--m", "4", "--k", "9"])
    assert known_text(ModuleNotFoundError("x", name="mansard.nonsense")) is None


# --- Pipes and interruptions --------------------------------------------------------------------------------


def test_a_closed_pipe_is_no_error() -> None:
    code = "import sys; from mansard.cli import main; sys.exit(main(['explain', '--help']))"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()  # before anything was written: every write fails
        assert run.stderr.read() == b"" and run.wait(60) == 0


def test_ctrl_c_says_what_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    count = 0

    def interrupted(*_: Any, **__: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return command.TuningResult(SMALL, None, [])

    monkeypatch.setattr(command, "tune_problem", interrupted)
    monkeypatch.setattr(command, "make_backend", lambda name: FakeBackend(SMALL))
    status, _, err = call(capsys, "tune", "gram", "--m", "4,5,6", "--k", "100")
    assert status == 130 and "1 of 3 problems tuned; what was tried is recorded" in err and "interrupted" in err


# --- Time limits --------------------------------------------------------------------------------------------


def test_compiling_counts_as_time(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a time limit, only as many kernels as there are compilers are compiled before the clock is looked at."""

    class Counting(FakeBackend):
        compiled = 0

        def log(self, source: Any) -> str:
            self.compiled += 1
            return str(super().log(source))

    backend, two = Counting(SMALL), replace(mansard.settings.current(), threads=2)
    monkeypatch.setattr(mansard.settings, "current", lambda: two)
    monkeypatch.setattr(Session, "_out_of_time", lambda self: backend.compiled >= 4)
    tune_problem(SMALL, backend, limit=24, deadline=time.monotonic() + 1000)
    assert 4 <= backend.compiled < 6


def test_the_time_limit_starts_after_the_ceilings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ceilings are announced before they are measured, and do not use the time up."""
    from mansard.machine import machine

    backend, limits = FakeBackend(SMALL), []
    backend.name = "cpu"
    monkeypatch.setattr(command, "make_backend", lambda name: backend)
    monkeypatch.setattr(command, "_check_store", lambda problem, backend: None)
    monkeypatch.setattr(command, "calibrate", lambda backend: (time.sleep(0.3), machine.known(backend.device))[1])
    monkeypatch.setattr(command, "tune_all", lambda todo, backend, args, deadline: limits.append(deadline) or [])
    begin = time.monotonic()
    status, out, _ = call(capsys, "tune", "gram", "--m", "4", "--k", "100", "--seconds", "20")
    assert status == 0 and "--seconds counts from then on" in out and limits[0] >= begin + 20.3


# --- Explanations -------------------------------------------------------------------------------------------


@needs_no_gpu
@pytest.mark.parametrize("name", registry.names())
def test_every_name_is_explained(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explain.nvrtc, "available", lambda: "nothing is compiled here")
    for device in ("cpu", "cuda"):
        status, out, _ = call(capsys, "explain", name, *sized(name), "--device", device)
        assert status == 0 and all(f"\n{word} " in out for word in ("runs    ", "because ", "limit   "))
        assert ("described for an NVIDIA H200, which is not here" in out) == (device == "cuda")


def sized(name: str) -> list[str]:
    """The options that a name needs, and small values."""
    takes, needs, *_ = registry.named(name).sizes
    return [word for size in takes[:needs] for word in (f"--{size}", "9000" if size == "k" else "8")]


@pytest.mark.parametrize("name", registry.names())
def test_every_name_is_tuned_and_measured(name: str) -> None:
    """Commands take the same names and sizes; the problems that are tuned are the ones that are explained."""
    if name not in ("matrix_powers", "powers") and "sweeps" not in registry.named(name).families:
        parser = cli.Parser()
        command.add_arguments(parser)
        for device in ("cpu", "cuda"):
            args = parser.parse_args([name, *sized(name), "--device", device])
            todo = list(command.problems(args, device))
            sizes = {size: getattr(args, size)[0] for size in ("m", "n", "k", "batch") if getattr(args, size)}
            meant = [one for _, one in registry.problems_of(Asked(name, **sizes, on_cpu=device == "cpu"))]
            assert todo == list(dict.fromkeys(meant)) and {one.operation for one in todo} <= set(CASES)
    parser = cli.Parser()
    bench_command.add_arguments(parser)
    size = Size("cpu", dict.fromkeys(ITEMSIZE, 1 << 12), 1 << 20)
    for words in ([name], [name, *sized(name)], [name, *sized(name), "--dtype", "float32,complex128"]):
        group, sets, added = named.sets_for(bench_command.each(parser.parse_args(words))[0], NOTHING)
        found = [case for one in sets for case in added.sets[group][one](replace(size, backend="cuda"))]
        assert found and (len(words) == 1 or {one.M for one in found} <= {8, 27})
        assert all(case.key and case.bytes and case.problems() is not None for case in found)


def test_several_operations_have_folders_and_shares_of_the_time() -> None:
    parser = cli.Parser()
    bench_command.add_arguments(parser)
    found = bench_command.each(parser.parse_args(["svd", "eigh", "--seconds", "30", "--out", "x"]))
    assert [(str(one.out), one.seconds) for one in found] == [("x/svd", 15), ("x/eigh", 15)]
    assert [one.operation for one in found] == ["svd", "eigh"]


@needs_no_gpu
def test_operations_made_of_others_explain_their_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explain.nvrtc, "available", lambda: "nothing is compiled here")
    _, out, _ = call(capsys, "explain", "cho_solve", "--m", "8", "--batch", "100", "--device", "cpu")
    assert "cho_solve, step 1 of 2: trsm\n" in out and "cho_solve, step 2 of 2: trsm\n" in out and "trans=T" in out
    for device, steps in (("cpu", ("gram", "matmul", "gram", "matmul")), ("cuda", ("gram", "matmul_gram", "matmul"))):
        _, out, _ = call(capsys, "explain", "orthogonalize", "--m", "4", "--k", "1e5", "--device", device)
        found = [line.rpartition(": ")[2] for line in out.splitlines() if line.startswith("orthogonalize, step")]
        assert tuple(found) == steps


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("gemm --m 4 --n 5 --k 6 --batch 7", ("gemm float64 M=4 N=5 K=6 BATCH=7",)),
        ("gemv --m 4 --k 6 --batch 7", ("gemv float64 M=4 N=1 K=6 BATCH=7",)),
        ("matmul --m 1e6 --k 16 --n 8", ("tsmm float64 M=16 N=8 K=1000000", "128 MB in, 64 MB out")),
        ("matmul --m 16 --k 1e6 --n 8", ("gram float64 M=16 N=8 K=1000000",)),
        ("matmul --m 300 --k 300", ("the array library's own routine", "neither operand is tall and skinny")),
        ("matmul --m 500 --k 16", ("the array library's own routine",)),  # short ones, on CPUs
        ("matmul --m 4 --k 4 --batch 1000", ("gemm float64 M=4 N=4 K=4 BATCH=1000",)),
        ("matmul --m 4 --k 4 --n 1 --batch 1000", ("gemv float64 M=4",)),
        ("matmul --m 100 --k 100 --batch 1", ("BATCH=1 ", "VARIANT=simd")),  # a batch of one, not two matrices
        ("solve --m 8 --batch 100", ("want=solve", "NRHS=1")),
        ("solve --m 600 --batch 1", ("the array library, or LAPACK",)),
        ("inv --m 8 --batch 100", ("want=inverse",)),
        ("lu --m 8 --n 4 --batch 100", ("M=8 N=4", "want=factor")),
        ("spmv --m 1000 --k 7 --n 2", ("ROWS=1000 COLS=1000 NNZ=7000 NVECS=2",)),
        ("matrix_powers --m 1000 --k 7 --n 5", ("NNZ=7000 P=5",)),
    ],
)
def test_names_and_options_mean_what_users_call(
    words: str, said: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    if cpu.unavailable():
        pytest.skip("needs a compiler")
    status, out, err = call(capsys, "explain", *words.split(), "--device", "cpu")
    assert status == 0, err
    for text in said:
        assert text in out


@pytest.mark.parametrize(("family", "want", "n", "count"), [("lu", "solve", 600, 1), ("lu", "factor", 200, 2),
                                                            ("cholesky", "factor", 1100, 1), ("qr", "raw", 600, 1)])
def test_an_explanation_is_what_happens(family: str, want: str, n: int, count: int) -> None:
    """Calls with arrays and explanations take the same route; here, where no kernel has to be compiled for it."""
    if cpu.unavailable():
        pytest.skip("needs a compiler")
    A = np.zeros((count, n, n))
    B = np.zeros((count, n, 1)) if want == "solve" else None
    held = plan_factor(Task(family, want), arrays.known_kind(A), A, B, {}, None)
    name = {"solve": "solve", "factor": "lu_factor" if family == "lu" else "cholesky", "raw": "qr"}[want]
    problem = registry.problem_of(Asked(name, m=n, batch=count, on_cpu=True))
    assert held.choice.answered_by == "library" and libraries.ROUTES["library"] == str(held.choice)
    assert explain.plan_without_arrays(problem, cpu.backend(), name).choice == held.choice


def test_large_factorizations_of_a_gpu_are_explained_as_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    if cuda.unavailable() is None:
        pytest.skip("there is a GPU, whose records decide")
    _, out, _ = call(capsys, "explain", "lu", "--m", "200", "--batch", "5000", "--arch", "sm_90a")
    assert libraries.ROUTES["blocks"] in out
    _, out, _ = call(capsys, "explain", "solve", "--m", "200", "--batch", "5000", "--arch", "sm_90a")
    assert libraries.ROUTES["factors"] in out


# --- Numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (3.5e-9, "3.5 ns"), (2e-6, "2 us"), (999.96e-6, "1 ms"), (0.0128, "12.8 ms"), (1, "1 s"),
        (42.123, "42.12 s"), (200, "3 min 20 s"), (7200, "2 h"), (1e6, "11.57 days"), (float("inf"), "inf s"),
    ],
)  # fmt: skip
def test_times_have_the_unit_that_fits(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


def test_sizes_rates_and_counts() -> None:
    assert (units.volume(256e6), units.volume(2048), units.volume(0)) == ("256 MB", "2.048 kB", "0 B")
    assert (units.capacity(1 << 20), units.capacity(48 << 10), units.capacity(12)) == ("1 MiB", "48 KiB", "12 B")
    assert (units.rate(4.4e12, "B/s"), units.rate(3e10, "FLOP/s")) == ("4.4 TB/s", "30 GFLOP/s")
    assert [units.count(number, "entry") for number in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("1_000", 1000), ("2^10", 1024), ("1e6", 10**6), ("2**3", 8), ("0^0", 1)]
)
def test_sizes_are_read_as_written(text: str, value: int) -> None:
    assert options.size(text) == value


def test_ranges_take_powers_too() -> None:
    assert options.sizes("2^10,1e6,3:5") == (1024, 10**6, 3, 4, 5)
