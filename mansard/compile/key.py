"""Everything that a compiled kernel depends on; its digest names the cache entry."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
INCLUDE_DIRS = (PACKAGE / "include", PACKAGE)
ABI = 1  # raise when the launch convention or the shape of an entry changes

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Key:
    """Everything that decides the bytes of a binary."""

    text: str
    headers: str  # digest over the code of every header the text reaches
    flags: tuple[str, ...]
    compiler: str  # name and full version
    arch: str
    abi: int = ABI

    @property
    def digest(self) -> str:
        facts = asdict(self) | {"text": _with_includes(self.text)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:40]

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"text": hashlib.sha256(self.text.encode()).hexdigest()}, indent=1)


def make_key(text: str, flags: tuple[str, ...], compiler: str, arch: str) -> Key:
    return Key(text, headers_digest(text), flags, compiler, arch)


def headers_digest(text: str) -> str:
    """Digest of all headers `text` includes, directly or not: names, code, and what each includes in which order.
    Comments and folders do not count, so that a cache outlives both."""
    parts = sorted((path.name, _with_includes(_content(path).decode())) for path in _reach(text))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def code_digest(text: str, without: str = "") -> str:
    """Digest of the code that `text` and its headers are, but for headers in folders of a name. Comments, blank space
    and the names and folders of headers do not count: they change no instruction."""
    parts = sorted(_code_of(_content(path)) for path in _reach(text, without))
    return hashlib.sha256("\0".join([*parts, bare(text)]).encode()).hexdigest()


def headers_mention(text: str, word: str) -> bool:
    """Whether the code of a header that `text` includes, directly or not, contains a word."""
    return any(word in _code_of(_content(path)) for path in _reach(text))


@lru_cache(maxsize=512)
def _code_of(content: bytes) -> str:
    return bare(content.decode())


@lru_cache(maxsize=512)
def _with_includes(text: str) -> str:
    names = [name.rpartition("/")[2] for name in _INCLUDE.findall(text)]
    return "\n".join([*names, bare(text)])


def bare(text: str) -> str:
    """C++ without comments, includes of its own headers and blank space that separates nothing."""
    lines = (" ".join(line.split()) for line in _INCLUDE.sub("", _COMMENT.sub(" ", text)).splitlines())
    return "\n".join(line for line in lines if line and line != "#pragma once")


def _reach(text: str, without: str = "") -> set[Path]:
    found: set[Path] = set()
    pending = [_resolve(name, None) for name in _INCLUDE.findall(text)]
    while pending:
        path = pending.pop()
        if path in found or path.parent.name == without:
            continue
        found.add(path)
        inner = _INCLUDE.findall(_content(path).decode())
        pending.extend(_resolve(name, path.parent) for name in inner)
    return found


def _resolve(name: str, beside: Path | None) -> Path:
    for folder in ((beside,) if beside else ()) + INCLUDE_DIRS:
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise FileNotFoundError(f'#include "{name}" is not under {", ".join(map(str, INCLUDE_DIRS))}')


@lru_cache(maxsize=256)
def _content_at(path: Path, mtime_ns: int, size: int) -> bytes:
    return path.read_bytes()


def _content(path: Path) -> bytes:
    stat = path.stat()
    return _content_at(path, stat.st_mtime_ns, stat.st_size)
