"""Which format suited a sparse matrix best, and which execution its powers: one JSON line per finding, the last counts.

A matrix is known again by its shape, its dtype and a sample of its pattern: what was found holds for all values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.geometry import Device
from .records import store_path

_SAMPLES = 4096
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
    path = store_path(device, "sparse")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(json.dumps({"matrix": signature(rows), "what": what, "values": values}) + "\n")


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
    found = {}
    for line in path.read_text(errors="replace").splitlines():
        try:
            read = json.loads(line)
            found[(read["matrix"], read["what"])] = dict(read["values"])
        except (ValueError, KeyError, TypeError):
            continue  # truncated, or written by another version
    return found
