"""A run: environment, ceilings, kernels built ahead, cases one by one into the journal, within a time limit."""

from __future__ import annotations

import gc
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..compile.cache import default_cache
from ..errors import BackendUnavailable, LaunchError
from ..machine.meter import Effort
from ..plan.problem import DTYPES, REAL
from . import cases as catalogue
from . import ceilings, energy_sets, environment, overhead, readme_sets, sample_sets, store
from .batched import cases as batched_cases
from .build import build_all
from .cases import Case, Sets, Size
from .contenders import peers_for
from .contest import Contest
from .data import Operands
from .declared import contest as declared
from .energy import Joules
from .extension import NOTHING, Extension
from .factor import cases as factor_cases
from .factor.operations import FACTORS
from .peers import Peer
from .progress import Progress, watched
from .provenance import SAMPLES
from .sparse import cases as sparse_cases
from .tall_skinny import matmul_cases

# seconds a case may take before its repeats are cut, by set: `make bench` must end within three minutes
_LONGEST = {"sample": 1.5, "quick": 2.5, "full": 4.0, "grid": 4.0, **dict.fromkeys(FACTORS, 4.0)}
_SETS = {"gram": catalogue.SETS, "matmul": matmul_cases.SETS, "batched": batched_cases.SETS,
         "factor": factor_cases.SETS, "powers": sparse_cases.SETS}  # fmt: skip
CATALOGUES = {
    family: {**sets, **declared.sets(family), **energy_sets.SETS.get(family, {}),
             "sample": sample_sets.SETS[family], "readme": readme_sets.SETS[family]}
    for family, sets in _SETS.items()
}  # fmt: skip
_RECENT = 3  # cases that tell how long the next one takes
_REPORT = 8.0  # seconds of a time limit that are left for tables and pictures
_STUCK = 90.0  # seconds after which a case shows where it is


@dataclass(frozen=True)
class Options:
    """Options of a benchmark run; see `mansard bench --help`."""

    sets: tuple[str, ...] = ("quick",)
    device: str = "auto"
    out: Path = Path("report")
    seconds: float | None = None
    repeats: int = 7
    peers: bool = True
    most_elements: int | None = None  # shrink all operands, to try the machinery
    family: str = "gram"
    dtypes: tuple[str, ...] = DTYPES
    publish: bool = False  # every row has enough samples and all its peers, or is not written
    commit: str = ""  # that the sources are from, where there is no git
    energy: Effort | None = None  # joules are measured, too, with so much effort
    energy_best: bool = False  # of the peers, only the fastest one's
    longest: float = 20.0  # seconds of a case from which there are fewer samples, unless its set has a limit of its own


def sets_of(family: str, added: Extension = NOTHING) -> Sets:
    """The sets of a family by name, those that an extension adds last."""
    return {**CATALOGUES.get(family, {}), **added.sets.get(family, {})}


def choose_backend(device: str) -> tuple[Any, dict[str, str]]:
    """The backend for `--device`, and what is missing for a better one; `auto` takes a GPU if one is usable."""
    from ..backends import cpu, cuda, emulated, select

    missing = {}
    if device in ("auto", "cuda"):
        reason = cuda.unavailable() or _no_cupy()
        if reason is None:
            return cuda.backend(0), {}
        if device == "cuda":
            raise BackendUnavailable(f"--device cuda: {reason}")
        missing["GPU"] = reason
    if device == "emulated":
        reason = emulated.unavailable()
        if reason:
            raise BackendUnavailable(f"--device emulated: {reason}")
        return emulated.backend(), missing
    reason = cpu.unavailable()
    if device == "reference" or reason:
        return select.ReferenceBackend(cpu.backend().device), missing | ({"CPU kernels": reason} if reason else {})
    return cpu.backend(), missing


def _no_cupy() -> str | None:
    try:
        import cupy  # noqa: F401
    except ImportError:
        return "CuPy supplies the benchmark's memory and is not installed: pip install 'mansard[cuda]'"
    return None


def _size(backend: Any, most_elements: int | None) -> Size:
    free = None
    if backend.name == "cuda":
        import cupy

        backend.driver.make_current(backend.device.ordinal)
        free = int(cupy.cuda.runtime.memGetInfo()[0])
    size = catalogue.size_for(backend, free)
    if most_elements is None:
        return size
    return replace(size, elements={dtype: min(most_elements, count) for dtype, count in size.elements.items()})


