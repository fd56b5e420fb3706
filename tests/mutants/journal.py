"""Outcomes as JSON lines, appended one by one, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import asdict
from pathlib import Path

from .patches import Mutant
from .trial import Outcome


class Journal:
    """A file of outcomes. Each stands for the files it came from: when one of them changes, it is out of date."""

    def __init__(self, path: Path, root: Path, fresh: bool = False) -> None:
        self._path, self._root = path, root
        self._lock = threading.Lock()
        self._known: dict[str, Outcome] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = Outcome(entry["verdict"], entry["by"], entry["seconds"])
            except (ValueError, KeyError, TypeError):
                continue  # cut off while it was written

    def key_of(self, mutant: Mutant) -> str:
        """Digest of the patch, the files it changes, and the files of its tests."""
        return self._digest(mutant.digest, *mutant.paths, *mutant.test_files)

    def key_without(self, mutant: Mutant) -> str:
        """Digest of the mutant's tests on the tree without the bug."""
        return self._digest("unchanged", mutant.order, *mutant.tests, *mutant.paths, *mutant.test_files)

    def known(self, key: str) -> Outcome | None:
        return self._known.get(key)

    def write(self, key: str, name: str, outcome: Outcome) -> None:
        with self._lock:
            self._known[key] = outcome
            with self._path.open("a") as file:
                file.write(json.dumps({"key": key, "name": name, **asdict(outcome)}) + "\n")

    def _digest(self, *words: str) -> str:
        digest = hashlib.sha256()
        for word in words:
            path = self._root / word
            digest.update(word.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
        return digest.hexdigest()[:16]
