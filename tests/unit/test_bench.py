"""What the benchmark measures: sets, operands, checks, statistics, misses. No GPU needed."""

from __future__ import annotations

import json
import re
import statistics
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_samples
import numpy as np
import pytest

from mansard.backends import cuda
from mansard.bench import build, cases, clock, contenders, entries, extension, peers, rows, store, summary, targets
from mansard.bench.check import Reference
from mansard.bench.data import Operands
from mansard.bench.factor.operations import ONE_SIDED, TWO_SIDED
from mansard.bench.runner import CATALOGUES, sets_of
from mansard.bench.sparse.operations import SPARSE
from mansard.codegen.geometry import Device
from mansard.codegen.instantiate import Source
from mansard.compile import nvrtc
from mansard.errors import UsageError
from mansard.plan.problem import DTYPES, ITEMSIZE
from mansard.untrusted import Damaged
from papers import EXTENSION
from papers.ernst import cases as ernst

CPU_SIZE = cases.Size("cpu", {dtype: (1 << 22) // item for dtype, item in ITEMSIZE.items()}, 1 << 20)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    return bench_samples.written(tmp_path_factory)


# --- what is measured


def test_full_has_every_width() -> None:
    for size, dtypes in ((bench_samples.SIZE, DTYPES), (CPU_SIZE, ("float64", "complex128"))):
        found = {(case.dtype, case.M) for case in cases.full(size) if case.M == case.N}
        assert found == {(dtype, m) for dtype in dtypes for m in range(1, 65)}


def test_sizes_fill_the_operands() -> None:
    for case in cases.full(bench_samples.SIZE):
        assert (1 << 28) - case.M < case.K * case.M <= 1 << 28


def test_sets_cover_the_issue() -> None:
    pairs = {(case.M, case.N) for case in cases.rectangular(bench_samples.SIZE)}
    assert {(1, 32), (4, 64), (7, 13), (64, 3), (8, 16), (64, 16)} <= pairs
    short = {(case.mode, case.temperature, case.K, case.M) for case in cases.short(bench_samples.SIZE)}
    assert len(short) == 36 and ("graph", "cold", 100_000, 16) in short
    assert {case.layout for case in cases.layouts(bench_samples.SIZE)} == {"col", "padded", "unaligned"}
    assert {dict(case.pins)["REDUCE"] for case in ernst.reduction(bench_samples.SIZE)} == {
        "ticket",
        "sliced",
        "block",
        "atomic",
    }
    flags = {(dict(case.pins)["LEAPFROG"], dict(case.pins)["TRANSPOSED"]) for case in ernst.mapping(bench_samples.SIZE)}
    assert len(flags) == 4


def test_keys_are_unique_and_sets_share_cases() -> None:
    chosen, refused = cases.select(bench_samples.EVERY, bench_samples.SIZE, sets_of("gram", EXTENSION))
    assert len({case.key for case in chosen}) == len(chosen) and not refused
    both, _ = cases.select(("quick", "full"), CPU_SIZE)
    assert len(both) == 128


def test_sets_for_gpus_are_refused_by_name_elsewhere() -> None:
    chosen, refused = cases.select(("tilesize", "same"), CPU_SIZE, sets_of("gram", EXTENSION))
    assert refused == {"tilesize": "for GPUs only"} and all(case.same for case in chosen)
    with pytest.raises(ValueError, match="--set nonsense: there are quick"):
        cases.select(("nonsense",), CPU_SIZE)


@pytest.mark.parametrize("layout", cases.LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_have_the_layout_they_claim(dtype: str, layout: str) -> None:
    case = cases.Case("x", dtype, 5, 3, 40, layout)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    item, problem = ITEMSIZE[dtype], case.problem()
    assert A.shape == (40, 5) and B.shape == (40, 3) and A.dtype == dtype and np.isfinite(A).all()
    assert A.strides == ((item, 40 * item) if layout == "col" else (problem.pitch_a * item, item))
    assert (A.ctypes.data % 16 == 0) == (problem.aligned or (dtype == "complex128" and A.ctypes.data % 16 == 0))
    assert not np.shares_memory(A, B)


def test_cold_operands_rotate_through_more_than_the_cache() -> None:
    case = cases.Case("x", "float64", 4, 4, 100, mode="graph")
    operands = Operands("cpu", [case], cache_bytes=1 << 16)
    count = operands.sets(case)
    assert count * case.bytes >= 2 << 16
    first, last = operands.pair(case, 0)[0], operands.pair(case, count - 1)[0]
    assert last.shape == (100, 4) and not np.shares_memory(first, last)


# --- right or wrong


@pytest.mark.parametrize("dtype", DTYPES)
def test_check_accepts_right_and_finds_wrong(dtype: str) -> None:
    case = cases.Case("x", dtype, 3, 4, 5000)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    reference, C = Reference(A, B), A.conj().T @ B
    assert reference.error(C) <= 1
    for place in np.ndindex(C.shape):
        wrong = C.copy()
        wrong[place] += 0.6  # one row's product, about
        assert reference.error(wrong) > 1, place
    assert reference.error(np.full_like(C, np.nan)) == float("inf")
    assert reference.error(C[:2]) == float("inf")


def test_check_still_says_something_beyond_the_worst_case_bound() -> None:
    """The worst case allows floats an error of n u |A|^T |B|, here 6 % of the rows; a few hundred must be noticed."""
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((1 << 20, 1), dtype="float32") for _ in range(2))
    reference = Reference(A, B)
    whole = A.astype("float64").T @ B
    assert reference.error(A.T @ B) < 0.2 and reference.error(np.cumsum(A * B, dtype="float32")[-1:, None]) < 1
    assert reference.error(whole + 20.0) > 1


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "complex64"])
def test_every_spelling_of_every_peer_is_right(dtype: str, layout: str) -> None:
    case = cases.Case("x", dtype, 5, 3, 200, layout)
    A, B = Operands("cpu", [case], 1 << 10).pair(case)
    for peer in contenders.peers_for("cpu"):
        if peer.missing or not peer.takes_part(case):
            continue
        for label, spelled in peer.spellings(case).items():
            result = peer.give(spelled(peer.take(A), peer.take(B)))
            assert Reference(A, B).error(result) <= 1, (peer.name, label)