def run(options: Options, added: Extension = NOTHING, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Measure, write journal, JSON and CSV; returns the results document. `known` are ceilings, if they have just been
    measured."""
    backend, missing = choose_backend(options.device)
    size = replace(_size(backend, options.most_elements), every=options.dtypes != DTYPES)
    facts = environment.describe(backend, options.commit) | {"operands": size.elements["float64"]}
    journal = store.Journal(
        options.out,
        facts,
        {**asdict(options), "sets": list(options.sets), "dtypes": list(options.dtypes), "out": str(options.out)},
    )
    if journal.ceilings is None:
        if not known and options.seconds and backend.name in ("cpu", "cuda"):
            print("measuring this device's ceilings first, some 5 to 20 s; --seconds counts from then on", flush=True)
        journal.write("ceilings", machine=known or asdict(ceilings.measure(backend)))
    begin = time.monotonic()
    deadline = begin + options.seconds - min(_REPORT, 0.3 * options.seconds) if options.seconds else None
    # a model's choice depends on the ceilings
    chosen, refused = catalogue.select(options.sets, size, sets_of(options.family, added))
    chosen = [case for case in chosen if case.dtype in options.dtypes]
    peers = peers_for(backend.name, options.family) if options.peers else []
    peers += [peer for make in added.peers for peer in make(backend.name, options.family)] if options.peers else []
    missing |= {peer.name: peer.missing for peer in peers if peer.missing and any(map(peer.takes_part, chosen))}
    missing |= {f"set {name}": why for name, why in refused.items()}
    waiting = [case for case in chosen if case.key not in journal.done]
    if journal.resumed and len(waiting) < len(chosen):
        print(f"continuing: {len(chosen) - len(waiting)} of {len(chosen)} cases were measured before the interruption")
    build_all(waiting, backend, begin + options.seconds / 2 if options.seconds else None, peers)
    longest = min((_LONGEST.get(name, options.longest) for name in options.sets), default=20.0)
    left, beside = waiting, ceilings.Beside(backend, options.family)
    if beside.failure:
        missing["ceilings beside the cases"] = beside.failure
    joules = Joules(backend, options.energy, options.energy_best) if options.energy else None
    if joules and joules.why:
        print(f"energy {joules.why}", flush=True)
    try:
        effort = (options.repeats, longest, SAMPLES if options.publish else 0)
        left = _measure(waiting, backend, peers, journal, deadline, effort, size, beside, joules)
    finally:
        beside.close()
        missing |= {"energy": joules.why} if joules and joules.why else {}
        finished = {
            line["case"] for line in store.read(journal.path) if line["line"] == "row" and line["run"] == journal.run
        }
        unfinished = [case.key for case in chosen if case.key not in finished]
        journal.write("note", missing=missing, unfinished=unfinished, compiling=default_cache().seconds_by_family())
        results = store.write_results(options.out)
    if not left:
        journal.write("finished")
    return results


def _measure(
    waiting: list[Case], backend: Any, peers: list[Peer], journal: store.Journal, deadline: float | None,
    effort: tuple[int, float, int], size: Size, beside: ceilings.Beside, joules: Joules | None = None,
) -> list[Case]:  # fmt: skip
    """Run the cases; returns those the time limit left out. `effort`: samples, seconds of a case from which there are
    fewer, and how many there are nevertheless."""
    repeats, longest, least = effort
    # one real type's buffers at a time; drawn problems have buffers of their own, and keep their order
    waiting = sorted(waiting, key=lambda case: not case.drawn and REAL[case.dtype] != "float64")
    operands = Operands(backend.name, waiting, size.cache_bytes)
    contest = Contest(backend, operands, peers, repeats, longest, beside, deadline, least, joules)
    stuck = _STUCK + (joules.seconds(len(peers) + 1) if joules else 0.0)
    taken = [0.0]  # seconds of the latest cases: a case that cannot be expected to end in time is not begun
    with Progress("measuring", len(waiting), deadline) as shown:
        if joules:
            joules.say = shown.tell
        for number, case in enumerate(waiting):
            begin = time.monotonic()
            if deadline is not None and begin + max(taken[-_RECENT:]) > deadline:
                return waiting[number:]
            if number and REAL[case.dtype] != REAL[waiting[number - 1].dtype]:
                contest.forget()
                operands.release(REAL[waiting[number - 1].dtype])
            with watched(stuck):
                rows = overhead.measure(case, backend, peers) if case.mode == "host" else contest.run(case)
            if not rows:
                return waiting[number:]
            journal.rows(rows)
            if contest.dead:
                raise LaunchError(f"{case.key} took the device along ({contest.dead}): the same command goes on behind")
            taken.append(time.monotonic() - begin)
            shown.step(case.key)
    contest.forget()
    operands.release("float64")
    operands.release("float32")
    gc.collect()
    return []
