"""Who answers a call: routes, their origins, records of one device, rules and the model for others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu
from devices import A100, H200

import mansard as ms
from mansard.backends import cpu, emulated
from mansard.codegen.geometry import Device
from mansard.errors import MansardWarning
from mansard.kernels.batched import gemm, gemv, trsm
from mansard.kernels.common import measured
from mansard.kernels.factor import cholesky, lu, qr, systems
from mansard.kernels.sparse import spmv
from mansard.kernels.tall_skinny import gram, matmul_gram, tsm2r, tsmm
from mansard.operations import registry
from mansard.operations.sizes import Asked
from mansard.plan import dispatch, explain, predict, route_records
from mansard.plan.problem import Problem
from mansard.plan.route import Choice, Kernel, Library, Nothing, Request, Steps
from mansard.plan.tall_skinny_rules import family_for
from mansard.records import database

CPU = Device("cpu", "some CPU", "x86_64", multiprocessors=2, vector_bytes=64, l2_bytes=1 << 20)


def decided(operation: str, problem: Problem, device: Device, **allowed: Any) -> Choice:
    allowed = {"library_batches": False, "may_hand_over": True, "may_divide": True, **allowed}
    return dispatch.decide(problem, Request(operation, device.backend, device, **allowed))


def tuned_to(monkeypatch: pytest.MonkeyPatch, config: Any) -> None:
    """A tuning record for every problem: of a configuration, or (None) of the library."""
    found = database.Record(config, "measured")
    monkeypatch.setattr(database, "best", lambda problem, device, family: found)


def by_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ranking by the model, which takes a second: kernels are the rule's."""
    rule = lambda family, problem, device, _: (family.defaults.default(problem, device), "rule")  # noqa: E731
    monkeypatch.setattr(dispatch.predict, "choose", rule)


# --- origins -----------------------------------------------------------------------------------------------


def test_a_choice_says_what_answers_in_a_word_and_in_a_line() -> None:
    words = {
        "kernel": Kernel(lu.space.Lanes(4), "r"), "library": Library("LAPACK", "r"), "nothing": Nothing("r"),
        "blocks": Steps("blocks", "blocks of 8", "r", 8),
    }  # fmt: skip
    lines = {"kernel": "VARIANT=lanes LANES=4", "library": "LAPACK", "nothing": "no kernel", "blocks": "blocks of 8"}
    for word, route in words.items():
        choice = Choice(lu.FAMILY, route, "rule")
        assert choice.answered_by == word and str(choice).startswith(lines[word]) and choice.reason == "r"
        assert (choice.config is None) == (word != "kernel")


@pytest.mark.parametrize("device", [CPU, emulated.backend().device], ids=lambda device: device.backend)
def test_rules_choose_on_cpus_and_in_the_emulator(device: Device) -> None:
    for problem in (gram.spec.problem("float64", 8, 8, 100_000), spmv.spec.problem("float64", 900, 900, 9000, 1)):
        assert dispatch.choose(problem, device).origin == "rule"


def test_families_that_trust_their_rules_say_so() -> None:
    """The model ranks the others; its choice is called the model's only where it is another one than the rule's."""
    seen = set()
    for problem in (qr.spec.problem("float64", 24, 24, 1000), lu.spec.problem("float32", 9, 9, 1000),
                    gemm.spec.problem("float64", 5, 5, 5, 10_000), gemm.spec.problem("float64", 20, 20, 20, 10_000),
                    tsmm.spec.problem("float32", 9, 9, 10_000_000, layout_a="any")):  # fmt: skip
        choice = dispatch.choose(problem, A100)
        is_rule = choice.config == choice.family.defaults.default(problem, A100)
        assert choice.origin == ("rule" if is_rule else "model")
        assert is_rule or not choice.family.trusts_rules
        seen.add(choice.origin)
    assert seen == {"rule", "model"}


