"""Records, ceilings and results that are damaged or made up: ignored, or refused, with one line, and never run."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
import warnings
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard import private, untrusted
from mansard.backends import cpu
from mansard.bench import store
from mansard.cli import main
from mansard.errors import MansardWarning
from mansard.kernels.tall_skinny import gram
from mansard.machine import machine
from mansard.operations.sparse import convert
from mansard.plan.explain import NOMINAL
from mansard.records import database, findings
from mansard.records.trials import Store, Trial, problem_to_dict, store_path
from mansard.sparse import matrices
from mansard.untrusted import Damaged

PACKAGE = Path(ms.__file__).parent
CODE = 'rotate;};\nint x=system("touch /tmp/x");struct Y{int z'
H200 = NOMINAL["sm_90a"]
PROBLEM = problem_to_dict(gram.spec.problem("float64", 4, 4, 100))


# --- records ------------------------------------------------------------------------------------------------------


def line(**changes: Any) -> str:
    config = gram.space.to_dict(gram.space_cpu.Simd())
    good = {"problem": PROBLEM, "config": config, "status": "ok", "seconds": [1e-3], "kernel": "0" * 16}
    return json.dumps({**good, **changes})


BAD_LINES = [
    "",
    "{",
    "[]",
    "null",
    "7",
    "[" * 100_000,
    '{"a":' * 50_000,
    "\x00\x01",
    "é" * 10,
    line(status="fine"),
    line(status=1),
    line(seconds=[float("nan")]),
    line(seconds=[-1.0]),
    line(seconds="abc"),
    line(seconds=[True]),
    line(seconds=[10**400]),
    line(round=-1),
    line(round=True),
    line(round=1.5),
    line(bound="1"),
    line(bound=float("inf")),
    line(date=20260101),
    line(date="\x1b[31m2026"),
    line(kernel=["a"]),
    line(config=None),
    line(config=[]),
    line(config={}),
    line(config={"VARIANT": ["simd"]}),
    line(config={"VARIANT": "simd", "LANES": "4"}),
    line(problem=[]),
    line(config={"VARIANT": "simd", "ROWS": -64}),
    line(config={"VARIANT": "ring", "SPREAD": CODE}),
    line(problem={**PROBLEM, "operation": "gone"}),
    line(device="\ud800"),
    line(reason="x" * (1 << 17)),
    '{"problem": {}, "x": "' + "y" * (2 << 20) + '"}',
]


@pytest.mark.parametrize("bad", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_bad_line_is_skipped_and_said(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "gram.jsonl"
    path.write_bytes(f"{line()}\n".encode() + bad.encode(errors="surrogatepass") + f"\n{line()}\n".encode())
    with pytest.warns(MansardWarning, match=r"gram\.jsonl: line 2 ") as said:
        assert len(list(Store(path))) == 2
    assert len(said) == 1 and "\n" not in str(said[0].message) and len(str(said[0].message)) < 500


@needs_cpu
@pytest.mark.filterwarnings("ignore::mansard.errors.MansardWarning")
def test_calls_answer_whatever_the_records_hold(own_cache: Path) -> None:
    path = store_path(cpu.backend().device, "gram")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join(each.encode(errors="surrogatepass") for each in BAD_LINES))
    database.forget()
    A = np.ones((100, 3))
    assert (ms.gram(A, backend="cpu") == 100).all()
    assert database.best(gram.spec.problem("float64", 3, 3, 100), cpu.backend().device, gram.FAMILY) is None


def test_a_record_with_code_is_never_served(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's hash was right, and the text ran, when SPREAD was not checked."""
    monkeypatch.setattr(database, "DATA", own_cache / "none")
    problem = gram.spec.problem("float64", 16, 16, 1 << 22)
    config = next(c for c in gram.defaults.ranked(problem, H200) if c.VARIANT == "ring")
    kernel = database.kernel_hash(problem, config, H200, gram.FAMILY)
    good = Trial(problem, gram.space.to_dict(config), "ok", (1e-6,), kernel=kernel, date="2026-01-02T00:00:00")
    records = Store(store_path(H200, "gram"))
    records.append(replace(good, config={**good.config, "SPREAD": CODE}))
    database.forget()
    with pytest.warns(MansardWarning, match="SPREAD=.* is not one of none, rotate, shift"):
        assert database.best(problem, H200, gram.FAMILY) is None
    records.append(good)
    database.forget()
    with pytest.warns(MansardWarning):
        record = database.best(problem, H200, gram.FAMILY)
    assert record is not None and record.config == config


def test_findings_about_matrices_are_checked(own_cache: Path) -> None:
    rows = convert.read(matrices.band(50, 3)).rows
    device, name = cpu.backend().device, findings.signature(rows)
    path = store_path(device, "sparse")
    path.parent.mkdir(parents=True)
    bad = [
        {"format": CODE},
        {"C": "8"},
        {"C": -1},
        {"sigma": 0},
        {"threads": True},
        {"GONE": 1},
        {"index": 4},
        [],
        None,
    ]
    lines = [{"matrix": name, "what": "format", "values": values} for values in ({"format": "csr"}, *bad)]
    lines += [{"matrix": name, "what": "powers 3", "values": {"execution": "persistent", "EVICT": CODE}}]
    lines += [{"matrix": CODE, "what": "format", "values": {}}, {"matrix": name, "what": CODE, "values": {}}]
    path.write_text("\n".join(json.dumps(each) for each in lines))
    with pytest.warns(MansardWarning, match=r"sparse\.jsonl: line 2 .*and 11 more"):
        assert findings.recall(device, rows, "format") == {"format": "csr"}
    assert findings.recall(device, rows, "powers 3") is None
    path.write_text(json.dumps({"matrix": name, "what": "format", "values": {"C": 3}}))  # in range, yet impossible
    assert ms.sparse.matrix(matrices.band(50, 3), backend="cpu").shape == (50, 50)


