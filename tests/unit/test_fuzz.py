"""Mutated records, manifests, ceilings, journals and Matrix Market files: nothing raises but our own errors, nothing
hangs, and memory stays near the files' size.

A few hundred of each run here; `make fuzz` (pytest --fuzz) runs all: 10 000 records and manifests, 2000 matrices.
`--fuzz-seed` sets the seed, which a failure names.
"""

from __future__ import annotations

import gzip
import json
import re
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from mutations import CODE, Mutator
from test_cache import build_of, make

from mansard import untrusted
from mansard.bench import store
from mansard.codegen.geometry import Device
from mansard.compile.cache import Cache
from mansard.errors import IllegalConfig
from mansard.kernels import FAMILIES, traits
from mansard.kernels.common import fields
from mansard.machine import machine
from mansard.operations import problems
from mansard.operations.sizes import Asked, Sizes
from mansard.plan.explain import NOMINAL
from mansard.plan.problem import Problem
from mansard.records import database, findings
from mansard.records.trials import Store, Trial
from mansard.rules import Flag, Matches, Names, Numbers
from mansard.sparse import io, matrices
from mansard.tune import table
from mansard.untrusted import Damaged

H200 = NOMINAL["sm_90a"]
CPU = Device("cpu", "some CPU", "x86_64", 4, 0, 0, 0, 0, 1 << 20, vector_bytes=32)
SECONDS = 5.0  # that one file may take
FLOOR = 64 << 20  # bytes of memory beyond 4 times a file's size: what Python, NumPy and the allocator add
LINE = re.compile(
    r"  (static constexpr (int \w+ = -?\d+|bool \w+ = (true|false)|mansard::\w+ \w+ = mansard::\w+::\w+)|using "
    r"(T|V|Real) = (float|double|mansard::Complex<(float|double)>));"
)  # of `Params`, whatever a record says

pytestmark = pytest.mark.filterwarnings("ignore::mansard.errors.MansardWarning")


@pytest.fixture
def mutator(pytestconfig: pytest.Config) -> Iterator[Mutator]:
    seed = pytestconfig.getoption("--fuzz-seed")
    print(f"--fuzz-seed {seed}")
    yield Mutator(seed)


