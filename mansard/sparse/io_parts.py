"""A Matrix Market file read by several processes: each parses the lines that begin in its share of the bytes.

Files of coordinates that are not packed are divided. A packed file has no places to begin at, and a full matrix lists
its entries by columns: the first process reads these alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from ..untrusted import Damaged, open_regular
from .io import BROKEN, Text, check_diagonal, checked_header, read

__all__ = ["Part", "read_part"]


@dataclass(frozen=True)
class Part:
    """Entries of a file that one process has read."""

    entries: Any  # scipy.sparse.coo_array of the file's shape, filled up where the file has one half of a matrix
    lines: int  # lines of entries that were read
    promised: int  # lines of entries that the header promises for the whole file


def read_part(path: str | os.PathLike[str], part: int, parts: int) -> Part:
    """The entries whose lines begin in bytes [part / parts, (part + 1) / parts) of the file's entries.

    Entries given twice are listed twice. A broken line raises ValueError in the process that reads it; whether there
    are as many lines as promised is for the caller to sum up.
    """
    path = Path(path)
    try:
        with open_regular(path) as file:
            text = Text(path, file)
            shape, symmetry, is_dense = checked_header(text)
            if text.is_packed or is_dense:
                return _by_first(path, shape, part)
            field, promised, begin = _places(file)
            share = _share(file, begin, text.size, part, parts)
        return _parsed(path, share, shape, field, symmetry, promised)
    except Damaged as error:
        raise ValueError(f"{path}: {error}") from error.__cause__


def _by_first(path: Path, shape: tuple[int, int], part: int) -> Part:
    """The whole matrix for process 0, nothing for the others."""
    return Part(sparse.coo_array(read(path) if part == 0 else shape), 0, 0)


def _places(file: Any) -> tuple[str, int, int]:
    """Kind of the values, number of lines that the header promises, and where the first of them begins."""
    file.seek(0)
    field = file.readline().split()[3].decode().lower()
    for line in file:
        if line.strip() and not line.startswith(b"%"):
            return field, int(line.split()[2]), file.tell()
    raise Damaged("it ends before its sizes")


def _share(file: Any, begin: int, end: int, part: int, parts: int) -> bytes:
    """Whole lines: those whose first byte lies in this part."""
    first, last = (begin + (end - begin) * place // parts for place in (part, part + 1))
    file.seek(max(begin, first - 1))
    if first > begin:
        file.readline()  # it began before, unless the byte before `first` ends one
    count = last - file.tell()
    found: bytes = file.read(count) if count > 0 else b""
    if found and not found.endswith(b"\n"):
        found += file.readline()
    if b"\0" in found:
        raise Damaged("it holds null bytes")
    return found if not found or found.endswith(b"\n") else found + b"\n"


def _parsed(path: Path, share: bytes, shape: tuple[int, int], field: str, symmetry: str, promised: int) -> Part:
    lines = share.count(b"\n") - sum(1 for line in share.split(b"\n")[:-1] if not line.strip())
    head = f"%%MatrixMarket matrix coordinate {field} general\n{shape[0]} {shape[1]} {lines}\n".encode()
    try:
        found = sparse.coo_array(scipy_io.mmread(BytesIO(head + share)) if lines else shape)
    except BROKEN as error:
        raise Damaged(f"lines of one process, counted from its first with the header before them: {error}") from error
    i, j = found.coords
    check = symmetry in ("skew-symmetric", "hermitian")
    if check and (places := np.flatnonzero(i == j)).size:
        check_diagonal(path, i[places], found.data[places], symmetry)
    if symmetry != "general":
        across = np.flatnonzero(i != j)
        other = found.data[across].conj() if symmetry == "hermitian" else found.data[across]
        other = -other if symmetry == "skew-symmetric" else other
        i, j = np.concatenate((i, j[across])), np.concatenate((j, i[across]))
        found = sparse.coo_array((np.concatenate((found.data, other)), (i, j)), shape=shape)
    return Part(found, lines, promised)
