"""Which configurations are tried, and the files that remember them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tune_cases import (
    H200,
    fake_trial,
    one_config,
    with_own_cache,  # noqa: F401
)

from mansard.kernels.tall_skinny import gram
from mansard.records.trials import Store, Trial
from mansard.tune import strategy
from mansard.tune.runner import ReplayRunner
from mansard.tune.search import search_space, shape
from mansard.tune.session import Session

KINDS = [
    gram.spec.problem("float64", 16, 16, 1 << 22),
    gram.spec.problem("float64", 3, 5, 1 << 24),
    gram.spec.problem("complex128", 8, 8, 1 << 21, same=True),
    gram.spec.problem("float32", 7, 7, 1 << 20, layout_a="col", layout_b="col"),
    gram.spec.problem("float64", 10, 10, 1 << 20, pitch_a=13, pitch_b=13, aligned=False),
]


# --- The space, its restrictions and the strategies ---------------------------------------------------------------


@pytest.mark.parametrize("problem", KINDS, ids=str)
def test_the_space_is_legal_ranked_and_explains_what_it_drops(problem):
    space = search_space(problem, H200, gram.FAMILY)
    assert space.candidates, "nothing left"
    assert all(gram.space.illegal(problem, c.config, H200) is None for c in space.candidates)
    assert len(space.candidates) + sum(space.dropped.values()) == len(space.legal)
    assert all(":" in reason and count > 0 for reason, count in space.dropped.items())
    costs = [candidate.cost for candidate in space.candidates]
    assert costs == sorted(costs)
    again = search_space(problem, H200, gram.FAMILY)
    assert [c.config for c in again.candidates] == [c.config for c in space.candidates]


def test_restrictions_drop_what_starves_the_memory():
    space = search_space(KINDS[0], H200, gram.FAMILY)
    flights = {c.config: gram.work.bytes_in_flight(KINDS[0], c.config) for c in space.candidates}
    dropped = [c for c in space.legal if c not in flights]
    assert dropped and min(flights.values()) > min(gram.work.bytes_in_flight(KINDS[0], c) for c in dropped)


@pytest.mark.parametrize("problem", KINDS, ids=str)
def test_top_holds_the_rules_of_thumb_and_many_shapes(problem):
    space = search_space(problem, H200, gram.FAMILY)
    chosen = next(strategy.top(space, 24, 0))
    assert len(chosen) == len(set(chosen)) == 24
    ranked = (c for c in gram.defaults.ranked(problem, H200) if gram.space.illegal(problem, c, H200) is None)
    assert all(next(ranked) in chosen for _ in range(2))
    assert {c.config.VARIANT for c in space.candidates} <= {config.VARIANT for config in chosen}
    assert len({shape(config) for config in chosen}) >= 8
    assert chosen == next(strategy.top(search_space(problem, H200, gram.FAMILY), 24, 0))


def test_a_small_limit_is_kept():
    space = search_space(KINDS[0], H200, gram.FAMILY)
    for limit in (1, 2, 5):
        assert len(next(strategy.top(space, limit, 0))) == limit


def test_random_depends_on_its_seed_alone():
    space = search_space(KINDS[1], H200, gram.FAMILY)
    first, same, other = (next(strategy.random(space, 10, seed)) for seed in (1, 1, 2))
    assert first == same != other


def test_exhaustive_covers_every_legal_configuration():
    space = search_space(gram.spec.problem("float64", 128, 128, 1 << 18), H200, gram.FAMILY)
    tried = [config for batch in strategy.exhaustive(space, 1, 0) for config in batch]
    assert len(tried) == len(set(tried)) and set(space.legal) <= set(tried)


def landscape(goal_number):
    """A space with times that grow with the distance from one of its configurations: what a strategy should find."""
    space = search_space(KINDS[0], H200, gram.FAMILY)
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


@pytest.mark.slow
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
