"""`mansard bench first-calls`: calls in processes of their own, kernels that they compile, goals that they miss."""

from __future__ import annotations

import pytest
from conftest import needs_cpu

from mansard import cli
from mansard.bench import compile_seconds, first_calls


@needs_cpu
def test_a_call_is_timed_in_processes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANSARD_LIBRARY_BELOW", raising=False)
    found = first_calls.measured("solve, 10 of 5 x 5", 1)
    assert found["kernels"] == 0 and found["slowest"] == 0, "so little work compiles nothing"
    assert 0 < found["again"] <= found["cold"] and found["warm"] > 0


def test_calls_that_take_longer_than_their_goal_are_marked() -> None:
    names = ("gram of 100 000 x 8", "solve, 10 000 of 8 x 8", "inv, 10 000 of 8 x 8")
    rows = [{"call": name, "kernels": 1, "cold": 2.0, "warm": 0.1, "again": 0.01} for name in names]
    found = first_calls.table(rows)
    assert found.bad == {0} and [cells[3] for cells in found.cells] == ["1.5 s", "3 s", ""]
    assert found.cells[0] == ("gram of 100 000 x 8", "1", "2.00 s", "1.5 s", "100 ms", "10.0 ms")


def test_kernels_that_compile_too_long_are_marked() -> None:
    rows = [{"kind": "qr", "dtype": "float64", "order": n, "variant": "simd", "seconds": n / 2} for n in (2, 8, 12)]
    found = compile_seconds.table(rows, 2)
    assert found.bad == {0} and [cells[2] for cells in found.cells] == ["12", "8"]


def test_every_kind_has_problems() -> None:
    kinds = {kind for kind, _ in compile_seconds.problems()}
    assert {"gemm", "qr", "lu inverse"} <= kinds


def test_unknown_calls_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "first-calls", "--set", "solv_"]) == 2
    assert "calls: gram of" in capsys.readouterr().err
