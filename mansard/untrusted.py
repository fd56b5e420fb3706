"""Reading files that another version, another program or another user may have written.

JSON is read strictly: no NaN or Infinity, no deep nesting, few different names, and nothing that takes much more memory
than its text. Our own files take 2 to 4 times their size as Python objects; `[[],[],...` would take 25 times its own.
A text is refused if an estimate of what it takes (`cost`) exceeds FACTOR times its size and SPARE. Lines, manifests and
ceilings have at most 256 KiB and so take a few MB whatever they hold. Whatever is wrong raises `Damaged`, whose text
gives the reason; the caller names the file.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from .errors import MansardError, MansardWarning

T = TypeVar("T")

FACTOR = 4  # times a text's size: the most that `cost` may say of it
SPARE = 32 << 20  # bytes that a text may take beside that: our largest, of 7 MB, is estimated at 5 times its size
LONGEST_LINE = 1 << 18  # bytes; a tuning record has about 700, a row of results about 1500, an environment 30000
UNPACKED = 64  # times the size of a compressed file: the most that it may unpack to; our journals have 7 to 15 times
MOST_NAMES = 4096  # different names of a text: each takes up to 290 bytes; results have 255


class Damaged(MansardError, ValueError):
    """A file does not hold what it should; the text says what is wrong with it."""


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a file for reading; anything but a regular file (a pipe would block) raises `Damaged`. Symbolic links are
    followed only if `follow` says so."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Damaged("is no regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, most: int, *, follow: bool = True) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    with open_regular(path, follow=follow) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise Damaged(f"is larger than {most} bytes")
    return content


def parse(content: bytes, room: int | None = None) -> Any:
    """The value of a JSON text whose objects fit into `room` bytes (unless given, what its own size allows)."""
    if cost(content) > (SPARE + FACTOR * len(content) if room is None else room):
        raise Damaged("holds more values than a file of its size should")
    if content.count(b":") > MOST_NAMES and _has_many_names(content):
        raise Damaged(f"holds more than {MOST_NAMES} different names")
    try:
        return json.loads(content.decode(), parse_constant=_no_number, object_pairs_hook=_object)
    except RecursionError:
        raise Damaged("is nested too deeply") from None
    except UnicodeDecodeError:
        raise Damaged("is no text") from None
    except ValueError as error:
        raise Damaged(f"is no JSON ({error})") from None


_STRING = re.compile(rb'("(?:[^"\\]|\\.)*+")(\s*:)?', re.DOTALL)


def _has_many_names(content: bytes) -> bool:
    """Whether a JSON text has more than MOST_NAMES different names. No more of them are remembered."""
    names = set()
    for string in _STRING.finditer(content):
        if string[2]:
            names.add(string[1])
            if len(names) > MOST_NAMES:
                return True
    return False


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are shared with other lines: they would take most of the memory."""
    return {sys.intern(name): value for name, value in pairs}


def cost(content: bytes) -> int:
    """An estimate of the bytes that the Python objects of a JSON text take, from its punctuation alone."""
    count = content.count
    names = count(b":")
    texts = max(0, count(b'"') // 2 - names)
    objects = 72 * count(b"[") + 184 * count(b"{") + 40 * names
    return objects + 48 * (count(b",") + 1) + 50 * texts + len(content)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and content of every line of a regular file, unpacked if its name ends in .gz; a line that is too long is
    given empty."""
    with open_regular(path) as file:
        if path.suffix != ".gz":
            yield from _lines(file)
            return
        most = UNPACKED * os.fstat(file.fileno()).st_size
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                for found in _lines(unpacked):
                    if unpacked.tell() > most:
                        raise Damaged(f"unpacks to more than {UNPACKED} times its size")
                    yield found
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise Damaged(f"cannot be unpacked ({error})") from None


def _lines(file: BufferedReader | gzip.GzipFile) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            line = b""
        yield number, line.rstrip(b"\r\n")


def each_line(path: Path, read: Callable[[bytes], T], part: bytes = b"") -> Iterator[T]:
    """Yield `read(line)` for every line that contains `part`. Lines for which it raises ValueError are skipped, as is
    a file that cannot be read; one warning at the end names the file, the first of them and the reason."""
    skipped, first = 0, ""
    try:
        for number, line in lines(path):
            if part in line:
                try:
                    yield read(line)
                except ValueError as error:
                    skipped, first = skipped + 1, first or f"line {number} {error}"
    except FileNotFoundError:
        return
    except OSError as error:
        skipped, first = skipped + 1, first or f"cannot be read ({error.strerror})"
    except Damaged as error:
        skipped, first = skipped + 1, first or str(error)
    if skipped:
        warn_ignored(path, first, skipped)


def warn_ignored(path: Path, reason: str, count: int = 1) -> None:
    """One line about what is ignored of a file."""
    more = f" (and {count - 1} more)" if count > 1 else ""
    warnings.warn(f"{path}: {reason}{more}; this is ignored", MansardWarning, stacklevel=3)
