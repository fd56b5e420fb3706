"""Matrix Market files: what is written is read back bit by bit; what is broken raises with file and line."""

from __future__ import annotations

import gzip
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from mansard.sparse import io, matrices

HEADER = "%%MatrixMarket matrix coordinate real general\n"


def same(A: Any, B: Any) -> bool:
    parts = ("indptr", "indices", "data")
    return A.shape == B.shape and all(np.array_equal(getattr(A, part), getattr(B, part)) for part in parts)


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
def test_round_trip(tmp_path: Path, suffix: str, dtype: str) -> None:
    A = matrices.stencil(27, (3, 4, 5), dtype=dtype)
    if dtype != "int64":
        A = matrices.randomized(A)
        A.data[:3] = [0.0, np.finfo(dtype).tiny, -np.finfo(dtype).max]
    path = tmp_path / f"a{suffix}"
    io.write(path, A, comment="made here")
    B = io.read(path, dtype=dtype)
    assert same(A, B) and B.dtype == dtype
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if suffix.endswith("gz"):
        assert gzip.decompress(path.read_bytes()).startswith(b"%%MatrixMarket")


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (1, 1), (2, 5)])
def test_odd_shapes(tmp_path: Path, shape: tuple[int, int]) -> None:
    A = sparse.csr_array(np.arange(shape[0] * shape[1], dtype=float).reshape(shape))
    io.write(tmp_path / "a.mtx", A)
    assert same(A, io.read(tmp_path / "a.mtx"))


@pytest.mark.parametrize(
    ("symmetry", "make"),
    [
        ("symmetric", lambda R: R + R.T),
        ("skew-symmetric", lambda R: R - R.T),
        ("hermitian", lambda R: R + 1j * R.T + (R + 1j * R.T).conj().T),
        ("general", lambda R: R),
    ],
)
def test_symmetries_are_found_and_filled_up(tmp_path: Path, symmetry: str, make: Any) -> None:
    R = sparse.random_array((30, 30), density=0.1, rng=np.random.default_rng(0))
    A = sparse.csr_array(make(R))
    A.eliminate_zeros()
    A.sort_indices()
    io.write(tmp_path / "a.mtx", A)
    assert symmetry in (tmp_path / "a.mtx").read_text().splitlines()[0]
    B = io.read(tmp_path / "a.mtx")
    B.sort_indices()
    assert same(A, B)


def test_patterns_get_ones_and_entries_given_twice_are_added(tmp_path: Path) -> None:
    A = matrices.delaunay(50)
    io.write(tmp_path / "p.mtx", A, pattern=True)
    assert "pattern symmetric" in (tmp_path / "p.mtx").read_text().splitlines()[0]
    assert same(A, io.read(tmp_path / "p.mtx"))
    (tmp_path / "t.mtx").write_text(HEADER + "2 2 3\n1 1 1.0\n2 1 5\n1 1 2.5\n")
    assert np.array_equal(io.read(tmp_path / "t.mtx").toarray(), [[3.5, 0], [5, 0]])


