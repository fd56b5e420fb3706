"""Strategies: which candidates to try, and in which order.

A strategy is a generator. It yields batches of configurations and is sent the times measured so far (a dictionary,
infinity for failures); it may use them for its next batch, or ignore them. Adding one is a function and an entry in
STRATEGIES.

The model ties thousands of candidates (beyond enough bytes in flight it sees no difference), so the first k of its
ranking would be near-duplicates. `top` therefore trades prediction against distance from what was already chosen.
"""

from __future__ import annotations

import math
import random as random_module
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from .search import SHAPE, Candidate, SearchSpace, shape

Times = dict[Any, float]
Batches = Generator[list[Any], Times, None]
Strategy = Callable[[SearchSpace, int, int], Batches]

BATCH = 64  # kernels compiled ahead of measuring
_SECOND_CHANCES = 2  # batches that replace failures
_EVERY_VARIANT = 12  # from so many trials on, each variant has at least one
DIVERSITY = 0.06  # predicted time a wholly different candidate may cost more than a copy of a chosen one


def top(space: SearchSpace, limit: int, seed: int) -> Batches:
    """The rules of thumb, then the model's best, spread over variants and shapes. What fails, mostly because it spills,
    makes room for others."""
    times = yield spread(space, limit)
    for _ in range(_SECOND_CHANCES):
        failed = sum(math.isinf(seconds) for seconds in times.values())
        batch = [config for config in spread(space, limit + failed) if config not in times][:failed]
        if not batch:
            return
        times = yield batch


def climb(space: SearchSpace, limit: int, seed: int) -> Batches:
    """Half of the trials like `top`, then the untried neighbours of the fastest, a few at a time."""
    times = yield spread(space, -(-limit // 2))
    while len(times) < limit and times:
        fastest = min(times, key=lambda config: times[config])
        batch = neighbours(fastest, space, times, min(6, limit - len(times)))
        if not batch:
            return
        times = yield batch


def exhaustive(space: SearchSpace, limit: int, seed: int) -> Batches:
    """Every legal configuration, the model's favourites first; `limit` does not apply."""
    ranked = [candidate.config for candidate in space.candidates]
    everything = list(dict.fromkeys([*space.defaults(limit), *ranked, *space.legal]))
    for begin in range(0, len(everything), BATCH):
        yield everything[begin : begin + BATCH]


def random(space: SearchSpace, limit: int, seed: int) -> Batches:
    """A sample of the restricted space, the same for the same seed."""
    configs = [candidate.config for candidate in space.candidates]
    yield random_module.Random(seed).sample(configs, min(limit, len(configs)))


STRATEGIES: dict[str, Strategy] = {"top": top, "climb": climb, "exhaustive": exhaustive, "random": random}


def spread(space: SearchSpace, limit: int) -> list[Any]:
    """At most `limit` configurations: the rules of thumb first, then cheap and unlike the ones before."""
    chosen = space.defaults(max(min(limit, 2), limit // 8))
    if limit >= _EVERY_VARIANT:
        best_of = {candidate.config.VARIANT: candidate.config for candidate in reversed(space.candidates)}
        chosen = list(dict.fromkeys([*chosen, *best_of.values()]))
    pool = [candidate for candidate in _representatives(space.candidates) if candidate.config not in set(chosen)]
    if not pool:
        return chosen
    measure = _Distance([*chosen, *(candidate.config for candidate in pool)])
    nearest = np.ones(len(pool))
    for index in range(len(chosen)):
        nearest = np.minimum(nearest, measure.to(index)[len(chosen) :])
    costs = np.array([candidate.cost for candidate in pool])
    taken = np.zeros(len(pool), bool)
    first = len(chosen)
    while len(chosen) < limit and not taken.all():
        scores = np.where(taken, np.inf, costs + DIVERSITY * (1 - nearest))
        pick = int(scores.argmin())
        taken[pick] = True
        chosen.append(pool[pick].config)
        nearest = np.minimum(nearest, measure.to(first + pick)[first:])
    return chosen


def neighbours(config: Any, space: SearchSpace, tried: Times, count: int) -> list[Any]:
    """Untried candidates that differ from `config` in the fewest parameters; first one step along each parameter."""
    values = vars(config)
    steps: dict[tuple[str, ...], list[Any]] = {}
    for candidate in space.candidates:
        other = candidate.config
        if other.VARIANT == config.VARIANT and other not in tried:
            changed = tuple(name for name, value in vars(other).items() if values[name] != value)
            steps.setdefault(changed, []).append(other)
    found: list[Any] = []
    for names in sorted(steps, key=len):  # stable: parameters in the order of the Config
        pool = steps[names]
        distances = _Distance([config, *pool]).to(0)[1:]
        found.append(pool[int(distances.argmin())])
        if len(found) == count:
            break
    return found


def _representatives(candidates: Sequence[Candidate], per_shape: int = 4) -> list[Candidate]:
    """The first few of every shape: copies that differ in details only would crowd out other shapes."""
    seen: dict[tuple[Any, ...], int] = {}
    kept = []
    for candidate in candidates:
        key = shape(candidate.config)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= per_shape:
            kept.append(candidate)
    return kept


class _Distance:
    """Distances between configurations: 0 for the same, 1 between variants, else the mean over parameters of how far
    apart their values lie on a logarithmic scale. Parameters of the shape count double."""

    def __init__(self, configs: Sequence[Any]) -> None:
        values = [vars(config) for config in configs]
        names = sorted(set().union(*values))
        columns = [_scaled([value.get(name) for value in values]) for name in names]
        self._points = np.stack(columns, axis=1) if columns else np.zeros((len(configs), 0))
        self._weights = np.array([2.0 if name in SHAPE else 1.0 for name in names])
        self._variants = np.array([config.VARIANT for config in configs])

    def to(self, index: int) -> Any:
        """The distance of every configuration to number `index`."""
        absent = np.isnan(self._points[index])
        weights = np.where(absent, 0.0, self._weights)
        apart = np.nan_to_num(np.abs(self._points - self._points[index]), nan=1.0)
        mean = apart @ weights / max(weights.sum(), 1.0)
        return np.where(self._variants == self._variants[index], np.minimum(mean, 0.999), 1.0)


def _scaled(values: list[Any]) -> Any:
    """One parameter's values on [0, 1]; NaN where a variant lacks it."""
    if any(isinstance(value, str) for value in values):
        kinds = sorted({value for value in values if value is not None})
        numbers = [np.nan if value is None else float(kinds.index(value)) for value in values]
    else:
        numbers = [np.nan if value is None else np.log2(1.0 + float(value)) for value in values]
    column = np.array(numbers)
    span = np.nanmax(column) - np.nanmin(column)
    return (column - np.nanmin(column)) / (span or 1.0)
