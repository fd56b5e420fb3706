"""Matrix powers: how a matrix is cut, what fits, and which kernel answers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import needs_cpu
from devices import H200
from powers_cases import (
    banded,
    grid,
    numbers,
    on,
    same_bits,
)  # fmt: skip

import mansard as ms
from mansard.backends import cpu
from mansard.errors import IllegalConfig
from mansard.kernels.sparse.powers import defaults, fit, space, spec, work
from mansard.machine import caches, machine
from mansard.machine.measure import Timing
from mansard.operations.sparse import chunked, convert
from mansard.operations.sparse.powers import call, plan
from mansard.operations.sparse.powers.order import ordered
from mansard.operations.sparse.powers.order.ordered import Orders
from mansard.operations.sparse.powers.task import Options, Task
from mansard.operations.sparse.storage import Ell
from mansard.sparse import matrices


@pytest.mark.parametrize(
    ("name", "rows", "width", "ahead", "p", "wanted"),
    [
        ("27pt", 1 << 22, 27, 128 * 128 + 129, 5, [("1|1|3", 7)]),
        ("27pt", 1 << 22, 27, 128 * 128 + 129, 3, [("3", 8)]),
        ("27pt", 1 << 22, 27, 128 * 128 + 129, 8, [("1|3", 7), ("1|3", 7)]),
        ("band", 1 << 22, 27, 13, 5, [("5", 4)]),
        ("7pt", 1 << 24, 7, 65536, 5, [("1|1|3", 7)]),
        ("wide", 1 << 24, 27, 1 << 20, 2, []),
    ],
)
def test_configurations_follow_from_the_reach(
    name: str, rows: int, width: int, ahead: int, p: int, wanted: list[tuple[str, int]]
) -> None:
    """What was found by trying on an H200, or as good."""
    problem = spec.problem("float64", rows, rows * width, p)
    passes, reason = fit.passes(problem, banded(rows, width, ahead), H200)
    assert [(config.RETAIN, config.LAG) for config in passes] == wanted
    assert bool(reason) == (not passes)
    for config in passes:
        part = problem.replace(P=sum(work.retained(config.RETAIN)))
        assert space.illegal(part, config, H200) is None
        assert fit.ahead(banded(rows, width, ahead).reach(32 * config.TILE), 132) <= config.LAG


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_there_is_always_a_configuration(dtype: str) -> None:
    for width, columns in ((1, 1), (7, 2), (300, 4), (27, 16)):
        problem = spec.problem(dtype, 10000, 10000 * width, 4, NVECS=columns, shifted=True, three_term=True)
        assert (
            defaults.default(problem, H200) is not None and defaults.default(problem, cpu.backend().device) is not None
        )


def test_what_is_pinned_must_be_possible() -> None:
    """With too short a lag blocks would wait for each other; more powers would go beyond the result."""
    A = grid(400, 6)
    for pins in ({"LAG": 1, "TILE": 1, "ABREAST": 1}, {"RETAIN": "1|2"}, {"SLOTS": 3}, {"WARPS": 40}):
        with ms.pin(**pins), pytest.raises(IllegalConfig):
            ms.matrix_powers(A, 2, execution="persistent", backend="emulated", index="int32")


def test_indices_out_of_range_are_refused() -> None:
    A = grid(5, 6)
    A.indices[7] = 30
    with pytest.raises(ValueError, match="30"):
        ms.matrix_powers(A, 2)


def test_plain_powers_of_short_equal_rows_are_ellpack(monkeypatch: pytest.MonkeyPatch) -> None:
    """As products are, on GPUs; the bits are the same."""
    A = grid(21, 17)
    x = numbers(np.random.default_rng(3), 357, "float64")
    keywords: dict[str, Any] = {"execution": "plain", "backend": "emulated", "order": "none"}
    want = ms.matrix_powers(A, 3, ("chebyshev", -8.0, 8.0), **keywords)(x)
    monkeypatch.setattr(convert, "wants_ell", lambda *rows: True)
    P = ms.matrix_powers(A, 3, ("chebyshev", -8.0, 8.0), **keywords)
    assert isinstance(P.stored, Ell) and (P(x) == want).all()
    doubled = P.with_values(2 * A.data)
    assert (doubled(x) == ms.matrix_powers(2 * A, 3, ("chebyshev", -8.0, 8.0), **keywords)(x)).all()


def test_what_blocking_would_not_help_runs_plainly(backend: str) -> None:
    """The matrix stays in the cache, or there is one power."""
    moved, _, keywords = on(backend, grid(20, 20))
    for p in (1, 4):
        P = ms.matrix_powers(moved, p, **keywords)
        assert P.choice.execution == "plain" and P.choice.reason in P.explain()


@needs_cpu
def test_groups_on_a_cpu_pass_through_its_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "cache_bytes", lambda: (20_000, 200_000))
    monkeypatch.setattr(machine, "known", machine.nominal_for)
    A = grid(32, 800, integers=False)
    x = numbers(np.random.default_rng(0), A.shape[0], "float64", integers=False)
    plain = ms.matrix_powers(A, 4, execution="plain", backend="cpu")(x)
    for threads in (1, 2, 5):
        P = ms.matrix_powers(A, 4, backend="cpu", threads=threads)
        assert P._ordered.layout.buffer is not None, "stored before threads may share it"
        assert P.choice.execution == "groups" and "groups:" in P.explain()
        for _ in range(5):
            assert same_bits(P(x), plain)


@needs_cpu
def test_groups_that_fill_most_of_a_cache_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside plain products, and only where both are measured. Four powers pass through windows of 6.7 kB."""
    monkeypatch.setattr(machine, "known", machine.nominal_for)
    task = Task(4)
    task.settle_dtype("float64", None)
    orders = Orders(grid(32, 800, integers=False), "cpu")

    def ways(third: int, measured: bool) -> list[str]:
        monkeypatch.setattr(caches, "cache_bytes", lambda: (1_000, third))
        monkeypatch.setattr(plan, "_MEASURED", 1 if measured else 1 << 30)
        return [route.choice.execution for route in plan.routes(task, orders, Options(threads=1), "auto")]

    assert ways(30_000, measured=False) == ["groups"]
    assert ways(12_000, measured=True) == ["groups", "plain"] and ways(12_000, measured=False) == ["plain"]
    assert ways(8_000, measured=True) == ["plain"]