def test_the_fastest_spelling_is_measured() -> None:
    class Slow(peers.NumpyPeer):
        def spellings(self, case: cases.Case) -> dict[str, peers.Product]:
            return {"slow": lambda A, B: (2.0, len(A)), "fast": lambda A, B: (1.0, len(A)), "never": never}

    def never(A: Any, B: Any) -> tuple[float, int]:
        assert len(A) < 128, "was asked for all rows after losing on a share of them"
        return (9.0, len(A))

    race: Callable[[Any], float] = lambda run: run(0)[0]  # noqa: E731
    A = np.ones((128, 1))
    entry = entries.enter(Slow(), cases.Case("x", "float64", 1, 1, 128), [(A, A)], race)
    assert entry.spelling == "fast" and entry.result() == (1.0, 128)


# --- numbers


def test_statistics_come_from_the_raw_seconds(made: tuple[Path, dict[str, Any]]) -> None:
    document = json.loads((made[0] / store.RESULTS).read_text())
    read = document["ceilings"]["read_bandwidth"]
    assert read == statistics.median([4.5e12, 4.52e12, 4.48e12])
    checked = 0
    for row in document["rows"]:
        if not row["seconds"] or row["mode"] == "host":
            continue
        words = 2 if row["dtype"].startswith("complex") else 1
        columns = row["M"] + (0 if row["same"] else row["N"])
        moved = (row["K"] * columns + row["M"] * row["N"]) * ITEMSIZE[row["dtype"]]
        median = statistics.median(row["seconds"])
        assert row["median"] == median
        assert row["percent_bandwidth"] == pytest.approx(100 * moved / median / read, rel=0.01)  # a little is written
        products = row["M"] * (row["M"] + 1) / 2 if row["same"] else row["M"] * row["N"]
        assert row["gflops"] == pytest.approx((8 if words == 2 else 2) * products * row["K"] / median / 1e9)
        checked += 1
    assert checked > 1000


def test_x_peer_is_the_best_right_peer_over_ours() -> None:
    facts = {**cases.Case("x", "float64", 4, 4, 1000).to_dict(), "case": "one"}
    found = [
        rows.row(facts, rows.OURS, [1.0, 1.1, 0.9]),
        rows.row(facts, "slow", [3.0]),
        rows.row(facts, "good", [2.0]),
        rows.row(facts, "wrong", [0.1], status="wrong"),
        rows.row(facts, "absent", status="missing"),
    ]
    compared = rows.compare(rows.complete(row, bench_samples.H200) for row in found)
    assert compared[0]["x_peer"] == pytest.approx(2.0) and compared[0]["best_peer"] == "good"


def test_table_names_the_worst_width(made: tuple[Path, dict[str, Any]]) -> None:
    results = made[1]
    table = summary.by_range(results, set())
    assert [cells[1] for cells in table.cells[:5]] == ["1-8", "9-16", "17-32", "33-48", "49-64"]
    for cells in table.cells:
        low, high = map(int, cells[1].split("-"))
        inside = [
            row for row in summary.squares(results["rows"]) if row["dtype"] == cells[0] and low <= row["M"] <= high
        ]
        percents = {row["M"]: 100 * row["bound_seconds"] / statistics.median(row["seconds"]) for row in inside}
        worst = min(percents, key=lambda m: percents[m])
        assert len(inside) == high - low + 1
        assert cells[3:6] == (f"{percents[worst]:.1f}", f"{statistics.median(percents.values()):.1f}", f"M={worst}")


