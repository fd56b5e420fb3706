"""Digests of generated code that do not depend on folders, comments, or the compiler's debug information."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

_NOBITS = 8  # section type: takes memory, has no bytes in the file
_EXECUTED = (".text.", ".nv.constant", ".nv.global", ".nv.shared", ".nv.local")  # prefixes of sections that matter
_MARKER = re.compile(r'^# \d+ "[^"]*"(.*)$')  # line marker of the preprocessor: line, file, flags
_SYSTEM = "3"  # flag of a line marker: what follows comes from a system header


class Section(NamedTuple):
    """One section of an ELF file."""

    name: str
    kind: int
    flags: int
    size: int
    info: int  # of a kernel's section: its registers, among others
    content: bytes


def of_cubin(cubin: bytes) -> str:
    """Digest of machine code, constants and initial values of a cubin, whatever its symbols and line tables say."""
    parts = []
    for section in sections(cubin):
        if section.name.startswith(_EXECUTED):
            kind = next(prefix for prefix in _EXECUTED if section.name.startswith(prefix))
            registers = section.info >> 24 if kind == ".text." else 0
            head = f"{kind} {section.size} {registers}".encode()
            parts.append(head + b"\0" + (b"" if section.kind == _NOBITS else section.content))
    if not any(part.startswith(b".text.") for part in parts):
        raise ValueError("the cubin has no machine code")
    return _digest(*sorted(parts))


def sections(elf: bytes) -> Iterator[Section]:
    """The sections of a 64-bit little-endian ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    each, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + each * number) for number in range(count)]
    start = headers[names][4]
    for name, kind, flags, _, offset, size, _, info, *_ in headers:
        text = elf[start + name : elf.index(b"\0", start + name)].decode()
        yield Section(text, kind, flags, size, info, elf[offset : offset + size])


def of_preprocessed(text: str, flags: tuple[str, ...]) -> str:
    """Digest of the library's part of preprocessed C++ text (the output of `g++ -E`), and of the compiler's flags.

    Lines of system headers are left out. So are line markers and all spacing, which comments leave behind.
    """
    own, is_system = [], False
    for line in text.splitlines():
        marker = _MARKER.match(line)
        if marker:
            is_system = _SYSTEM in marker[1].split()
        elif not is_system:
            own.append(line)
    return _digest(" ".join(flags).encode(), " ".join(" ".join(own).split()).encode())


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:24]
