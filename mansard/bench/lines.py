"""Lines of a journal and rows of results, checked: files that were edited, cut or made up are refused with a reason."""

from __future__ import annotations

import re
from typing import Any

from ..plan.problem import DTYPES
from ..rules import Flag, Names, Range, Real, Rule, Text, shown
from ..untrusted import Damaged

KINDS = ("run", "ceilings", "row", "note", "finished", "probe")
_COUNT, _TEXT, _NUMBER = Range(0, 1 << 62), Text(1 << 16), Real(-1e300, 1e300)
_SECOND = Real(1e-12, 1e9)
_NEEDED: dict[str, Rule] = {
    "dtype": Names(*DTYPES),
    **{name: _COUNT for name in ("M", "N", "K")},
    **{name: Flag() for name in ("same", "deterministic", "peers")},
    **{name: _TEXT for name in ("set", "layout", "mode", "temperature", "case", "contender", "status")},
}
_KNOWN: dict[str, Rule] = {
    **{name: _COUNT for name in ("inner", "rows", "nnz", "launches", "groups", "mhz", "watts", "celsius")},
    **{name: _NUMBER for name in ("condition", "error", "footprint", "preparing", "departure", "residual", "median")},
    **{name: _TEXT for name in ("operation", "role", "form", "note", "spelling", "slowed_by", "execution", "origin")},
    **{name: _TEXT for name in ("reason", "stored", "columns", "family", "date", "route")},
    "accumulate": Flag(),
}
COMPILED = ("kernels", "seconds", "slowest")  # of a family's kernels in the cache
_HEADER = re.compile(r"(\w+/)*\w+\.(cuh|hpp|h)")
_TABLES = ("pins", "beside", "storage", "config", "uniform", "in_cache", "energy")


def line(values: Any) -> dict[str, Any]:
    """A line of a journal; raises `Damaged` if it is none."""
    if not isinstance(values, dict) or values.get("line") not in KINDS:
        raise Damaged("is no line of a journal")
    if reason := Range(1, 1 << 31).refusal(values.get("run")):
        raise Damaged(f"run={shown(values.get('run'))} {reason}")
    if values["line"] == "row":
        row(values)
    tables = {"run": ("environment", "options"), "ceilings": ("machine",)}.get(values["line"], ())
    for name in tables:
        if not isinstance(values.get(name), dict):
            raise Damaged(f"{name} is missing")
    if values["line"] == "note":
        _note(values)
    return values


def _note(values: dict[str, Any]) -> None:
    missing, unfinished = values.get("missing", {}), values.get("unfinished", [])
    if not isinstance(missing, dict) or not isinstance(unfinished, list):
        raise Damaged("missing and unfinished are no lists")
    _compiling(values.get("compiling", {}))


def _compiling(values: Any) -> None:
    """Check what a cache says of the kernels of families."""
    families = list(values.values()) if isinstance(values, dict) else [None]
    for one in families:
        if not isinstance(one, dict) or any(_NUMBER.refusal(one.get(name)) for name in COMPILED):
            raise Damaged(f"compiling={shown(values)} is no table of seconds")


def row(values: Any) -> dict[str, Any]:
    """A row: one contender in one case. Columns that are not known here may hold anything."""
    if not isinstance(values, dict):
        raise Damaged("a row is no object")
    for name, rule in (*_NEEDED.items(), *((name, rule) for name, rule in _KNOWN.items() if name in values)):
        value = values.get(name)
        reason = rule.refusal(value)
        if reason and not (value is None and name in _KNOWN):
            raise Damaged(f"{name}={shown(value)} {reason}" if name in values else f"{name} is missing")
    for name in _TABLES:
        if not isinstance(values.get(name) or {}, dict):
            raise Damaged(f"{name}={shown(values[name])} is no table")
    _kernels(values.get("kernels", []))
    seconds = values.get("seconds")
    if not isinstance(seconds, list) or any(_SECOND.refusal(second) for second in seconds):
        raise Damaged(f"seconds={shown(seconds)} are no times")
    return values


def _kernels(values: Any) -> None:
    """Check a row's list of kernels: hashes are texts, a header is a path inside the package."""
    if not isinstance(values, list):
        raise Damaged(f"kernels={shown(values)} is no list")
    for each in values:
        texts = [each.get(name) for name in ("kernel", "header", "headers")] if isinstance(each, dict) else [None]
        if not all(isinstance(text, str) for text in texts) or not isinstance(each.get("exact"), bool):
            raise Damaged(f"kernels={shown(each)} is no kernel")
        if not _HEADER.fullmatch(each["header"]):
            raise Damaged(f"header={shown(each['header'])} is no header of the package")


def results(values: Any) -> dict[str, Any]:
    """Check the document of `results.json`, and return it."""
    kinds = {"environment": dict, "options": dict, "missing": dict, "unfinished": list, "runs": list, "rows": list}
    if not isinstance(values, dict) or not all(isinstance(values.get(name), kind) for name, kind in kinds.items()):
        raise Damaged(f"is no document with {', '.join(kinds)}")
    if not isinstance(values.get("family"), str) or not isinstance(values.get("ceilings") or {}, dict):
        raise Damaged("has no family, or ceilings that are none")
    _compiling(values.get("compiling", {}))
    for each in values["rows"]:
        row(each)
    return values