def test_records_pins_and_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = gram.spec.problem("float64", 8, 8, 1 << 20)
    refused = dispatch.choose(gram.spec.problem("float64", 300, 300, 1 << 20), H200)
    assert (refused.answered_by, refused.origin) == ("library", "rule")
    with ms.pin(VARIANT="vendor"):
        assert (pinned := dispatch.choose(problem, H200)).origin == "pinned" and pinned.answered_by == "library"
    with ms.pin(VARIANT="tiled"):
        assert (pinned := dispatch.choose(problem, H200)).origin == "pinned" and pinned.answered_by == "kernel"
    for config, word in ((gram.defaults.default(problem, H200), "kernel"), (None, "library")):
        tuned_to(monkeypatch, config)
        assert (choice := dispatch.choose(problem, H200)).origin == "tuned" and choice.answered_by == word


def test_empty_problems_need_no_decision() -> None:
    for operation, problem in (("gram", gram.spec.problem("float64", 8, 8, 0)),
                               ("trsm", trsm.spec.problem("float64", 8, 0, 5)),
                               ("lu", lu.spec.problem("float64", 8, 8, 5, NRHS=0, want="solve"))):  # fmt: skip
        assert decided(operation, problem, CPU).origin == "empty"
    assert decided("lu", lu.spec.problem("float64", 8, 8, 5), CPU).origin == "rule"  # no right-hand sides, but factors


def test_a_backend_without_kernels_leaves_all_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for problem in (gram.spec.problem("float64", 8, 8, 9000), qr.spec.problem("float64", 8, 8, 9)):
        choice = dispatch.decide(problem, Request(problem.operation, "reference", CPU))
        assert (choice.answered_by, choice.origin) == ("library", "rule") and "was asked for" in choice.reason
    monkeypatch.setattr(cpu, "unavailable", lambda: "no C++ compiler found")
    assert dispatch.decide(problem, Request(problem.operation, "reference", CPU)).reason == "no C++ compiler found"


# --- the H200's records ------------------------------------------------------------------------------------

TALL = [  # family, layout of A, columns, rows, tuned, and who answers
    (tsmm, "row", 16, 10_000, False, "kernel"), (tsmm, "row", 64, 10_000, False, "library"),
    (tsmm, "row", 64, 10_000, True, "kernel"), (tsmm, "row", 128, 100_000, False, "library"),
    (tsmm, "row", 128, 10_000_000, False, "kernel"), (tsmm, "col", 16, 1_000_000, False, "kernel"),
    (tsmm, "col", 16, 100_000, False, "library"),
    (tsmm, "col", 8, 1_000_000, False, "kernel"), (gram, "row", 1, 524_287, False, "library"),
    (gram, "row", 1, 524_287, True, "library"), (gram, "row", 1, 524_288, False, "kernel"),
    (gram, "row", 32, 60_000, False, "kernel"), (gram, "row", 33, 60_000, False, "library"),
    (gram, "col", 33, 70_000, False, "kernel"), (gram, "row", 65, 250_000, False, "library"),
]  # fmt: skip


