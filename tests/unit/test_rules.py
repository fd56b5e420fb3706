"""Rules are rules, measurements are records: every number in the rules has its reason, and records are checked."""

from __future__ import annotations

import ast
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from devices import A100, H200

from mansard.backends import emulated
from mansard.codegen.geometry import Device
from mansard.errors import MansardWarning
from mansard.kernels import FAMILIES, traits
from mansard.kernels.batched import ragged_gemm
from mansard.kernels.common import measured
from mansard.kernels.factor import cholesky, lu, qr
from mansard.kernels.tall_skinny import gram
from mansard.machine import machine, nominal
from mansard.plan.problem import DTYPES

PACKAGE = Path(__file__).resolve().parents[2] / "mansard"
OF_FAMILIES = [path for name in ("defaults", "space*", "fit") for path in PACKAGE.glob(f"kernels/*/*/{name}.py")]
OF_PLANS = [
    *PACKAGE.glob("plan/*_rules.py"), PACKAGE / "plan" / "libraries.py", PACKAGE / "plan" / "few_matrices.py",
    PACKAGE / "operations" / "sparse" / "powers" / "plan.py",
]  # fmt: skip
RULES = [*sorted(OF_FAMILIES), *OF_PLANS]
SHIPPED = sorted(measured.DATA.glob("*/ranges/*.jsonl"))
NUMBERS = sorted(measured.DATA.glob("*/numbers/*.jsonl"))
FEWEST_LETTERS = 20  # of a reason: a unit and a meaning take as many
DEVICES = re.compile(r"\b(A100|H100|H200|B200|L40S|Neoverse|Xeon|EPYC|Graviton)\b")  # that something was measured on


def constants(path: Path) -> list[tuple[str, str]]:
    """The names of a module's numeric constants, each with the comment beside it or right above it."""
    text = path.read_text()
    lines, found = text.splitlines(), []
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        numbers = [part for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
        if any(isinstance(part.value, int | float) and not isinstance(part.value, bool) for part in numbers):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append((ast.unparse(target), _comment(lines, node.lineno - 1, (node.end_lineno or node.lineno) - 1)))
    return found


def _comment(lines: list[str], first: int, last: int) -> str:
    beside = " ".join(line.partition("#")[2] for line in (lines[first], lines[last])).replace("fmt: skip", "")
    above = []
    while first > 0 and (lines[first - 1].startswith("#")):
        first -= 1
        above.append(lines[first].lstrip("# "))
    return " ".join((beside, *reversed(above))).strip()


@pytest.mark.parametrize("path", RULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_number_in_the_rules_has_its_reason(path: Path) -> None:
    for name, reason in constants(path):
        assert len(reason) >= FEWEST_LETTERS, f"{path}: {name} needs its unit and its reason"
        assert not re.search(r"\bH[12]00\b", reason), f"{path}: {name} was measured on one device: it is a record"


@pytest.mark.parametrize("path", sorted(OF_FAMILIES), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_rule_speaks_of_a_device(path: Path) -> None:
    """What was measured on one device is a record: neither comments nor docstrings of rules name one."""
    assert (found := DEVICES.search(path.read_text())) is None, f"{path}: {found}"


def test_every_family_has_its_rules_checked() -> None:
    assert {path.parent.name for path in RULES if path.name == "defaults.py"} == {family.name for family in FAMILIES}


def test_a_number_without_a_reason_is_found(tmp_path: Path) -> None:
    module = tmp_path / "defaults.py"
    module.write_text("A = 3\n# rows of a panel that stay in registers\nB = {1: 2}\nC = 4  # bytes\nD = True\n")
    found = {name: len(reason) >= FEWEST_LETTERS for name, reason in constants(module)}
    assert found == {"A": False, "B": True, "C": False}


# --- records by ranges -------------------------------------------------------------------------------------

GOOD = {
    "operation": "lu", "dtype": ["float64"], "want": ["inverse"], "N": [2, 9], "square": True,
    "set": {"VARIANT": "lanes", "LANES": 4, "WARPS": 1}, "device": "NVIDIA H200", "date": "2026-11-17",
    "why": "a sweep",
}  # fmt: skip


def inverse(order: int, dtype: str = "float64") -> Any:
    return lu.spec.problem(dtype, order, order, 1000, want="inverse")


def read(values: Any) -> measured.Measured:
    names = measured._names(inverse(4), {})
    return measured.from_line(json.dumps(values).encode(), lu.space, "lu", names)


def test_a_record_speaks_for_its_ranges_alone() -> None:
    record = read(GOOD)
    assert [order for order in range(1, 20) if record.matches(inverse(order), {})] == list(range(2, 10))
    assert not record.matches(inverse(4, "float32"), {}) and record.config == lu.space.Lanes(4, WARPS=1)
    assert not record.matches(lu.spec.problem("float64", 4, 4, 1000), {})
    tall = read({**GOOD, "want": ["factor"], "square": False, "aspect": [2, 3], "largest": [1, 9], "N": [1, 99]})
    assert tall.matches(lu.spec.problem("float64", 9, 4, 10), {})
    assert not tall.matches(lu.spec.problem("float64", 4, 9, 10), {})
    assert not tall.matches(lu.spec.problem("float64", 12, 6, 10), {})


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "qr"}, {"dtype": "float64"}, {"dtype": ["float16"]}, {"dtype": []}, {"N": [1]}, {"N": [1, -2]},
        {"N": [True, 2]}, {"N": "1"}, {"want": "inverse"}, {"want": [["x"]]}, {"ROWS": [1, 2]}, {"square": "yes"},
        {"set": 3}, {"set": {"VARIANT": "lanes", "LANES": "4; evil()"}}, {"set": {"VARIANT": "none"}},
        {"date": "today"}, {"square": 1},
        {"set": {"VARIANT": "lanes", "GONE": 1}}, {"why": 7}, {"device": None},
    ],
    ids=str,
)  # fmt: skip
def test_damaged_records_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read({**GOOD, **change})


