"""Cases and pictures that experiments of several papers with batched products share."""

from __future__ import annotations

from typing import Any

from mansard.bench.batched.routines import count
from mansard.bench.cases import Case, Size
from mansard.bench.rows import Row, operation_of


def pinned(name: str, size: Size, n: int, inner: int = 0, **pins: Any) -> Case:
    """A case of n x n products in float64 with a pinned kernel; without pins the library's choice, and its peers."""
    matrices = count(size, "float64", n * n + 2 * n * (inner or n))
    inner = 0 if inner == n else inner  # squares have one name in all sets
    options: dict[str, Any] = {"operation": "gemm", "inner": inner, "peers": not pins}
    return Case(name, "float64", n, n, matrices, pins=tuple(pins.items()), **options)


def is_experiment(row: Row, name: str) -> bool:
    """A right row of a set with pinned kernels."""
    return bool(row["set"] == name and operation_of(row) == "gemm" and row["status"] == "ok" and row.get("pins"))
