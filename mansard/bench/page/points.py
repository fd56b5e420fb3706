"""Rows of all families as points of one kind: what the page draws and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import freshness, overview, summary
from ..rows import OURS, Row, operation_of

Point = dict[str, Any]


def points(documents: Mapping[str, dict[str, Any]]) -> list[Point]:
    """Points of every right row that was timed on the device, of ours and of peers, in the order of the results."""
    return [
        _point(row) for results in documents.values() for row in freshness.mark(results)["rows"] if _is_drawn(row)
    ]


def ours(all_points: Iterable[Point]) -> list[Point]:
    """Points of our own choice: no pinned experiments, no other ways of ours."""
    return [point for point in all_points if point["who"] == OURS and not point["pinned"]]


def _is_drawn(row: Row) -> bool:
    return bool(row["status"] == "ok" and row.get("median") and row["mode"] != "host")


def _point(row: Row) -> Point:
    """The fields of a row that are drawn, rounded: thousands of rows have to fit into one page."""
    predicted = row.get("predicted_seconds")
    return {
        "op": _operation(row), "dtype": row["dtype"], "size": summary.sizes(row), "x": row["M"], "k": row["K"],
        "set": row["set"], "case": row["case"], "who": row["contender"], "pinned": bool(row.get("pins")),
        "us": _rounded(row["median"] * 1e6), "spread": _rounded(100 * row.get("spread", 0.0)),
        "limit": _rounded(row.get("percent_limit")), "intensity": _rounded(row.get("intensity")),
        "gflops": _rounded(row.get("gflops")), "peer": _rounded(row.get("x_peer")), "best": row.get("best_peer", ""),
        "age": row.get("age", ""), "kernel": _kernel(row), "doubtful": bool(row.get("doubtful")),
        "predicted": _rounded(predicted and predicted * 1e6), "joules": _rounded(row.get("joules")),
    }  # fmt: skip


def _operation(row: Row) -> str:
    """The name users call, and what makes its cases comparable with each other: one operand, beta, the layout."""
    words = [overview.name_of(operation_of(row))]
    words += ["one operand"] if row["same"] else []
    words += ["beta = 1"] if row.get("accumulate") else []
    words += ["column-major"] if row["layout"] == "column" else []
    words += ["in cache"] if row["temperature"] != "cold" else []
    return ", ".join(words)


def _kernel(row: Row) -> str:
    config = row.get("config") or {}
    variant = str(config.get("VARIANT") or row.get("execution") or row.get("route") or "")
    if row.get("pins"):
        return " ".join(f"{name}={value}" for name, value in config.items())
    return f"{variant} ({row['origin']})".strip() if row.get("origin") else variant


def _rounded(value: float | None) -> float | None:
    """Four significant digits."""
    return None if value is None else float(f"{value:.4g}")
