"""Whether a row was measured with the kernels that are here now.

A row of ours carries `kernels`: for every kernel that its first call launched the hash of its text and headers
(`records.database.kernel_hash`, which tuning records carry too), the header it instantiates, and a digest of all code
behind that one. The report writes the kernel's text again from the row's problem and configuration and compares hashes.
Where several kernels ran (blocks, ragged batches, powers) no single configuration tells them, and headers are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from typing import Any

from ..backends import cpu, cuda, emulated
from ..codegen.instantiate import Source
from ..compile.key import code_digest
from ..kernels import family_of
from ..kernels.traits import problem_from_dict
from ..plan.problem import Problem
from ..records.database import text_hash
from .cases import Case
from .rows import OURS, Row, operation_of
from .table import Table

CURRENT, STALE, UNKNOWN, HANDED_OVER = "current", "stale", "unknown", "handed over"
_LAUNCHES: dict[str, Any] = {"cuda": cuda.CudaLaunch, "cpu": cpu.CpuLaunch, "emulated": emulated.EmulatedLaunch}
_HEADER = re.compile(r'#include "([^"]+)"')
_FIELDS = frozenset(field.name for field in fields(Case))


@contextmanager
def launched(backend_name: str) -> Iterator[dict[str, Source]]:
    """Collects the kernels that are launched inside, by their texts."""
    seen: dict[str, Source] = {}
    kind = _LAUNCHES.get(backend_name)
    if kind is None:
        yield seen
        return
    genuine = kind.__call__

    def watching(self: Any, *arguments: Any) -> None:
        source = (getattr(self, "kernel", None) or self._kernel).source
        seen[source.text] = source
        genuine(self, *arguments)

    kind.__call__ = watching
    try:
        yield seen
    finally:
        kind.__call__ = genuine


def stamp(row: Row, ran: dict[str, Source], backend_name: str) -> list[dict[str, Any]]:
    """List the kernels that ran for a row: hash, header, digest of its includes. `exact`: the row's problem and
    configuration generate the same text again."""
    hashes = [text_hash(text, backend_name) for text in ran]
    exact = len(hashes) == 1 and _present(row, backend_name) == hashes[0]
    headers = [_HEADER.findall(text) for text in ran]
    return [
        {"kernel": one, "header": names[0], "headers": _digest(names[0], backend_name), "exact": exact}
        for one, names in sorted(zip(hashes, headers, strict=True))
    ]


def age(row: Row, backend_name: str) -> str:
    """`current`, `stale`, `handed over` (no kernel of ours ran) or `unknown`; empty for peers and failures."""
    if row["contender"] != OURS or row["status"] != "ok" or row["mode"] == "host":
        return ""
    ran = row.get("kernels")
    if ran is None:
        return UNKNOWN
    if not ran:
        return HANDED_OVER
    if ran[0]["exact"]:
        return CURRENT if _present(row, backend_name) == ran[0]["kernel"] else STALE
    return CURRENT if all(_digest(each["header"], backend_name) == each["headers"] for each in ran) else STALE


def mark(results: dict[str, Any]) -> dict[str, Any]:
    """The results, each row with its age."""
    backend = str(results["environment"].get("backend", ""))
    for row in results["rows"]:
        row["age"] = age(row, backend)
    return results


def table(results: dict[str, Any], missed: set[int]) -> Table:
    """Count the rows of each operation by age: current, stale, unknown, handed over."""
    cells: dict[str, list[int]] = {}
    kinds = (CURRENT, STALE, UNKNOWN, HANDED_OVER)
    for row in results["rows"]:
        if row.get("age"):
            cells.setdefault(operation_of(row), [0] * len(kinds))[kinds.index(row["age"])] += 1
    lines = [(name, *map(str, counts)) for name, counts in sorted(cells.items())]
    columns = ("operation", "present kernels", "stale: kernels changed since", "unknown: no hash in the row",
               "handed over: no kernel of ours")  # fmt: skip
    return Table("Rows by age", columns, lines)


def _present(row: Row, backend_name: str) -> str | None:
    """The hash of the kernel that the row's problem and configuration give now; None where they give none."""
    config = row.get("config")
    if not config:
        return None
    try:
        problem = _problem(row)
        family = family_of(problem.operation)
        text = family.emit.source(problem, family.space.from_dict(config), backend_name).text
    except Exception:  # a parameter, a trait or a family that is gone: there is no such kernel any more
        return None
    return text_hash(text, backend_name)


def _problem(row: Row) -> Problem:
    if row.get("problem"):  # of a sparse matrix, which the case only names
        return problem_from_dict(row["problem"])
    values = {name: value for name, value in row.items() if name in _FIELDS}
    return Case(**values | {"pins": tuple(values["pins"].items())}).problem()


@lru_cache(maxsize=256)
def _digest(header: str, backend_name: str) -> str:
    """Digest of a header and everything that it includes; empty if the header is gone."""
    try:
        return code_digest(f'#include "{header}"', "" if backend_name == "emulated" else "emulated")[:16]
    except FileNotFoundError:
        return ""
