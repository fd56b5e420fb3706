"""Tuning with a backend whose kernels are NumPy: failures, wrong kernels, records, interruptions; the command line."""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest
from sparing import rotated
from tune_cases import (
    SMALL,
    FakeBackend,
    fake_runner,
    one_config,
    with_own_cache,  # noqa: F401
    with_own_clock,  # noqa: F401
)

from mansard import testing
from mansard.backends import emulated
from mansard.errors import BackendUnavailable, LaunchError, UnsupportedProblem
from mansard.kernels.batched import gemm, gemv
from mansard.kernels.tall_skinny import gram, matmul_gram, tsmm
from mansard.plan import dispatch
from mansard.records import database
from mansard.records.trials import VENDOR, Store, config_key, store_path
from mansard.tune import command, session
from mansard.tune.cases import make_case
from mansard.tune.runner import DeviceLost, DeviceRunner
from mansard.tune.session import tune_problem
from mansard.tune.verify import Verifier, Wrong

pytestmark = rotated(3)

# --- Verification and failure classes -----------------------------------------------------------------------------


MOODS = ["right", "wrong", "wrong when large", "hole", "varies", "fault", "spill", "no-compile"]


@pytest.mark.parametrize("kind", MOODS)
def test_every_failure_has_its_class(kind):
    (trial,) = fake_runner(lambda text: kind).run([one_config()])
    classes = {"right": "ok", "fault": "runtime", "spill": "spills", "no-compile": "compile"}
    assert trial.status == classes.get(kind, "correctness"), trial.reason
    assert trial.ok == bool(trial.seconds) and trial.ok != bool(trial.reason)
    assert trial.kernel and trial.device == "fake hopper" and trial.compiler and trial.version


def test_an_illegal_configuration_is_recorded_as_such():
    (trial,) = fake_runner().run([replace(one_config(), REDUCE="atomic")])
    assert trial.status == "constraints" and "varies" in trial.reason


def test_spills_pass_when_everything_is_asked_for():
    (trial,) = fake_runner(lambda text: "spill", spills_allowed=True).run([one_config()])
    assert trial.ok


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("layout", ["row", "col"])
def test_the_bound_is_that_of_the_tests(dtype, layout):
    problem = gram.spec.problem(dtype, 3, 5, 5000, layout_a=layout, layout_b=layout)
    case = make_case(problem, FakeBackend(problem))
    A, B = case.operands
    good = gram.spec.reference(A, B)
    verifier = Verifier(case)
    verifier.bounded(good)
    reference, bound = verifier._reference
    bad = good.copy()
    bad[1, 2] = reference[1, 2] + 1.5 * bound[1, 2]
    assert testing.gram_error(bad, A, B) > 1 >= testing.gram_error(good, A, B)
    for value in (bad[1, 2], np.nan):
        bad[1, 2] = value
        with pytest.raises(Wrong, match=r"entry \[1,2\]"):
            verifier.bounded(bad)


@pytest.mark.slow
def test_long_sums_of_float32_still_have_a_bound():
    problem = gram.spec.problem("float32", 1, 1, 1 << 25)  # as many terms as there are roundoffs in two
    verifier = Verifier(make_case(problem, FakeBackend(problem)))
    A, B = verifier.case.operands
    verifier.bounded(gram.spec.reference(A, B))
    with pytest.raises(Wrong):
        verifier.bounded(gram.spec.reference(A, B) + np.float32(1 << 23))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_a_lost_chunk_of_a_large_problem_shows(dtype):
    problem = gram.spec.problem(dtype, 2, 2, 1 << 20)
    verifier = Verifier(make_case(problem, FakeBackend(problem)))
    large = verifier.exact_cases[-1]
    A, B = large.operands
    assert large.problem.K > 500_000
    whole, short = gram.spec.reference(A, B), gram.spec.reference(A[:-1], B[:-1])
    assert (whole == verifier._expected[-1]).all() and not (short == verifier._expected[-1]).all()


def test_a_wrong_kernel_never_wins(clock):
    wrong = f"STAGES = {one_config().STAGES};"
    backend = FakeBackend(
        SMALL, lambda text: "wrong" if wrong in text else "right", lambda text: 1e-6 if wrong in text else 1e-3
    )
    result = tune_problem(SMALL, backend, limit=8)
    assert result.best is not None and getattr(result.best, "STAGES", None) != one_config().STAGES
    assert any(trial.status == "correctness" for trial in result.trials)
    assert "correctness" in result.summary()


def test_a_lost_device_stops_the_run_after_recording_the_culprit():
    runner = fake_runner(lambda text: "fault")
    runner.backend.name = "cuda"
    runner._wait = lambda: None
    runner.backend.synchronize = lambda stream=0: (_ for _ in ()).throw(LaunchError("sticky"))
    trials = runner.run([one_config()])
    assert next(trials).status == "runtime"
    with pytest.raises(DeviceLost):
        next(trials)


