"""Numbers of Dong's figures 5.5 and 5.6 from rows of `examples/hydrodynamics/scaling.py`: ranks on two cores."""

from __future__ import annotations

from typing import Any

from ..found import Number, lines, median

ROWS = "results/xeon-avx512-2-cores/hydro/scaling.jsonl"
_COLUMNS = ("ranks", "zones", "ms a step, median", "least to most", "of which waiting", "iterations of CG",
            "messages of a rank", "efficiency over one rank", "over ranks alone at the same time")  # fmt: skip


def _of(scaling: str) -> dict[int, dict[str, Any]]:
    """Rows of one kind by number of ranks; of several measurements the last one counts."""
    return {row["ranks"]: row for row in lines(ROWS) if row["scaling"] == scaling}


def _efficiency(found: dict[int, dict[str, Any]], ranks: int, is_weak: bool) -> float:
    share = 1 if is_weak else ranks
    return median(found[1]["seconds"]) / share / median(found[ranks]["seconds"])


def _alone(row: dict[str, Any]) -> float:
    """The time of ranks that run alone over that of ranks that send messages."""
    return median(row["alone"]) / median(row["seconds"])


def _number(scaling: str) -> Number:
    found, is_weak = _of(scaling), scaling == "weak"
    cells = tuple(
        (str(ranks), f"{row['zones']:,}", f"{1e3 * median(row['seconds']):.0f}",
         f"{1e3 * min(row['seconds']):.0f} to {1e3 * max(row['seconds']):.0f}", f"{1e3 * median(row['waiting']):.0f}",
         f"{row['cg_iterations']:.0f}", f"{row['messages']:.0f}", f"{_efficiency(found, ranks, is_weak):.0%}",
         f"{_alone(row):.0%}" if is_weak else "")
        for ranks, row in sorted(found.items())
    )  # fmt: skip
    values = {"two": _efficiency(found, 2, is_weak), "four": _efficiency(found, 4, is_weak),
              "messages": found[2]["messages"], "zones": found[1]["zones"], "load": found[2]["load"],
              "waiting": median(found[2]["waiting"]) / median(found[2]["seconds"]),
              "note": found[2]["note"]}  # fmt: skip
    values |= {"alone": _alone(found[2])} if is_weak else {}
    holds = found[1]["messages"] == 0 < found[2]["messages"]
    return Number(holds, values, _COLUMNS, cells)


def weak() -> Number:
    return _number("weak")


def strong() -> Number:
    return _number("strong")