def test_dense_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "d.mtx").write_text("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n")
    assert np.array_equal(io.read(tmp_path / "d.mtx").toarray(), [[1, 3], [2, 4]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_dense_files_without_entries_are_read(tmp_path: Path, shape: tuple[int, int]) -> None:
    """SciPy's reader divides by the number of rows, which ends the process."""
    (tmp_path / "d.mtx").write_text(f"%%MatrixMarket matrix array real general\n{shape[0]} {shape[1]}\n")
    assert io.read(tmp_path / "d.mtx").shape == shape


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
def test_halves_of_dense_files_are_enough(tmp_path: Path, symmetry: str) -> None:
    entries = 100 * (101 if symmetry == "symmetric" else 99) // 2
    (tmp_path / "d.mtx").write_text(f"%%MatrixMarket matrix array real {symmetry}\n100 100\n" + "1\n" * entries)
    A = io.read(tmp_path / "d.mtx").toarray()
    assert A[3, 1] == 1 and A[1, 3] == (1 if symmetry == "symmetric" else -1)


BROKEN = {
    "truncated": (HEADER + "3 3 3\n1 1 1.0\n2 2 2.0\n", "Line 5: Truncated"),
    "cut line": (HEADER + "3 3 2\n1 1 1.0\n2 2", "Line 4"),
    "too many": (HEADER + "3 3 1\n1 1 1.0\n2 2 2.0\n", "Line 4: Too many"),
    "index": (HEADER + "3 3 2\n1 1 1.0\n2 x 2.0\n", "Line 4: Invalid integer"),
    "value": (HEADER + "3 3 2\n1 1 1.0\n2 2 abc\n", "Line 4: Invalid floating"),
    "row 4": (HEADER + "3 3 1\n4 1 1.0\n", "Line 3: Row index"),
    "row 0": (HEADER + "3 3 1\n0 1 1.0\n", "Line 3: Row index"),
    "column": (HEADER + "3 3 1\n1 4 1.0\n", "Line 3: Column index"),
    "header": ("%%MatrixMarket matrx coordinate real general\n3 3 1\n1 1 1\n", "Line 1: .*matrx"),
    "no header": ("3 3 1\n1 1 1\n", "Line 1: .*banner"),
    "symmetry": ("%%MatrixMarket matrix coordinate real symetric\n3 3 1\n1 1 1\n", "Line 1: .*symetric"),
    "empty": ("", "Line 1"),
    "no sizes": (HEADER, "Line 2"),
    "sizes": (HEADER + "% note\n3 x 1\n1 1 1\n", r"Line 3: Invalid integer value. \(sizes"),
    "not square": ("%%MatrixMarket matrix array real symmetric\n2 3\n1\n2\n3\n", "a symmetric matrix is square"),
    "null byte": (HEADER + "3 3 1\n1 1 1\0\n", "it holds null bytes"),
    "null bytes": ("\0" * 100, "it holds null bytes"),
    "negative": (HEADER + "-3 3 1\n1 1 1\n", "Line 2"),
    "skew": ("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 1\n2 2 1\n", r"entry \(2, 2\).*skew"),
    "hermitian": ("%%MatrixMarket matrix coordinate complex hermitian\n3 3 1\n3 3 1 2\n", r"entry \(3, 3\).*hermitian"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_raise_with_file_and_line(tmp_path: Path, name: str, packed: bool) -> None:
    text, message = BROKEN[name]
    path = tmp_path / ("bad.mtx.gz" if packed else "bad.mtx")
    if packed:
        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        path.write_text(text)
    with pytest.raises(ValueError, match=f"{path.name}: {message}"):
        io.read(path)


@pytest.mark.parametrize("keep", [3, 40, -12])
def test_broken_archives_raise_with_their_name(tmp_path: Path, keep: int) -> None:
    io.write(tmp_path / "whole.mtx.gz", matrices.randomized(matrices.band(200, 5)))
    whole = (tmp_path / "whole.mtx.gz").read_bytes()
    (tmp_path / "cut.mtx.gz").write_bytes(whole[:keep])
    with pytest.raises(ValueError, match=r"cut\.mtx\.gz: "):
        io.read(tmp_path / "cut.mtx.gz")
    (tmp_path / "cut.mtx.gz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"cut\.mtx\.gz: .*gzip"):
        io.read(tmp_path / "cut.mtx.gz")


ARRAY = "%%MatrixMarket matrix array real "
IMPOSSIBLE = {
    "entries": (HEADER + "1000000000 1000000000 1000000000000\n1 1 1\n", "1000000000000 entries take at least"),
    "rows": (HEADER + "2000000000 1 1\n1 1 1\n", "2000000000 rows"),
    "no entries": (HEADER + "4000000000 4000000000 0\n", "4000000000 rows"),
    "dense": (ARRAY + "general\n100000 100000\n1\n", "10000000000 entries"),
    "symmetric": (ARRAY + "symmetric\n100000 100000\n1\n", "5000050000 entries"),
    "pattern": ("%%MatrixMarket matrix coordinate pattern general\n9 9 99999999\n1 1\n", "99999999 entries"),
    "comments": (f"{HEADER}%{'x' * (2 << 20)}\n1 1 0\n", "comments and sizes"),
    "one line": ("x" * (2 << 20), "(Line 1|comments)"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_a_file_cannot_hold_is_refused_before_memory_is_taken(tmp_path: Path, name: str, packed: bool) -> None:
    text, message = IMPOSSIBLE[name]
    path = tmp_path / ("bad.mtx.gz" if packed else "bad.mtx")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"{path.name}: {message}"):
        io.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("sizes", ["3 x 1", "3 3 1", "3 3 4000000"])
def test_a_packed_file_is_not_unpacked_beyond_its_size(tmp_path: Path, sizes: str) -> None:
    """28 KB that unpack to 24 MB: once 31 s and 551 MB for a size line that was wrong."""
    path = tmp_path / "bomb.mtx.gz"
    path.write_bytes(gzip.compress(f"{HEADER}{sizes}\n".encode() + b"1 1 1\n" * 4_000_000, 6))
    begin = time.perf_counter()
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"bomb\.mtx\.gz: (Line|its text has more|4000000 entries)"):
        io.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20 and time.perf_counter() - begin < 5


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("banner", "sizes", "line", "count"),
    [
        ("coordinate pattern symmetric", "2 2 2000000", b"2 1\n", 2_000_000),
        ("coordinate pattern symmetric", "90000 90000 2000000", b"2 1\n", 2_000_000),
        ("coordinate real symmetric", "9 9 2000000", b"2 1 1\n", 2_000_000),
        ("array integer general", "2000 2500", b"1\n", 5_000_000),
    ],
)
def test_short_lines_take_no_more_than_their_text_allows(
    tmp_path: Path, banner: str, sizes: str, line: bytes, count: int, packed: bool
) -> None:
    """Once 16 times their text."""
    text = f"%%MatrixMarket matrix {banner}\n{sizes}\n".encode() + line * count
    path = tmp_path / ("short.mtx.gz" if packed else "short.mtx")
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"short\.mtx.*: (\d+ entries take|its text has more)"):
        io.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("packed", [False, True])
def test_halves_of_patterns_are_filled_up_in_place(tmp_path: Path, packed: bool) -> None:
    """Rows and columns in both halves, on the diagonal, and twice; the banner in any case."""
    lines = ["2 1", "3 1", "1 3", "3 3", "4 4", "4 4", "4 2"]
    text = f"%%MatrixMarket MATRIX coordinate Pattern Symmetric\n% symmetric\n4 4 {len(lines)}\n" + "\n".join(lines)
    path = tmp_path / ("half.mtx.gz" if packed else "half.mtx")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    A = io.read(path)
    assert A.dtype == np.float64
    assert (A.toarray() == [[0, 1, 2, 0], [1, 0, 0, 1], [2, 0, 1, 0], [0, 1, 0, 2]]).all()


def test_a_symmetric_pattern_takes_four_times_its_text(tmp_path: Path) -> None:
    half = sparse.tril(matrices.band(60_000, 15), format="coo")
    path = tmp_path / "band.mtx"
    lines = np.char.add(np.char.add((half.row + 1).astype(str), " "), (half.col + 1).astype(str))
    path.write_text(f"%%MatrixMarket matrix coordinate pattern symmetric\n60000 60000 {half.nnz}\n" + "\n".join(lines))
    tracemalloc.start()
    A = io.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4.2 * path.stat().st_size
    assert ((matrices.band(60_000, 15) != 0) != A).nnz == 0


@pytest.mark.parametrize("rest", ["", "e", " %", " more"])
def test_a_last_line_need_not_end(tmp_path: Path, rest: str) -> None:
    """What follows a number on a line is ignored; SciPy's reader crashes if the line does not end after it."""
    (tmp_path / "a.mtx").write_text(HEADER + f"3 3 2\n1 1 1.0\n2 2 2.5{rest}")
    assert io.read(tmp_path / "a.mtx")[1, 1] == 2.5


def test_few_rows_of_any_length_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(HEADER + "2 4000000000 2\n1 3999999999 1\n2 1 2\n")
    A = io.read(tmp_path / "a.mtx")
    assert A.shape == (2, 4_000_000_000) and list(A.indices) == [3_999_999_998, 0]


def test_a_long_packed_file_of_usual_ratio_is_read(tmp_path: Path) -> None:
    A = matrices.band(40_000, 5)  # 12 MB of text with such values, more than the 8 MiB that any file may unpack to
    A.data[:] = np.arange(A.nnz) + 1 / 3
    io.write(tmp_path / "a.mtx.gz", A, symmetry="general", comment="x" * 1000)
    assert same(A, io.read(tmp_path / "a.mtx.gz"))


@pytest.mark.parametrize("made", [lambda path: path.mkdir(), os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, made: Any) -> None:
    made(tmp_path / "a.mtx")
    with pytest.raises((ValueError, OSError), match=r"a\.mtx"):
        io.read(tmp_path / "a.mtx")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.mtx"):
        io.read(tmp_path / "none.mtx")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mtx"
    io.write(path, matrices.band(5, 3))
    before = path.read_bytes()

    def fail(file: Any, *_: Any, **__: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(io.scipy_io, "mmwrite", fail)
    with pytest.raises(OSError, match="disk full"):
        io.write(path, matrices.band(6, 3))
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1