# --- Sessions -----------------------------------------------------------------------------------------------------


def lines(device):
    return list(Store(store_path(device, "gram")))


def test_a_tune_records_everything_and_serves_its_winner(clock):
    backend = FakeBackend(SMALL, seconds=lambda text: 2e-4 if "gram_fragment" in text else 1e-3)
    result = tune_problem(SMALL, backend, limit=12)
    assert isinstance(result.best, gram.space.Fragment) and result.complete
    assert result.vendor and result.vendor.config == VENDOR
    assert {config_key(t.config) for t in result.trials} <= {config_key(t.config) for t in lines(backend.device)}
    assert result.winner.round == 2 and len(result.winner.seconds) == 15
    database.forget()
    assert database.best(SMALL, backend.device, gram.FAMILY).config == result.best
    assert "% of the limit" not in result.line()  # the ceilings of this device are nominal
    assert "trials" in result.summary()


def test_a_second_tune_measures_nothing(clock):
    backend = FakeBackend(SMALL, seconds=lambda text: 1e-3)  # equal times: all three reach the finals
    first = tune_problem(SMALL, backend, limit=3)
    prepared, written = backend.prepared, len(lines(backend.device))
    second = tune_problem(SMALL, backend, limit=3)
    assert (backend.prepared, len(lines(backend.device))) == (prepared, written)
    assert second.best == first.best


def test_no_winner_owes_its_place_to_a_worse_measurement():
    result = tune_problem(SMALL, FakeBackend(SMALL), limit=12)
    assert all(result.winner.median <= t.median for t in result.trials if t.round == result.winner.round - 1)


def test_an_interrupted_tune_continues():
    count = 0

    def behave(text):
        nonlocal count
        count += 1
        return "interrupt" if count == 35 else "right"

    backend = FakeBackend(SMALL, behave)
    with pytest.raises(KeyboardInterrupt):
        tune_problem(SMALL, backend, limit=8)
    kept = [config_key(trial.config) for trial in lines(backend.device)]
    assert 0 < len(kept) < 8
    result = tune_problem(SMALL, backend, limit=8)
    firsts = [config_key(t.config) for t in lines(backend.device) if t.round == 0 and not t.is_vendor]
    assert len(result.trials) == 8 and len(firsts) == len(set(firsts)) == 8


def test_a_changed_kernel_is_tried_again(monkeypatch):
    backend = FakeBackend(SMALL)
    tune_problem(SMALL, backend, limit=4)
    before = len(lines(backend.device))
    monkeypatch.setattr(database, "code_digest", lambda *about: "edited")
    database.forget()
    tune_problem(SMALL, backend, limit=4)
    assert len([t for t in lines(backend.device)[before:] if t.round == 0]) == 4
    monkeypatch.undo()
    database.forget()


def test_a_deadline_ends_early_with_a_result():
    result = tune_problem(SMALL, FakeBackend(SMALL), limit=8, deadline=time.monotonic() - 1)
    assert not result.complete and result.best is None and result.trials == []


def test_nothing_works_is_a_result_too():
    result = tune_problem(SMALL, FakeBackend(SMALL, lambda text: "fault"), limit=3)
    assert result.best is None and "9 runtime" in result.line() and "planted fault" in result.summary()


def test_what_cannot_be_tuned_is_refused():
    backend = FakeBackend(SMALL)
    with pytest.raises(ValueError, match="strategy='guess'"):
        tune_problem(SMALL, backend, strategy="guess")
    with pytest.raises(UnsupportedProblem, match="wider"):
        tune_problem(gram.spec.problem("float64", 200, 200, 10), backend)
    with pytest.raises(UnsupportedProblem):
        tune_problem(SMALL.replace(K=0), backend)
    with pytest.raises(BackendUnavailable):
        tune_problem(SMALL, argparse.Namespace(name="reference", device=backend.device))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_real_tune_on_the_emulator():
    problem = gram.spec.problem("float64", 3, 3, 150)
    result = tune_problem(problem, emulated.backend(), limit=3)
    assert result.best is not None and result.failures() == "no failures", result.summary()
    database.forget()
    choice = dispatch.choose(problem, emulated.backend().device)
    assert choice.origin == "tuned" and choice.config == result.best


# --- The command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7", (7,)), ("1:4", (1, 2, 3, 4)), ("2:8:3", (2, 5, 8)), ("1,2,5:8", (1, 2, 5, 6, 7, 8)), ("3,3,2:3", (3, 2))],
)
def test_ranges(text, expected):
    assert command.sizes(text) == expected


@pytest.mark.parametrize("text", ["", "a", "4:1", "0:3", "1:5:0", "1:2:3:4", "1,,2"])
def test_bad_ranges_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        command.sizes(text)


@pytest.mark.parametrize(("text", "value"), [("4096", 4096), ("2^28", 1 << 28), ("2**10", 1024), ("1e6", 1_000_000)])
def test_numbers(text, value):
    assert command.number(text) == value