@needs_cpu
def test_measured_caches_decide_whether_groups_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the bandwidth of the window that groups take, and with the waits of all their tasks."""
    monkeypatch.setattr(caches, "cache_bytes", lambda: (20_000, 200_000))
    A, nominal = grid(32, 800, integers=False), machine.nominal_for(cpu.backend().device)

    def on_machine(ratio: float, wait: float, **details: Any) -> Any:
        curve = ((1 << 12, ratio * 2e10), (1 << 18, ratio * 2e10), (1 << 20, 2e10))
        found = replace(
            nominal, origin="measured", cache_bandwidth=curve, grid_barrier_seconds=wait, details=dict(details)
        )
        monkeypatch.setattr(machine, "known", lambda device: found)
        return ms.matrix_powers(A, 4, backend="cpu", threads=2).choice

    assert on_machine(20.0, 1e-9).execution == "groups"
    slow = on_machine(1.02, 1e-9)
    assert slow.execution == "plain" and "not so much faster than memory" in slow.reason
    assert dict(slow.seconds)["plain"] < 1.03 * dict(slow.seconds)["groups"]
    assert on_machine(20.0, 1e-4).execution == "plain"  # threads wait longer than they compute
    assert on_machine(1.02, 1e-9, noise=["busy"]).execution == "groups"  # such ceilings say nothing


class Pattern(NamedTuple):
    """A matrix in level order, as the model of powers sees it: its layout and its permutation."""

    layout: Any
    permutation: Any = None


def test_a_third_cache_that_nearly_holds_the_matrix_needs_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven points on 160^3, five powers, by the ceilings of 16 cores: memory 124 GB/s, a third cache of 300 MB. Plain
    products read most of the matrix from there; four times as large a matrix is read from memory."""
    rates = ((2, 3000), (30, 900), (256, 420), (512, 330), (1024, 124))
    curve = tuple((size * 1_000_000, rate * 1e9) for size, rate in rates)
    device = replace(cpu.backend().device, multiprocessors=16)
    found = replace(
        machine.nominal_for(device), origin="measured", cache_bandwidth=curve, grid_barrier_seconds=3e-6,
        read_bandwidth=124e9, details={},
    )  # fmt: skip
    monkeypatch.setattr(machine, "known", lambda device: found)

    def gain(rows: int) -> float:
        ordered = Pattern(SimpleNamespace(nbytes=84 * rows))
        problem = SimpleNamespace(ROWS=rows, NVECS=1, itemsize=8, P=5)
        predicted = dict(plan._predictions_on_cpu(problem, ordered, device, (180, 2, 19e6), 16))  # type: ignore[arg-type]
        return predicted["plain"] / predicted["groups"]

    assert gain(160**3) < plan.GAIN < 1.3 < gain(4 * 160**3)


