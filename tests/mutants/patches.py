"""Read a patch, and apply it to a copy of the tree by the text of its hunks."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ENDS = ("failure", "crash", "hang")
ORDERS = ("forward", "reverse", "random", "greedy", "greedy-reverse")  # of the emulator's threads
FIELDS = {"Bug", "Tests", "Order", "Ends", "Cache"}


class PatchError(ValueError):
    """A patch that cannot be read, or does not fit the tree."""


@dataclass
class Hunk:
    """Lines to find in a file, and lines to put there."""

    path: str
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def applied(self, text: str) -> str:
        old, new = ("\n".join(lines) + "\n" for lines in (self.old, self.new))
        padded = "\n" + text  # so that the first line of a hunk begins a line
        found = len(re.findall(f"(?=\n{re.escape(old)})", padded))
        if found != 1:
            raise PatchError(f"{self.path}: the text of the hunk occurs {found} times, not once:\n{old}")
        return padded.replace("\n" + old, "\n" + new, 1)[1:]


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str  # AREA/NAME
    bug: str
    tests: tuple[str, ...]  # arguments of pytest
    order: str  # in which the emulator runs threads, unless a test says otherwise: one of ORDERS
    ends: str  # how the tests end: one of ENDS
    own_cache: bool
    hunks: tuple[Hunk, ...]
    digest: str  # of the patch

    @property
    def paths(self) -> tuple[str, ...]:
        """Files that the patch changes."""
        return tuple(dict.fromkeys(hunk.path for hunk in self.hunks))

    @property
    def test_files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word.split("::")[0] for word in self.tests if word.startswith("tests/")))

    def changed(self, tree: Path) -> dict[str, str]:
        """Text of every changed file with the bug in it; raises PatchError where a hunk does not fit."""
        texts: dict[str, str] = {}
        for hunk in self.hunks:
            path = tree / hunk.path
            if not path.is_file():
                raise PatchError(f"{hunk.path} is not in {tree}")
            texts[hunk.path] = hunk.applied(texts.get(hunk.path) or path.read_text())
        return texts


def read_all(folder: Path = FOLDER) -> list[Mutant]:
    """All mutants, sorted by name."""
    return [read(path, folder) for path in sorted(folder.glob("*/*.patch"))]


def read(path: Path, folder: Path = FOLDER) -> Mutant:
    """One mutant from its patch."""
    text = path.read_text()
    head, _, body = text.partition("\n\n")
    name = path.relative_to(folder).with_suffix("").as_posix()
    said = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if not {"Bug", "Tests"} <= set(said) <= FIELDS or len(said) != len(head.splitlines()):
        raise PatchError(f"{name}: the header needs Bug and Tests, and knows {', '.join(sorted(FIELDS))}")
    for field_name, known in (("Order", ORDERS), ("Ends", ENDS), ("Cache", ("own",))):
        if said.get(field_name, known[0]) not in known:
            raise PatchError(f"{name}: {field_name} is one of {', '.join(known)}")
    return Mutant(
        name=name,
        bug=said["Bug"],
        tests=tuple(shlex.split(said["Tests"])),
        order=said.get("Order", ORDERS[0]),
        ends=said.get("Ends", ENDS[0]),
        own_cache="Cache" in said,
        hunks=tuple(_hunks(name, body)),
        digest=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def _hunks(name: str, body: str) -> list[Hunk]:
    hunks: list[Hunk] = []
    path = ""
    for line in body.splitlines():
        if line.startswith("--- "):
            path = line[4:].strip()
        elif line.startswith("@@"):
            hunks.append(Hunk(path))
        elif not hunks or not path or line[:1] not in ("", " ", "+", "-"):
            raise PatchError(f"{name}: not a line of a hunk: {line!r}")
        else:
            if line[:1] != "+":
                hunks[-1].old.append(line[1:])
            if line[:1] != "-":
                hunks[-1].new.append(line[1:])
    if not hunks or any(not hunk.old or hunk.old == hunk.new for hunk in hunks):
        raise PatchError(f"{name}: every hunk needs text to find and changes it")
    return hunks
