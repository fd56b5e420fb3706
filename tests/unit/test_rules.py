"""Rules are rules, measurements are records: every number in the rules has its reason, and records are checked."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from devices import A100, H200

from mansard.backends import emulated
from mansard.errors import MansardWarning
from mansard.kernels import FAMILIES
from mansard.kernels.common import measured
from mansard.kernels.factor import cholesky, lu, qr
from mansard.machine import machine, nominal

PACKAGE = Path(__file__).resolve().parents[2] / "mansard"
RULES = [*sorted(PACKAGE.glob("kernels/*/*/defaults.py")), PACKAGE / "plan" / "handover.py"]
SHIPPED = sorted(measured.DATA.glob("*/ranges/*.jsonl"))
EXAMPLE = {"cholesky": 2, "gemm": 4, "lu": 3, "qr": 3}  # sizes that a problem of the family must have
FEWEST_LETTERS = 20  # of a reason: a unit and a meaning take as many


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
        low, high = line.get("N") or line["largest"]
        assert low <= high, line
    problem = family.spec.problem("float64", *(4,) * EXAMPLE[path.stem])
    list(measured.configs(family.space, problem, H200))
    assert not [str(warning.message) for warning in recwarn if "ignored" in str(warning.message)]
    records = measured._records(measured.folder(H200), family.space, path.stem, measured._names(problem, {}))
    assert len(records) == len(lines)


def test_sweeps_decide_on_their_device_and_the_emulator_that_stands_for_it() -> None:
    emulator = emulated.backend().device
    factors = (qr, qr.spec.problem("float64", 28, 28, 1000)), (cholesky, cholesky.spec.problem("float64", 20, 9))
    for family, problem in ((lu, inverse(58)), *factors):
        found = next(measured.configs(family.space, problem, H200))
        assert type(family.defaults.default(problem, H200)) is type(found)
        assert next(measured.configs(family.space, problem, emulator)) == found
        assert not list(measured.configs(family.space, problem, A100))
        assert family.defaults.default(problem, A100) is not None


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


def test_unnamed_devices_get_the_sheet_of_their_architecture() -> None:
    kinds = {"sm_86": "A100", "sm_89": "L40S", "sm_90a": "H200", "sm_100a": "B200", "sm_121a": "5090", "sm_75": "A100"}
    for arch, name in kinds.items():
        device = type(H200)("cuda", "some GPU", arch, 100)
        assert name in nominal.closest(device).device.name
