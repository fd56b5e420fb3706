"""Random problems: the distribution, one way from a number to a case, checks that fail, and exact statistics."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mansard import Ragged, cli
from mansard.bench import calls, cases, check, entries, operations, runner, store
from mansard.bench.contest import Contest
from mansard.bench.data import Operands
from mansard.bench.random import command, data, peers, summary
from mansard.bench.random.cases import Asked, case_of
from mansard.bench.random.operations import KINDS, NAMES, kind, name_of, problem, weights
from mansard.bench.random.problem import DTYPES, LAYOUTS, Drawn, Operand
from mansard.errors import UsageError
from mansard.machine.roofline import Work
from mansard.plan.problem import ITEMSIZE

SMALL = 1 << 13  # bytes of operands and result
SIZE = cases.Size("cpu", dict.fromkeys(ITEMSIZE, 1 << 12), 1 << 20)


def numbers(name: str, count: int, seed: int = 5) -> list[int]:
    return list(Asked(seed, SMALL, count, (name,)).numbers())


def dense(seed: int, number: int, memory: int) -> Drawn:
    found = problem(seed, number, memory)
    assert isinstance(found, Drawn)
    return found


# --- the distribution


def test_a_problem_is_a_function_of_its_seed_and_number() -> None:
    first = [str(problem(3, number, SMALL)) for number in range(1, 200)]
    problem.cache_clear()
    assert [str(problem(3, number, SMALL)) for number in range(199, 0, -1)][::-1] == first
    assert [str(problem(4, number, SMALL)) for number in range(1, 200)] != first
    every = {number: case.key for number, case in zip(range(1, 61), _cases(Asked(3, SMALL, 60)), strict=True)}
    some = Asked(3, SMALL, 9, ("gram", "solve", "matvec"))
    assert [name_of(3, number) in some.operations for number in some.numbers()] == [True] * 9
    assert all(case.key == every.get(case.drawn[1], case.key) for case in _cases(some))
    assert [case.key for case in _cases(Asked(3, SMALL, 1, only=(7, 9)))] == [every[7], every[9]]


def _cases(asked: Asked) -> list[cases.Case]:
    return [case_of(asked.name, (asked.seed, number, asked.memory)) for number in asked.numbers()]


def test_every_operation_dtype_and_layout_is_drawn() -> None:
    drawn = [one for number in range(1, 1500) if isinstance(one := problem(1, number, SMALL), Drawn)]
    assert {name_of(1, number) for number in range(1, 1500)} == set(NAMES) == set(weights())
    assert {one.dtype for one in drawn} == set(DTYPES)
    assert {operand.layout for one in drawn for operand in one.operands} == set(LAYOUTS)
    stacks = [one for one in drawn if one.operation == "gemm"]
    options = {"result": {one.result is None for one in drawn}, "alone": {one.sizes["batch"] == 1 for one in stacks}}
    options |= {name: {one.options[name] for one in stacks} for name in ("trans_a", "trans_b")}
    assert options == {"result": {True, False}, "alone": {True, False}, "trans_a": set("NTC"), "trans_b": set("NTC")}
    shared = [len(one.operands[0].shape) != len(one.operands[1].shape) for one in stacks]
    assert any(shared) and not all(shared)
    laws = {one.sizes["law"] for one in drawn if one.operation.startswith("ragged")}
    assert laws == {"uniform", "power law", "bimodal"}
    sparse = [one for number in range(1, 1500) if isinstance(one := problem(1, number, SMALL), dict)]
    assert {"blocks", "power law", "random", "7pt", "band-7", "Kronecker"} <= {one["form"] for one in sparse}
    assert {one["inner"] > 0 for one in sparse} == {one["N"] > 1 for one in sparse} == {True, False}


@pytest.mark.parametrize("memory", [1 << 13, 1 << 20, 1 << 27])
def test_problems_keep_to_the_memory_limit(memory: int) -> None:
    """Half of the logarithms of the sizes are in the upper half, and none is far above the limit."""
    found = [one.bytes for number in range(1, 600) if isinstance(one := problem(2, number, memory), Drawn)]
    assert max(found) <= 2.0 * memory
    assert sum(size > (memory * 4096) ** 0.5 for size in found) > len(found) / 8


# --- places in memory


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4, 3, 5), (7, 3)])
def test_operands_lie_where_the_layout_says(layout: str, shape: tuple[int, ...]) -> None:
    if len(shape) == 2 and layout in ("gaps", "batch last"):
        layout = "row"
    array = data.placed(data.Numbers(np), Operand(shape, layout, 3), "complex64", 11)
    again = data.placed(data.Numbers(np), Operand(shape, layout, 3), "complex64", 11)
    rows, columns = shape[-2:]
    steps = tuple(step // array.itemsize for step in array.strides[-2:])
    assert array.shape == shape and array.dtype == "complex64" and array.flags.writeable
    assert np.array_equal(array, again) and len(np.unique(array)) == array.size
    expected = {
        "row": (columns, 1), "shifted": (columns, 1), "gaps": (columns, 1), "column": (1, rows),
        "padded rows": (columns + 3, 1), "padded columns": (1, rows + 3), "every other": (2 * columns, 2),
        "batch last": (columns * shape[0], shape[0]),
    }  # fmt: skip
    assert steps == expected[layout]
    if len(shape) == 3:
        batch = {"gaps": 3 * rows * columns, "batch last": 1, "every other": 2 * rows * columns,
                 "padded rows": rows * (columns + 3), "padded columns": columns * (rows + 3)}  # fmt: skip
        assert array.strides[0] // array.itemsize == batch.get(layout, rows * columns)


# --- results and checks


def _held(name: str, number: int) -> tuple[cases.Case, Operands, tuple[Any, Any], Any]:
    case = case_of("x", (5, number, SMALL))
    operands = Operands("cpu", [case], 1 << 10)
    pair = operands.pair(case)
    return case, operands, pair, check.reference_for(case, *pair)


@pytest.mark.parametrize("name", KINDS)
def test_our_call_and_every_spelling_are_right(name: str) -> None:
    """With the array library's own answers: what is tested is the benchmark, which compiles nothing for it."""
    backend = runner.choose_backend("reference")[0]
    faced = set()
    for number in numbers(name, 3):
        case, operands, pair, reference = _held(name, number)
        ours, _ = calls.ours(case, [pair], operands, backend)
        reference.prepare(ours.out)
        assert reference.error(ours.result()) <= 1, case.key
        for peer in peers.peers_for("cpu"):
            if peer.missing or not peer.takes_part(case):
                continue
            for written, run in peer.spellings(case).items():
                out = operands.empty(case)
                given = peer.converted(case, *(_taken(peer, one) for one in pair))  # type: ignore[attr-defined]
                try:
                    found = run(given[0], given[0] if given[1] is None else given[1], _taken(peer, out))
                except (TypeError, ValueError, AttributeError):  # SciPy has no stacks of them, or none from the right
                    assert peer.name == "SciPy", (case.key, written)
                    continue
                entry = entries.Entry(peer.name, written, partial(_of_index, found), peer.give)
                assert reference.error(entry.result()) <= 1, (case.key, peer.name, written)
                faced.add(peer.name)
    assert faced, name
    assert summary.percentile([operations.work_of(asdict(case)).bytes], 5) > 0


