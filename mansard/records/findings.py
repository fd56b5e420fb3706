"""Which format suited a sparse matrix best, and which execution its powers: one JSON line per finding, the last counts.

A matrix is known again by its shape, its dtype and a sample of its pattern: what was found holds for all values. As of
other records, a line whose names or values are not declared is skipped, and one warning says so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import private, untrusted
from ..codegen.geometry import Device
from ..kernels.common.fields import rules
from ..kernels.sparse import powers
from ..rules import Names, Range, Real, Rule, shown
from ..untrusted import Damaged
from .trials import store_path

_SAMPLES = 4096
_FORMAT: dict[str, Rule] = {
    "format": Names("sell", "ell", "csr"),
    "C": Range(1, 32),
    "sigma": Range(1, 1 << 62),
    "threads": Range(1, 32),
    "index": Names("int32", "int64", "delta16"),
}
_POWERS: dict[str, Rule] = {
    **rules(powers.space.Persistent),
    "execution": Names("plain", "groups", "persistent"),
    "budget": Real(1, 1e15),  # bytes of cache for a level group
}
_IGNORED: ContextVar[bool] = ContextVar("mansard_records_ignored", default=False)


def signature(rows: Any) -> str:
    """Of a CSR matrix (`sparse.storage.Csr`), wherever it lives."""
    digest = hashlib.sha256(f"{tuple(rows.shape)} {rows.nnz} {rows.data.dtype}".encode())
    for part in (rows.indptr, rows.indices):
        some = part[:: max(1, len(part) // _SAMPLES)]
        some = some.get() if hasattr(some, "get") else some
        digest.update(np.ascontiguousarray(some, np.int64).tobytes())
    return digest.hexdigest()[:24]


def remember(device: Device, rows: Any, what: str, values: dict[str, Any]) -> None:
    """Note a finding; `what` is "format", or "powers 5"."""
    line = json.dumps({"matrix": signature(rows), "what": what, "values": values})
    private.append_line(store_path(device, "sparse"), line)


@contextmanager
def ignored() -> Iterator[None]:
    """Inside, nothing is recalled: static rules decide."""
    token = _IGNORED.set(True)
    try:
        yield
    finally:
        _IGNORED.reset(token)


def recall(device: Device, rows: Any, what: str) -> dict[str, Any] | None:
    """What was found for this matrix on this device, None if it was never tuned."""
    if _IGNORED.get():
        return None
    path = store_path(device, "sparse")
    try:
        stat = path.stat()
    except OSError:
        return None
    return _load(path, stat.st_mtime_ns, stat.st_size).get((signature(rows), what))


@lru_cache(maxsize=8)
def _load(path: Path, mtime_ns: int, size: int) -> dict[tuple[str, str], dict[str, Any]]:
    findings = untrusted.each_line(path, lambda line: _finding(untrusted.parse(line)))
    return {(matrix, what): values for matrix, what, values in findings}


def _finding(line: Any) -> tuple[str, str, dict[str, Any]]:
    """Matrix, kind and values of a finding; raises `Damaged` if a line states none."""
    if not isinstance(line, dict) or not all(isinstance(line.get(name), str) for name in ("matrix", "what")):
        raise Damaged("is no finding")
    matrix, what, values = line["matrix"], line["what"], line.get("values")
    if not re.fullmatch(r"[0-9a-f]{24}", matrix) or not re.fullmatch(r"format|powers [0-9]{1,6}", what):
        raise Damaged(f"is about {shown(what)} of {shown(matrix)}, which is unknown")
    declared = _FORMAT if what == "format" else _POWERS
    if not isinstance(values, dict):
        raise Damaged(f"values={shown(values)} are no parameters")
    for name, value in values.items():
        reason = declared[name].refusal(value) if name in declared else "is unknown"
        if reason:
            raise Damaged(f"{shown(name)}={shown(value)} {reason}")
    return matrix, what, values