def parsed(line):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(line.split())


def test_the_command_line_describes_problems():
    args = parsed("gram --m 2,4 --n 3 --dtype float64,complex128 --elements 2^12 --layout col")
    found = list(command.problems(args, "cpu"))
    assert [(p.dtype, p.M, p.N, p.K) for p in found][:2] == [("float64", 2, 3, 1365), ("float64", 4, 3, 1024)]
    assert len(found) == 4 and found[0].layout_b == "col"
    (same,) = command.problems(parsed("gram --m 5 --same --k 99 --dtype float32"), "cpu")
    assert same.same and (same.M, same.N, same.K) == (5, 5, 99)


def test_the_command_tunes_prints_and_exports(monkeypatch, tmp_path, capsys):
    backend = FakeBackend(SMALL)
    monkeypatch.setattr(command, "make_backend", lambda asked: backend)
    monkeypatch.setattr(database, "DATA", tmp_path / "data")
    monkeypatch.setitem(command._ELEMENTS, "fake", 1 << 12)
    assert command.run(parsed("gram --m 4 --k 9001 --limit 3 --export")) == 0
    printed = capsys.readouterr().out
    assert "[1/1" in printed and "% limit" in printed and "1 problem written" in printed
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_the_command_stops_when_its_time_is_up(monkeypatch, capsys):
    monkeypatch.setattr(command, "make_backend", lambda asked: FakeBackend(SMALL))
    assert command.run(parsed("gram --m 4 --k 9001 --limit 3 --seconds 0")) == 0
    assert "0 of 1 problem:" in capsys.readouterr().out


def test_tsmm_is_tuned_too(own_cache, tmp_path):
    problem = tsmm.spec.problem("float64", 5, 4, 200)
    result = session.tune_problem(problem, emulated.backend(), limit=4)
    assert result.winner is not None and result.winner.status == "ok"
    assert {trial.status for trial in result.trials} <= {"ok", "spills"}


def test_a_wrong_tsmm_is_found():
    problem = tsmm.spec.problem("complex64", 3, 5, 500, layout_a="col", layout_w="col")
    case = make_case(problem, FakeBackend(problem))
    A, C = case.operands
    verifier = Verifier(case)
    good = tsmm.spec.reference(A, C)
    verifier.bounded(good)
    bad = good.copy()
    bad[7, 2] += 1e-3
    with pytest.raises(Wrong, match=r"entry \[7,2\]"):
        verifier.bounded(bad)


@pytest.mark.parametrize("case_of", ["gemm", "gemv"])
def test_what_is_added_to_is_read(case_of):
    """A problem that accumulates is checked and timed with beta = 1; before, beta = 0 let kernels leave C unread."""
    seen = []

    class Listening:
        """The emulator; remembers the scalars of every launch."""

        name, device = "emulated", emulated.backend().device

        def prepare(self, kernel):
            launch = emulated.backend().prepare(kernel)
            return lambda pointers, scalars, stream: (seen.append(scalars), launch(pointers, scalars, stream))

        def log(self, source):
            return emulated.backend().log(source)

        def synchronize(self, stream=0):
            emulated.backend().synchronize(stream)

    family = {"gemm": gemm, "gemv": gemv}[case_of]
    sizes = (3, 2, 5, 40) if case_of == "gemm" else (3, 5, 40)
    for accumulate in (False, True):
        seen.clear()
        problem = family.spec.problem("complex64", *sizes).replace(accumulate=accumulate)
        case = make_case(problem, Listening())
        config = family.defaults.default(problem, case.backend.device)
        (trial,) = DeviceRunner(case, session.facts(problem, case.backend)).run([config])
        assert trial.status == "ok", trial.reason
        assert seen and {scalars[2] for scalars in seen} == {float(accumulate)}
    out, verifier = case.poisoned(), Verifier(case)
    assert np.isfinite(out).all() and (out == case.poisoned()).all()
    with pytest.raises(Wrong):
        verifier.bounded(out)  # nothing added
    A, B = case.operands
    product = (A @ B).reshape(out.shape)
    verifier.bounded(product + out)
    with pytest.raises(Wrong):
        verifier.bounded(product)  # what was there is lost
    assert np.isfinite(case.vendor()()).all()


def test_a_product_and_its_gram_matrix_are_tuned_together(own_cache):
    problem = matmul_gram.spec.problem("float64", 8, 8, 300)
    case = make_case(problem, emulated.backend())
    result = session.tune_problem(problem, emulated.backend(), limit=1)
    assert result.winner is not None and result.winner.status == "ok"
    verifier, out = Verifier(case), case.reference()[0].copy()
    verifier.bounded(out)
    out[-1, 3] *= 1.001  # of the Gram matrix
    with pytest.raises(Wrong, match=r"entry \[307,3\]"):
        verifier.bounded(out)