def _of_index(result: Any, index: int) -> Any:
    return result


def _taken(peer: Any, operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(one if isinstance(one, bool) else peer.take(one) for one in operand)
    return operand if operand is None else peer.take(operand)


@pytest.mark.parametrize("name", KINDS)
def test_wrong_results_are_found(name: str) -> None:
    """An entry in the first or the last matrix, a hundredth of the largest away from what it should be, or NaN."""
    backend = runner.choose_backend("reference")[0]
    for number in numbers(name, 2):
        case, operands, pair, reference = _held(name, number)
        ours, _ = calls.ours(case, [pair], operands, backend)
        result = ours.result()
        for place in (0, -1):
            for add in (0.01, np.nan):
                assert reference.error(_spoiled(result, place, add, kind(reference.drawn).public)) > 1, (case.key, add)


def _spoiled(result: Any, place: int, add: float, public: str) -> Any:
    """A copy of a result with an entry changed: of factors R, L and the like, on the diagonal, which always counts."""
    if isinstance(result, Ragged):
        matrices = [np.array(one) for one in result.to_list()]
        matrices[place][0, 0] += add * (1 + abs(matrices[place]).max())
        return matrices
    if isinstance(result, tuple):
        at = 0 if public != "slogdet" else 1
        return tuple(_spoiled(one, place, add, "") if number == at else one for number, one in enumerate(result))
    found = np.array(result)
    flat = found.reshape(-1) if found.ndim else found.reshape(1)
    flat[place if public not in ("cholesky", "qr") else 0] += add * (1 + abs(found).max())
    return found if found.ndim else found[()]


def test_a_contest_on_a_cpu(tmp_path: Path) -> None:
    """Our kernel, NumPy and PyTorch in turns; a contender that is wrong is said to be."""
    backend = runner.choose_backend("cpu")[0]
    case = next(one for one in _cases(Asked(5, SMALL, 9, ("gram",))) if "complex" not in one.dtype)

    class Wrong(peers.Numpy):
        name = "wrong"

        def spellings(self, case: cases.Case) -> Any:
            return {"A + A": lambda A, B, out: (A.T @ B) * 1.5}

    contest = Contest(backend, Operands("cpu", [case], 1 << 10), [*peers.peers_for("cpu"), Wrong()], 3)
    rows = {row["contender"]: row for row in contest.run(case)}
    assert rows["Mansard"]["status"] == rows["NumPy"]["status"] == "ok" and rows["wrong"]["status"] == "wrong"
    assert rows["Mansard"]["work"]["flops"] > 0 and rows["Mansard"]["problem_text"].startswith(case.dtype)


def test_sparse_problems_are_cases_of_the_sparse_benchmarks() -> None:
    backend = runner.choose_backend("reference")[0]
    for name in ("matvec", "matrix_powers"):
        case = case_of("x", (5, numbers(name, 1)[0], SMALL))
        contest = Contest(backend, Operands("reference", [case], 1 << 10), peers.peers_for("cpu"), 2)
        rows = contest.run(case)
        assert {row["contender"] for row in rows} >= {"Mansard", "SciPy"}, [row.get("note") for row in rows]
        assert all(row["status"] == "ok" for row in rows if row["contender"] in ("Mansard", "SciPy"))
        assert summary.name_of(rows[0]) == name


# --- statistics, the command


def _row(number: int, x: float, limit: float, operation: str = "random gram", status: str = "ok") -> dict[str, Any]:
    return {"contender": "Mansard", "drawn": [3, number, 1 << 27], "operation": operation, "status": status,
            "median": 1e-3, "x_peer": x, "best_peer": "NumPy", "percent_limit": limit, "case": str(number),
            "problem_text": f"problem {number}", "error": 7.0}  # fmt: skip


def test_percentiles_are_exact() -> None:
    assert summary.percentile([3.0], 5) == 3.0
    assert summary.percentile(list(range(20, 0, -1)), 5) == 1 and summary.percentile(list(range(1, 22)), 5) == 2
    assert summary.percentile([1, 2, 3, 4], 50) == 2 and summary.percentile([1, 2, 3, 4], 100) == 4
    rows = [_row(number, number / 10, 4.0 * number) for number in range(1, 22)]
    rows += [_row(40, 0.5, 50.0, "spmv"), _row(50, 0.1, 1.0, status="wrong"), {**_row(60, 0.01, 1.0), "drawn": []}]
    results = {"rows": rows, "environment": {"backend": "cpu"}, "missing": {}}
    table = summary.by_operation(results)
    lines = {cells[0]: cells for cells in table.cells}
    assert lines["gram"] == ("gram", "21", "1.10", "0.20", "0.10", "9 of 21", "44.0", "8.0", "4.0")
    assert lines["matvec"][1:5] == ("1", "0.50", "0.50", "0.50") and lines["all"][1] == "22"
    assert summary.worst(results).cells[0][0] == "0.10" and len(summary.worst(results).cells) == 20
    assert summary.worst(results).cells[0][-1] == "mansard bench random --seed 3 --only 1"
    assert len(summary.failures(results)) == 1 and "error 7.0" in summary.failures(results)[0]
    assert "## The 20 worst" in summary.markdown(results)


def test_the_command_goes_on_where_it_was_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "random", "--seed", "5", "--operations", "gram,ragged", "--memory", "2^13", "--repeats", "2"]
    asked += ["--device", "reference", "--cases", "4", "--out", str(tmp_path)]
    assert cli.main([*asked, "--seconds", "1e-9"]) == 0
    assert "4 cases left" in capsys.readouterr().out
    assert cli.main(asked) == 0
    folder = tmp_path / command.NAME
    printed, rows = capsys.readouterr().out, store.load(folder)["rows"]
    ours = [row for row in rows if row["contender"] == "Mansard"]
    assert len(ours) == 4 and "Random problems by operation" in printed and (folder / "summary.md").exists()
    number = ours[-1]["drawn"][1]
    again = summary.command(ours[-1], "reference").split()[1:]
    assert again == ["bench", "random", "--seed", "5", "--only", str(number), "--memory", "8192"]
    assert cli.main([*again, "--device", "reference", "--repeats", "2", "--out", str(tmp_path / "again")]) == 0
    (repeated,) = (row for row in store.load(tmp_path / "again" / "random")["rows"] if row["contender"] == "Mansard")
    same = ("case", "operation", "dtype", "problem_text", "work", "drawn")
    assert [repeated[name] for name in same] == [ours[-1][name] for name in same]


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--operations garm: .*did you mean 'gram'"):
        command._operations("garm")
    assert command._operations("matmul") == tuple(name for name in NAMES if name.startswith("matmul-"))
    assert isinstance(dense(5, numbers("syrk", 1)[0], SMALL).work, Work)
