"""Compiled kernels on disk, shared by all processes of a user.

An entry is a folder: source, log, key and binary, and a manifest with the binary's checksum. It is built in a
temporary folder beside its final place and published by one rename, under a lock of its own, so that eight
processes starting cold compile each kernel once and a reader never sees half an entry.

A binary is loaded into this process, so that an entry is used only if it is what was published: files of this user
inside the entry, no links, and the checksum that the manifest states. Any other entry is damaged: one line says so, and
it is built again. Where nothing can be written, or others could have written (`private.py`), a folder of this process
alone serves.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .. import forks, notices, private, untrusted
from ..errors import MansardWarning
from ..untrusted import Damaged
from .key import Key

Builder = Callable[[Path], "Built"]
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")  # of a file inside an entry: no folder, nothing hidden
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_MOST_MANIFEST, _MOST_LOG, _MOST_BINARY = 1 << 16, 16 << 20, 256 << 20  # bytes


@dataclass(frozen=True)
class Built:
    """Output of a compiler: the binary's name inside the folder it was given, and its log."""

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

    def each_key(self) -> Iterator[Key]:
        """The keys of all entries, those that cannot be read left out; whether entries are whole is not asked."""
        for path in self.root.glob("kernels/*/*/key.json"):
            with contextlib.suppress(OSError, Damaged, TypeError):
                values = untrusted.parse(untrusted.read_bytes(path, _MOST_MANIFEST, follow=False))
                yield Key(**{**values, "flags": tuple(values["flags"])})

    def compiled(self) -> Iterator[tuple[str, float]]:
        """Name and compile time (seconds) of every entry; entries without them are left out."""
        for path in self.root.glob("kernels/*/*/manifest.json"):
            with contextlib.suppress(OSError, Damaged):
                facts = untrusted.parse(untrusted.read_bytes(path, _MOST_MANIFEST, follow=False))
                what, seconds = (facts.get(name) if isinstance(facts, dict) else None for name in ("what", "seconds"))
                if isinstance(what, str) and what.isprintable() and isinstance(seconds, int | float) and seconds >= 0:
                    yield what, float(seconds)

    def seconds_by_family(self) -> dict[str, dict[str, float]]:
        """Kernels by family, the slowest first: how many, and the seconds that compiling took, all and the most."""
        found: dict[str, dict[str, float]] = {}
        for what, seconds in self.compiled():
            one = found.setdefault(what.partition(",")[0], {"kernels": 0, "seconds": 0.0, "slowest": 0.0})
            one["kernels"] += 1
            one["seconds"] = round(one["seconds"] + seconds, 3)
            one["slowest"] = max(one["slowest"], seconds)
        return dict(sorted(found.items(), key=lambda item: -item[1]["slowest"]))

    def get_or_build(self, key: Key, source_name: str, build: Builder) -> Entry:
        """The entry for `key`, built by `build(folder)` if it is missing or damaged."""
        folder = self._folder(key)
        entry = self._read(folder, silent=True)
        if entry:
            return entry
        with self._lock(key.digest):  # meanwhile another process may have built it
            return self._read(folder) or self._build(folder, key, source_name, build)

    def _folder(self, key: Key) -> Path:
        return self.root / "kernels" / key.digest[:2] / key.digest

    def _read(self, folder: Path, silent: bool = False) -> Entry | None:
        """The entry in a folder if it is whole; None, after one line about it (unless `silent`), if it is damaged."""
        try:
            return _whole_entry(folder)
        except FileNotFoundError as error:
            if not os.path.lexists(folder):
                return None
            reason = f"{Path(error.filename).name} is missing"
        except OSError as error:
            reason = f"{Path(error.filename or folder).name}: {error.strerror}"
        except Damaged as error:
            reason = str(error)
        if not silent:
            text = f"the cache entry {folder} is damaged and is built again: {reason}"
            warnings.warn(text, MansardWarning, stacklevel=2)
        return None

    def _build(self, folder: Path, key: Key, source_name: str, build: Builder) -> Entry:
        draft = Path(tempfile.mkdtemp(dir=private.make_folder(self.root / "tmp")))
        try:
            (draft / source_name).write_text(key.text)
            begun = time.perf_counter()
            with notices.announced(self.root):
                built = build(draft)
            seconds = round(time.perf_counter() - begun, 3)
            (draft / "build.log").write_text(built.log)
            (draft / "key.json").write_text(key.to_json())
            checksum = hashlib.sha256((draft / built.binary).read_bytes()).hexdigest()
            facts = {"binary": built.binary, "sha256": checksum, "what": notices.subject(), "seconds": seconds}
            (draft / "manifest.json").write_text(json.dumps(facts))
            return self._publish(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _publish(self, draft: Path, folder: Path) -> Entry:
        private.make_folder(folder.parent)
        try:
            if os.path.lexists(folder):  # damaged: moved aside, since a folder cannot be renamed over another
                _discard(folder, draft.with_name(f"{draft.name}.damaged"))
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
        """Wait for other builders of an entry. Where no lock can be had they build side by side: renaming decides."""
        with contextlib.ExitStack() as held:
            try:
                path = private.make_folder(self.root / "locks") / name
                opened = forks.private_file(lambda: os.fdopen(private.open_file(path, os.O_RDWR), "r+b", buffering=0))
                file = held.enter_context(opened)
                with contextlib.suppress(OSError):  # some file systems have no locks
                    fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:  # a link, say, or a file system that is full
                pass
            yield  # closing the file releases the lock, also when the process dies


def _whole_entry(folder: Path) -> Entry:
    """The entry in a folder; raises OSError or `Damaged` unless all of it is as it was published."""
    if folder.is_symlink():
        raise Damaged("it is a symbolic link")
    try:
        manifest = untrusted.parse(untrusted.read_bytes(folder / "manifest.json", _MOST_MANIFEST, follow=False))
    except Damaged as error:
        raise Damaged(f"manifest.json {error}") from None
    binary, checksum = (manifest.get(name) if isinstance(manifest, dict) else None for name in ("binary", "sha256"))
    if not isinstance(binary, str) or not _NAME.fullmatch(binary):
        raise Damaged("manifest.json names no file inside the entry")
    if not isinstance(checksum, str) or not _CHECKSUM.fullmatch(checksum):
        raise Damaged("manifest.json has no checksum")
    with untrusted.open_regular(folder / binary, follow=False) as file:
        facts = os.fstat(file.fileno())
        if facts.st_uid != os.geteuid():
            raise Damaged(f"{binary} belongs to user {facts.st_uid}")
        if not 0 < facts.st_size <= _MOST_BINARY:
            raise Damaged(f"{binary} has {facts.st_size} bytes")
        if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
            raise Damaged(f"{binary} is not the one that was built: its checksum differs")
    log = untrusted.read_bytes(folder / "build.log", _MOST_LOG, follow=False)
    return Entry(folder, folder / binary, log.decode(errors="replace"))


def _discard(folder: Path, aside: Path) -> None:
    """Take an entry out of the way and delete it; of a symbolic link, the link."""
    os.rename(folder, aside)
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)


@lru_cache(maxsize=4)
def open_cache(root: Path) -> Cache:
    """The cache at `root`, or a temporary one (with one warning) where `root` cannot be written."""
    try:
        private.make_folder(root)
        with tempfile.TemporaryFile(dir=root):
            pass
        return Cache(root)
    except OSError as error:
        warnings.warn(
            f"the cache folder {root} cannot be written ({error.strerror}); kernels are compiled again in every "
            "process. Set MANSARD_CACHE_DIR to a writable folder.",
            MansardWarning,
            stacklevel=2,
        )
        return Cache(private.temporary())


def default_cache() -> Cache:
    return open_cache(private.cache_root())
