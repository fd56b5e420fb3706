"""A row: one contender in one case. Everything but the raw seconds is computed from them here, and can be again."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..kernels.factor.two_sided import model
from ..machine import roofline
from ..machine.measure import Timing
from ..plan.problem import ITEMSIZE
from . import doubtful, greenup, labels, yardstick
from .factor.operations import FACTORS, SHORT, SPECTRAL, STACKED
from .operations import ORTHOGONAL, work_of
from .sparse.operations import expected

OURS = "Mansard"
Row = dict[str, Any]
COLUMNS = (
    "operation", "set", "dtype", "M", "N", "K", "layout", "same", "mode", "temperature", "contender", "spelling",
    "status", "median", "spread", "gbytes_per_second", "gflops", "percent_bandwidth", "yardstick", "percent_limit",
    "limit", "bound_seconds", "x_peer", "best_peer", "error", "condition", "passes", "departure", "mhz", "watts",
    "slowed_by", "above_limit", "family", "variant", "origin", "config", "note", "date", "seconds",
    *greenup.COLUMNS,
)  # fmt: skip
SPARSE_COLUMNS = ("form", "inner", "rows", "nnz", "stored", "columns", "execution", "storage", "predicted_speedup",
                  "predicted_seconds", "preparing", "groups", "launches", "footprint")  # fmt: skip
BATCHED_COLUMNS = ("inner", "accumulate", "form", "bound_gflops", "percent_uniform")


def row(case: dict[str, Any], contender: str, seconds: Sequence[float] = (), **more: Any) -> Row:
    """A row as it is stored while measuring: the case, who, and raw seconds; `status` says whether to believe it."""
    return {**case, "contender": contender, "seconds": list(seconds), "status": "ok", **more}


def operation_of(row: Row) -> str:
    return str(row.get("operation", "gram"))


def of_set(rows: Iterable[Row], name: str) -> list[Row]:
    """Our right rows of a set; factorizations have sets of the same names."""
    found = [row for row in rows if row["set"] == name and row["contender"] == OURS and row["status"] == "ok"]
    return [row for row in found if operation_of(row) not in FACTORS]


def kernel_of(row: Row) -> str:
    """The variant that ran, the family that `ms.matmul` asked, where the choice is from, and the age if it is not the
    present kernel's."""
    name = str((row.get("config") or {}).get("VARIANT") or row.get("route") or "vendor")
    if row.get("family", "vendor") != "vendor" and operation_of(row) == "matmul":
        name = f"{row['family']} {name}"
    age = f", {row['age']}" if row.get("age") in ("stale", "unknown") else ""
    return f"{name} ({row.get('origin', '')}){age}"


def complete(row: Row, ceilings: Any) -> Row:
    """The row with its statistics and its percentages of these ceilings, all from the raw seconds."""
    seconds = row["seconds"]
    if not seconds or row["mode"] == "host":
        return row | (
            {"median": statistics.median(seconds), "spread": Timing(tuple(seconds)).spread} if seconds else {}
        )
    timing = Timing(tuple(seconds))
    ceilings = _at_the_time(ceilings, row.get("beside") or {})
    work = work_of(row)
    bound = _spectral_bound(row, ceilings) or roofline.time_bound(work, ceilings)
    median = timing.median
    if operation_of(row) in ORTHOGONAL:  # how often the block could have been read or written in that time
        row = row | {"passes": median * ceilings.copy_bandwidth / (row["K"] * row["M"] * ITEMSIZE[row["dtype"]])}
    memory = yardstick.bandwidth(operation_of(row), work, ceilings)
    if operation_of(row) in STACKED:  # the bound of Masliah et al., n B / 16 for A B + C in float64
        row = row | {"bound_gflops": work.flops / work.bytes * memory / 1e9}
    if row.get("uniform"):  # speeds in bytes, of a ragged batch over that of equal matrices
        equal = row["uniform"]["bytes"] / statistics.median(row["uniform"]["seconds"])
        row = row | {"percent_uniform": 100 * work.bytes / median / equal}
    if operation_of(row) in FACTORS:  # what targets are in, whichever bandwidth is the yardstick
        row = row | {"percent_copy": 100 * work.bytes / median / ceilings.copy_bandwidth}
    return (
        row
        | expected(row, ceilings, median)
        | {
            "median": median,
            "spread": timing.spread,
            "gbytes_per_second": work.bytes / median / 1e9,
            "gflops": work.flops / median / 1e9,
            "percent_bandwidth": 100 * work.bytes / median / memory,
            "yardstick": yardstick.name(operation_of(row), work),
            "percent_limit": 100 * bound.seconds / median,
            "limit": bound.limit,
            "bound_seconds": bound.seconds,
            "read_bandwidth": ceilings.read_bandwidth,
            "intensity": work.flops / work.bytes,
        }
        | doubtful.fields(work, ceilings, median)
        | greenup.fields(row)
    )


def _spectral_bound(row: Row, ceilings: Any) -> roofline.Bound | None:
    """Limit of eigenvalues, singular values and reductions by phases; None for other operations."""
    if operation_of(row) not in SPECTRAL:
        return None
    name = operation_of(row)
    found = model.limit(SHORT.get(name, name), row["dtype"], row["M"], ceilings)
    parts = {"memory": row["K"] * found.memory, "arithmetic": row["K"] * found.arithmetic}
    return roofline.Bound(row["K"] * found.seconds, found.binds, parts)


def _at_the_time(ceilings: Any, beside: dict[str, float]) -> Any:
    """The ceilings of the run, but those that were sampled beside the case as they were then."""
    for name in ("read_bandwidth", "copy_bandwidth"):
        if name in beside:
            ceilings = replace(ceilings, **{name: beside[name]})
    if "fma" in beside:
        ceilings = replace(ceilings, fma=ceilings.fma | {"float64": beside["fma"]})
    return ceilings


def compare(rows: Iterable[Row]) -> list[Row]:
    """Rows with `x_peer`, the best right peer's median over this one's, `best_peer`, its name, `peer_marks`, what the
    comparison rests on, and `x_approximate`, the same of the best peer that is not accurate; where
    energy was measured, with its ratios (`greenup.compare`)."""
    rows = labels.corrected(rows)
    best: dict[str, Row] = {}
    approximate: dict[str, float] = {}
    for each in rows:
        if each["status"] == labels.APPROXIMATE and each.get("median"):
            approximate[each["case"]] = min(each["median"], approximate.get(each["case"], each["median"]))
        own = each["contender"] == OURS or each["contender"].startswith(f"{OURS} ")  # ours, by another way
        if not own and each["status"] == "ok" and each.get("median") and each["mode"] != "host":
            held = best.get(each["case"])
            if held is None or each["median"] < held["median"]:
                best[each["case"]] = each
    for each in rows:
        peer = best.get(each["case"])
        if peer and each["contender"] == OURS and each.get("median"):
            each["x_peer"], each["best_peer"] = peer["median"] / each["median"], peer["contender"]
            each["peer_marks"] = labels.marks(peer)
        if each["case"] in approximate and each["contender"] == OURS and each.get("median"):
            each["x_approximate"] = approximate[each["case"]] / each["median"]
    greenup.compare(rows, OURS)
    return rows
