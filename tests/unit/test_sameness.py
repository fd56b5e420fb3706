"""The tool that compares recordings (`python -m sameness`): planted differences are seen, harmless ones are not."""

from __future__ import annotations

import copy
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from sameness import codehash, comparison, draws, sampling
from sameness.__main__ import main
from sameness.journal import Journal, read

KERNEL = {"code": "c0de", "launch": {"grid": [8, 1, 1], "block": 128, "fixed": [4]}}
OUTCOME = {"origin": "model", "configs": [{"VARIANT": "ring", "ROWS": 32}], "routes": {"gram": "kernel"},
           "kernels": [KERNEL]}  # fmt: skip
LINES: dict[str, dict[str, Any]] = {
    "gram-0": {"name": "gram-0", "family": "gram", "dtype": "float64", "fields": {"M": 4},
               "targets": {"sm_90a": OUTCOME, "cpu": {"error": "ValueError", "message": "as before"}}},
    "call": {"name": "call", "family": "calls", "calls": 13, "python_calls": 15, "microseconds": 9.0},
}  # fmt: skip

# (where a recording is changed, to what, what the comparison calls it)
PLANTED: list[tuple[tuple[Any, ...], Any, str]] = [
    (("gram-0", "targets", "sm_90a", "configs", 0, "ROWS"), 64, "choice differs"),
    (("gram-0", "targets", "sm_90a", "configs"), [], "choice differs"),
    (("gram-0", "targets", "sm_90a", "routes", "gram"), "library", "route differs"),
    (("gram-0", "targets", "sm_90a", "origin"), "tuned", "origin differs"),
    (("gram-0", "targets", "sm_90a", "kernels", 0, "code"), "0dd", "code differs"),
    (("gram-0", "targets", "sm_90a", "kernels", 0, "launch", "block"), 64, "launch differs"),
    (("gram-0", "targets", "cpu", "error"), "TypeError", "error differs"),
    (("gram-0", "fields", "M"), 5, "problem differs"),
    (("call", "calls"), 14, "more Python calls"),
    (("call", "python_calls"), 16, "more Python calls"),
]


def changed(place: tuple[Any, ...], value: Any) -> dict[str, dict[str, Any]]:
    lines = copy.deepcopy(LINES)
    inside: Any = lines
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    return lines


def written(path: Path, lines: dict[str, dict[str, Any]]) -> str:
    journal = Journal(path, {"package": path.stem})
    for line in lines.values():
        journal.append(line)
    journal.finish()
    return str(path)


@pytest.mark.parametrize(("place", "value", "kind"), PLANTED)
def test_a_planted_difference_is_reported(
    place: tuple[Any, ...], value: Any, kind: str, tmp_path: Path, capsys: Any
) -> None:  # fmt: skip
    old, new = written(tmp_path / "old", LINES), written(tmp_path / "new", changed(place, value))
    assert main(["compare", old, new]) == 1
    shown = capsys.readouterr().out
    assert f"{kind}: " in shown and place[0] in shown
    assert main(["compare", old, old]) == 0


def test_harmless_differences_are_not_counted() -> None:
    for place, value in (
        (("call", "calls"), 12),
        (("call", "microseconds"), 99.0),
        (("gram-0", "targets", "cpu", "message"), "in other words"),
    ):
        assert comparison.report(comparison.differences(LINES, changed(place, value)))[1]
    renamed = changed(("gram-0", "targets", "sm_90a", "origin"), "rule")
    assert comparison.report(comparison.differences(LINES, renamed, {"model": "rule"}))[1]
    assert not comparison.report(comparison.differences(LINES, {"call": LINES["call"]}))[1]


def test_examples_are_limited() -> None:
    many = {f"p{number}": {**LINES["call"], "name": f"p{number}"} for number in range(30)}
    more = {name: {**line, "calls": 20} for name, line in many.items()}
    text, is_same = comparison.report(comparison.differences(many, more))
    assert not is_same and text.count("13 -> 20") == comparison.EXAMPLES and "and 20 more" in text


def test_an_interrupted_recording_goes_on_in_the_same_tree_only(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    Journal(path, {"package": "one"}).append(LINES["call"])
    path.write_text(path.read_text() + json.dumps(LINES["gram-0"])[:40])  # cut off
    journal = Journal(path, {"package": "one"})
    assert list(journal.lines) == ["call"]
    journal.append(LINES["gram-0"])
    journal.finish()
    assert read(path) == ({"package": "one"}, LINES) and list(read(path)[1]) == ["call", "gram-0"]
    with pytest.raises(SystemExit, match="another package"):
        Journal(path, {"package": "two"})


def test_the_digest_of_text_ignores_folders_comments_and_system_headers() -> None:
    one = '# 1 "/here/a.hpp" 1\nint  x;\n# 1 "/usr/include/m.h" 1 3 4\nint m1;\n# 3 "/here/a.hpp" 2\n\n\nint y;\n'
    two = '# 9 "/there/b.hpp"\nint x;\n# 1 "/opt/m.h" 1 3\nint m2;\n# 5 "/there/b.hpp" 2\nint y;\n'
    assert codehash.of_preprocessed(one, ("-O3",)) == codehash.of_preprocessed(two, ("-O3",))
    assert codehash.of_preprocessed(one, ("-O3",)) != codehash.of_preprocessed(one, ("-O1",))
    assert codehash.of_preprocessed(one, ()) != codehash.of_preprocessed(one.replace("int y", "int z"), ())


def elf(*named: tuple[str, bytes, int]) -> bytes:
    """An ELF file with these sections: name, content, info."""
    named = (*named, (".shstrtab", b"", 0))
    strings = b"".join(name.encode() + b"\0" for name, _, _ in named)
    body, headers, place = b"", b"", 0
    for name, given, info in named:
        content = strings if name == ".shstrtab" else given
        headers += struct.pack("<IIQQQQIIQQ", place, 1, 0, 0, 64 + len(body), len(content), 0, info, 1, 0)
        body, place = body + content, place + len(name) + 1
    head = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q", 64 + len(body))
    head = head.ljust(0x3A, b"\0") + struct.pack("<HHH", 64, len(named), len(named) - 1)
    return head.ljust(64, b"\0") + body + headers


def test_the_digest_of_a_cubin_is_of_what_runs() -> None:
    code = codehash.of_cubin(elf((".text.kernel", b"1234", 32 << 24), (".debug_line", b"/here", 0)))
    same = elf((".debug_line", b"/there/else", 0), (".text.other_name", b"1234", 32 << 24 | 7))
    assert codehash.of_cubin(same) == code
    for other in (
        elf((".text.kernel", b"1235", 32 << 24)),
        elf((".text.kernel", b"1234", 40 << 24)),  # registers
        elf((".text.kernel", b"1234", 32 << 24), (".nv.constant2", b"1", 0)),
    ):
        assert codehash.of_cubin(other) != code
    with pytest.raises(ValueError, match="no machine code"):
        codehash.of_cubin(elf((".debug_line", b"", 0)))


def test_the_problems_cover_all_families_and_dtypes() -> None:
    entries = sampling.read()
    families = {draw.__name__ for draw in sampling.SHARES}
    assert len(entries) == len({entry["name"] for entry in entries}) == 2000
    assert {(entry["family"], entry["dtype"]) for entry in entries} == {(f, d) for f in families for d in draws.DTYPES}
    few = sampling.read(100, 1)
    assert len(few) == 100 and {entry["family"] for entry in few} == families and few == sampling.read(100, 1)
