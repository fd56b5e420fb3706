"""Matrix Market files that several processes read: together they have every entry once, wherever the cuts fall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from mansard.sparse import io
from mansard.sparse.io_parts import read_part


def together(path: Path, parts: int) -> tuple[Any, int]:
    found = [read_part(path, part, parts) for part in range(parts)]
    assert len({part.promised for part in found}) == 1 or found[0].lines == 0
    return sum((part.entries.tocsr() for part in found[1:]), found[0].entries.tocsr()), sum(p.lines for p in found)


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric", "hermitian"])
@pytest.mark.parametrize("parts", [1, 2, 7, 400])
def test_parts_have_every_entry_once(tmp_path: Path, symmetry: str, parts: int) -> None:
    A = sparse.random_array((23, 23), density=0.2, rng=np.random.default_rng(3), format="csr")
    A = A + 1j * A.T if symmetry == "hermitian" else A
    A = {"general": A, "symmetric": A + A.T, "skew-symmetric": A - A.T, "hermitian": A + A.conj().T}[symmetry]
    path = tmp_path / "a.mtx"
    io.write(path, A, comment="two\nlines", symmetry=symmetry)
    found, lines = together(path, parts)
    assert abs(found - A).max() == 0 and lines == read_part(path, 0, parts).promised


@pytest.mark.parametrize("name", ["a.mtx.gz", "dense.mtx"])
def test_the_first_process_reads_what_has_no_places_to_begin_at(tmp_path: Path, name: str) -> None:
    A = sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
    path = tmp_path / name
    if name.endswith("gz"):
        io.write(path, A)
    else:
        path.write_text("%%MatrixMarket matrix array real general\n3 3\n1\n0\n0\n0\n2\n0\n0\n0\n3\n")
    found, _ = together(path, 3)
    assert abs(found - A).max() == 0


@pytest.mark.parametrize("lines", ["1 1 1\n2 2 x\n", "1 1 1\n7 1 1\n", "1 1 1\n2 2\x00 1\n"])
def test_the_reader_of_a_broken_line_raises(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n" + lines)
    with pytest.raises(ValueError, match=r"a\.mtx"):
        for part in range(2):
            read_part(path, part, 2)


def test_a_last_line_need_not_end(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 5\n\n2 2 6")
    found, lines = together(path, 2)
    assert found.toarray().tolist() == [[5, 0], [0, 6]] and lines == 2