@needs_cpu
def test_of_two_ways_the_first_must_win_turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """One good moment of three does not count; a gain within noise does not either."""
    made = [ms.matrix_powers(grid(9, 9), 2, execution="plain", backend="cpu") for _ in range(2)]

    def faster(first: list[float], second: list[float]) -> int:
        times = [time for turn in zip(first, second, strict=True) for time in turn]
        monkeypatch.setattr(call, "measure", lambda *given, **options: Timing((times.pop(0),)))
        return made.index(call._faster(made[0], made[1], cpu.backend()))

    assert faster([1.0] * 5, [2.0] * 5) == 0 and faster([2.0] * 5, [1.0] * 5) == 1
    assert faster([2.0, 0.5, 2.0, 2.0, 0.5], [1.0] * 5) == 1
    assert faster([0.99] * 5, [1.0] * 5) == 1


def test_rows_as_they_are_may_be_blocked_where_levels_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends in plain products is in vain: the matrix' own order is asked too."""
    A = matrices.randomized(matrices.stencil(27, (6, 6, 100)))
    orders, choose = Orders(A, "emulated"), plan.choose
    by_level = orders.by_level

    def choice(problem: Any, ordered: Any, device: Any, asked: Any, threads: int) -> Any:
        return choose(problem, ordered, device, "plain" if ordered.levels is not None else "persistent", threads)

    monkeypatch.setattr(orders, "by_level", lambda how: by_level("search" if how == "auto" else how))
    monkeypatch.setattr(plan, "choose", choice)
    task = Task(2)
    task.settle_dtype("float64", None)
    P = call.planned(task, orders, Options(), "auto")
    assert P.choice.execution == "persistent" and P._ordered.levels is None
    x = numbers(np.random.default_rng(3), A.shape[0], "float64")
    assert (P(x) == ms.matrix_powers(A, 2, execution="plain", backend="emulated")(x)).all()


def test_skewed_rows_are_not_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose padding might fill the memory."""
    A = sp.csr_array(sp.coo_array((np.ones(3000), (np.arange(3000) % 2 * 7, np.arange(3000))), (3000, 3000)))
    monkeypatch.setattr(ordered, "in_level_order", None)
    P, x = ms.matrix_powers(A, 3, backend="cpu"), np.ones(3000)
    assert P.choice.execution == "plain" and "long" in P.explain() and (P(x)[1] == A @ x).all()


@pytest.mark.parametrize("execution", [None, "plain", "groups", "persistent"])
def test_the_choice_is_made_before_anything_is_stored_or_compiled(
    execution: str | None, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, _, keywords = on(backend, matrices.randomized(matrices.stencil(27, (6, 6, 100))))
    if execution == "persistent" and backend == "cpu":
        pytest.skip("persistent launches are a GPU's")
    orders, task = Orders(moved, keywords.get("backend")), Task(3)
    task.settle_dtype("float64", None)
    for home, name in ((chunked, "filled"), (type(orders.backend), "prepare"), (Orders, "held")):
        monkeypatch.setattr(home, name, None)
    for order in ("auto", "given", "search", "none"):
        for choice, found in plan.routes(task, orders, Options(execution), order):
            assert choice.reason and choice.execution == (execution or choice.execution)
            assert found is None or found.layout.buffer is None


def test_what_products_serve_better_is_not_stored_by_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """One conversion, one kernel: rows by level are a pattern that was looked at."""
    monkeypatch.setattr(chunked, "filled", None)
    monkeypatch.setattr(convert, "wants_ell", lambda *rows: True)
    P = ms.matrix_powers(matrices.randomized(matrices.delaunay(300)), 3, backend="emulated")
    assert P.choice.execution == "plain" and P._ordered is None
