"""TSM2's experiments: the model's choice beside the fastest of its grid, and the step that a row measures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mansard.bench.rows import Row, of_set
from mansard.bench.targets import Found, Others


@dataclass(frozen=True)
class Choice:
    """The model's choice for a problem beside the fastest of all configurations measured for it."""

    chosen: Row
    best: Row
    tried: int

    @property
    def share(self) -> float:
        """The chosen one's speed over the best one's."""
        return float(self.best["median"] / self.chosen["median"])


def choices(rows: Iterable[Row]) -> list[Choice]:
    """Every problem of `tsm2model` of which more than the choice itself was measured. A choice that did not run has no
    share, and is a row that says why."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in of_set(rows, "tsm2model"):
        found.setdefault((row["dtype"], row["M"], row["N"], row["K"]), []).append(row)
    made = []
    for group in found.values():
        chosen = [row for row in group if row.get("role") == "model"]
        if chosen and len(group) > len(chosen):
            made.append(Choice(chosen[-1], min(group, key=lambda row: float(row["median"])), len(group)))
    return made


def step_of(row: Row) -> str:
    """Which of TSM2's steps a row of `steps` is."""
    return str(row["pins"].get("STEP", row["pins"]["VARIANT"]))


def parameters_of(row: Row) -> str:
    """t1, t2, t3 and split of a row."""
    return " ".join(f"{name.lower()}={row['pins'][name]}" for name in ("T1", "T2", "T3", "SPLIT"))


def model_share(row: Row, others: Others, of: str) -> Found | None:
    """The speed of a model's choice over the fastest of its grid (a metric of targets)."""
    rows = (each for case in others.values() for each in case.values())
    each = next((each for each in choices(rows) if each.chosen is row), None)
    return Found(100 * each.share, f"{each.share:.1%} of the speed of {parameters_of(each.best)}") if each else None