@pytest.mark.parametrize("family, layout, width, rows, tuned, word", TALL)
def test_tall_products_on_an_h200(
    family: Any, layout: str, width: int, rows: int, tuned: bool, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = family.spec.problem("float64", width, width, rows, layout_a=layout)
    by_rule(monkeypatch)
    config = family.defaults.default(problem, H200)
    monkeypatch.setattr(database, "best", lambda *_: database.Record(config, "measured") if tuned else None)
    choice = decided("matmul", problem, H200)
    assert choice.answered_by == word and (word == "kernel" or choice.origin == "tuned"), choice
    for other in (decided("gram", problem, H200), decided("matmul", problem, H200, may_hand_over=False)):
        assert other.answered_by == "kernel"  # `gram` itself, or a backend that was named


@pytest.mark.parametrize(
    ("problem", "word", "origin"),
    [
        (lu.spec.problem("float64", 120, 120, 3000), "blocks", "tuned"),
        (lu.spec.problem("float64", 120, 120, 3000, NRHS=1, want="solve"), "factors", "tuned"),
        (lu.spec.problem("float64", 120, 120, 2999), "kernel", "rule"),
        (lu.spec.problem("float64", 118, 118, 3000), "kernel", "rule"),
        (lu.spec.problem("float64", 116, 116, 3000), "kernel", "rule"),
        (lu.spec.problem("float32", 120, 120, 3000), "kernel", "rule"),
        (lu.spec.problem("float64", 1028, 1028, 3000), "library", "rule"),
        (lu.spec.problem("float64", 400, 400, 10, want="inverse"), "factors", "rule"),
        (cholesky.spec.problem("float64", 900, 10), "blocks", "rule"),
        (qr.spec.problem("float64", 1100, 50, 10), "library", "rule"),
        (trsm.spec.problem("float64", 192, 32, 100), "kernel", None),
        (trsm.spec.problem("float64", 192, 33, 100), "blocks", "rule"),
        (trsm.spec.problem("float64", 200, 8, 100), "kernel", None),
        (trsm.spec.problem("float64", 200, 9, 100), "blocks", "rule"),
        (trsm.spec.problem("float64", 128, 99, 100), "kernel", None),
        (trsm.spec.problem("float32", 65, 33, 100), "blocks", "rule"),
        (trsm.spec.problem("float64", 300, 2, 100), "blocks", "rule"),
        (trsm.spec.problem("float64", 2000, 1, 100), "kernel", None),
        (gemm.spec.problem("float64", 100, 100, 100, 100), "library", "rule"),
        (gemm.spec.problem("float64", 33, 2, 2, 100), "kernel", None),  # the host's time, not the GPU's
        (gemm.spec.problem("float64", 36, 36, 36, 132), "kernel", None),
        (gemm.spec.problem("float64", 100, 100, 100, 9000, layout_a="any"), "kernel", None),  # a library copies it
        (gemm.spec.problem("float64", 32, 32, 32, 100), "kernel", None),
        (trsm.spec.problem("float32", 374, 374, 1), "kernel", None),  # one launch: few systems
        (trsm.spec.problem("float32", 374, 374, 100), "blocks", "rule"),
        (gemv.spec.problem("float64", 100, 100, 100), "kernel", None),
    ],
    ids=str,
)
def test_batches_on_an_h200(
    problem: Problem, word: str, origin: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    by_rule(monkeypatch)
    monkeypatch.setattr(database, "best", lambda *_: None)
    choice = decided(problem.operation, problem, H200)
    assert choice.answered_by == word and origin in (None, choice.origin), choice


def test_tuning_records_outrank_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    for problem in (gemm.spec.problem("float64", 40, 40, 40, 100), trsm.spec.problem("float64", 200, 20, 100)):
        tuned_to(monkeypatch, config := object())
        choice = decided(problem.operation, problem, H200)
        assert choice.config is config and choice.origin == "tuned"
        tuned_to(monkeypatch, None)
        assert (choice := decided(problem.operation, problem, H200)).answered_by == "library"
        assert choice.origin == "tuned"


@pytest.mark.parametrize(("columns", "large"), [(1, 8192), (2, 2048), (16, 2048), (17, 4096), (32, 4096)])
def test_matrices_times_few_columns_on_an_h200(columns: int, large: int) -> None:
    for device in (H200, None):  # measured, and assumed where nobody measured
        found = [family_for("float32", size, size, columns, device=device) for size in (large - 1, large)]
        assert found == [None, "tsm2r"]
        assert family_for("complex128", large, large, columns, device=device) is None
    found = [family_for("float64", size, size, columns, device=H200) for size in (4095, 4096)]
    assert found == [None, "tsm2r" if 2 <= columns <= 24 else None]
    assert family_for("float64", 4096, 4096, columns) is None


FEW = [  # larger than one kernel takes, or with more right-hand sides
    lu.spec.problem("float64", 129, 129, 1, NRHS=1, want="solve"),
    lu.spec.problem("complex128", 150, 150, 1, want="inverse"),
    lu.spec.problem("complex128", 160, 160, 1, want="logdet"),
    lu.spec.problem("float64", 40, 40, 1, NRHS=20, want="solve"),
    cholesky.spec.problem("float64", 900, 1),
    qr.spec.problem("float64", 300, 200, 1, want="reduced"),
]  # fmt: skip


@pytest.mark.parametrize("problem", FEW, ids=str)
def test_few_large_matrices_are_a_library_s(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """On GPUs without records, while a block of threads per matrix leaves nearly all multiprocessors idle."""
    by_rule(monkeypatch)
    monkeypatch.setattr(database, "best", lambda *_: None)
    monkeypatch.setattr(route_records, "find", lambda *_: None)
    for device in (H200, A100):
        choice = decided(problem.operation, problem, device)
        idle = device.multiprocessors - 1
        assert choice.answered_by == "library" and choice.origin == "rule"
        assert choice.reason.endswith(f"would leave {idle} multiprocessors idle in every step")
        more = problem.replace(BATCH=1 + device.multiprocessors // 32)
        assert isinstance(decided(problem.operation, more, device).route, Steps)
        named = decided(problem.operation, problem, device, may_hand_over=False)
        assert isinstance(named.route, Steps), "a backend that was named keeps its kernels"
    assert isinstance(decided(problem.operation, problem, emulated.backend().device).route, Steps)


def test_wide_qr_stays_a_kernel_and_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    by_rule(monkeypatch)
    for rows, word in ((10, "blocks"), (128, "blocks"), (129, "library")):
        assert decided("qr", qr.spec.problem("float64", rows, 216, 1, want="r"), A100).answered_by == word


MEASURED = [  # on an H200: rows, what is wanted, and the largest number of matrices of the library
    (lu, 192, "solve", 3), (lu, 512, "factor", 3), (lu, 192, "logdet", 3), (lu, 192, "inverse", 2),
    (lu, 512, "inverse", 3), (qr, 192, "r", 2), (qr, 300, "reduced", 2),
]  # fmt: skip


@pytest.mark.parametrize("family, rows, want, most", MEASURED)
def test_few_large_matrices_on_an_h200(
    family: Any, rows: int, want: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_rule(monkeypatch)
    monkeypatch.setattr(database, "best", lambda *_: None)
    for batch in range(1, 6):
        sides = {"NRHS": 1} if want == "solve" else {}
        problem = family.spec.problem("float64", rows, rows, batch, want=want, **sides)
        choice = decided(problem.operation, problem, H200)
        assert (choice.answered_by == "library") == (batch <= most), choice
        assert choice.origin == ("tuned" if batch < 5 else "rule")


def test_few_tiny_systems_are_no_library_s() -> None:
    for family, sizes in ((lu, (3, 3)), (cholesky, (16,))):
        problem = family.spec.problem("float64", *sizes, 3, NRHS=42, want="solve")
        assert decided(problem.operation, problem, A100).answered_by == "factors"


def test_tiny_systems_have_as_many_rows_as_a_record_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "best", lambda *_: None)
    for rows, word in ((16, "kernel"), (17, "library")):
        assert decided("systems", systems.spec.problem("float64", rows, rows, 9, NRHS=20), A100).answered_by == word
    residuals = systems.spec.problem("float64", 300, 90, 9, want="residuals")
    assert decided("systems", residuals, A100).answered_by == "kernel"
    monkeypatch.setattr(measured, "number", lambda *_, bytes: {8: 24, 4: 32}[bytes])
    for dtype, rows in (("float64", 24), ("float32", 32)):
        problem = systems.spec.problem(dtype, rows, rows, 9, NRHS=20)
        assert decided("systems", problem, A100).answered_by == "kernel"
        assert decided("systems", problem.replace(M=rows + 1, N=rows + 1), A100).answered_by == "library"


# --- other devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family, layout, width, rows, tuned, word", TALL)
def test_what_the_h200_measured_is_no_law_elsewhere(
    family: Any, layout: str, width: int, rows: int, tuned: bool, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_rule(monkeypatch)
    problem = family.spec.problem("float64", width, width, rows, layout_a=layout)
    assert route_records.find(problem, A100) is None and route_records.find(problem, H200) is not None
    choice = decided("matmul", problem, A100)
    assert choice.origin in ("rule", "model") and (choice.answered_by != "library" or choice.origin == "model")


def test_a_library_is_taken_where_the_model_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = tsmm.spec.problem("float64", 64, 64, 1_000_000)
    by_rule(monkeypatch)
    monkeypatch.setattr(predict, "seconds", lambda *_: 1e-9)
    assert decided("matmul", problem, A100).answered_by == "kernel"
    monkeypatch.setattr(predict, "seconds", lambda *_: 1.0)
    choice = decided("matmul", problem, A100)
    assert (choice.answered_by, choice.origin) == ("library", "model") and "by the model" in choice.reason
    assert decided("matmul", problem, H200).answered_by == "kernel"  # measured: the model is not asked
    assert decided("tsmm", problem, A100).answered_by == "kernel"


def test_how_large_a_matrix_must_be_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"operation": "tsm2r", "number": "LARGE", "itemsize": [8, 8], "value": 1000, "device": "NVIDIA A100",
              "date": "2026-11-18", "why": "a sweep"}  # fmt: skip
    monkeypatch.setattr(measured, "DATA", tmp_path)
    path = measured.folder(A100) / "numbers" / "tsm2r.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    assert family_for("float64", 1000, 1000, 8, device=A100) == "tsm2r"
    assert family_for("float32", 1000, 1000, 8, device=A100) is None
    asked = Asked("matmul", "float64", 1000, 8, 1000, device=A100)
    assert registry.problem_of(asked).operation == "tsm2r"


def test_rules_of_other_gpus() -> None:
    large = lu.spec.problem("float64", 120, 120, 3000)
    few, many = (trsm.spec.problem("float64", 140, sides, 100) for sides in (8, 9))
    assert decided("lu", large, A100).answered_by == decided("trsm", few, A100).answered_by == "kernel"
    assert decided("trsm", many, A100).answered_by == "blocks"
    assert decided("gemm", gemm.spec.problem("float64", 33, 8, 8, 9), A100).origin == "rule"


# --- records of routes -------------------------------------------------------------------------------------

GOOD = {
    "operation": "tsmm", "dtype": ["float64"], "layout_a": ["col"], "widest": [9, 99],
    "set": {"ROUTE": "library", "FINAL": True}, "device": "NVIDIA A100", "date": "2026-11-18", "why": "a sweep",
}  # fmt: skip


def test_records_are_read_checked_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "DATA", tmp_path)
    path = measured.folder(A100) / "routes" / "tsmm.jsonl"
    path.parent.mkdir(parents=True)
    bad = [{"ROUTE": "elsewhere"}, {"ROUTE": "library", "FINAL": 1}, {"FINAL": True}, {"ROUTE": "steps", "X": 1}]
    lines = [*({**GOOD, "set": one} for one in bad), {**GOOD, "tallest": [1, 2]}, GOOD]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.warns(MansardWarning, match=r"tsmm\.jsonl: line 1 .*and 4 more"):
        found = route_records.find(tsmm.spec.problem("float64", 4, 9, 100, layout_a="col"), A100)
    assert found == route_records.Found("library", True, "a sweep (NVIDIA A100, 2026-11-18)")
    for other in (tsmm.spec.problem("float64", 4, 8, 100, layout_a="col"), tsmm.spec.problem("float64", 4, 9, 100)):
        assert route_records.find(other, A100) is None


@pytest.mark.parametrize("path", sorted(measured.DATA.glob("*/routes/*.jsonl")), ids=lambda path: path.stem)
def test_shipped_records_are_sound(path: Path, recwarn: pytest.WarningsRecorder) -> None:
    known = (gram, tsmm, tsm2r, matmul_gram, cholesky, lu, qr, trsm, gemm)
    family = next(one for one in known if one.FAMILY.name == path.stem)
    sizes = (4, 4, 4, 4) if path.stem == "gemm" else (4, 4, 4)
    route_records.find(family.spec.problem("float64", *sizes), H200)
    assert not [str(warning.message) for warning in recwarn if "ignored" in str(warning.message)]
    for line in map(json.loads, path.read_text().splitlines()):
        assert all(low <= high for low, high in (value for value in line.values() if _is_range(value))), line


@pytest.mark.parametrize(
    "sizes, config",
    [
        ((41, 41, 41), gemm.space.Tensor(3, 1, 48, 48, 64, 8, 1, 1, "back", 4)),
        ((90, 90, 90), gemm.space.Stream(6, 2, 96, 96, 32, 8, 3, 1)),
        ((81, 81, 81), gemm.space.Stream(6, 2, 96, 96, 16, 8, 5, 1)),
        ((37, 37, 37), gemm.space.Tensor(3, 1, 48, 48, 64, 8, 1, 1, "back", 4)),
        ((200, 8, 8), gemm.space.Lanes(8, 4, 1, 1, "back", 4, 2)),
        ((64, 64, 64), None),
        ((100, 100, 100), None),
    ],
)
def test_records_choose_for_wide_batches(sizes: tuple[int, int, int], config: Any) -> None:
    """A kernel where one was faster, with the configuration of its range; cuBLAS (None) elsewhere."""
    problem = gemm.spec.problem("float64", *sizes, 5000)
    choice = decided("gemm", problem, H200)
    assert (choice.answered_by, choice.config) == ("library" if config is None else "kernel", config)
    unmeasured = (problem.replace(BATCH=131, K=999), problem.replace(stack_a="strided"))
    assert {decided("gemm", other, H200).answered_by for other in unmeasured} == {"library"}
    assert decided("gemm", problem, A100).answered_by == "library"


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(end, int) for end in value)


# --- explanations ------------------------------------------------------------------------------------------


ORDERS = (3, 12, 40, 150, 260, 600)
SAME = [  # operation, shapes of its operands, options of the command line
    *(("matmul", ((m, k), (k, n)), {"m": m, "k": k, "n": n})
      for m, k, n in ((5000, 8, 6), (8, 5000, 6), (500, 16, 16), (300, 300, 300), (100, 100, 100), (3000, 3000, 1),
                      (40000, 128, 4), (40000, 129, 4), (200, 9000, 100), (2, 9000, 1), (4000, 1, 1))),
    *(("matmul", ((9, m, k), (9, k, n)), {"m": m, "k": k, "n": n, "batch": 9})
      for m, k, n in ((4, 4, 4), (160, 8, 8), (161, 8, 8), (30, 40, 50), (7, 5, 300))),
    *(("gemm", ((5, n, n), (5, n, n)), {"m": n, "batch": 5}) for n in (2, 33, 160, 161, 300)),
    *(("gemv", ((5, n, n), (5, n)), {"m": n, "batch": 5}) for n in (2, 33, 200)),
    *(("gram", ((4000, m), (4000, m)), {"m": m, "k": 4000}) for m in (1, 8, 100, 129, 300)),
    *(("tsmm", ((4000, m), (m, m)), {"m": m, "k": 4000}) for m in (1, 8, 300)),
    *(("trsm", ((4, n, n), (4, n, sides)), {"m": n, "n": sides, "batch": 4})
      for n in (3, 40, 256, 257) for sides in (1, 5)),
    *(("cholesky", ((3, n, n),), {"m": n, "batch": 3}) for n in (*ORDERS, 1100)),
    *(("lu_factor", ((2, n, n),), {"m": n, "batch": 2}) for n in ORDERS),
    *(("qr", ((2, n, 9),), {"m": n, "n": 9, "batch": 2}) for n in ORDERS),
    *(("solve", ((2, n, n), (2, n, 2)), {"m": n, "n": 2, "batch": 2}) for n in ORDERS),
    *(("inv", ((300 if n < 200 else 1, n, n),), {"m": n, "batch": 300 if n < 200 else 1}) for n in ORDERS),
    *(("det", ((2, n, n),), {"m": n, "batch": 2}) for n in (3, 600)),
    ("gram", ((0, 4), (0, 4)), {"m": 4, "k": 0}),
]  # fmt: skip


@needs_cpu
@pytest.mark.parametrize("name, shapes, options", SAME, ids=str)
def test_explanations_without_arrays_are_those_of_plans(
    name: str, shapes: tuple[tuple[int, ...], ...], options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word by word; kernels are written, not compiled."""
    monkeypatch.setattr(cpu.CpuBackend, "prepare", lambda self, kernel: lambda *_: None)
    problem = registry.problem_of(Asked(name, on_cpu=True, **options))  # type: ignore[arg-type]
    described = explain.plan_without_arrays(problem, cpu.backend(), name)
    held = ms.plan(name, *(np.zeros(shape) for shape in shapes))
    assert described.choice == held.choice
    lines = slice(1 if name == "det" else 0, None)  # whose results have no rows of which to state the distance
    assert described.explain().splitlines()[lines] == held.explain().splitlines()[lines]


def test_explanations_of_the_emulator_are_of_calls_that_name_it() -> None:
    problem = lu.spec.problem("float64", 400, 400, 10)
    choice = explain.plan_without_arrays(problem, emulated.backend(), "lu_factor").choice
    assert choice.answered_by == "blocks"
    fallen = explain.plan_without_arrays(problem.replace(M=2000, N=2000), emulated.backend(), "lu_factor").choice
    assert fallen.answered_by == "blocks"  # a library is no answer there
