"""The search space of a problem: legal configurations, less those the estimates rule out, ranked by the model.

Restrictions are generic: they use only what a family's `work.py` states (registers, shared memory, bytes in flight).
Each drop keeps its reason, so that `summary()` can say why a space is as small as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from math import log2
from typing import Any

from ..codegen.geometry import Device
from ..kernels.family import Family
from ..machine import machine as machines
from ..machine import occupancy
from ..machine.machine import Machine
from ..plan import predict
from ..plan.problem import Problem

HOPELESS = 2.0  # predicted slower than the best by this factor: not worth compiling
STARVED = 0.5  # keeps less than this share of the best's bandwidth busy (Little's law)
IDLE = 4.0  # computes this many times more padding than the tightest of its variant
_ROOMY = 4.0  # bytes in flight over what Little's law asks for, where more stops helping
_THREADS = 384  # resident threads of a typical winner; only breaks ties
_TIE = 0.02  # weight of the tie-breakers against a prediction of 1
SHAPE = (
    "WARPS_M", "WARPS_N", "WARPS_K", "GROUPS", "ROWS", "TILE_M", "TILE_N", "FOLD", "SPREAD", "UNIT",
    "LANES", "LANES_M", "LANES_N", "PANEL",
)  # fmt: skip


def shape(config: Any) -> tuple[Any, ...]:
    """What makes two configurations move data differently: variant, warp grid, tile and chunk."""
    return config.VARIANT, *(getattr(config, name, None) for name in SHAPE)


@dataclass(frozen=True)
class Candidate:
    """A legal configuration with the model's opinion of it."""

    config: Any
    predicted: float  # seconds
    cost: float = 1.0  # relative to the best prediction, with ties broken: what strategies compare


@dataclass
class SearchSpace:
    """What a strategy chooses from."""

    problem: Problem
    device: Device
    family: Family
    candidates: list[Candidate]  # best first
    legal: list[Any] = field(default_factory=list)  # all of them, unpruned: for exhaustive search
    dropped: Counter[str] = field(default_factory=Counter)  # restriction -> how many it dropped

    def defaults(self, count: int) -> list[Any]:
        """Legal rules of thumb: the first three, the first of every variant, then of every shape, at most `count`."""
        legal = lambda config: self.family.space.illegal(self.problem, config, self.device) is None  # noqa: E731
        ranked = list(filter(legal, islice(self.family.defaults.ranked(self.problem, self.device), 4096)))
        variants = {config.VARIANT: config for config in reversed(ranked)}
        shapes: dict[tuple[Any, ...], Any] = {}
        for config in ranked:
            shapes.setdefault(shape(config), config)
        return list(dict.fromkeys([*ranked[:3], *variants.values(), *shapes.values()]))[:count]

    def predicted(self, config: Any) -> float:
        """The model's seconds for any configuration, also one that was dropped."""
        ceilings = machines.known(self.device)
        return predict.seconds(self.family, self.problem, config, self.device, ceilings)


def search_space(problem: Problem, device: Device, family: Family, ceilings: Machine | None = None) -> SearchSpace:
    """Enumerate, restrict and rank; the order is the same every time."""
    ceilings = ceilings or machines.known(device)
    legal = list(_legal(_without_k(problem), device, family))
    if device.backend == "cpu":  # no occupancy to estimate, and the model does not tell CPU configurations apart
        candidates = [Candidate(c, predict.seconds(family, problem, c, device, ceilings)) for c in legal]
        return SearchSpace(problem, device, family, candidates, legal)
    dropped = Counter[str]()
    predicted = [predict.seconds(family, problem, config, device, ceilings) for config in legal]
    best = min(predicted, default=1.0)
    hopeful = [pair for pair in zip(legal, predicted, strict=True) if pair[1] <= HOPELESS * best]
    dropped[f"model: predicted more than {HOPELESS:g} times the best"] = len(legal) - len(hopeful)
    estimates = [_Estimate.of(problem, config, seconds, device, family, ceilings) for config, seconds in hopeful]
    candidates = [Candidate(e.config, e.predicted, e.cost(best)) for e in _restricted(estimates, dropped)]
    candidates.sort(key=lambda candidate: candidate.cost)  # stable: equals keep the family's order
    return SearchSpace(problem, device, family, candidates, legal, +dropped)


@dataclass
class _Estimate:
    """The numbers restrictions look at."""

    config: Any
    predicted: float
    resident: int  # blocks that fit a multiprocessor
    wanted: int
    threads: int  # of a block
    flight: float  # bytes in flight over what Little's law asks for
    flops: int  # executed, padding included
    padding: float = 1.0  # flops over those of the tightest of the same variant

    @staticmethod
    def of(
        problem: Any, config: Any, predicted: float, device: Device, family: Family, ceilings: Machine
    ) -> _Estimate:
        work = family.work
        threads = work.threads(problem, config)
        registers, shared = work.registers(problem, config), work.shared_bytes(problem, config)
        needed = ceilings.read_bandwidth * ceilings.loaded_latency / device.multiprocessors
        return _Estimate(
            config,
            predicted,
            resident=occupancy.blocks_per_multiprocessor(device, threads, registers, shared),
            wanted=getattr(config, "BLOCKS_PER_SM", 1),
            threads=threads,
            flight=max(work.bytes_in_flight(problem, config), 1) / needed,
            flops=work.executed_flops(problem, config),
        )

    def cost(self, best: float) -> float:
        """The prediction relative to the best; where the model ties, little padding and a usual size go first."""
        unusual = abs(log2(self.flight / _ROOMY)) + abs(log2(self.threads * self.wanted / _THREADS))
        return self.predicted / best + _TIE * (unusual + 2 * log2(self.padding))


def _restricted(estimates: list[_Estimate], dropped: Counter[str]) -> Iterator[_Estimate]:
    """Those that pass every restriction. The limits are relative to the best, so something always remains."""
    efficient = max((min(1.0, estimate.flight) for estimate in estimates), default=0.0)
    tightest: dict[str, int] = {}
    for estimate in estimates:
        variant = estimate.config.VARIANT
        tightest[variant] = min(tightest.get(variant, estimate.flops), estimate.flops)
    for estimate in estimates:
        estimate.padding = estimate.flops / max(1, tightest[estimate.config.VARIANT])
        if estimate.resident < estimate.wanted:
            dropped["occupancy: fewer blocks fit a multiprocessor than asked for"] += 1
        elif estimate.flight < STARVED * efficient:
            dropped["little: too few bytes in flight"] += 1
        elif estimate.padding >= IDLE:
            dropped["padding: most of the arithmetic would be on zeros"] += 1
        else:
            yield estimate


@lru_cache(maxsize=8)
def _legal(problem: Problem, device: Device, family: Family) -> tuple[Any, ...]:
    return tuple(family.space.candidates(problem, device))


def _without_k(problem: Problem) -> Problem:
    """Legality does not depend on K, except where K is the pitch: sweeps over K enumerate once."""
    batched = "BATCH" in dict(problem.sizes)
    if batched or "col" in (getattr(problem, "layout_a", "col"), getattr(problem, "layout_b", "col")):
        return problem
    return problem.replace(K=1 << 20 if problem.K >= 4096 else 2048)  # short sums have fewer units to choose from
