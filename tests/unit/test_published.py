"""How published rows are measured: from a clean commit, with enough samples, against peers named and timed fairly.
No GPU, and no kernel is compiled."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mansard import cli
from mansard.bench import cases, clock, contenders, contest, labels, peers, provenance, rows, runner
from mansard.bench.cases import Case
from mansard.bench.factor import entries as factor_entries
from mansard.bench.factor import peers as factor_peers
from mansard.bench.sparse import cusparse

GRAM = Case("full", "float64", 8, 8, 1 << 25)


# --- the commit


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package in a repository of its own, committed."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    package = tmp_path / "package"
    package.mkdir()
    (package / "a.py").write_text("a = 1\n")
    (package / "b.cuh").write_text("int b;\n")
    (tmp_path / "elsewhere.txt").write_text("no part of what runs\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        _git(tmp_path, *words)
    return package


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    return subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True).stdout


def test_a_clean_commit_can_be_published_and_a_changed_one_is_refused_in_one_line(checkout: Path) -> None:
    assert provenance.refusal("", checkout) == ""
    assert provenance.describe("", checkout)["dirty"] is False
    (checkout.parent / "elsewhere.txt").write_text("results, say\n")
    assert provenance.refusal("", checkout) == "", "what does not run may change"
    (checkout / "__pycache__").mkdir()
    (checkout / "__pycache__" / "a.pyc").write_text("compiled")
    assert provenance.refusal("", checkout) == ""
    (checkout / "a.py").write_text("a = 2\n")
    (checkout / "new.py").write_text("")
    refused = provenance.refusal("", checkout)
    assert "package/a.py, package/new.py differ from commit" in refused and "\n" not in refused
    assert provenance.describe("", checkout)["dirty"] is True


def test_a_copy_without_git_names_its_commit_which_is_compared_later(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = _git(checkout.parent, "rev-parse", "HEAD").strip()
    copy = tmp_path / "elsewhere" / "package"
    copy.mkdir(parents=True)
    for name in ("a.py", "b.cuh"):
        (copy / name).write_bytes((checkout / name).read_bytes())
    assert "--commit HASH" in provenance.refusal("", copy)
    assert provenance.refusal(commit, copy) == ""
    found = provenance.describe(commit, copy)
    assert found["commit"] == commit and found["dirty"] is None
    assert found["tree"] == provenance.digest(provenance.committed(commit, checkout) or {})

    known = provenance.committed
    monkeypatch.setattr(provenance, "committed", lambda commit: known(commit, checkout))
    monkeypatch.setattr(provenance, "PACKAGE", checkout)
    provenance._committed_digest.cache_clear()
    assert provenance.verdict(found) == f"{commit[:12]}, clean"
    assert provenance.verdict(found | {"tree": "0"}) == f"{commit[:12]}, local changes"
    assert provenance.verdict(found | {"commit": "f" * 40}) == f"{'f' * 12}, not in this repository"
    assert provenance.verdict({"commit": commit, "dirty": True}) == f"{commit[:12]}, not verified, local changes"
    provenance._committed_digest.cache_clear()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--repeats", "3"), "at least 7 samples, not 3"),
        (("--no-peers",), "not with --no-peers"),
        (("--elements", "100"), "not with --elements"),
        ((), "--publish: mansard/a.py differ from commit"),
    ],
)
def test_publish_refuses(
    words: tuple[str, ...],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(provenance, "refusal", lambda named: "--publish: mansard/a.py differ from commit 0123")
    assert cli.main(["bench", "--publish", "--device", "reference", "--out", str(tmp_path / "out"), *words]) == 2
    said = capsys.readouterr().err
    assert text in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


# --- samples


def _contest(**options: Any) -> contest.Contest:
    backend = SimpleNamespace(name="reference", device=None)
    return contest.Contest(backend, None, [], 7, 0.0, **options)  # type: ignore[arg-type]


def test_published_rows_have_their_samples_however_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    samplers = {"Mansard": lambda: 0.2, "peer": lambda: 0.9}
    assert {len(each) for each in _contest()._take_turns(samplers, 7)[0].values()} == {3}
    assert {len(each) for each in _contest(least=7)._take_turns(samplers, 7)[0].values()} == {7}


def test_a_case_that_the_time_cut_short_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "select", lambda names, size, sets: ([Case("full", "float64", 4, 4, 64)], {}))
    whole = runner.run(runner.Options(device="reference", out=tmp_path / "a", peers=False, publish=True))
    assert [(row["status"], len(row["seconds"])) for row in whole["rows"]] == [("ok", 7)]
    over = _contest(least=7, deadline=time.monotonic() - 1)
    over._run = lambda case, facts: [rows.row(facts, "Mansard", [1.0])]  # type: ignore[method-assign]
    assert over.run(GRAM) == []


# --- peers


def _factor_rows(operation: str, peer: dict[str, Any]) -> rows.Row:
    facts = {**Case("lu", "float64", 4, 1, 1 << 20, operation=operation).to_dict(), "case": "x", "date": ""}
    mine = rows.row(facts, rows.OURS, [1.0], median=1.0)
    compared = rows.compare([mine, rows.row(facts, median=2.0, **({"contender": "CuPy"} | peer))])
    return next(row for row in compared if row["contender"] == rows.OURS)


def test_what_a_multiple_rests_on_is_said_beside_it() -> None:
    in_place = {"spelling": "cublas getrfBatched, columns adjacent"}
    assert labels.times_peer(_factor_rows("lu", in_place)) == "2.00 (with copy)"
    assert labels.times_peer(_factor_rows("lu", in_place | {"restored": True})) == "2.00"
    part = {"spelling": "geqrf(A)", "note": "measured on 5 of 9 matrices, time scaled"}
    row = _factor_rows("qr", part)
    assert labels.times_peer(row) == "2.00 (scaled)"
    assert any("part of the batch" in text for text in labels.notes([row]))
    assert labels.times_peer({}) == ""


def test_magma_is_named_where_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _factor_rows("lu", {"contender": labels.MAGMA})["best_peer"] == labels.MAGMA
    renamed = _factor_rows("cholesky", {"contender": labels.MAGMA})
    assert renamed["best_peer"] == "PyTorch (cuSOLVER), MAGMA preferred"
    peer = factor_peers.TorchMagma()
    case = Case("lu", "float64", 4, 1, 9, operation="cholesky")
    peer.missing = peer.missing or "PyTorch was built without MAGMA"
    assert peer.takes_part(case), "named as missing"
    peer.missing, asked = "", []
    monkeypatch.setattr(peer, "_differs", lambda operation: (asked.append(operation), operation == "lu")[1])
    found = [peer.takes_part(Case("lu", "float64", n, 1, 9, operation=op)) for op in ("cholesky", "lu") for n in (4, 8)]
    assert found == [False, False, True, True] and asked == ["cholesky", "lu"]


def test_a_copy_before_a_call_in_place_is_not_timed() -> None:
    order: list[str] = []

    def restore(A: Any, B: Any) -> None:
        time.sleep(0.02)
        order.append("restore")

    way = factor_entries.InPlace(restore, lambda A, B: (order.append("run"), {"F": A})[1])
    peer = SimpleNamespace(name="x", take=lambda one: one, give=lambda one: one, spellings=lambda case: {"way": way})
    host, case = clock.HostClock(), Case("lu", "float64", 2, 1, 10, operation="lu")

    def race(run: Any, before: Any) -> float:
        return host.sample(lambda: run(0), restore=lambda: before(0))

    entry = factor_entries.enter(peer, case, [(np.zeros((10, 2, 2)), None)], race)  # type: ignore[arg-type]
    sample = entry.sampler(host)
    assert max(sample() for _ in range(3)) < 0.01
    entry.result()
    assert order == ["restore", "run"] * (len(order) // 2), "every call finds its operands"
    assert entry.facts == {"restored": True}


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_inner_products_and_scalings_are_raced(dtype: str) -> None:
    rng = np.random.default_rng(3)
    A, B = (rng.standard_normal((64, 2)).astype(dtype if dtype == "float64" else "float32") for _ in range(2))
    if dtype == "complex64":
        A, B = (np.ascontiguousarray(one).view(dtype) for one in (A, B))
    A, B = A[:, :1].copy(), B[:, :1].copy()
    cublas = SimpleNamespace(dot=np.vdot, dotc=np.vdot, gemm=None)
    cupy = peers.CupyPeer.__new__(peers.CupyPeer)
    cupy.cupy, cupy.cublas = np, cublas
    known = peers.NumpyPeer | peers.TorchPeer
    everyone = [cupy, *(peer for peer in contenders.peers_for("cpu") if isinstance(peer, known))]
    for peer in (each for each in everyone if not getattr(each, "missing", "")):
        dots = {k: way for k, way in peer.gram(Case("x", dtype, 1, 1, 64)).items() if "dot" in k}
        assert len(dots) == (2 if peer is cupy else 1), peer.name
        for way in dots.values():
            assert np.allclose(peer.give(way(peer.take(A), peer.take(B))), A.conj().T @ B, rtol=1e-4)
        assert not any("dot" in k for k in peer.gram(Case("x", dtype, 2, 2, 64)))
        scaled = peer.spellings(Case("x", dtype, 1, 1, 64, operation="tsmm"))["multiply(A, B, out=C)"]
        out = np.zeros_like(A)
        scaled(peer.take(A), peer.take(B[:1]), peer.take(out))
        assert np.allclose(out, A * B[0, 0])
    assert "multiply(A, B, out=C)" not in peers.NumpyPeer().spellings(Case("x", dtype, 1, 2, 64, operation="tsmm"))


def test_matrices_in_sliced_ellpack_are_the_same_matrices() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(1)
    A = scipy.random(75, 60, 0.1, format="csr", random_state=2)
    offsets, columns, values = cusparse.sliced(np, A)
    x, y = rng.standard_normal(60), np.zeros(96)
    for row in range(75):
        start, end = offsets[row // cusparse.SLICE], offsets[row // cusparse.SLICE + 1]
        for place in range(start + row % cusparse.SLICE, end, cusparse.SLICE):
            y[row] += values[place] * x[columns[place]] if columns[place] >= 0 else 0.0
    assert np.allclose(y[:75], A @ x) and not y[75:].any() and (columns >= 0).sum() == A.nnz
    one_long_row = scipy.csr_matrix(np.eye(64) + np.vstack([np.ones((1, 64)), np.zeros((63, 64))]))
    with pytest.raises(ValueError, match="stored entries"):
        cusparse.sliced(np, one_long_row)


def test_cusparse_is_called_by_every_algorithm() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    called: list[str] = []

    class Memory(np.ndarray):
        @property
        def data(self) -> Any:
            return SimpleNamespace(ptr=self.ctypes.data)

    class Library:
        def __getattr__(self, name: str) -> Any:
            if not name.startswith("cusparse"):
                raise AttributeError(name)
            return lambda *arguments: (called.append(f"{name} {len(arguments)}"), 0)[1]

    device = SimpleNamespace(get_cusparse_handle=lambda: 0)
    stream = SimpleNamespace(ptr=0)
    cuda = SimpleNamespace(device=device, get_current_stream=lambda: stream)
    names = ("zeros", "full", "diff", "cumsum", "arange", "searchsorted")

    def viewing(function: Any) -> Any:
        return lambda *given, **more: np.asarray(function(*given, **more)).view(Memory)

    made = {name: viewing(getattr(np, name)) for name in names}
    cupy = SimpleNamespace(cuda=cuda, empty=lambda n, dtype: np.empty(n, dtype).view(Memory), **made)
    csr = scipy.random(64, 64, 0.2, format="csr", random_state=1)
    parts = {name: getattr(csr, name).view(Memory) for name in ("indptr", "indices", "data")}
    x = np.zeros(64).view(Memory)
    matrix = SimpleNamespace(shape=csr.shape, **parts)
    algorithms = {**cusparse.ALGORITHMS, "SELL": 5}
    for name, number in algorithms.items():
        kind = cusparse.Sliced if name == "SELL" else cusparse.Matrix
        one = kind(cupy, Library(), matrix, number)
        for _ in range(2):
            one.product(x, x)
    begun = ["cusparseCreateCsr 11", "cusparseSetStream 2", "cusparseCreateDnVec 4", "cusparseSpMV_bufferSize 10",
             "cusparseSpMV_preprocess 10", "cusparseSpMV 10", "cusparseSetStream 2", "cusparseSpMV 10"]  # fmt: skip
    assert [each for each in called if "Destroy" not in each][: len(begun)] == begun
    assert called.count("cusparseSpMV 10") == 8
    assert "cusparseCreateSlicedEll 13" in called
