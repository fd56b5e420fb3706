"""Targets: numbers that rows are to reach, read from a TOML file. Mansard ships none.

    [[target]]
    backend = "cuda"                        # of the run
    operation = "gram"                      # or a list
    where = { dtype = "float64", M = [1, 63], square = true }
    metric = "percent_bandwidth"            # a column of a row, or one of METRICS
    least = 95                              # or `most`

A condition is a value, a list of texts of which one must match, or a range of numbers, both ends included; "!text" is
any other text. Of several targets of a metric that a row misses the first is shown. Besides the
columns of a row there are `width` (the larger of M and N), `largest` (of M, N and the inner size), `square`, `pinned`
and `call` (of rows in mode `host`). Rows are ours and right; pinned ones count only where a condition says so.

`least` and `most` may be lists of [up to this size, value] along `by` (default: "M"); zero asks for nothing.
`slack` multiplies the threshold but is not shown. `together` asks it only of the best of all rows that match, once
there is a row for every text in the conditions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .. import untrusted
from ..untrusted import Damaged
from .overhead import CHEAPEST
from .rows import OURS, Row, operation_of

_MOST_BYTES = 1 << 18
_OF = {"percent_limit": "the limit", "percent_copy": "the copy bandwidth", "percent_uniform": "the uniform batch"}


class Found(NamedTuple):
    """The measured value of a target's metric, and its text in reports."""

    value: float
    text: str


Others = Mapping[str, Mapping[str, Row]]  # case -> contender -> row
Metric = Callable[[Row, Others, str], Found | None]


@dataclass(frozen=True)
class Target:
    """A number that rows of some operations should reach: a metric, the rows it applies to, and its least value."""

    backend: str
    operation: tuple[str, ...]
    metric: str
    where: Mapping[str, Any] = field(default_factory=dict)
    least: Any = None
    most: Any = None
    by: str = "M"
    slack: float = 1.0
    of: str = ""  # what a percentage is of, or the library of a multiple
    unit: str = ""  # behind the threshold, where it is shown
    together: bool = False

    def wanted(self, row: Row) -> float | None:
        """The threshold for a row; None where nothing is asked for."""
        limit = self.least if self.least is not None else self.most
        if isinstance(limit, list):
            size = facts(row)[self.by]
            limit = next((value for up_to, value in limit if size <= up_to), 0)
        return float(limit) or None

    def is_missed(self, value: float, wanted: float) -> bool:
        return value < self.slack * wanted if self.least is not None else value > self.slack * wanted


