"""Results above 105 % of the roofline limit: flagged in rows, tables and notes, with what explains them.

A percentage of the copy bandwidth may be above 100 where most traffic is read. The limit takes that into account.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import units
from ..machine import roofline
from .table import Table

_MOST_LINES = 6  # on the terminal


def fields(work: roofline.Work, ceilings: Any, seconds: float) -> dict[str, Any]:
    """Fields of a row whose result is above the limit: the reason, and whether none explains it. Otherwise empty."""
    found = roofline.excess(work, ceilings, seconds)
    return {} if found is None else {"above_limit": found.reason, "doubtful": found.is_doubtful}


def percent(row: dict[str, Any]) -> str:
    """The share of the limit as a table shows it; `!` marks one that cannot be true."""
    return f"{row.get('percent_limit', 0):.1f}{' !' if row.get('doubtful') else ''}"


def among(rows: Iterable[dict[str, Any]]) -> str:
    """Suffix that counts doubtful rows, ` (2 doubtful)`; empty if there are none."""
    count = sum(bool(row.get("doubtful")) for row in rows)
    return f" ({count} doubtful)" if count else ""


def table(results: dict[str, Any], missed: set[int]) -> Table:
    """Every result above the limit, with its reason."""
    rows = _above(results)
    cells = [(row["case"], row["contender"], percent(row), row["above_limit"]) for row in rows]
    bad = frozenset(number for number, row in enumerate(rows) if row["doubtful"])
    return Table("Above 105 % of the limit", ("case", "contender", "% of limit", "why"), cells, bad)


def notes(results: dict[str, Any]) -> list[tuple[str, bool]]:
    """Sentences for the report; True marks a bad one."""
    doubtful = [row for row in _above(results) if row["doubtful"]]
    found = []
    if doubtful:
        text = "above 105 % of the limit, which is impossible: the machine was busy, measure again"
        found.append((f"{units.count(len(doubtful), 'result')} {text}; they are marked with !.", True))
    ceilings = results.get("ceilings") or {}
    noise = (ceilings.get("details") or {}).get("noise") or ()
    found += [(f"Ceilings were measured on a busy machine: {text}.", True) for text in noise]
    return found


def lines(results: dict[str, Any]) -> list[str]:
    """Lines for the terminal: the first doubtful results, then the sentences of `notes`."""
    rows = [row for row in _above(results) if row["doubtful"]]
    found = [f"{row['case']} ({row['contender']}): {percent(row)} % of the limit" for row in rows[:_MOST_LINES]]
    return [f"doubtful: {text}" for text in (*found, *(text for text, _ in notes(results)))]


def _above(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if row.get("above_limit")]
