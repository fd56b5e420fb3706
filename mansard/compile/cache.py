"""Compiled kernels on disk, shared by all processes of a user.

An entry is a folder: source, log, key and binary, and a manifest with the binary's checksum. It is built in a
temporary folder beside its final place and published by one rename, under a lock of its own, so that eight
processes starting cold compile each kernel once and a reader never sees half an entry. An entry whose checksum
fails is thrown away and built again. Where nothing can be written, a folder of this process alone serves.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .. import forks, settings
from ..errors import MansardWarning
from .key import Key

Builder = Callable[[Path], "Built"]


@dataclass(frozen=True)
class Built:
    """What a compiler made: the binary's name inside the folder it was given, and its log."""

    binary: str
    log: str


@dataclass(frozen=True)
class Entry:
    """A published binary."""

    folder: Path
    binary: Path
    log: str


class Cache:
    """Entries below `root`, each made at most once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, key: Key) -> Entry | None:
        """The entry for `key` if it is there and whole."""
        return self._read(self._folder(key))

    def get_or_build(self, key: Key, source_name: str, build: Builder) -> Entry:
        """The entry for `key`, built by `build(folder)` if it is missing or damaged."""
        folder = self._folder(key)
        entry = self._read(folder)
        if entry:
            return entry
        with self._lock(key.digest):
            return self._read(folder) or self._build(folder, key, source_name, build)

    def _folder(self, key: Key) -> Path:
        return self.root / "kernels" / key.digest[:2] / key.digest

    def _read(self, folder: Path) -> Entry | None:
        try:
            manifest = json.loads((folder / "manifest.json").read_text())
            binary = folder / manifest["binary"]
            if hashlib.sha256(binary.read_bytes()).hexdigest() != manifest["sha256"]:
                return None
            return Entry(folder, binary, (folder / "build.log").read_text())
        except (OSError, ValueError, KeyError):
            return None

    def _build(self, folder: Path, key: Key, source_name: str, build: Builder) -> Entry:
        draft = self.root / "tmp" / uuid.uuid4().hex
        draft.mkdir(parents=True)
        try:
            (draft / source_name).write_text(key.text)
            built = build(draft)
            (draft / "build.log").write_text(built.log)
            (draft / "key.json").write_text(key.to_json())
            checksum = hashlib.sha256((draft / built.binary).read_bytes()).hexdigest()
            (draft / "manifest.json").write_text(json.dumps({"binary": built.binary, "sha256": checksum}))
            return self._publish(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _publish(self, draft: Path, folder: Path) -> Entry:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():  # damaged: moved aside, since a folder cannot be renamed over another
            shutil.move(folder, draft.with_suffix(".damaged"))
            shutil.rmtree(draft.with_suffix(".damaged"), ignore_errors=True)
        try:
            os.rename(draft, folder)
        except OSError:  # another process won without seeing our lock (some network file systems)
            entry = self._read(folder)
            if entry:
                return entry
            own = Path(tempfile.mkdtemp(prefix="mansard-")) / folder.name
            shutil.copytree(draft, own)
            folder = own
        entry = self._read(folder)
        assert entry is not None, f"{folder} was just written"
        return entry

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        locks = self.root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with forks.private_file(lambda: open(locks / name, "wb", buffering=0)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield  # closing the file releases the lock, also when the process dies


@lru_cache(maxsize=4)
def open_cache(root: Path) -> Cache:
    """The cache at `root`, or a temporary one (with one warning) where `root` cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
        return Cache(root)
    except OSError as error:
        temporary = tempfile.mkdtemp(prefix="mansard-cache-")
        warnings.warn(
            f"the cache folder {root} cannot be written ({error.strerror}); kernels are compiled again in every "
            "process. Set MANSARD_CACHE_DIR to a writable folder.",
            MansardWarning,
            stacklevel=2,
        )
        return Cache(Path(temporary))


def default_cache() -> Cache:
    return open_cache(settings.current().cache_dir)