def read(path: Path) -> tuple[Target, ...]:
    """The targets of a file; raises `Damaged` if it holds something else."""
    try:
        values = tomllib.loads(untrusted.read_bytes(path, _MOST_BYTES).decode())["target"]
        made = [Target(**{**each, "operation": _texts(each["operation"])}) for each in values]
    except (KeyError, TypeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Damaged(f"{path} holds no targets ({error})") from None
    for target in made:
        if (target.least is None) == (target.most is None):
            raise Damaged(f"{path}: a target of {', '.join(target.operation)} has neither or both of least and most")
    return tuple(made)


def _texts(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def facts(row: Row) -> dict[str, Any]:
    """A row's columns, and what conditions may speak of besides."""
    inner = row.get("inner") or 0
    shape = {"width": max(row["M"], row["N"]), "largest": max(row["M"], row["N"], inner)}
    square = row["M"] == row["N"] == (inner or row["M"])
    call = row["contender"].partition("(")[0]
    plain = {"form": "", "role": "", "accumulate": False, "operation": "gram"}
    return {**plain, **row, **shape, "square": square, "pinned": bool(row.get("pins")), "call": call}


def misses(
    results: dict[str, Any], targets: Sequence[Target] = (), metrics: Mapping[str, Metric] | None = None
) -> list[tuple[Row, str]]:
    """Our rows that are wrong, failed or miss a target, each with what was found and what was asked for. A row's
    `wanted` afterwards has the thresholds it was compared with, by metric."""
    backend = results["environment"].get("backend")
    asked = [target for target in targets if target.backend == backend]
    others: dict[str, dict[str, Row]] = {}
    for row in results["rows"]:
        others.setdefault(row["case"], {})[row["contender"]] = row
    known = METRICS | dict(metrics or {})
    found = [(row, text) for row in results["rows"] for text in _failure(row)]
    for row in results["rows"]:
        texts: dict[tuple[str, str], str] = {}
        for target in (target for target in asked if not target.together and _matches(target, row)):
            for text in _judged(target, row, others, known):
                texts.setdefault((target.metric, target.of), text)
        found += [(row, text) for text in texts.values()]
    for target in (target for target in asked if target.together):
        found += _best(target, [row for row in results["rows"] if _matches(target, row)], others, known)
    return found


def _failure(row: Row) -> Iterable[str]:
    if row["contender"] == OURS and row["status"] in ("wrong", "failed"):
        yield f"{row['status']}: {row.get('note') or 'error ' + format(row.get('error', 0), '.3g')}"
    if row["status"] == "illegal" and row.get("role") == "model":
        yield f"the model's choice is illegal: {row.get('note', '')}"


def _matches(target: Target, row: Row) -> bool:
    if operation_of(row) not in target.operation or row["status"] != "ok" or not row.get("median"):
        return False
    own = row["mode"] == "host" if "call" in target.where else row["contender"] == OURS
    known = facts(row)
    conditions = {"pinned": False, **target.where}
    return own and all(_holds(known.get(name), condition) for name, condition in conditions.items())


def _holds(value: Any, condition: Any) -> bool:
    if isinstance(condition, list) and condition and not isinstance(condition[0], str):
        return isinstance(value, int | float) and condition[0] <= value <= condition[1]
    if isinstance(condition, str) and condition.startswith("!"):
        return bool(value != condition[1:])
    return value in condition if isinstance(condition, list) else bool(value == condition)


def _judged(target: Target, row: Row, others: Others, metrics: Mapping[str, Metric]) -> Iterable[str]:
    wanted = target.wanted(row)
    found = _measured(target, row, others, metrics) if wanted else None
    if wanted and target.slack == 1.0:
        row.setdefault("wanted", {}).setdefault(target.metric, wanted)
    if wanted and found and target.is_missed(found.value, wanted):
        yield f"{found.text}, target {wanted:.4g}{target.unit}"


def _measured(target: Target, row: Row, others: Others, metrics: Mapping[str, Metric]) -> Found | None:
    if target.metric in metrics:
        return metrics[target.metric](row, others, target.of)
    value = row.get(target.metric)
    if value is None:
        return None
    if target.metric == "x_peer":
        return Found(value, f"{value:.2f} x {row['best_peer']}")
    if target.metric.startswith("percent"):
        return Found(value, f"{value:.1f} % of {target.of or _OF.get(target.metric, 'the bandwidth')}")
    return Found(value, f"{value:.2f} {target.metric}")


def _best(
    target: Target, rows: list[Row], others: Others, metrics: Mapping[str, Metric]
) -> list[tuple[Row, str]]:  # fmt: skip
    """The best row, if even that misses the target and every alternative of the conditions was measured."""
    named = {
        name: value for name, value in target.where.items() if isinstance(value, list) and isinstance(value[0], str)
    }
    if any({facts(row).get(name) for row in rows} != set(value) for name, value in named.items()):
        return []
    measured = [(found, row) for row in rows if (found := _measured(target, row, others, metrics))]
    if not measured:
        return []
    found, row = max(measured, key=lambda each: each[0].value)
    wanted = target.wanted(row)
    if not wanted or not target.is_missed(found.value, wanted):
        return []
    whose = " and ".join(text for value in named.values() for text in value)
    return [(row, f"{found.text}, the best of {whose}, target {wanted:.4g}{target.unit}")]


def _microseconds(row: Row, others: Others, of: str) -> Found | None:
    return Found(row["median"] * 1e6, f"{row['median'] * 1e6:.1f} us")


def _times(row: Row, others: Others, of: str) -> Found | None:
    """The time of a library's fastest contender over ours."""
    faced = [
        (peer["median"], name)
        for name, peer in others[row["case"]].items()
        if name.startswith(of) and peer["status"] == "ok" and peer.get("median")
    ]
    if not faced:
        return None
    median, name = min(faced)
    return Found(median / row["median"], f"{median / row['median']:.2f} x {name}")


def _above_cheapest(row: Row, others: Others, of: str) -> Found | None:
    """Microseconds that a call costs its caller beyond the cheapest launch."""
    cheapest = others[row["case"]].get(CHEAPEST, {}).get("median")
    if cheapest is None:
        return None
    over = (row["median"] - cheapest) * 1e6
    return Found(over, f"{row['contender']}: {over:.1f} us above the cheapest launch")


METRICS: dict[str, Metric] = {"microseconds": _microseconds, "times": _times, "above_cheapest": _above_cheapest}
