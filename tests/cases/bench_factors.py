"""Small cases and made-up results of factorizations for the tests of the benchmark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import bench_samples
import numpy as np

from mansard.bench import rows, store
from mansard.bench.cases import Case, select
from mansard.bench.data import Operands
from mansard.bench.operations import work_of
from mansard.bench.runner import sets_of
from mansard.machine.roofline import time_bound
from papers import EXTENSION

PEERS = {"CuPy (cuBLAS, cuSOLVER)": 0.1, "PyTorch (cuSOLVER)": 0.06, "PyTorch (MAGMA)": 0.08}


def factor(operation: str, n: int, count: int = 50, dtype: str = "float64", **more: Any) -> Case:
    return Case("x", dtype, n, 1, count, operation=operation, **more)


def given(case: Case) -> tuple[Operands, tuple[Any, Any]]:
    """Where operands come from, and those of the case."""
    operands = Operands("cpu", [case], 1 << 10)
    return operands, operands.pair(case)


def journal(folder: Path, sets: tuple[str, ...]) -> None:
    """A finished journal of an H200 with made-up rows of these sets."""
    rng = np.random.default_rng(1)
    made = store.Journal(folder, bench_samples.ENVIRONMENT, {"sets": list(sets), "family": "factor"})
    made.write("ceilings", machine=asdict(bench_samples.H200))
    for case in select(sets, bench_samples.SIZE, sets_of("factor", EXTENSION))[0]:
        made.rows(_contest(case, rng))
    made.write("note", missing={}, unfinished=[])
    made.write("finished")


def _contest(case: Case, rng: np.random.Generator) -> list[rows.Row]:
    facts = {**case.to_dict(), "case": case.key, "date": "2026-11-15 12:00:00"}
    least = time_bound(work_of(case.to_dict()), bench_samples.H200).seconds
    share = (0.97 - 0.1 * rng.random()) * (0.3 if case.form not in ("", "ragged") else 1) / max(1, case.M / 32)
    about: dict[str, Any] = {"config": {"VARIANT": "lanes"}, "origin": "default", "spelling": "ms.linalg", "error": 0.1}
    if case.is_ragged:
        about["uniform"] = {"bytes": case.uniform.bytes, "seconds": [case.uniform.bytes / 4.1e12]}
    found = [rows.row(facts, rows.OURS, _times(rng, 3e-6 + least / share), **about)]
    for name, rate in PEERS.items() if case.peers else ():
        seconds = 9e-6 + least / (rate * (0.5 + case.M % 7 / 7))
        found.append(rows.row(facts, name, _times(rng, seconds), spelling="theirs", error=0.1))
    return found


def _times(rng: np.random.Generator, seconds: float) -> list[float]:
    return [float(value) for value in seconds * (1 + 0.01 * rng.random(3))]
