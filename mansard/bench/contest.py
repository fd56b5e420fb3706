"""One case: contenders enter, are checked, then sampled in turn; out come their rows with raw seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import mansard as ms

from ..errors import MansardError
from . import clock as clocks
from .cases import Case
from .ceilings import Beside
from .check import reference_for
from .data import Operands
from .peers import Entry, Peer, TorchPeer, enter
from .power import Power
from .rows import OURS, Row, row

Sampler = Callable[[], float]
_LONGEST = 20.0  # seconds a case may take before its repeats are cut (never below three)
_SLOW, _SLOW_REPEATS = 0.1, 3  # seconds a call; who takes longer is sampled so often and no more
_LOOP = 100  # calls of an eager sample, unless rotating operands asks for more
_GRAPH = 32  # nodes of a graph on hot operands
_SUSTAINED, _COOL = 1.5, 0.5  # seconds of calls, and of rest before them


class Contest:
    """What all cases share: backend, clock, operands, peers."""

    def __init__(
        self,
        backend: Any,
        operands: Operands,
        peers: list[Peer],
        repeats: int,
        longest: float = _LONGEST,
        beside: Beside | None = None,
    ) -> None:
        self.backend, self.operands, self.peers, self.repeats, self.longest = backend, operands, peers, repeats, longest
        self.beside = beside
        self.clock = clocks.clock_for(backend)
        self.power = Power(backend)
        # arrays on the GPU find their backend; on the CPU three could answer
        self._asked = None if backend.name == "cuda" else backend.name

    def run(self, case: Case) -> list[Row]:
        """The rows of all contenders; a case that cannot run is one row that says why."""
        facts = {**case.to_dict(), "case": case.key, "date": time.strftime("%Y-%m-%d %H:%M:%S")}
        pairs = [self.operands.pair(case, index) for index in range(self.operands.sets(case))]
        try:
            ours, more = self._ours(case, pairs)
            ours.run(0)  # a kernel that cannot be launched says so here
        except (MansardError, ValueError) as error:
            status = "illegal" if case.pins else "failed"
            return [row(facts, OURS, status=status, note=_gist(error))]
        entries, refused = self._peers(case, pairs)
        entries = [ours, *entries]
        reference = reference_for(case.operation, *pairs[0])
        errors = {entry.name: reference.error(entry.result()) for entry in entries}
        samplers, uncaptured = self._samplers(case, entries, len(pairs))
        if case.mode == "sustained":
            seconds, power = self._sustain(entries)
        else:
            seconds, power = self._take_turns(samplers | self._yardsticks(case))
        rates = self.beside.rates(seconds) if self.beside else {}
        absent = {name: "failed" if name == OURS else "missing" for name in (refused | uncaptured)}
        rows = [row(facts, name, status=absent[name], note=why) for name, why in (refused | uncaptured).items()]
        for entry in entries:
            if entry.name in seconds:
                about = more if entry.name == OURS else {}
                worst = errors[entry.name]
                about |= {"error": worst, "status": "ok" if worst <= 1 else "wrong", "spelling": entry.spelling}
                about |= {"beside": rates, **power[entry.name]}
                rows.append(row(facts, entry.name, seconds[entry.name], **about))
        return rows

    def _ours(self, case: Case, pairs: list[tuple[Any, Any]]) -> tuple[Entry, dict[str, Any]]:
        def planned(out: Any = None) -> Any:
            with ms.pin(**dict(case.pins)):
                given = {"out": out, "deterministic": case.deterministic, "backend": self._asked}
                return ms.plan(case.operation, *pairs[0], **given)

        plan = planned()
        config = plan.choice.config
        values = plan.choice.family.space.to_dict(config) if config else {}
        more = {"config": values, "origin": plan.choice.origin, "reason": plan.choice.reason}
        if case.mode == "eager":
            name, call = ("ms.gram", ms.gram) if case.operation == "gram" else ("ms.matmul", ms.matmul)
            return Entry(OURS, f"{name}(A, B)", lambda index: call(*pairs[index]), _same), more
        # results of captured calls need memory that outlives the capture; tall ones are not made anew every time
        if case.mode == "graph" or case.operation != "gram":
            shape = (case.M if case.operation == "gram" else case.K, case.N)
            outs = [self.operands.xp.empty(shape, case.dtype) for _ in pairs]
            held = planned(outs[0])
            return Entry(OURS, "plan(A, B, out)", lambda index: held.run(*pairs[index], outs[index]), _same), more
        return Entry(OURS, "plan(A, B)", lambda index: plan.run(*pairs[index]), _same), more

    def _peers(self, case: Case, pairs: list[tuple[Any, Any]]) -> tuple[list[Entry], dict[str, str]]:
        entries, refused = [], {}
        for peer in self.peers if case.peers else ():
            if peer.missing:
                continue  # named once for the whole run
            try:
                entries.append(enter(peer, case, pairs, lambda run: self.clock.sample(lambda: run(0))))
            except (RuntimeError, ValueError, MemoryError) as error:
                refused[peer.name] = f"{type(error).__name__}: {_gist(error)}"
        return entries, refused

    def _samplers(self, case: Case, entries: list[Entry], pairs: int) -> tuple[dict[str, Sampler], dict[str, str]]:
        """One function per contender that takes a sample, in seconds per call."""
        samplers: dict[str, Sampler] = {}
        refused: dict[str, str] = {}
        by_name = {peer.name: peer for peer in self.peers}
        for entry in entries:
            peer = by_name.get(entry.name)
            if case.mode == "graph" and peer is not None and peer.captures:
                refused[entry.name] = peer.captures
            elif case.mode == "graph" and self.backend.name == "cuda":
                try:
                    samplers[entry.name] = self._graph_sampler(case, entry, pairs, peer)
                except RuntimeError as error:
                    refused[entry.name] = f"capture failed: {_gist(error)}"
            elif case.mode in ("eager", "graph"):  # without graphs a loop is the nearest thing
                samplers[entry.name] = self._loop_sampler(entry, pairs)
            else:
                samplers[entry.name] = clocks.sampler(self.clock, partial(entry.run, 0))
        return samplers, refused

    def _yardsticks(self, case: Case) -> dict[str, Sampler]:
        """The ceilings, as contenders: only beside single calls on operands out of cache."""
        runs = self.beside.runs if self.beside and case.mode == "device" else {}
        return {name: clocks.sampler(self.clock, run) for name, run in runs.items()}

    def _loop_sampler(self, entry: Entry, pairs: int) -> Sampler:
        count = max(_LOOP, pairs) if self.backend.name == "cuda" else 2
        return lambda: self.clock.loop(lambda index: entry.run(index % pairs), count)

    def _graph_sampler(self, case: Case, entry: Entry, pairs: int, peer: Peer | None) -> Sampler:
        count = pairs if pairs > 1 else max(1, min(_GRAPH, (1 << 31) // max(1, case.bytes)))
        capture = clocks.capture_torch if isinstance(peer, TorchPeer) else clocks.capture_cupy
        launch = capture(lambda index: entry.run(index % pairs), count)
        return lambda: self.clock.sample(launch) / count

    def _take_turns(self, samplers: dict[str, Sampler]) -> tuple[dict[str, list[float]], dict[str, Any]]:
        """Round robin: whatever disturbs the machine for a second disturbs all contenders alike."""
        begin = time.monotonic()
        seconds: dict[str, list[float]] = {name: [] for name in samplers}
        power: dict[str, Any] = {}
        slow = {name for name, sampler in samplers.items() if sampler() > _SLOW}
        for turn in range(self.repeats):
            for name, sampler in samplers.items():
                if name in slow and turn >= _SLOW_REPEATS:
                    continue
                seconds[name].append(sampler())
                if turn == min(self.repeats, _SLOW_REPEATS) // 2:  # once: asking takes longer than many a sample
                    power[name] = self.power.read()
            if turn >= 2 and turn >= self.repeats // 2 and time.monotonic() - begin > self.longest:
                break
        return seconds, power

    def _sustain(self, entries: list[Entry]) -> tuple[dict[str, list[float]], dict[str, Any]]:
        """Each contender alone, one call behind the other; the second half counts, when the card has settled."""
        seconds, power = {}, {}
        for entry in entries:
            time.sleep(_COOL)
            samples = self.clock.sustain(partial(entry.run, 0), _SUSTAINED)
            power[entry.name] = self.power.read()
            seconds[entry.name] = samples[len(samples) // 2 :]
        return seconds, power


def _gist(error: Exception) -> str:
    """The line of a message that says what is wrong; a compiler's comes after its command."""
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line for line in lines if "error:" in line), lines[0])


def _same(result: Any) -> Any:
    return result
