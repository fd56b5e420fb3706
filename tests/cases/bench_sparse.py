"""Made-up results of an H200 for the tests of tables, pictures and targets of sparse products and powers."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import bench_samples
import numpy as np

from mansard.bench import rows, store
from mansard.bench.cases import Case, select
from mansard.bench.operations import work_of
from mansard.bench.runner import sets_of
from mansard.bench.sparse.calls import EXECUTIONS, FORMS, OWN_SPMV, PERMUTED, PLAIN, PLAIN_PERMUTED
from mansard.machine.roofline import time_bound
from papers import EXTENSION

PEERS = {"CuPy (cuSPARSE)": 0.62, "PyTorch (cuSPARSE)": 0.55}
_GAIN = {2: 1.6, 3: 2.0, 4: 2.2, 5: 2.15, 8: 2.3}
_FIT = {"overhead_seconds": 1.3e-6, "bandwidth": 5.1e12}
H200 = replace(
    bench_samples.H200,
    cache_bandwidth=tuple((1 << bits, rate * 1e12) for bits, rate in ((20, 9.5), (23, 9.4), (25, 8.0), (26, 4.6))),
    details={
        "probes": {"triad": {"512 threads": {"value": 4.1e12, "spread": 0.001}}},
        "ramp": {**_FIT, "points": [[1 << bits, 1.3e-6 + (1 << bits) / 5e12] for bits in range(16, 26)]},
    },
)


def sparse(operation: str, matrix: str = "27pt", rows: int = 1 << 22, width: int = 27, **more: Any) -> Case:
    return Case("x", "float64", width, more.pop("N", 1), rows, operation=operation, form=matrix, **more)


def journal(folder: Path, sets: tuple[str, ...]) -> None:
    """A finished journal with made-up rows of these sets."""
    rng = np.random.default_rng(1)
    made = store.Journal(folder, bench_samples.ENVIRONMENT, {"sets": list(sets), "family": "powers"})
    made.write("ceilings", machine=asdict(H200))
    for case in select(sets, bench_samples.SIZE, sets_of("powers", EXTENSION))[0]:
        made.rows(contest(case, rng))
    made.write("note", missing={}, unfinished=[])
    made.write("finished")


def contest(case: Case, rng: np.random.Generator) -> list[rows.Row]:
    """Rows of a case: ours, our other ways, and the peers."""
    least = time_bound(work_of(case.to_dict() | {"inner": 0}), H200).seconds
    noise = 1 - 0.1 * rng.random()
    if case.operation == "powers":
        return _powers(case, rng, case.inner * (least / (0.93 * noise) + 2e-6))
    facts = _facts(case)
    short = facts | ({"storage": {**facts["storage"], "index": 2}, "columns": "delta16"} if not case.pins else {})
    slower = 1 + 0.05 * (32 // dict(case.pins).get("C", 32)) + (dict(case.pins).get("format") == "csr")
    found = [rows.row(short, rows.OURS, _times(rng, 2e-6 + 0.86 * slower * least / (0.93 * noise)))]
    shares = dict(zip(FORMS, (0.93, 1.08, 0.9, 0.7), strict=True)) if case.peers else {}
    for name, share in {**shares, **(PEERS if case.peers else {})}.items():
        found.append(rows.row(facts, name, _times(rng, 2e-6 + least / (share * noise)), error=0.1))
    return found


def _facts(case: Case) -> dict[str, Any]:
    facts = {**case.to_dict(), "case": case.key, "date": "2026-11-15 12:00:00", "rows": case.K, "nnz": case.M * case.K}
    pins = dict(case.pins)
    format, index = pins.get("format", "sell"), pins.get("index", "int32")
    storage = {"format": format, "index": 2 if index == "delta16" else 4, "padding": 1.0}
    return facts | {"storage": storage, "stored": format, "columns": index, "config": {"THREADS": 1}, "error": 0.1}


def _powers(case: Case, rng: np.random.Generator, plain: float) -> list[rows.Row]:
    facts = _facts(case) | {"execution": "persistent", "footprint": 3e7, "preparing": 0.4, "groups": 64}
    gain = _GAIN.get(case.inner, 1.0) * (0.6 if case.M < 10 else 1.0)
    inside = {"entries": 1_000_000, "seconds": [1.4e-6]}
    found = [rows.row(facts, rows.OURS, _times(rng, plain / gain), in_cache=inside)]
    ways = {PLAIN: 1.0, OWN_SPMV: 0.97, PERMUTED: 1.1 * gain, PLAIN_PERMUTED: 1.05}
    ways |= dict(zip(EXECUTIONS, (0.2, 0.4, gain), strict=True)) | {name: 0.6 * rate for name, rate in PEERS.items()}
    return found + [
        rows.row(facts, name, _times(rng, plain / share)) for name, share in ways.items() if case.peers
    ]  # fmt: skip


def _times(rng: np.random.Generator, seconds: float) -> list[float]:
    return [float(value) for value in seconds * (1 + 0.01 * rng.random(3))]
