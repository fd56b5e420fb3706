"""Declared operations in `mansard bench`: a line of a table each, everything else from the registry."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mansard.bench import calls, cases, check, entries, named, operations, peers, runner, summary
from mansard.bench.data import Operands
from mansard.bench.declared import contest
from mansard.bench.declared.declaration import Declared
from mansard.bench.declared.operations import DECLARED, call_of, unit, with_long
from mansard.errors import UsageError
from mansard.operations import registry
from mansard.plan.problem import ITEMSIZE

SIZE = cases.Size("cpu", dict.fromkeys(ITEMSIZE, 1 << 12), 1 << 20)
NAMES = ("syrk", "herk", "trmm", "solve_triangular", "cho_solve", "lu_solve", "slogdet", "lstsq", "orthogonalize")


def small(name: str, dtype: str = "float64") -> cases.Case:
    """The first size of an operation: few matrices, or few rows."""
    s = unit(name, dtype, DECLARED[name].sizes[0])
    return contest.case("x", name, dtype, with_long(name, s, 60))


def held(case: cases.Case) -> tuple[tuple[Any, Any], Any, Any]:
    """Operands of a case, its reference, and where they are from."""
    operands = Operands("cpu", [case], 1 << 10)
    pair = operands.pair(case)
    return pair, check.reference_for(case, *pair), operands


def test_every_operation_has_cases() -> None:
    assert set(NAMES) <= set(DECLARED) and set(named._MEASURED) == set(registry.OPERATIONS)
    for name, declared in DECLARED.items():
        found = runner.CATALOGUES[declared.catalogue][name](SIZE)
        assert {case.operation for case in found} == {name} and {case.dtype for case in found} == set(declared.dtypes)
        assert len({case.key for case in found}) == len(found) and all(case.problems() for case in found)
        assert all(operations.work_of(case.to_dict()).bytes > 0 and case.K > 1 for case in found)
    assert call_of("trmm")[0] == "ms.blas.trmm(a, b, out=out)" and call_of("slogdet")[0] == "ms.linalg.slogdet(a)"
    assert call_of("lstsq")[0] == "ms.linalg.lstsq(a, b, driver='qr')"
    assert summary.sizes(small("lstsq").to_dict()) == "16 x 4" and summary.sizes(small("syrk").to_dict()) == "4 x 4"


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("name", DECLARED)
def test_our_call_and_every_spelling_are_right(name: str, dtype: str) -> None:
    """With the array library's own answers: what is tested is the benchmark, which compiles nothing for it."""
    case = small(name, dtype)
    pair, reference, operands = held(case)
    ours, about = calls.ours(case, [pair], operands, runner.choose_backend("reference")[0])
    assert ours.spelling == call_of(name)[0] and set(about) >= {"config", "origin", "reason"}
    reference.prepare(ours.out)
    assert reference.error(ours.result()) <= 1
    faced = 0
    for peer in (peers.NumpyPeer(), peers.TorchPeer()):
        if not peer.missing and peer.takes_part(case):
            for label in peer.spellings(case):
                entry = entries.enter(peer, case, [(*pair, operands.empty(case))], lambda run: 1.0)
                reference.prepare(entry.out)
                assert reference.error(entry.result()) <= 1, label
                faced += 1
    assert faced or peers.TorchPeer().missing


@pytest.mark.parametrize("name", DECLARED)
def test_wrong_results_are_found(name: str) -> None:
    case = small(name)
    pair, reference, operands = held(case)
    ours, _ = calls.ours(case, [pair], operands, runner.choose_backend("reference")[0])
    result = ours.result()
    parts = [np.array(part) for part in (result if isinstance(result, tuple) else (result,))]
    first = next(at for at, part in enumerate(parts) if part.size)
    for value in (float(parts[first].flat[-1]) + 1e-6, math.nan):
        parts[first].flat[-1] = value
        assert reference.error(tuple(parts) if isinstance(result, tuple) else parts[0]) > 1


def test_an_operation_that_nothing_measures_says_where_to_declare_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OPERATIONS, "scaled", replace(registry.named("gemv"), name="scaled"))
    arguments = type("Arguments", (), {"operation": "scaled"})()
    with pytest.raises(UsageError, match=r"declare it in mansard/bench/declared/table\.py"):
        named.sets_for(arguments, runner.NOTHING)


def test_one_declaration_is_all_that_a_new_operation_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    trmm = DECLARED["trmm"]
    assert isinstance(trmm, Declared)
    monkeypatch.setitem(DECLARED, "trsm", replace(trmm, ways=()))  # whatever is in the registry
    case = contest.sets("batched")["trsm"](SIZE)[0]
    assert case.shapes[0] == (case.K, 4, 4) and case.bytes and case.problems()[0].operation == "trsm"