def test_a_damaged_line_is_skipped_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "DATA", tmp_path)
    path = measured.folder(H200) / "ranges" / "lu.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"operation": 1}\n' + json.dumps(GOOD) + "\n")
    with pytest.warns(MansardWarning, match=r"lu\.jsonl: line 1 "):
        assert list(measured.configs(lu.space, inverse(4), H200)) == [lu.space.Lanes(4, WARPS=1)]
    assert list(measured.configs(lu.space, inverse(4), A100)) == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_shipped_ranges_are_sound(path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """No line is refused, and no range is empty."""
    family = next(family for family in FAMILIES if family.name == path.stem)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        assert line["operation"] == path.stem and line["set"]["VARIANT"] in family.space.VARIANTS, line
        for name, (low, high) in ranges(line):
            assert low <= high, (name, line)
    problem, more = example(path.stem), {"width": 4, "remainder": 0}
    list(measured.configs(family.space, problem, H200, **more))
    assert not [str(warning.message) for warning in recwarn if "ignored" in str(warning.message)]
    records = measured._records(measured.folder(H200), family.space, path.stem, measured._names(problem, more))
    assert len(records) == len(lines)


def example(operation: str) -> Any:
    """A small problem of a family."""
    sizes, _ = traits.declared(operation)
    return next(f for f in FAMILIES if f.name == operation).spec.problem("float64", **dict.fromkeys(sizes, 4))


def ranges(line: dict[str, Any]) -> list[tuple[str, tuple[int, int]]]:
    """The ranges of sizes of a record."""
    lists = ((name, value) for name, value in line.items() if isinstance(value, list))
    return [(name, (value[0], value[1])) for name, value in lists if isinstance(value[0], int)]


# --- numbers of the rules ----------------------------------------------------------------------------------

NUMBER = {
    "operation": "gemm", "number": "TILE_M", "rows": [5, 6], "value": 3, "device": "Neoverse N1", "date": "2026-11-17",
    "why": "a sweep",
}  # fmt: skip


@pytest.mark.parametrize("path", NUMBERS, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_shipped_numbers_are_sound_and_asked_for(path: Path) -> None:
    text = "".join(file.read_text() for file in (*PACKAGE.glob(f"kernels/*/{path.stem}/*.py"), *OF_PLANS))
    for line in path.read_bytes().splitlines():
        name, bounds, _ = measured.number_from_line(line, path.stem)
        assert f'"{name}"' in text or name.startswith("ROWWISE_"), f"no rule of {path.stem} asks for {name}"
        assert all(low <= high for _, low, high in bounds), line


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "lu"}, {"number": "tile"}, {"number": 3}, {"value": -1}, {"value": True}, {"value": 1.5},
        {"rows": 3}, {"rows": [1]}, {"rows": [2, -1]}, {"Rows; evil()": [1, 2]}, {"date": "today"}, {"why": 7},
    ],
    ids=str,
)  # fmt: skip
def test_damaged_numbers_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        measured.number_from_line(json.dumps({**NUMBER, **change}).encode(), "gemm")


def test_a_number_speaks_for_its_ranges_and_its_device_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "DATA", tmp_path)
    short, long = (Device("cpu", "any CPU", "aarch64", 2, vector_bytes=width) for width in (16, 64))
    path = measured.folder(short) / "numbers" / "gemm.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(json.dumps(line) for line in (NUMBER, {**NUMBER, "rows": [1, 9], "value": 2})))
    found = [measured.number("gemm", short, "TILE_M", 7, rows=rows) for rows in (1, 5, 6, 7, 10)]
    assert found == [2, 3, 3, 2, 7]
    assert measured.number("gemm", short, "TILE_M", 7) == measured.number("gemm", long, "TILE_M", 7, rows=5) == 7
    assert measured.number("gemm", short, "TILE_N", 7, rows=5) == measured.number("lu", short, "TILE_M", 7, rows=5) == 7


