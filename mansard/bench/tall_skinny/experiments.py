"""What the rows of matmul's sets say: the model against its grid, the best of each choice, the grid of shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..factor.operations import FACTORS
from ..rows import OURS, Row, operation_of

SLOWER = 0.97  # `ms.matmul` may take 3 % longer than the vendor's own call


def of_set(rows: Iterable[Row], name: str) -> list[Row]:
    """Our right rows of a set; factorizations have sets of the same names."""
    found = [row for row in rows if row["set"] == name and row["contender"] == OURS and row["status"] == "ok"]
    return [row for row in found if operation_of(row) not in FACTORS]


@dataclass(frozen=True)
class Choice:
    """What a model chose for a problem, and the fastest of all that were measured for it."""

    chosen: Row
    best: Row
    tried: int

    @property
    def share(self) -> float:
        """The chosen one's speed over the best one's."""
        return float(self.best["median"] / self.chosen["median"])


def choices(rows: Iterable[Row]) -> list[Choice]:
    """Every problem of `tsm2model`. A choice that did not run has no share, and is a row that says why."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in of_set(rows, "tsm2model"):
        found.setdefault((row["dtype"], row["M"], row["N"], row["K"]), []).append(row)
    made = []
    for group in found.values():
        chosen = [row for row in group if row.get("role") == "model"]
        if chosen:
            made.append(Choice(chosen[-1], min(group, key=lambda row: float(row["median"])), len(group)))
    return made


def best_by(rows: Iterable[Row], name: str, of: Callable[[Row], Any]) -> dict[Any, dict[int, Row]]:
    """Of an experiment with pinned parameters: for each value of `of` and each width the fastest."""
    best: dict[Any, dict[int, Row]] = {}
    for row in of_set(rows, name):
        held = best.setdefault(of(row), {})
        if row["M"] not in held or row["median"] < held[row["M"]]["median"]:
            held[row["M"]] = row
    return best


def grid(rows: Iterable[Row]) -> list[Row]:
    """Our rows of the grid that met the vendor, slowest first."""
    found = [row for row in of_set(rows, "grid") if operation_of(row) == "matmul" and row.get("x_peer")]
    return sorted(found, key=lambda row: float(row["x_peer"]))


def step_of(row: Row) -> str:
    """Which of TSM2's steps a row of `steps` is."""
    return str(row["pins"].get("STEP", row["pins"]["VARIANT"]))


def parameters_of(row: Row) -> str:
    """t1, t2, t3 and split of a row."""
    return " ".join(f"{name.lower()}={row['pins'][name]}" for name in ("T1", "T2", "T3", "SPLIT"))
