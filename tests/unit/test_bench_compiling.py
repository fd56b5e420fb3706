"""What a run says of the compilations in its cache, in journal and report. Nothing is measured or compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard.bench import lines, store, summary
from mansard.compile.cache import Cache
from mansard.untrusted import Damaged

FOUND = {"gemm": {"kernels": 4, "seconds": 6.0, "slowest": 3.5}}


def journal(folder: Path, compiling: Any) -> store.Journal:
    made = store.Journal(folder, {"device": "x"}, {"family": "gram", "sets": [], "dtypes": []})
    made.write("note", missing={}, unfinished=[], compiling=compiling)
    return made


def test_the_report_has_the_compile_time_of_families(tmp_path: Path) -> None:
    journal(tmp_path, FOUND)
    results = store.collect(tmp_path)
    assert results["compiling"] == FOUND
    table = next(table for table in summary.tables(results, set()) if table.title.startswith("Compiling"))
    assert table.cells == [("gemm", "4", "1.50", "3.50")]


def test_older_journals_have_no_such_table(tmp_path: Path) -> None:
    made = store.Journal(tmp_path, {"device": "x"}, {"family": "gram", "sets": [], "dtypes": []})
    made.write("note", missing={}, unfinished=[])
    assert not any(table.title.startswith("Compiling") for table in summary.tables(store.collect(tmp_path), set()))


@pytest.mark.parametrize("compiling", [[], {"gemm": 3}, {"gemm": {"kernels": 1, "seconds": 2.0}},
                                       {"gemm": FOUND["gemm"] | {"slowest": "3"}}])  # fmt: skip
def test_other_tables_are_refused(compiling: Any) -> None:
    with pytest.raises(Damaged, match="compiling="):
        lines.line({"line": "note", "run": 1, "compiling": compiling})


def test_a_cache_counts_its_kernels_by_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [("lu, 3 x 3", 1.0), ("gemm, A[2]", 0.5), ("lu, 4 x 4", 2.5)]
    monkeypatch.setattr(Cache, "compiled", lambda self: iter(found))
    families = Cache(tmp_path).seconds_by_family()
    assert list(families) == ["lu", "gemm"]
    assert families["lu"] == {"kernels": 2, "seconds": 3.5, "slowest": 2.5}
