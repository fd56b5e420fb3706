"""Made-up results of an H200 for the tests of tables, pictures and reports: every set, plausible times, no GPU."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mansard.bench import rows, store
from mansard.bench.batched.operations import BATCHED
from mansard.bench.cases import SETS, Case, Size, select
from mansard.bench.operations import work_of
from mansard.bench.overhead import CHEAPEST
from mansard.bench.runner import sets_of
from mansard.kernels import family_of
from mansard.machine.machine import Machine
from mansard.machine.roofline import time_bound
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import ITEMSIZE
from mansard.plan.tall_skinny_rules import family_for
from papers import EXTENSION

H200 = Machine(
    "NVIDIA H200",
    "measured 2026-11-15",
    4.5e12,
    4.3e12,
    4.0e12,
    {"float32": 60e12, "float64": 31.9e12},
    {"float64": 66e12},
)
SIZE = Size("cuda", dict.fromkeys(ITEMSIZE, 1 << 28), 60 << 20)
ENVIRONMENT = {
    "device": "NVIDIA H200", "backend": "cuda", "arch": "sm_90a", "date": "2026-11-15 12:00:00 +0000",
    "version": "0.1.0", "commit": "0123456789abcdef", "dirty": False, "python": "3.12.1", "system": "Linux",
    "command": "mansard bench",
    "packages": {"numpy": "2.4"}, "driver": "580.1", "sources": "abc", "operands": 1 << 28,
}  # fmt: skip
EVERY = (*SETS, *EXTENSION.sets["gram"])
_PEERS = {"CuPy (cuBLAS)": 0.55, "PyTorch (cuBLAS)": 0.6}
_STREAMS = {"cuBLAS, one by one in streams": 0.3}


def journal(folder: Path, sets: tuple[str, ...] = EVERY, family: str = "gram") -> store.Journal:
    """A finished journal with made-up rows of these sets."""
    rng = np.random.default_rng(1)
    made = store.Journal(folder, ENVIRONMENT, {"sets": list(sets), "family": family})
    made.write("ceilings", machine=asdict(H200))
    for case in select(sets, SIZE, sets_of(family, EXTENSION))[0]:
        made.rows(_host(case, rng) if case.mode == "host" else _contest(case, rng))
    made.write("note", missing={"PyTorch": "PyTorch is not installed: pip install torch"}, unfinished=[])
    made.write("finished")
    return made


def written(folders: Any, *which: Any) -> tuple[Path, dict[str, Any]]:
    """A new folder with such results, of what `journal` is told, and its document."""
    folder = folders.mktemp("made")
    journal(folder, *which)
    return folder, store.write_results(folder)


def _facts(case: Case) -> dict[str, Any]:
    return {**case.to_dict(), "case": case.key, "date": "2026-11-15 12:00:00"}


def _times(rng: np.random.Generator, seconds: float) -> list[float]:
    return [float(value) for value in seconds * (1 + 0.01 * rng.random(7))]


def _host(case: Case, rng: np.random.Generator) -> list[rows.Row]:
    calls = {
        CHEAPEST: 1.9,
        "plan(A, B), CuPy": 5.4,
        "ms.gram(A, B), CuPy": 9.8,
        "A.T @ B, CuPy": 21.0,
        "plan(A, B), PyTorch": 7.2,
        "ms.gram(A, B), PyTorch": 15.0,
    }
    return [rows.row(_facts(case), name, _times(rng, 1e-6 * value)) for name, value in calls.items()]


def _found(case: Case) -> dict[str, Any]:
    if case.operation == "cholesky_qr":
        return {"departure": 3e-15, "residual": 1e-15}
    if case.operation == "ragged":
        return {"uniform": {"bytes": case.uniform.bytes, "seconds": [case.uniform.bytes / 4.1e12]}}
    return {"family": family_for(case.dtype, case.M, case.K, case.N) or "vendor"} if case.operation == "matmul" else {}


def _tiled_share(pins: dict[str, Any]) -> float:
    """How fast the tiled kernel of gram might be."""
    tile = pins["TILE_M"] * pins["TILE_N"]
    if "TRANSPOSED" not in pins:
        return 0.9
    flags = (1 if pins.get("LEAPFROG", True) else 0.8) * (1 if pins["TRANSPOSED"] else 0.9)
    return float(min(0.97, 0.15 + tile / 80) * flags)


def _pinned_share(pins: dict[str, Any]) -> float:
    """The same for the kernels of matmul."""
    if "STEP" in pins:
        step = {"inner": 0.2, "outer": 0.35, "shared": 0.5, "prefetch": 0.75}[pins["STEP"]]
        return float(step * (0.8 + 0.2 * min(pins["T3"], 8) / 8) * (1 if pins["T1"] == 128 else 0.95))
    place = {"registers": 0.8, "shared": 0.9, "cache": 0.7}.get(pins.get("SOURCE", ""), 0.95)
    return float(place * min(1, 0.7 + 0.1 * pins.get("UNROLL", 3)) * min(1, 0.5 + pins.get("PER_ROW", 8) / 8))


def _batch_config(case: Case) -> dict[str, Any]:
    """The kernel that an H200 would be given."""
    if case.operation in ("gemv", "trsv", "trsm"):
        return {"VARIANT": "lanes"}
    if not case.problems():
        return dict(case.pins)
    gemm, device = family_of("gemm"), NOMINAL["sm_90a"]
    config = gemm.defaults.default(case.problem(), device, dict(case.pins).get("VARIANT"))
    return gemm.space.to_dict(config) | dict(case.pins)  # type: ignore[no-any-return]


def _batch_share(pins: dict[str, Any], size: int) -> float:
    """How fast pinned kernels of batches might be."""
    if pins["VARIANT"] == "readonly":
        return float(min(0.6, 0.1 + pins["PER_BLOCK"] * size / 64))
    if pins["VARIANT"] == "lanes":
        return float(0.9 / max(1, pins["LANES_M"] * pins["LANES_N"] / size**2 * 2))
    return float(0.5 + pins["BLK_M"] / 256 - 0.1 * (size % pins["BLK_M"] > 0))


def _contest(case: Case, rng: np.random.Generator) -> list[rows.Row]:
    least = time_bound(work_of(case.to_dict()), H200).seconds
    pins = dict(case.pins)
    fixed, share = 1.5e-6, 0.98 - 0.06 * rng.random()
    if case.mode != "device":
        fixed = 5e-6 if case.mode == "graph" else 9e-6
    if "TILE_M" in pins:
        if pins["TILE_M"] * pins["TILE_N"] > 140:
            return [rows.row(_facts(case), rows.OURS, status="illegal", note="about 300 registers per thread, 255 fit")]
        share = _tiled_share(pins)
        fixed += {"ticket": 1e-6, "sliced": 2e-6, "block": 3e-6, "atomic": 9e-6}.get(pins.get("REDUCE", ""), 0)
    elif pins and case.operation in BATCHED:
        share = _batch_share(pins, case.M) * (0.97 + 0.03 * rng.random())
    elif pins:
        share = _pinned_share(pins) * (0.97 + 0.03 * rng.random())
    config = {"VARIANT": pins.get("VARIANT", "ring"), "TILE_M": 4}
    if case.operation in BATCHED:
        config = _batch_config(case)
    found = [
        rows.row(
            _facts(case),
            rows.OURS,
            _times(rng, fixed + least / share),
            error=0.01,
            config=config,
            origin="tuned",
            spelling="plan(A, B)",
            **_found(case),
        )
    ]
    peers = _PEERS | (_STREAMS if case.set == "streamed" else {})
    for name, rate in peers.items() if case.peers else ():
        if case.operation == "matmul" and "CuPy" not in name:
            continue
        if case.mode == "graph" and "CuPy" in name:
            found.append(
                rows.row(
                    _facts(case), name, status="missing", note="CuPy refuses cuBLAS calls while a stream is captured"
                )
            )
            continue
        slow = least / (rate * (0.3 + 0.7 * min(case.M, case.N) / 64 + 0.1 * (case.M % 8 == 0)))
        found.append(rows.row(_facts(case), name, _times(rng, 2 * fixed + slow), error=0.02, spelling="A.T @ B"))
    return found