def test_misses_are_found() -> None:
    facts = {**cases.Case("full", "float64", 8, 8, 1 << 25).to_dict(), "case": "a"}
    least = 2 * 8 * 8 * (1 << 25) / 4.5e12
    results = {"environment": {"backend": "cuda"}, "rows": []}
    for share, missed in ((0.97, False), (0.90, True)):
        results["rows"] = [rows.complete(rows.row(facts, rows.OURS, [least / share]), bench_samples.H200)]
        assert bool(EXTENSION.misses(results)) == missed
    results["rows"] = [rows.row(facts, rows.OURS, status="wrong", error=7.0)]
    assert "wrong" in EXTENSION.misses(results)[0][1]


@pytest.mark.skipif(nvrtc.available() is not None, reason="NVRTC is not installed")
def test_the_clocks_kernels_compile() -> None:
    for text in (cuda._HOLD, clock._EMPTY):
        assert nvrtc.compile_cuda(Source("cuda", text, ()), "sm_90a").binary.stat().st_size > 0


def test_pinned_experiments_have_legal_configurations_on_a_gpu() -> None:
    """Most tiles must be drawn; each combination of figure 15 needs at least one at every width."""
    device = Device("cuda", "NVIDIA H200", "sm_90a", 132, 227 << 10, 228 << 10, 65536, 2048, 60 << 20)
    backend = SimpleNamespace(name="cuda", device=device)
    assert len(build.sources(ernst.tilesize(bench_samples.SIZE), backend)) > 150
    assert len(build.sources(ernst.reduction(bench_samples.SIZE), backend)) == 8
    for m, leapfrog, transposed in product((4, 32, 64), (True, False), (True, False)):
        wanted = {"LEAPFROG": leapfrog, "TRANSPOSED": transposed}
        chosen = [
            case
            for case in ernst.mapping(bench_samples.SIZE)
            if m == case.M and wanted.items() <= dict(case.pins).items()
        ]
        assert build.sources(chosen, backend), (m, wanted)


# --- what is outside the package


def test_nothing_of_the_package_imports_the_papers_and_the_wheel_has_none() -> None:
    root = Path(__file__).resolve().parents[2]
    for path in (root / "mansard").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) papers\b", path.read_text(), re.MULTILINE), path
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["mansard"]}


def test_an_extension_is_loaded_from_its_folder(tmp_path: Path) -> None:
    papers = Path(__file__).resolve().parents[2] / "papers"
    assert extension.load(None) is extension.NOTHING
    assert extension.load(papers) is EXTENSION
    assert set(extension.load(papers / "ernst").sets) == {"gram", "matmul"}
    with pytest.raises(UsageError, match="no Python package"):
        extension.load(tmp_path)
    (tmp_path / "empty_one").mkdir()
    (tmp_path / "empty_one" / "__init__.py").write_text("")
    with pytest.raises(UsageError, match="no EXTENSION"):
        extension.load(tmp_path / "empty_one")


def test_users_are_judged_by_nobodys_targets() -> None:
    facts = {**cases.Case("full", "float64", 8, 8, 1 << 25).to_dict(), "case": "a"}
    slow = rows.complete(rows.row(facts, rows.OURS, [1.0]), bench_samples.H200)
    results = {"environment": {"backend": "cuda"}, "rows": [slow]}
    assert extension.NOTHING.misses(results) == [] and "wanted" not in slow
    assert EXTENSION.misses(results)[0][1].endswith("% of the bandwidth, target 95") and slow["wanted"]


@pytest.mark.parametrize("text", ["", "target = 3", "[[target]]\noperation = 'gram'", "[[target", "[[target]]\nx = 1",
                                  "[[target]]\nbackend = 'cpu'\noperation = 'gram'\nmetric = 'x_peer'"])  # fmt: skip
def test_a_file_without_targets_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "targets.toml").write_text(text)
    with pytest.raises(Damaged, match=r"targets\.toml"):
        targets.read(tmp_path / "targets.toml")


def test_every_metric_of_the_targets_exists() -> None:
    known = {*targets.METRICS, *EXTENSION.metrics, "passes", *rows.COLUMNS, "percent_copy", "percent_uniform"}
    assert {target.metric for target in EXTENSION.targets} <= known


def test_the_sample_has_every_operation() -> None:
    for size in (bench_samples.SIZE, CPU_SIZE):
        chosen = [case for family in CATALOGUES for case in cases.select(("sample",), size, CATALOGUES[family])[0]]
        assert {case.set for case in chosen} == {"sample"} and len(chosen) <= 35
        wanted = {"gram", "tsmm", "matmul", "cholesky_qr", *ONE_SIDED, *TWO_SIDED, "gemm", "gemv", "trsv", "trsm"}
        wanted |= {"ragged", *SPARSE}
        assert wanted <= {case.operation for case in chosen}
