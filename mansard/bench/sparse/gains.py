"""Ratios between the rows of a sparse case: gain over our own products, the bound of equation 4.8, the best peer."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from ...machine import spmv
from ..rows import OURS, Row, operation_of
from .calls import OWN_SPMV, PLAIN
from .entries import is_ours
from .matrices import MATRICES
from .operations import SPARSE, extents

Found = dict[str, Row]  # the rows of a case by contender


def sparse(rows: Iterable[Row], operation: str | None = None, **wanted: Any) -> list[Row]:
    """Our right rows in the order of the matrices, by the library's own choice and out of cache unless something else
    is asked for."""
    wanted, order = {"mode": "device", **wanted}, list(MATRICES)
    found = [
        row
        for row in rows
        if operation_of(row) in ((operation,) if operation else SPARSE) and row["contender"] == OURS
        and row["status"] == "ok" and (bool(row.get("pins")) == bool(wanted.get("pinned")))
        and all(row.get(name) == value for name, value in wanted.items() if name != "pinned")
    ]  # fmt: skip
    order += sorted({row["form"] for row in found} - {*order})  # files
    return sorted(found, key=lambda row: (order.index(row["form"]), row["N"], row["inner"]))


def by_case(rows: Iterable[Row]) -> dict[str, Found]:
    """Rows with right results by case, then by contender."""
    found: dict[str, Found] = {}
    for row in rows:
        if operation_of(row) in SPARSE and row["status"] == "ok" and row.get("median"):
            found.setdefault(row["case"], {})[row["contender"]] = row
    return found


def libraries(rows: Iterable[Row]) -> list[str]:
    """Names of the peers that occur in the rows."""
    return sorted({row["contender"] for row in rows if operation_of(row) in SPARSE and not is_ours(row["contender"])})


def own_products(found: Found) -> float | None:
    """Seconds of as many products of ours as there are powers, by the fastest way."""
    times = [found[name]["median"] for name in (PLAIN, OWN_SPMV) if name in found]
    return min(times) if times else None


def gain(found: Found, name: str = OURS) -> float | None:
    """Speedup of a row of powers over our own products."""
    own = own_products(found)
    return own / found[name]["median"] if own and name in found else None


def allowed(found: Found) -> float | None:
    """Equation 4.8 from products out of and in the cache, both measured here."""
    row, own = found.get(OURS, {}), own_products(found)
    if not own or not row.get("in_cache"):
        return None
    _, nnz, p = extents(row)
    inside = row["in_cache"]["entries"] / statistics.median(row["in_cache"]["seconds"])
    return spmv.powers_speedup(p, max(1.0, inside / (nnz * p / own)))


def preparing(found: Found) -> tuple[float, float] | None:
    """Seconds of levels, permutation and conversion, and how many products of ours take as long."""
    row, own = found.get(OURS, {}), own_products(found)
    if not own or row.get("preparing") is None:
        return None
    return row["preparing"], row["preparing"] * row["inner"] / own