def test_sweeps_decide_on_their_device_and_the_emulator_that_stands_for_it() -> None:
    emulator = emulated.backend().device
    factors = (qr, qr.spec.problem("float64", 28, 28, 1000)), (cholesky, cholesky.spec.problem("float64", 20, 9))
    for family, problem in ((lu, inverse(58)), *factors):
        found = next(measured.configs(family.space, problem, H200))
        assert type(family.defaults.default(problem, H200)) is type(found)
        assert next(measured.configs(family.space, problem, emulator)) == found
        assert not list(measured.configs(family.space, problem, A100))
        assert family.defaults.default(problem, A100) is not None


@pytest.mark.parametrize("name", nominal.sheets())
def test_rules_serve_every_device_with_or_without_records(name: str) -> None:
    device = nominal.sheets()[name].device
    products = (ragged_gemm.spec.problem(dtype, 1000) for dtype in DTYPES)
    for problem, index in product(products, range(ragged_gemm.work.CLASSES)):
        config = ragged_gemm.defaults.of_class(problem, index, device)
        assert ragged_gemm.space.illegal(problem, config, device) is None, (problem, config)
    for dtype, width, layout in product(DTYPES, (1, 5, 16, 40, 64, 96, 128), ("row", "col")):
        layouts = {"layout_a": layout, "layout_b": layout}
        problem = gram.spec.problem(dtype, width, width, 10**6, **layouts)
        config = gram.defaults.default(problem, device)
        assert config is None or gram.space.illegal(problem, config, device) is None
        if device.capability >= 90 and width * (2 if dtype.startswith("complex") else 1) <= 96:
            assert config is not None and config.VARIANT in ("ring", "columns"), (problem, config)


# --- data sheets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", nominal.sheets())
def test_nominal_ceilings_stay_below_their_data_sheet(name: str) -> None:
    sheet = nominal.sheets()[name]
    stated, found = sheet.stated, machine.nominal_for(sheet.device)
    assert sheet.source.startswith("NVIDIA") and sheet.device.name in found.origin and not found.measured
    assert (
        0.8 < found.copy_bandwidth / stated["memory_bandwidth"] <= found.read_bandwidth / stated["memory_bandwidth"] < 1
    )
    for real in ("float32", "float64"):
        assert 0.85 < found.fma[real] / stated[real] <= 1
    for unit, rate in found.tensor.items():
        assert 0.85 < rate / stated[f"tensor_{unit}"] <= 1
    assert all(rate <= stated["l2_bandwidth"] for _, rate in found.cache_bandwidth)


@pytest.mark.parametrize("name", nominal.sheets())
def test_every_fact_of_a_data_sheet_has_a_document_a_formula_or_a_warning(name: str) -> None:
    sheet = nominal.sheets()[name]
    stated = [fact for document in sheet.documents for fact in document["states"]]
    facts = {"multiprocessors", "registers_per_multiprocessor", "threads_per_multiprocessor", "l2_bytes"}
    facts |= {"shared_per_block", "shared_per_multiprocessor", *sheet.stated}
    assert sorted([*stated, *sheet.derived, *sheet.unverified]) == sorted(facts)
    for document in sheet.documents:
        assert document["url"].startswith("https://") or "driver" in document["document"], document


@pytest.mark.parametrize("name", nominal.sheets())
def test_arithmetic_of_a_data_sheet_follows_from_units_and_clock(name: str) -> None:
    """Each multiprocessor has 128 units for float32 (64 on sm_80), and a half or a 64th of them for float64."""
    sheet = nominal.sheets()[name]
    units = (64 if sheet.device.capability == 80 else 128) * sheet.device.multiprocessors
    fewer = 2 if sheet.device.capability in (80, 90, 100) else 64
    single = units * 2 * sheet.stated["boost_clock"]
    units_and_clock = sheet.device.multiprocessors * 32 * sheet.stated["boost_clock"]
    assert sheet.stated["float32"] == pytest.approx(single, rel=0.01)
    assert sheet.stated["float64"] == pytest.approx(single / fewer, rel=0.02)
    assert sheet.stated["l2_bandwidth"] == pytest.approx(units_and_clock, rel=0.01)


def test_unnamed_devices_get_the_sheet_of_their_architecture() -> None:
    kinds = {"sm_86": "A100", "sm_89": "L40S", "sm_90a": "H200", "sm_100a": "B200", "sm_121a": "5090", "sm_75": "A100"}
    for arch, name in kinds.items():
        device = type(H200)("cuda", "some GPU", arch, 100)
        assert name in nominal.closest(device).device.name
