"""The planted bugs of tests/mutants: patches fit the tree, name tests that exist, and get the right verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mutants.journal import Journal
from mutants.patches import Hunk, Mutant, PatchError, read, read_all
from mutants.trial import ROOT, Ended, Outcome, judged

from mansard import kernels

PATCH = (
    "Bug: b\nTests: tests/unit/test_mutants.py -k 'one or two'\n\n"
    "--- mansard/errors.py\n@@\n first\n-second\n+third\n"
)


@pytest.mark.parametrize("mutant", read_all(), ids=lambda mutant: mutant.name)
def test_patch_fits_the_tree(mutant: Mutant) -> None:
    for name, text in mutant.changed(ROOT).items():
        assert name.startswith(("mansard/", "papers/")) and text != (ROOT / name).read_text()
        if name.endswith(".py"):
            compile(text, name, "exec")
    assert mutant.test_files
    for word in mutant.tests:
        file, _, test = word.partition("::")
        if word.startswith("tests/"):
            assert not test or re.search(rf"^(async )?def {re.escape(test)}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_family_has_bugs() -> None:
    names = [mutant.name for mutant in read_all()]
    assert len(names) >= 60
    for family in kernels.names():
        assert sum(name.startswith(f"{family}/") for name in names) >= 3, family


def test_hunks_are_found_by_their_text() -> None:
    hunk = Hunk("file", ["a", "b"], ["a", "c"])
    assert hunk.applied("x\na\nb\n") == "x\na\nc\n" and hunk.applied("a\nb\n") == "a\nc\n"
    for text in ("a\nx\n", "a\nb\na\nb\n", "xa\nb\n"):
        with pytest.raises(PatchError, match="not once"):
            hunk.applied(text)


def test_headers_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "area" / "name.patch"
    path.parent.mkdir()
    path.write_text(PATCH)
    mutant = read(path, tmp_path)
    assert mutant.name == "area/name" and mutant.tests == ("tests/unit/test_mutants.py", "-k", "one or two")
    assert mutant.hunks == (Hunk("mansard/errors.py", ["first", "second"], ["first", "third"]),)
    for bad in ("Tests: x", "Bugs: b\nTests: x", "Bug: b\nTests: x\nEnds: never", "Bug: b\nTests: x\nOrder: none"):
        path.write_text(bad + PATCH[PATCH.index("\n\n") :])
        with pytest.raises(PatchError):
            read(path, tmp_path)


FAILED = "FAILED tests/test_x.py::test_y - assert False\n1 failed\n"


@pytest.mark.parametrize(
    ("ends", "status", "output", "verdict"),
    [
        ("failure", 1, FAILED, "killed"),
        ("failure", 0, "3 passed\n", "survived"),
        ("failure", 2, "ERROR tests/test_x.py - ImportError\n", "tests do not run"),
        ("failure", 1, "E mansard.errors.CompileError: g++\n" + FAILED, "does not compile"),
        ("failure", -11, "", "crashes"),
        ("crash", -11, "", "killed"),
        ("crash", -15, "", "crashes"),
        ("failure", None, "", "hangs"),
        ("hang", None, "", "killed"),
    ],
)
def test_verdicts(ends: str, status: int | None, output: str, verdict: str) -> None:
    mutant = Mutant("area/name", "bug", ("tests/test_x.py",), "forward", ends, False, (), "")
    assert judged(mutant, Ended(status, output, 1.0)).verdict == verdict


def test_a_journal_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (tmp_path / "code").write_text("one")
    mutant = Mutant("area/name", "bug", (), "forward", "failure", False, (Hunk("code", ["one"], ["two"]),), "digest")
    journal = Journal(tmp_path / "journal.jsonl", tmp_path)
    key = journal.key_of(mutant)
    journal.write(key, mutant.name, Outcome("killed", "test", 1.0))
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"key": "half')
    again = Journal(tmp_path / "journal.jsonl", tmp_path)
    assert again.known(again.key_of(mutant)) == Outcome("killed", "test", 1.0)
    (tmp_path / "code").write_text("changed")
    assert again.known(again.key_of(mutant)) is None
    assert Journal(tmp_path / "journal.jsonl", tmp_path, fresh=True).known(key) is None