@pytest.mark.parametrize("text", ["NaN", "[1, Infinity]", '{"a": -Infinity}'])
def test_json_has_finite_numbers(text: str) -> None:
    with pytest.raises(Damaged, match="is no number"):
        untrusted.parse(text.encode())


# --- ceilings and results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "7", "[" * 5000, '{"device": 1}', "x" * (2 << 20), '{"read_bandwidth": NaN}', "[[],[],[]]"],
    ids=range(9),
)
def test_damaged_ceilings_are_ignored_and_said(own_cache: Path, text: str) -> None:
    path = machine.store_path(H200)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.warns(MansardWarning, match=re.escape(str(path))):
        assert not machine.known(H200).measured


@pytest.mark.parametrize(
    "change",
    [
        {"read_bandwidth": 0},
        {"read_bandwidth": "4e12"},
        {"read_bandwidth": True},
        {"fma": {"float64": 1e12}},
        {"fma": [1]},
        {"cache_bandwidth": [[1]]},
        {"cache_bandwidth": 4},
        {"origin": 5},
        {"more": 1},
    ],
    ids=str,
)
def test_ceilings_are_numbers(own_cache: Path, change: dict[str, Any]) -> None:
    good = json.loads(json.dumps(asdict(machine.known(H200))))
    assert machine.from_values(good) == machine.known(H200)
    with pytest.raises(Damaged):
        machine.from_values({**good, **change})


def test_results_that_are_none_are_refused_with_their_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    for text in ("[]", "{", '{"rows": 3}', "[" * 9999, "NaN", '{"rows": [[]], "runs": []}'):
        path.write_text(text)
        with pytest.raises(Damaged, match=re.escape(str(path))):
            store.load(tmp_path)
        assert main(["report", str(tmp_path), "--to", str(tmp_path / "to")]) == 2
        assert str(path) in capsys.readouterr().err


def test_damaged_lines_of_a_journal_are_passed_over(tmp_path: Path) -> None:
    results = PACKAGE.parent / "results" / "xeon-avx512-2-cores" / "matmul" / store.JOURNAL
    good = [text.decode() for _, text in untrusted.lines(store.packed(results))][:12]
    bad = [
        "[]",
        "{",
        '{"line": "row", "run": 1}',
        '{"line": "run", "run": "x"}',
        '{"line": "note", "run": 1, "missing": 4}',
    ]
    path = tmp_path / store.JOURNAL
    path.write_text("\n".join([*good, *bad]))
    with pytest.warns(MansardWarning, match=r"rows\.jsonl: line 13 .*and 4 more"):
        assert store.read(path) == [json.loads(each) for each in good]


# --- memory and files --------------------------------------------------------------------------------------------


def test_what_takes_much_more_than_its_text_is_refused() -> None:
    assert untrusted.parse(b"[" + b"[]," * 1000 + b"[]]")
    with pytest.raises(Damaged, match="more values"):
        untrusted.parse(b"[" + b"[]," * 1_000_000 + b"[]]")


def test_many_different_names_are_refused() -> None:
    """Once 27 times the text's size."""
    few = b",".join(b'"%x":1' % i for i in range(untrusted.MOST_NAMES))
    assert len(untrusted.parse(b"{" + few + b"}")) == untrusted.MOST_NAMES
    assert untrusted.parse(b"[" + b"{" + few + b"}," + b"{" + few + b"}]")  # which are the same ones
    assert untrusted.parse(b"[" + b",".join(b'":%x"' % i for i in range(10_000)) + b"]")  # which are no names
    for text in (b"{" + few + b',"one more":1}', b"{" + few + b',"\\"" :1}'):
        with pytest.raises(Damaged, match="different names"):
            untrusted.parse(text)


@pytest.mark.parametrize("entry", [b"1.5", b'"text"', b"[1]", b'{"a":1}', b'{"a":1,"b":2}', b'""', b'{"a":[[]]}'])
def test_values_take_four_times_their_text_or_are_refused(entry: bytes) -> None:
    text = b"[" + b",".join([entry] * 1_000_000) + b"]"
    tracemalloc.start()
    with suppress(Damaged):
        untrusted.parse(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 4 * len(text) + untrusted.SPARE


def test_our_own_files_are_read_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in sorted(database.DATA.glob("*/*.jsonl")):
            assert len(list(Store(path))) == len(path.read_text().splitlines())
        for journal in sorted((PACKAGE.parent / "results").glob("xeon*/*/rows.jsonl.gz")):
            assert store.collect(journal.parent)["rows"]


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Damaged, match="regular"):
        untrusted.read_bytes(tmp_path / "pipe", 100)
    with pytest.warns(MansardWarning, match="regular"):
        assert list(Store(tmp_path / "pipe")) == []


def test_writers_follow_no_links(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine\n")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError):
        private.append_line(tmp_path / "link", "x")
    private.replace_file(tmp_path / "link", "new")  # takes the link's place
    assert target.read_text() == "mine\n" and not (tmp_path / "link").is_symlink()
    private.append_line(tmp_path / "a" / "b", "x")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o600]
