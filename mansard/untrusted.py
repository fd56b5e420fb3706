"""Reading files that another version, another program or another user may have written.

JSON is read strictly: no NaN or Infinity, no deep nesting, and nothing whose Python objects would take more than SPARE
bytes and FACTOR times the file's size (`[[],[],...` takes 25 times its text). Whatever is wrong raises `Damaged`, whose
text gives the reason; the caller names the file.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

FACTOR = 4
SPARE = 32 << 20  # bytes that a small file may take all the same
LONGEST_LINE = 1 << 20  # bytes; a tuning record has about 700, a row of results about 1500


class Damaged(ValueError):
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
    try:
        return json.loads(content.decode(), parse_constant=_no_number)
    except RecursionError:
        raise Damaged("is nested too deeply") from None
    except UnicodeDecodeError:
        raise Damaged("is no text") from None
    except ValueError as error:
        raise Damaged(f"is no JSON ({error})") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def cost(content: bytes) -> int:
    """An upper estimate of the bytes that the Python objects of a JSON text take."""
    count = content.count
    values = count(b",") + count(b"[") + count(b"{") + 1
    return 40 * values + 64 * count(b"[") + 200 * count(b"{") + 100 * count(b":") + 30 * count(b'"') + len(content)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and content of every line of a regular file; one that is too long is given empty."""
    with open_regular(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
                line = b""
            yield number, line.rstrip(b"\r\n")
