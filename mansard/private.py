"""The cache folder and what is written to it: for this user alone.

Kernels from the cache run in this process, so that a folder which another user owns, or to which others may write, is
not used: a temporary one takes its place, with one warning. Folders are made with mode 0700, files with 0600, and none
is written through a symbolic link.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path

from . import settings
from .errors import MansardWarning


def cache_root() -> Path:
    """The folder that settings name, or a temporary one where others could have written to it."""
    root = settings.current().cache_dir
    reason = distrusted(root)
    return _instead_of(root, reason) if reason else root


def distrusted(folder: Path) -> str | None:
    """Why what lies in a folder may not be this user's, or None if it is, or if there is no such folder yet."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}, not to {os.geteuid()}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written to by others (mode {stat.S_IMODE(found.st_mode):04o}; `chmod go-w` if you trust it)"
    return None


@lru_cache(maxsize=4)
def _instead_of(root: Path, reason: str) -> Path:
    warnings.warn(
        f"the cache folder {root} {reason} and is not used: kernels are compiled again in every process. Set "
        "MANSARD_CACHE_DIR to a folder of your own.",
        MansardWarning,
        stacklevel=3,
    )
    return temporary()


def temporary() -> Path:
    """A new folder for this process alone."""
    return Path(tempfile.mkdtemp(prefix="mansard-cache-"))


def make_folder(folder: Path) -> Path:
    """Make a folder and those above it that are missing, each with mode 0700."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a file that is created where it is missing; never one at the end of a symbolic link."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def append_line(path: Path, line: str) -> None:
    """Append one line by one `write`; it is in the file when this returns. A newline comes first if an interrupted
    writer left half a line, which would otherwise swallow this one too."""
    make_folder(path.parent)
    descriptor = open_file(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (b"\n" if torn else b"") + line.encode() + b"\n")
    finally:
        os.close(descriptor)


def replace_file(path: Path, text: str) -> None:
    """Write a file beside its name and rename it, so that readers see the old or the new one, never a part."""
    make_folder(path.parent)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
