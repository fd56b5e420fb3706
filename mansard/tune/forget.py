"""Forgetting tuning records: all of them, or those of one operation."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .. import private
from ..records.trials import ENERGY

# findings about single matrices lie beside the trials
_BESIDE = {"spmv": "sparse", "powers": "sparse"}


def forget(families: tuple[str, ...] = (), want: str = "", backend: str | None = None) -> int:
    """Remove records of all families, or of these, on all devices, or on those of one backend; returns how many.

    `want` restricts it to problems that ask for this of a factorization.
    """
    names = {name for family in families for name in (family, _BESIDE.get(family, family))}
    count = 0
    for path in sorted((private.cache_root() / "tuning").glob(f"{backend or '*'}-*/*.jsonl")):
        if not names or path.stem.removesuffix(f".{ENERGY}") in names:
            count += _remove(path, want)
    return count


def _remove(path: Path, want: str) -> int:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    kept = [line for line in lines if want and _want_of(line) != want]
    if not kept:
        path.unlink()
    elif len(kept) < len(lines):
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text("".join(line + "\n" for line in kept))
        os.replace(draft, path)
    return len(lines) - len(kept)


def _want_of(line: str) -> str | None:
    """The trait of a record's problem; None where the line cannot be read."""
    try:
        found = json.loads(line)["problem"]["traits"]["want"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None
