"""The tuner without a GPU: legality, restrictions, strategies, records, lookup, verification, resuming, the command.

Most tests run on `FakeBackend`, whose kernels are NumPy and may be told to misbehave; one tunes on the emulator.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest

from mansard import settings, testing
from mansard.backends import emulated
from mansard.codegen.geometry import Device
from mansard.errors import BackendUnavailable, CompileError, LaunchError, UnsupportedProblem
from mansard.families import family_of, gemm, gemv, gram, trsm, tsm2r, tsmm
from mansard.plan import dispatch
from mansard.tune import command, database, session, strategy, table
from mansard.tune.cases import make_case
from mansard.tune.records import VENDOR, Store, Trial, config_key, store_path
from mansard.tune.runner import DeviceLost, DeviceRunner, ReplayRunner
from mansard.tune.search import search_space, shape
from mansard.tune.session import Session, tune_problem
from mansard.tune.verify import Verifier, Wrong

H200 = Device("cuda", "NVIDIA H200", "sm_90a", 132, 227 << 10, 228 << 10, 65536, 2048, 50 << 20)
KINDS = [
    gram.spec.problem("float64", 16, 16, 1 << 22),
    gram.spec.problem("float64", 3, 5, 1 << 24),
    gram.spec.problem("complex128", 8, 8, 1 << 21, same=True),
    gram.spec.problem("float32", 7, 7, 1 << 20, layout_a="col", layout_b="col"),
    gram.spec.problem("float64", 10, 10, 1 << 20, pitch_a=13, pitch_b=13, aligned=False),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Records and kernels of a test belong to the test."""
    monkeypatch.setenv("MANSARD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(database, "DATA", tmp_path / "shipped")
    settings.reread()
    yield tmp_path
    monkeypatch.undo()
    settings.reread()


# --- A backend whose kernels are NumPy --------------------------------------------------------------------------


class FakeBackend:
    """Pretends to be a small Hopper. `behave(text)` says what the kernel with this text does: right, wrong, hole (an
    entry is never written), fault, varies, interrupt, spill, no-compile; `seconds(text)` how long it takes."""

    name = "fake"

    def __init__(self, problem, behave=lambda text: "right", seconds=lambda text: 0.0):
        self.device = replace(emulated.EmulatedBackend().device, name="fake hopper")
        self.problem, self.behave, self.seconds, self.prepared = problem, behave, seconds, 0

    def log(self, source):
        kind = self.behave(source.text)
        if kind == "no-compile":
            raise CompileError("fake", "kernel.cu(3): error: planted", source.text)
        return f"Used 40 registers, {96 * (kind == 'spill')} bytes spill stores"

    def prepare(self, kernel):
        self.prepared += 1
        return lambda pointers, scalars, stream: self._launch(kernel, pointers)

    def _launch(self, kernel, pointers):
        kind, problem = self.behave(kernel.source.text), self.problem
        if kind == "interrupt":
            raise KeyboardInterrupt
        if kind == "fault":
            raise LaunchError("planted fault")
        K, *strides = kernel.fixed
        shapes = ((K, problem.M), (K, problem.N), (problem.M, problem.N))
        steps = (strides[0:2], strides[2:4], strides[4:6])
        A, B, C = (_view(*each, problem.dtype) for each in zip(pointers, shapes, steps, strict=True))
        product = gram.spec.reference(A, B, conj=problem.conj)
        if kind == "wrong" or (kind == "wrong when large" and K > 10_000):
            product[-1, -1] += 1
        if kind == "varies":
            product[0, 0] *= 1 + 2e-16 * (self.prepared + time.perf_counter_ns() % 97)
        C[...] = product
        if kind == "hole":
            C[0, 0] = np.nan
        time.sleep(self.seconds(kernel.source.text))

    def synchronize(self, stream=0):
        pass


def _view(address, shape_, strides, dtype):
    size = np.dtype(dtype).itemsize
    extent = sum((n - 1) * s for n, s in zip(shape_, strides, strict=True)) + 1
    flat = np.frombuffer((ctypes.c_char * (extent * size)).from_address(address), dtype)
    return np.lib.stride_tricks.as_strided(flat, shape_, [s * size for s in strides])


SMALL = gram.spec.problem("float64", 4, 4, 20_001)


def fake_runner(behave=lambda text: "right", problem=SMALL, **options):
    backend = FakeBackend(problem, behave)
    return DeviceRunner(make_case(problem, backend), session.facts(problem, backend), **options)


def one_config(problem=SMALL, device=None):
    return gram.defaults.default(problem, device or emulated.EmulatedBackend().device)


# --- The space, its restrictions and the strategies ---------------------------------------------------------------


@pytest.mark.parametrize("problem", KINDS, ids=str)
def test_the_space_is_legal_ranked_and_explains_what_it_drops(problem):
    space = search_space(problem, H200, gram)
    assert space.candidates, "nothing left"
    assert all(gram.space.illegal(problem, c.config, H200) is None for c in space.candidates)
    assert len(space.candidates) + sum(space.dropped.values()) == len(space.legal)
    assert all(":" in reason and count > 0 for reason, count in space.dropped.items())
    costs = [candidate.cost for candidate in space.candidates]
    assert costs == sorted(costs)
    again = search_space(problem, H200, gram)
    assert [c.config for c in again.candidates] == [c.config for c in space.candidates]


def test_restrictions_drop_what_starves_the_memory():
    space = search_space(KINDS[0], H200, gram)
    flights = {c.config: gram.work.bytes_in_flight(KINDS[0], c.config) for c in space.candidates}
    dropped = [c for c in space.legal if c not in flights]
    assert dropped and min(flights.values()) > min(gram.work.bytes_in_flight(KINDS[0], c) for c in dropped)


@pytest.mark.parametrize("problem", KINDS, ids=str)
def test_top_holds_the_rules_of_thumb_and_many_shapes(problem):
    space = search_space(problem, H200, gram)
    chosen = next(strategy.top(space, 24, 0))
    assert len(chosen) == len(set(chosen)) == 24
    ranked = (c for c in gram.defaults.ranked(problem, H200) if gram.space.illegal(problem, c, H200) is None)
    assert all(next(ranked) in chosen for _ in range(2))
    assert {c.config.VARIANT for c in space.candidates} <= {config.VARIANT for config in chosen}
    assert len({shape(config) for config in chosen}) >= 8
    assert chosen == next(strategy.top(search_space(problem, H200, gram), 24, 0))


def test_a_small_limit_is_kept():
    space = search_space(KINDS[0], H200, gram)
    for limit in (1, 2, 5):
        assert len(next(strategy.top(space, limit, 0))) == limit


def test_random_depends_on_its_seed_alone():
    space = search_space(KINDS[1], H200, gram)
    first, same, other = (next(strategy.random(space, 10, seed)) for seed in (1, 1, 2))
    assert first == same != other


def test_exhaustive_covers_every_legal_configuration():
    space = search_space(gram.spec.problem("float64", 128, 128, 1 << 18), H200, gram)
    tried = [config for batch in strategy.exhaustive(space, 1, 0) for config in batch]
    assert len(tried) == len(set(tried)) and set(space.legal) <= set(tried)


# --- Strategies on recorded trials --------------------------------------------------------------------------------


def fake_trial(config, seconds, problem=SMALL, device=H200, **changes):
    values = gram.space.to_dict(config)
    kernel = database.kernel_hash(problem, config, device, gram)
    trial = Trial(problem, values, "ok", (seconds,), kernel=kernel, bound=1e-4, date="2026-01-02T00:00:00", version="0")
    return replace(trial, **changes)


def landscape(goal_number):
    """A space with times that grow with the distance from one of its configurations: what a strategy should find."""
    space = search_space(KINDS[0], H200, gram)
    space.candidates = space.candidates[::7]
    space.legal = [candidate.config for candidate in space.candidates]
    goal = vars(space.legal[goal_number * 97 % len(space.legal)])

    def seconds(config):
        values = vars(config)
        apart = sum(goal[name] != values[name] for name in goal) if goal.keys() == values.keys() else 2 * len(goal)
        return 1e-3 * (1 + 0.1 * apart)

    blank = Trial(space.problem, {}, "ok", kernel="recorded")
    return space, [replace(blank, config=gram.space.to_dict(c), seconds=(seconds(c),)) for c in space.legal]


@pytest.mark.parametrize("name", strategy.STRATEGIES)
def test_strategies_replayed(tmp_path, name):
    space, trials = landscape(3)
    runner = ReplayRunner.of(trials, gram.space.to_dict)
    result = Session(space, runner, Store(tmp_path / "replay.jsonl")).run(name, 20, 0)
    assert result.winner.median == min(trial.median for trial in result.trials)
    assert name == "exhaustive" or sum(trial.ok for trial in result.trials) <= 20
    assert len(runner.asked) == len(set(runner.asked))
    if name == "exhaustive":
        assert result.winner.median == min(trial.median for trial in trials)


def test_what_fails_makes_room_for_others(tmp_path):
    space, trials = landscape(3)
    first = [gram.space.to_dict(config) for config in strategy.spread(space, 4)]
    trials = [replace(t, status="spills", seconds=()) if t.config in first[1:] else t for t in trials]
    runner = ReplayRunner.of(trials, gram.space.to_dict)
    result = Session(space, runner, Store(tmp_path / "replay.jsonl")).run("top", 4, 0)
    assert sum(trial.ok for trial in result.trials) == 4 and len(result.trials) > 4


def test_climbing_beats_a_random_sample_on_average(tmp_path):
    found = {"climb": [], "random": []}
    for number in range(8):
        space, trials = landscape(number)
        for name, medians in found.items():
            runner = ReplayRunner.of(trials, gram.space.to_dict)
            result = Session(space, runner, Store(tmp_path / f"{name}{number}.jsonl")).run(name, 30, number)
            medians.append(result.winner.median)
    assert np.mean(found["climb"]) < np.mean(found["random"])


# --- Records ------------------------------------------------------------------------------------------------------


def test_a_record_survives_the_file(tmp_path):
    trial = fake_trial(one_config(), 3e-5, registers=40, driver="13.0", compiler="nvrtc 13.0", round=2)
    failure = replace(trial, status="compile", seconds=(), reason='error: "quoted"\nand more', round=0)
    store = Store(tmp_path / "deep" / "x.jsonl")
    for each in (trial, failure):
        store.append(each)
    assert list(store) == [trial, failure]
    line = json.loads(store.path.read_text().splitlines()[0])
    assert line["median"] == 3e-5 and line["percent"] == pytest.approx(333.33) and line["problem"]["sizes"]["M"] == 4


def test_a_truncated_line_costs_only_itself(tmp_path):
    store = Store(tmp_path / "x.jsonl")
    trials = [fake_trial(one_config(), seconds) for seconds in (1e-3, 2e-3, 3e-3)]
    store.append(trials[0])
    with open(store.path, "a") as file:
        file.write(trials[1].to_line()[:-30])  # the power went out
    assert list(store) == [trials[0]]
    store.append(trials[2])
    assert list(store) == [trials[0], trials[2]]


def test_garbage_is_skipped(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xff\xfe{"a"\n[1, 2]\n{"problem": 3}\nnull\n')
    assert list(Store(path)) == []


# --- Lookup -------------------------------------------------------------------------------------------------------


def remember(*trials, device=H200):
    store = Store(store_path(device, "gram"))
    for trial in trials:
        store.append(trial)
    database.forget()


BIG = gram.spec.problem("float64", 16, 16, 1 << 22)


def legal_rules(problem):
    ranked = gram.defaults.ranked(problem, H200)
    return list(dict.fromkeys(config for config in ranked if gram.space.illegal(problem, config, H200) is None))


RULES = legal_rules(BIG)[:3]


def vendor_trial(seconds, problem=BIG):
    return Trial(problem, VENDOR, "ok", (seconds,), date="2026-01-02T00:00:00")


def test_nothing_recorded_nothing_served():
    assert database.best(BIG, H200, gram) is None
    assert dispatch.choose(BIG, H200).origin == "model"


def test_the_fastest_record_is_served_whatever_the_conjugation():
    problem = gram.spec.problem("complex128", 8, 8, 1 << 20)
    slow, fast = legal_rules(problem)[:2]
    remember(fake_trial(slow, 2e-3, problem), fake_trial(fast, 1e-3, problem))
    record = database.best(problem.replace(conj=False), H200, gram)
    assert record.config == fast and record.origin == "tuned" and "K=1048576" in record.reason
    assert dispatch.choose(problem, H200).config == fast


def test_the_other_triangle_is_answered_alike():
    problem = trsm.spec.problem("float64", 12, 1, 1 << 20)
    config = next(trsm.defaults.ranked(problem, H200))
    kernel = database.kernel_hash(problem, config, H200, trsm)
    trial = Trial(problem, trsm.space.to_dict(config), "ok", (1e-3,), kernel=kernel, date="2026-01-02T00:00:00")
    Store(store_path(H200, "trsm")).append(trial)
    other = trsm.spec.problem("float64", 12, 1, 1 << 20, uplo="upper", unit=True)
    assert database.best(other, H200, trsm).config == config
    assert database.best(trsm.spec.problem("float64", 12, 1, 1 << 20, layout_a="col"), H200, trsm) is None


def test_the_nearest_k_answers_and_a_far_one_says_so():
    near, far = BIG, BIG.replace(K=1 << 14)
    remember(fake_trial(RULES[0], 1e-3, near), fake_trial(RULES[1], 1e-5, far), vendor_trial(1e-6, far))
    assert database.best(BIG.replace(K=3 << 20), H200, gram).config == RULES[0]
    assert database.best(BIG.replace(K=1 << 13), H200, gram).origin == "vendor"
    record = database.best(BIG.replace(K=100), H200, gram)  # 164 times fewer rows: the vendor's win is not carried over
    assert record.config == RULES[1] and "K=16384" in record.reason and "fewer rows" in record.reason
    assert "more rows" in database.best(BIG.replace(K=1 << 30), H200, gram).reason


def test_a_record_of_many_rows_does_not_speak_for_few():
    long = tsmm.spec.problem("float64", 8, 8, 1 << 24)
    config = next(config for config in tsmm.space.candidates(long, H200))
    text = database.kernel_hash(long, config, H200, tsmm)
    trial = Trial(long, tsmm.space.to_dict(config), "ok", (1e-3,), kernel=text, date="2026-01-01T00:00:00")
    Store(store_path(H200, "tsmm")).append(trial)
    assert database.best(long.replace(K=1 << 20), H200, tsmm).config == config
    assert database.best(long.replace(K=10_000), H200, tsmm) is None
    choice = dispatch.choose(long.replace(K=10_000), H200)
    assert choice.origin == "model" and choice.config.VARIANT == "fragment"


def test_both_sides_of_a_large_matrix_may_differ_from_the_record():
    square = tsm2r.spec.problem("float32", 10240, 8, 10240)
    config = next(tsm2r.defaults.ranked(square, H200))
    text = database.kernel_hash(square, config, H200, tsm2r)
    trial = Trial(square, tsm2r.space.to_dict(config), "ok", (1e-3,), kernel=text, date="2026-01-01T00:00:00")
    Store(store_path(H200, "tsm2r")).append(trial)
    other = tsm2r.spec.problem("float32", 20480, 8, 12288)
    assert database.best(other, H200, tsm2r).config == config
    assert "M=10240, K=10240" in database.best(other, H200, tsm2r).reason
    for apart in (other.replace(N=7), other.replace(pitch_a=12290), other.replace(layout_a="col", pitch_a=20480)):
        assert database.best(apart, H200, tsm2r) is None


@pytest.mark.parametrize(
    "change",
    [{"M": 15, "pitch_a": 15}, {"aligned": False}, {"pitch_a": 18}, {"same": True}, {"dtype": "float32"}],
    ids=str,
)
def test_other_problems_get_no_record(change):
    remember(fake_trial(RULES[0], 1e-3, BIG))
    assert database.best(BIG.replace(**change), H200, gram) is None


def test_the_kernel_text_must_be_the_same():
    gone, second = fake_trial(RULES[0], 1e-3, BIG, kernel="0" * 16), fake_trial(RULES[1], 2e-3, BIG)
    remember(gone, second)  # the second was found to be slower than a kernel that has changed since
    assert database.best(BIG, H200, gram) is None
    remember(replace(second, date="2999-01-01T00:00:00+00:00"))  # measured again, after the change
    assert database.best(BIG, H200, gram).config == RULES[1]


@pytest.mark.parametrize("path", sorted(database.DATA.glob("cuda-nvidia-h200-132.*.jsonl")), ids=lambda path: path.stem)
def test_shipped_records_are_of_todays_kernels(path):
    """Whoever edits a kernel tunes it again, or takes its records away: they would never be served, and nobody told."""
    stale = []
    for trial in Store(path):
        if not trial.is_vendor:
            family = family_of(trial.problem.operation)
            config = family.space.from_dict(trial.config)
            if database.kernel_hash(trial.problem, config, H200, family) != trial.kernel:
                stale.append(config_key(trial.config))
    assert not stale, f"{len(stale)} of {path.name}, the first {stale[0]}"


def test_an_edited_header_makes_records_stale(monkeypatch):
    remember(fake_trial(RULES[0], 1e-3, BIG))
    assert database.best(BIG, H200, gram)
    monkeypatch.setattr(database, "headers_digest", lambda *about: "edited")
    database.forget()
    assert database.best(BIG, H200, gram) is None
    monkeypatch.undo()
    database.forget()


def test_a_reproducible_result_never_comes_from_atomics():
    loose = BIG.replace(deterministic=False)
    atomic = replace(RULES[0], REDUCE="atomic")
    remember(fake_trial(atomic, 1e-3, loose), fake_trial(RULES[1], 2e-3, loose))
    assert database.best(loose, H200, gram).config == atomic
    assert database.best(BIG, H200, gram).config == RULES[1]


def test_finalists_go_before_lucky_short_measurements():
    remember(fake_trial(RULES[0], 0.9e-3, BIG), fake_trial(RULES[1], 1e-3, BIG, round=2))
    assert database.best(BIG, H200, gram).config == RULES[1]


def test_the_vendor_wins_only_beyond_noise():
    remember(fake_trial(RULES[0], 1e-3, BIG), vendor_trial(0.98e-3))
    assert database.best(BIG, H200, gram).origin == "tuned"
    remember(vendor_trial(0.5e-3))
    record = database.best(BIG, H200, gram)
    assert record.config is None and record.origin == "vendor"
    assert "500 us" in record.reason and "1000 us" in record.reason
    assert dispatch.choose(BIG, H200).origin == "vendor"


def test_records_of_removed_parameters_are_passed_over():
    odd = fake_trial(RULES[0], 1e-4, BIG)
    remember(replace(odd, config={**odd.config, "GONE": 1}), fake_trial(RULES[1], 1e-3, BIG))
    assert database.best(BIG, H200, gram).config == RULES[1]


def test_an_exported_table_serves_where_nothing_was_tuned(tmp_path, monkeypatch):
    remember(*(fake_trial(rule, 1e-3 + i * 1e-5, BIG) for i, rule in enumerate(RULES)), vendor_trial(9e-3))
    monkeypatch.setattr(database, "DATA", tmp_path / "data")
    monkeypatch.setattr(table, "DATA", tmp_path / "data")
    path, count = table.export(H200, gram)
    assert count == 1 and path.name == "cuda-nvidia-h200-132.gram.jsonl" and len(list(Store(path))) == 2
    store_path(H200, "gram").unlink()
    record = database.best(BIG, H200, gram)
    assert record.config == RULES[0] and "shipped" in record.reason
    remember(fake_trial(RULES[0], 1e-3, BIG.replace(K=4096)))
    assert table.export(H200, gram)[1] == 2  # what was not measured again stays


def test_lookup_is_fast():
    remember(*(fake_trial(RULES[0], 1e-3, BIG.replace(K=1 << k)) for k in range(12, 30)))
    database.best(BIG, H200, gram)
    begin = time.perf_counter()
    for k in range(100):
        database.best(BIG.replace(K=10_000 + k), H200, gram)
    assert (time.perf_counter() - begin) / 100 < 5e-3


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
    with pytest.raises(Wrong, match=r"entry \[1,2\]"):
        verifier.bounded(bad)


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


def test_a_wrong_kernel_never_wins():
    wrong = f"STAGES = {one_config().STAGES};"
    backend = FakeBackend(
        SMALL, lambda text: "wrong" if wrong in text else "right", lambda text: 0 if wrong in text else 1e-3
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


def test_a_tune_records_everything_and_serves_its_winner():
    backend = FakeBackend(SMALL, seconds=lambda text: 2e-4 if "gram_fragment" in text else 1e-3)
    result = tune_problem(SMALL, backend, limit=12)
    assert isinstance(result.best, gram.space.Fragment) and result.complete
    assert result.vendor and result.vendor.config == VENDOR
    assert {config_key(t.config) for t in result.trials} <= {config_key(t.config) for t in lines(backend.device)}
    assert result.winner.round == 2 and len(result.winner.seconds) == 15
    database.forget()
    assert database.best(SMALL, backend.device, gram).config == result.best
    assert "% of the limit" not in result.line()  # the ceilings of this device are nominal
    assert "trials" in result.summary()


def test_a_second_tune_measures_nothing():
    backend = FakeBackend(SMALL, seconds=lambda text: 1e-3)  # long enough for equal times: all three reach the finals
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
    monkeypatch.setattr(database, "headers_digest", lambda *about: "edited")
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
    monkeypatch.setattr(table, "DATA", tmp_path / "data")
    monkeypatch.setitem(command._ELEMENTS, "fake", 1 << 12)
    assert command.run(parsed("gram --m 4 --k 9001 --limit 3 --export")) == 0
    printed = capsys.readouterr().out
    assert "[1/1" in printed and "% limit" in printed and "1 problems written" in printed
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_the_command_stops_when_its_time_is_up(monkeypatch, capsys):
    monkeypatch.setattr(command, "make_backend", lambda asked: FakeBackend(SMALL))
    assert command.run(parsed("gram --m 4 --k 9001 --limit 3 --seconds 0")) == 0
    assert "0 of 1 problems" in capsys.readouterr().out


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
