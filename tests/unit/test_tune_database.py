"""Which record answers a problem."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tune_cases import (
    H200,
    fake_trial,
    with_own_cache,  # noqa: F401
)

from mansard.kernels import family_of
from mansard.kernels.batched import trsm
from mansard.kernels.tall_skinny import gram, tsm2r, tsmm
from mansard.plan import dispatch
from mansard.records import database
from mansard.records.trials import VENDOR, Store, Trial, config_key, store_path
from mansard.tune import table

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
    assert database.best(BIG, H200, gram.FAMILY) is None
    assert dispatch.choose(BIG, H200).origin in ("rule", "model")


def test_the_fastest_record_is_served_whatever_the_conjugation():
    problem = gram.spec.problem("complex128", 8, 8, 1 << 20)
    slow, fast = legal_rules(problem)[:2]
    remember(fake_trial(slow, 2e-3, problem), fake_trial(fast, 1e-3, problem))
    record = database.best(problem.replace(conj=False), H200, gram.FAMILY)
    assert record.config == fast and "K=1048576" in record.reason
    choice = dispatch.choose(problem, H200)
    assert (choice.config, choice.origin) == (fast, "tuned")


def test_the_other_triangle_is_answered_alike():
    problem = trsm.spec.problem("float64", 12, 1, 1 << 20)
    config = next(trsm.defaults.ranked(problem, H200))
    kernel = database.kernel_hash(problem, config, H200, trsm.FAMILY)
    trial = Trial(problem, trsm.space.to_dict(config), "ok", (1e-3,), kernel=kernel, date="2026-01-02T00:00:00")
    Store(store_path(H200, "trsm")).append(trial)
    other = trsm.spec.problem("float64", 12, 1, 1 << 20, uplo="upper", unit=True)
    assert database.best(other, H200, trsm.FAMILY).config == config
    assert database.best(trsm.spec.problem("float64", 12, 1, 1 << 20, layout_a="col"), H200, trsm.FAMILY) is None


def test_the_nearest_k_answers_and_a_far_one_says_so():
    near, far = BIG, BIG.replace(K=1 << 14)
    remember(fake_trial(RULES[0], 1e-3, near), fake_trial(RULES[1], 1e-5, far), vendor_trial(1e-6, far))
    assert database.best(BIG.replace(K=3 << 20), H200, gram.FAMILY).config == RULES[0]
    assert database.best(BIG.replace(K=1 << 13), H200, gram.FAMILY).config is None
    # 164 times fewer rows: the vendor's win is not carried over
    record = database.best(BIG.replace(K=100), H200, gram.FAMILY)
    assert record.config == RULES[1] and "K=16384" in record.reason and "fewer rows" in record.reason
    assert "more rows" in database.best(BIG.replace(K=1 << 30), H200, gram.FAMILY).reason


def test_a_record_of_many_rows_does_not_speak_for_few():
    long = tsmm.spec.problem("float64", 8, 8, 1 << 24)
    config = next(config for config in tsmm.space.candidates(long, H200))
    text = database.kernel_hash(long, config, H200, tsmm.FAMILY)
    trial = Trial(long, tsmm.space.to_dict(config), "ok", (1e-3,), kernel=text, date="2026-01-01T00:00:00")
    Store(store_path(H200, "tsmm")).append(trial)
    assert database.best(long.replace(K=1 << 20), H200, tsmm.FAMILY).config == config
    assert database.best(long.replace(K=10_000), H200, tsmm.FAMILY) is None
    choice = dispatch.choose(long.replace(K=10_000), H200)
    assert choice.origin == "model" and choice.config.VARIANT == "fragment"


def test_both_sides_of_a_large_matrix_may_differ_from_the_record():
    square = tsm2r.spec.problem("float32", 10240, 8, 10240)
    config = next(tsm2r.defaults.ranked(square, H200))
    text = database.kernel_hash(square, config, H200, tsm2r.FAMILY)
    trial = Trial(square, tsm2r.space.to_dict(config), "ok", (1e-3,), kernel=text, date="2026-01-01T00:00:00")
    Store(store_path(H200, "tsm2r")).append(trial)
    other = tsm2r.spec.problem("float32", 20480, 8, 12288)
    assert database.best(other, H200, tsm2r.FAMILY).config == config
    assert "M=10240, K=10240" in database.best(other, H200, tsm2r.FAMILY).reason
    for apart in (other.replace(N=7), other.replace(pitch_a=12290), other.replace(layout_a="col", pitch_a=20480)):
        assert database.best(apart, H200, tsm2r.FAMILY) is None


@pytest.mark.parametrize(
    "change",
    [{"M": 15, "pitch_a": 15}, {"aligned": False}, {"pitch_a": 18}, {"same": True}, {"dtype": "float32"}],
    ids=str,
)
def test_other_problems_get_no_record(change):
    remember(fake_trial(RULES[0], 1e-3, BIG))
    assert database.best(BIG.replace(**change), H200, gram.FAMILY) is None


def test_the_kernel_text_must_be_the_same():
    gone, second = fake_trial(RULES[0], 1e-3, BIG, kernel="0" * 16), fake_trial(RULES[1], 2e-3, BIG)
    remember(gone, second)  # the second was found to be slower than a kernel that has changed since
    assert database.best(BIG, H200, gram.FAMILY) is None
    remember(replace(second, date="2999-01-01T00:00:00+00:00"))  # measured again, after the change
    assert database.best(BIG, H200, gram.FAMILY).config == RULES[1]


@pytest.mark.parametrize("path", sorted(database.DATA.glob("cuda-nvidia-h200-132/*.jsonl")), ids=lambda path: path.stem)
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
    assert database.best(BIG, H200, gram.FAMILY)
    monkeypatch.setattr(database, "code_digest", lambda *about: "edited")
    database.forget()
    assert database.best(BIG, H200, gram.FAMILY) is None
    monkeypatch.undo()
    database.forget()


def test_a_reproducible_result_never_comes_from_atomics():
    loose = BIG.replace(deterministic=False)
    atomic = replace(RULES[0], REDUCE="atomic")
    remember(fake_trial(atomic, 1e-3, loose), fake_trial(RULES[1], 2e-3, loose))
    assert database.best(loose, H200, gram.FAMILY).config == atomic
    assert database.best(BIG, H200, gram.FAMILY).config == RULES[1]


def test_finalists_go_before_lucky_short_measurements():
    remember(fake_trial(RULES[0], 0.9e-3, BIG), fake_trial(RULES[1], 1e-3, BIG, round=2))
    assert database.best(BIG, H200, gram.FAMILY).config == RULES[1]


def test_the_vendor_wins_only_beyond_noise():
    remember(fake_trial(RULES[0], 1e-3, BIG), vendor_trial(0.98e-3))
    assert database.best(BIG, H200, gram.FAMILY).config == RULES[0]
    remember(vendor_trial(0.5e-3))
    record = database.best(BIG, H200, gram.FAMILY)
    assert record.config is None
    assert "500 us" in record.reason and "1 ms" in record.reason
    choice = dispatch.choose(BIG, H200)
    assert (choice.answered_by, choice.origin) == ("library", "tuned")


def test_records_of_removed_parameters_are_passed_over():
    odd = fake_trial(RULES[0], 1e-4, BIG)
    remember(replace(odd, config={**odd.config, "GONE": 1}), fake_trial(RULES[1], 1e-3, BIG))
    assert database.best(BIG, H200, gram.FAMILY).config == RULES[1]


def test_an_exported_table_serves_where_nothing_was_tuned(tmp_path, monkeypatch):
    remember(*(fake_trial(rule, 1e-3 + i * 1e-5, BIG) for i, rule in enumerate(RULES)), vendor_trial(9e-3))
    monkeypatch.setattr(database, "DATA", tmp_path / "data")
    path, count = table.export(H200, gram.FAMILY)
    assert count == 1 and path.parts[-2:] == ("cuda-nvidia-h200-132", "gram.jsonl") and len(list(Store(path))) == 2
    store_path(H200, "gram").unlink()
    record = database.best(BIG, H200, gram.FAMILY)
    assert record.config == RULES[0] and "shipped" in record.reason
    remember(fake_trial(RULES[0], 1e-3, BIG.replace(K=4096)))
    assert table.export(H200, gram.FAMILY)[1] == 2  # what was not measured again stays


def test_lookup_is_fast():
    remember(*(fake_trial(RULES[0], 1e-3, BIG.replace(K=1 << k)) for k in range(12, 30)))
    database.best(BIG, H200, gram.FAMILY)
    begin = time.perf_counter()
    for k in range(100):
        database.best(BIG.replace(K=10_000 + k), H200, gram.FAMILY)
    assert (time.perf_counter() - begin) / 100 < 5e-3