def share(config: pytest.Config, all_of_them: int) -> int:
    return all_of_them if config.getoption("--fuzz") else max(50, all_of_them // 25)


@contextmanager
def bounded(size: int, what: Any) -> Iterator[None]:
    """Fails where the block takes more than SECONDS, or memory beyond FLOOR and 4 times `size`."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} s: {what!r}")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    start = reset_peak()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert peak() - start <= FLOOR + 4 * size, what


def reset_peak() -> int:
    """Let the kernel forget the peak of this process's memory; returns what is in use."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return peak()
    except OSError:  # no such file, or not allowed: time is still checked
        return 1 << 62


def peak() -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


# --- records --------------------------------------------------------------------------------------------------------


def problem_of(family: Any, dtype: str, sizes: Sequence[int], layout: str) -> Problem:
    """A problem of a family: a width, another width, and a length, or the number of matrices or rows."""
    name = database.family_name(family)
    M, N, K = sizes
    if name == "jacobi":
        return family.spec.problem(dtype, M, K, layout_a=layout)
    make = problems.of_lu("factor") if name == "lu" else getattr(problems, f"of_{name}", None)
    if make is None:  # families that no command names
        sizes_of, long = traits.declared(name)[0], family.spec.LONG
        return family.spec.problem(dtype, **{size: K if size in long else M for size in sizes_of})
    if name in ("spmv", "powers"):
        return make(Asked(name, dtype), Sizes(K, N, M, 1))
    shape = (K, 1) if name in ("gram", "tsmm", "tsm2r", "matmul_gram") else (M, K)
    return make(Asked(name, dtype, layout=layout), Sizes(M, N, *shape))


def trials(family: Any, device: Device) -> list[Trial]:
    """True records of a few problems, as the tuner writes them."""
    found = []
    for dtype, M, K in (("float64", 8, 4096), ("float32", 4, 1 << 20), ("complex128", 3, 500)):
        problem = problem_of(family, dtype, (M, M, K), "row")
        config = family.defaults.default(problem, device)
        if config is not None:
            kernel = database.kernel_hash(problem, config, device, family)
            values = family.space.to_dict(config)
            found.append(Trial(problem, values, "ok", (1e-3,), kernel=kernel, date="2026-01-02T00:00:00"))
    return found


def signed(content: bytes, device: Device, family: Any) -> bytes:
    """The record with the hash that its kernel has, as whoever made it up would write it."""
    try:
        values = json.loads(content)
        trial = Trial.from_line(content)
        config = family.space.from_dict(trial.config)
        values["kernel"] = database.kernel_hash(trial.problem, config, device, family)
        return json.dumps(values).encode()
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
        return content


def test_records(mutator: Mutator, pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: Any) -> None:
    pool = [(family, device, one) for family in FAMILIES for device in (H200, CPU) for one in trials(family, device)]
    monkeypatch.setattr(database, "DATA", tmp_path)
    served = 0
    for number in range(share(pytestconfig, 6000)):
        family, device, trial = mutator.random.choice(pool)
        name = database.family_name(family)
        path = tmp_path / "records" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        content = signed(mutator.json(trial.to_line()), device, family)
        path.write_bytes(content + b"\n")
        monkeypatch.setattr(database, "store_path", lambda *_, path=path: path)
        database.forget()
        with bounded(len(content), (number, content)):
            record = database.best(trial.problem, device, family)
            table.winners([each for each in Store(path) if table.is_current(each, device, family)])
        if record is not None and record.config is not None:
            served += 1
            text = family.emit.source(trial.problem, record.config, device.backend).text
            params = text[text.index("struct Params {") : text.index("};")].splitlines()[1:]
            assert all(map(LINE.fullmatch, params)) and "system" not in text, content
    assert served > 10  # some mutations leave a record that is one


def test_findings(mutator: Mutator, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    good = [
        {"matrix": "0" * 24, "what": "format", "values": {"format": "sell", "C": 8, "sigma": 64, "index": "int32"}},
        {"matrix": "0" * 24, "what": "powers 5", "values": {"execution": "persistent", "LAG": 3, "EVICT": "keep"}},
    ]
    path = tmp_path / "sparse.jsonl"
    for number in range(share(pytestconfig, 500)):
        content = mutator.json(json.dumps(mutator.random.choice(good)))
        path.write_bytes(content)
        with bounded(len(content), (number, content)):
            found = findings._load(path, number, 0)
        assert CODE not in str(found)


def test_manifests(mutator: Mutator, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    cache, calls = Cache(tmp_path), []  # type: ignore[var-annotated]
    entry = cache.get_or_build(make(), "k.cu", build_of(b"abc", calls))  # type: ignore[arg-type]
    good = (entry.folder / "manifest.json").read_text()
    for number in range(share(pytestconfig, 2500)):
        content = mutator.json(good)
        (entry.folder / "manifest.json").write_bytes(content)
        with bounded(len(content), (number, content)):
            again = cache.get_or_build(make(), "k.cu", build_of(b"abc", calls))  # type: ignore[arg-type]
        assert again.binary == entry.folder / "binary" and again.binary.read_bytes() == b"abc", content
    assert len(calls) > 10


def test_ceilings(mutator: Mutator, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    good = json.dumps(asdict(machine.nominal_for(H200)))
    path = tmp_path / "one.json"
    for number in range(share(pytestconfig, 500)):
        content = mutator.json(good)
        path.write_bytes(content)
        machine._load.cache_clear()
        with bounded(len(content), (number, content)):
            found = machine._load(path)
        if found is not None:
            assert found.read_bandwidth > 0 and found.flop_rate("complex64") > 0, content


def test_journals(mutator: Mutator, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2] / "results"
    journals = [store.packed(root / "xeon-avx512-2-cores" / name / store.JOURNAL) for name in ("gram", "factor")]
    pool = [[text.decode() for _, text in untrusted.lines(path)] for path in journals]
    for number in range(share(pytestconfig, 500)):
        lines = mutator.random.choice(pool)
        first = [line for line in lines[:3] if '"row"' not in line]
        rows = [mutator.json(line) for line in mutator.random.sample(lines, 4)]
        content = b"\n".join([*(line.encode() for line in first), *rows])
        (tmp_path / store.JOURNAL).write_bytes(content)
        with bounded(len(content), (number, content)):
            try:
                store.collect(tmp_path)
            except (Damaged, FileNotFoundError) as error:
                assert str(tmp_path) in str(error)


# --- matrices -------------------------------------------------------------------------------------------------------


def seeds(folder: Path) -> list[bytes]:
    """Texts of matrices of every format, field and symmetry."""
    A = matrices.randomized(matrices.stencil(5, (6, 7)))
    found = []
    for name, made in (("real", A), ("symmetric", A + A.T), ("skew", A - A.T), ("complex", A * (1 + 2j))):
        io.write(folder / f"{name}.mtx", made, comment="a comment")
        found.append((folder / f"{name}.mtx").read_bytes())
    io.write(folder / "pattern.mtx", A, pattern=True)
    found.append((folder / "pattern.mtx").read_bytes())
    for kind in ("general", "symmetric"):
        entries = 9 if kind == "general" else 6
        found.append(f"%%MatrixMarket matrix array real {kind}\n3 3\n".encode() + b"2\n" * entries)
    found.append(b"%%MatrixMarket matrix coordinate integer general\n% note\n4 4 2\n1 1 3\n4 4 -5\n")
    return found


def test_matrices(mutator: Mutator, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    pool, read = seeds(tmp_path), 0
    for number in range(share(pytestconfig, 2000)):
        text = mutator.lines(mutator.random.choice(pool))
        packed = number % 2 == 1
        content = gzip.compress(text, 1) if packed else text
        if packed and mutator.random.random() < 0.3:
            content = mutator.bytes(content)
        path = tmp_path / ("mutated.mtx.gz" if packed else "mutated.mtx")
        path.write_bytes(content)
        with bounded(max(len(content), len(text)), (number, content)):
            try:
                A = io.read(path)
                read += A.shape is not None
            except ValueError as error:
                assert str(path) in str(error), content
    assert read > 3


def test_configurations_in_range_never_raise(mutator: Mutator, pytestconfig: pytest.Config) -> None:
    """Legality answers for every value that passes the rules, however odd together; text is written or refused."""
    def any_value(rule: Any) -> Any:
        if isinstance(rule, Flag):
            return mutator.random.random() < 0.5
        if isinstance(rule, Names | Numbers):
            return mutator.random.choice(getattr(rule, "names", None) or rule.numbers)  # type: ignore[union-attr]
        if isinstance(rule, Matches):
            return mutator.random.choice(["1", "2|2", "1|2|2", "99|99"])
        usual = [n for n in (1, 2, 3, 4, 8, 16, 32, 64, 128, 256) if rule.least <= n <= rule.most]
        return mutator.random.choice([*usual, rule.least, rule.most, mutator.random.randint(rule.least, rule.most)])

    end = time.monotonic() + (120 if pytestconfig.getoption("--fuzz") else 2)
    while time.monotonic() < end:
        family = mutator.random.choice(FAMILIES)
        sizes = [mutator.random.choice(choice) for choice in ((1, 2, 8, 17, 33, 64), (1, 4, 16, 31), (1, 100, 1 << 20))]
        dtype = mutator.random.choice(["float32", "float64", "complex64", "complex128"])
        problem = problem_of(family, dtype, sizes, mutator.random.choice(["row", "col"]))
        variant, kind = mutator.random.choice(list(family.space.VARIANTS.items()))
        values = {name: any_value(rule) for name, rule in fields.rules(kind).items() if mutator.random.random() < 0.5}
        device = CPU if kind.TARGET == "cpu" else H200
        with bounded(0, (str(problem), variant, values)):
            config = family.space.from_dict({"VARIANT": variant, **values})
            if family.spec.refusal(problem) is None and family.space.illegal(problem, config, device) is None:
                try:
                    family.emit.source(problem, config, device.backend)
                except IllegalConfig:
                    warnings.warn(f"legal, yet no text: {problem} {config}", stacklevel=1)
