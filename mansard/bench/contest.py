"""One case: contenders enter, are checked, then sampled in turn; out come their rows with raw seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import MansardError
from . import calls, freshness
from . import clock as clocks
from .cases import Case
from .ceilings import Beside
from .check import reference_for
from .data import Operands
from .declared.operations import DECLARED
from .energy import Contender, Joules
from .entries import Entry, enter
from .factor import entries as factor_entries
from .factor.operations import FACTORS, SPECTRAL, STACKED
from .peers import Peer, TorchPeer
from .power import Power
from .random import operations as drawn_operations
from .random.operations import DRAWN
from .rows import OURS, Row, row
from .sparse import calls as sparse_calls
from .sparse import entries as sparse_entries
from .sparse.operations import IN_CACHE, SPARSE

Sampler = Callable[[], float]
_LONGEST = 20.0  # seconds a case may take before its repeats are cut (never below three)
_SLOW, _SLOW_REPEATS = 0.1, 3  # seconds of a call above which a contender gets only so many samples
_LOST, _FAR = 1.0, 4  # seconds, and times the fastest, above which a contender is sampled once
_LOST_PUBLISHED = 3.0  # seconds, of rows that will be published
_LOOP = 100  # calls of an eager sample, unless rotating operands asks for more
_LOOP_SECONDS = (2e-3, 0.01)  # fewer calls are made where they take longer than this, on a CPU and on a GPU
_CLOSE_CALL = 2  # times as many samples where a few per cent decide
_GRAPH = 32  # nodes of a graph on hot operands
UNIFORM = "uniform batch"
_MOST = 1e300  # stands for an infinite error, which JSON has no word for
_TINY = 8  # rows up to which memory limits eigenvalues and singular values
_SUSTAINED, _COOL = 1.5, 0.5  # seconds of calls, and of rest before them


class Contest:
    """Runs cases, contender against contender; holds the backend, clock, operands and peers of all cases."""

    def __init__(
        self,
        backend: Any,
        operands: Operands,
        peers: list[Peer],
        repeats: int,
        longest: float = _LONGEST,
        beside: Beside | None = None,
        deadline: float | None = None,
        least: int = 0,
        joules: Joules | None = None,
    ) -> None:
        self.backend, self.operands, self.peers, self.repeats, self.longest = backend, operands, peers, repeats, longest
        self.beside, self.deadline = beside, deadline
        self.least = least  # samples of every row that will be published; 0: slow cases may have fewer
        self.dead = ""  # why nothing can be measured any more
        self._cut = False  # the time was over before all contenders had their joules
        self._held: tuple[Any, Any] | None = None  # the last problem and its reference
        self.clock = clocks.clock_for(backend)
        self.power, self.joules = Power(backend), joules

    def run(self, case: Case) -> list[Row]:
        """The rows of all contenders; a case that cannot run is one row that says why. None at all if the time was over
        before all had their joules, or, of rows to be published, their samples and peers."""
        facts = {**case.to_dict(), "case": case.key, "date": time.strftime("%Y-%m-%d %H:%M:%S")}
        facts |= drawn_operations.facts(case.drawn) if case.operation in DRAWN else {}
        try:
            rows = self._run(case, facts)
            return [] if self._cut or (self.least and self._is_over()) else rows
        except Exception as error:  # whatever it is, the other cases are still worth measuring
            self.dead = self._lost()
            return [row(facts, OURS, status="failed", note=f"{type(error).__name__}: {_gist(error)}")]

    def _lost(self) -> str:
        """Why the device does not answer any more; empty if it does. A kernel that fails takes its context along."""
        try:
            self.clock.loop(lambda index: None, 1)
        except MansardError as error:
            return str(error)
        return ""

    def _run(self, case: Case, facts: dict[str, Any]) -> list[Row]:
        pairs = [self.operands.pair(case, index) for index in range(self.operands.sets(case))]
        try:
            with freshness.launched(self.backend.name) as ran:
                ours, more = calls.ours(case, pairs, self.operands, self.backend)
                ours.run(0)  # a kernel that cannot be launched says so here
            more["kernels"] = freshness.stamp(facts | more | ours.facts, ran, self.backend.name)
        except (MansardError, ValueError) as error:
            status = "illegal" if case.pins else "failed"
            return [row(facts, OURS, status=status, note=_gist(error))]
        entries, refused = self._peers(case, pairs)
        entries = [ours, *entries]
        errors, found = self._check(case, entries, self._reference(case, pairs[0]), refused)
        entries = [entry for entry in entries if entry.name not in refused]
        samplers, uncaptured = self._samplers(case, entries, len(pairs))
        if OURS in uncaptured:
            return [row(facts, OURS, status="failed", note=uncaptured[OURS])]
        if case.mode == "sustained":
            seconds, power = self._sustain(entries)
        else:
            repeats = self.repeats * (_CLOSE_CALL if case.operation == "matmul" else 1)
            cached = self._in_cache(case)
            others = self._yardsticks(case) | self._uniform(case) | ({IN_CACHE: cached[1]} if cached else {})
            seconds, power = self._take_turns(samplers | others, repeats)
            more |= {"in_cache": {"entries": cached[0], "seconds": seconds[IN_CACHE]}} if cached else {}
        if UNIFORM in seconds:
            more |= {"uniform": {"bytes": case.uniform.bytes, "seconds": seconds[UNIFORM]}}
        rates = self.beside.rates(seconds) if self.beside else {}
        used = self._energy(case, entries, len(pairs), seconds)
        absent = {name: "failed" if name == OURS else "missing" for name in (refused | uncaptured)}
        rows = [row(facts, name, status=absent[name], note=why) for name, why in (refused | uncaptured).items()]
        for entry in entries:
            if entry.name in seconds:
                about = dict(more) if entry.name == OURS else {}
                worst = errors[entry.name]
                status = "ok" if worst <= 1 else "wrong"
                about |= {"error": min(worst, _MOST), "status": status, "spelling": entry.spelling}
                about |= {"beside": rates, **power[entry.name], **found[entry.name]}
                about |= entry.facts | ({"note": entry.note} if entry.note else {})
                about |= {"energy": used[entry.name]} if entry.name in used else {}
                rows.append(row(facts, entry.name, [entry.scale * taken for taken in seconds[entry.name]], **about))
        return rows

    def _check(
        self, case: Case, entries: list[Entry], reference: Any, refused: dict[str, str]
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Errors of all results and what else was found; peers that fail are added to those that were refused."""
        errors, found = {}, {}
        for entry in entries:
            if case.operation in (*STACKED, *SPARSE, *DECLARED, *DRAWN):
                reference.prepare(entry.out, entry.in_place)
            try:
                errors[entry.name] = reference.error(entry.result())
            except Exception as error:  # whatever a library says, the others are still worth measuring
                if entry.name == OURS:
                    raise
                refused[entry.name] = f"{type(error).__name__}: {_gist(error)}"
            found[entry.name] = dict(getattr(reference, "found", {}))
        return errors, found

    def _reference(self, case: Case, pair: tuple[Any, Any]) -> Any:
        """Reference for the results of a case, made once for experiments that run one problem many times."""
        about: tuple[Any, ...] = (case.operation, case.dtype, case.shapes, case.layout, case.same)
        about += (case.condition, case.accumulate, case.form, case.N, case.K, case.inner, case.drawn)
        if self._held is None or self._held[0] != about:
            self._held = (about, reference_for(case, *pair))
        return self._held[1]

    def forget(self) -> None:
        """Drop the references to operands, so that their memory is freed."""
        self._held = None

    def _peers(self, case: Case, pairs: list[tuple[Any, Any]]) -> tuple[list[Entry], dict[str, str]]:
        entries, refused = [], {}
        for peer in self.peers if case.peers else ():
            if peer.missing or not peer.takes_part(case):
                continue  # missing ones are named once for the whole run
            if self._is_over():
                refused[peer.name] = "out of time"
                continue
            try:
                factors, sparse = case.operation in FACTORS, case.operation in SPARSE
                into = not factors and not sparse and case.operation not in ("gram", "cholesky_qr")
                given = [(*pair, *([self.operands.empty(case)] if into else [])) for pair in pairs]
                entering = factor_entries.enter if factors else sparse_entries.enter if sparse else enter
                entries.append(entering(peer, case, given, self._race))
            except Exception as error:
                refused[peer.name] = f"{type(error).__name__}: {_gist(error)}"
        return entries, refused

    def _race(self, run: Callable[[int], Any], restore: Callable[[int], Any] | None = None) -> float:
        """Seconds of one call."""
        before = clocks.nothing if restore is None else partial(restore, 0)
        return self.clock.sample(partial(run, 0), restore=before)

    def _is_over(self) -> bool:
        """Whether the run's time is over (of `time.monotonic`): what was begun ends with as little as makes sense."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def _samplers(self, case: Case, entries: list[Entry], pairs: int) -> tuple[dict[str, Sampler], dict[str, str]]:
        """One function per contender that takes a sample, in seconds per call."""
        samplers: dict[str, Sampler] = {}
        refused: dict[str, str] = {}
        by_name = {peer.name: peer for peer in self.peers}
        loops = case.mode == "eager" or (case.mode == "graph" and self.backend.name != "cuda")
        counts = self._loop_counts(entries, pairs) if loops else {}
        for entry in entries:
            peer = by_name.get(entry.name)
            if case.mode == "graph" and peer is not None and peer.captures:
                refused[entry.name] = peer.captures
            elif case.mode == "graph" and self.backend.name == "cuda":
                try:
                    samplers[entry.name] = self._graph_sampler(case, entry, pairs, peer)
                except RuntimeError as error:
                    refused[entry.name] = f"capture failed: {_gist(error)}"
            elif loops:  # without graphs a loop is the nearest thing
                samplers[entry.name] = self._loop_sampler(entry, pairs, counts[entry.name])
            else:
                samplers[entry.name] = entry.sampler(self.clock)
        return samplers, refused

    def _yardsticks(self, case: Case) -> dict[str, Sampler]:
        """The ceilings, as contenders: only beside single calls on operands out of cache."""
        wanted = case.mode == "device" and case.operation != "matmul"  # which is compared with its peer alone
        wanted = wanted and case.temperature == "cold"  # the next contender then finds nothing in the caches
        if self.backend.name == "cuda":  # where memory sets the limit
            wanted = wanted and (case.operation not in SPECTRAL or case.M <= _TINY)
        else:  # tenths of a second each: a sample of factorizations has the ceilings from the run's beginning
            wanted = wanted and not case.drawn and case.operation not in (FACTORS if case.set == "sample" else SPECTRAL)
        runs = self.beside.runs if self.beside and wanted else {}
        return {name: clocks.sampler(self.clock, run) for name, run in runs.items()}

    def _uniform(self, case: Case) -> dict[str, Sampler]:
        """Contender beside a ragged batch: equal matrices with the same bytes. It does not count as a peer."""
        if not case.is_ragged:
            return {}
        equal, pair = case.uniform, self.operands.pair(case.uniform)
        entry, _ = calls.ours(equal, [pair], self.operands, self.backend)
        return {UNIFORM: clocks.sampler(self.clock, partial(entry.run, 0))}

    def _in_cache(self, case: Case) -> tuple[int, Sampler] | None:
        """Beside powers: products with a small matrix of the same kind, what caches make of them."""
        if case.operation != "powers" or case.mode != "device" or case.pins or not case.peers or case.drawn:
            return None
        return sparse_calls.in_cache(case, self.operands.matrices, self.backend, self.clock)

    def _loop_counts(self, entries: list[Entry], pairs: int) -> dict[str, int]:
        """Calls of an eager sample, by contender: waiting for the last one is shared by as many. All make the same
        number but those whose single call is slow."""

        def once(entry: Entry) -> float:
            taken = self.clock.loop(lambda index: entry.again(0), 1)
            return taken if taken > _SLOW else min(taken, self.clock.loop(lambda index: entry.again(0), 1))

        on_gpu, taken = self.backend.name == "cuda", {entry.name: once(entry) for entry in entries}
        count = max(2, min(_LOOP, int(_LOOP_SECONDS[on_gpu] / max(1e-9, *taken.values()))))
        most = max(count, pairs) if on_gpu else count
        return {name: 1 if seconds > _SLOW else most for name, seconds in taken.items()}

    def _loop_sampler(self, entry: Entry, pairs: int, count: int) -> Sampler:
        again = entry.again
        return lambda: self.clock.loop(lambda index: again(index % pairs), count)

    def _graph_sampler(self, case: Case, entry: Entry, pairs: int, peer: Peer | None) -> Sampler:
        launch, count = self._captured(case, entry, pairs, peer)
        return lambda: self.clock.sample(launch) / count

    def _captured(self, case: Case, entry: Entry, pairs: int, peer: Peer | None) -> tuple[clocks.Call, int]:
        """A call that launches a graph of calls, and how many these are."""
        most = 1 if case.operation in FACTORS else _GRAPH  # a factorization in steps is thousands of nodes
        count = pairs if pairs > 1 else max(1, min(most, (1 << 31) // max(1, case.bytes)))
        capture = clocks.capture_torch if isinstance(peer, TorchPeer) else clocks.capture_cupy
        again = entry.again
        return capture(lambda index: again(index % pairs), count), count

    def _energy(
        self, case: Case, entries: list[Entry], pairs: int, seconds: dict[str, list[float]]
    ) -> dict[str, Any]:  # fmt: skip
        """Joules of the contenders that were timed, where they are asked for and can be read."""
        if self.joules is None or self.joules.why:
            return {}
        medians = {e.name: e.scale * statistics.median(seconds[e.name]) for e in entries if seconds.get(e.name)}
        chosen = self.joules.chosen(medians, OURS)
        repeated = [self._repeated(case, entry, pairs) for entry in entries if entry.name in chosen]
        used = self.joules.usage(repeated, self._is_over)
        self._cut = len(used) < len(repeated) and not self.joules.why
        return used

    def _repeated(self, case: Case, entry: Entry, pairs: int) -> Contender:
        """The work to repeat while joules are counted: a CUDA graph, a turn through all operands, or a call."""
        again, restore = entry.again, entry.restore
        if case.mode == "graph" and self.backend.name == "cuda":
            peer = {peer.name: peer for peer in self.peers}.get(entry.name)
            return Contender(entry.name, *self._captured(case, entry, pairs, peer), entry.scale)
        if pairs > 1:
            return Contender(entry.name, lambda: [again(index) for index in range(pairs)], pairs, entry.scale)
        return Contender(entry.name, partial(again, 0), 1, entry.scale, restore and partial(restore, 0))

    def _take_turns(self, samplers: dict[str, Sampler], repeats: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
        """Round robin: whatever disturbs the machine for a second disturbs all contenders alike."""
        begin = time.monotonic()
        first = {name: sampler() for name, sampler in samplers.items()}
        slow = set() if self.least else {name for name, taken in first.items() if taken > _SLOW}
        longest = _LOST_PUBLISHED if self.least else _LOST
        lost = {name for name, taken in first.items() if taken > max(longest, _FAR * min(first.values()))} - {OURS}
        seconds: dict[str, list[float]] = {name: [first[name]] if name in lost else [] for name in samplers}
        power: dict[str, Any] = {name: {} for name in samplers}
        names = list(samplers)
        for turn in range(repeats):
            first_up = turn // 2 % len(names)  # contenders change places: the one before leaves its data in the caches
            for name in (names[first_up:] + names[:first_up])[:: -1 if turn % 2 else 1]:
                sampler = samplers[name]
                if name in lost or (name in slow and turn >= _SLOW_REPEATS):
                    continue
                seconds[name].append(sampler())
                if turn == min(repeats, _SLOW_REPEATS) // 2:  # once: asking takes longer than many a sample
                    power[name] = self.power.read()
            late = time.monotonic() - begin > self.longest and turn + 1 >= self.least
            if turn >= 2 and turn >= repeats // 2 and late:
                break
            if self._is_over():
                break
        return seconds, power

    def _sustain(self, entries: list[Entry]) -> tuple[dict[str, list[float]], dict[str, Any]]:
        """Each contender alone, one call behind the other; the second half counts, when the card has settled."""
        seconds, power = {}, {}
        for entry in entries:
            time.sleep(_COOL)
            samples = self.clock.sustain(partial(entry.again, 0), _SUSTAINED)
            power[entry.name] = self.power.read()
            seconds[entry.name] = samples[len(samples) // 2 :]
        return seconds, power


def _gist(error: Exception) -> str:
    """The line of a message that says what is wrong; a compiler's comes after its command."""
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line for line in lines if "error:" in line), lines[0])
