"""Matrix Market files, plain and gzipped, through SciPy's reader and writer. A broken file raises with its name and the
line; a file is written beside its name first, so that none is ever left half done."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

__all__ = ["read", "write"]


def read(path: str | os.PathLike[str], *, dtype: Any = None) -> Any:
    """The matrix of a Matrix Market file (.mtx, .mtx.gz) as scipy.sparse.csr_array.

    Symmetric, skew-symmetric and Hermitian files are filled up; patterns get ones; entries given twice are added.
    `dtype` (float64, complex128 or int64, as the file says, unless given) is converted to at the end.
    """
    path = Path(path)
    try:
        symmetry = scipy_io.mminfo(path)[5]
        found = scipy_io.mmread(path)
    except (ValueError, OverflowError, EOFError, UnicodeDecodeError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: {_placed(path, str(error))}") from error
    A = sparse.coo_array(found)
    _check_diagonal(path, A, symmetry)
    A = sparse.csr_array(A)
    return A if dtype is None else A.astype(dtype, copy=False)


def write(
    path: str | os.PathLike[str], A: Any, *, comment: str = "", symmetry: str | None = None, pattern: bool = False
) -> None:
    """Write a sparse matrix so that reading it gives the same numbers bit by bit; gzipped if the name ends in .gz.

    `symmetry` is general, symmetric, skew-symmetric or hermitian: found out unless given, and half the entries are
    written. `pattern` writes no values. A matrix on a GPU is copied to the host.
    """
    path = Path(path)
    A = sparse.coo_array(A.get() if hasattr(A, "get") and not sparse.issparse(A) else A)
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with gzip.open(draft, "wb", compresslevel=4) if path.suffix == ".gz" else open(draft, "wb") as file:
            scipy_io.mmwrite(file, A, comment=comment, symmetry=symmetry, field="pattern" if pattern else None)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _placed(path: Path, message: str) -> str:
    """SciPy's message with the line it is about; it names most, but not the one of the sizes, nor the end of a file."""
    if message.startswith("Line "):
        return message
    try:
        lines = list(_lines(path))
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError):
        return message
    if message.startswith("Truncated"):
        return f"Line {len(lines) + 1}: {message}"
    sizes = next((number for number, line in enumerate(lines, 1) if line.strip() and line[0] != "%"), len(lines) + 1)
    return f"Line {sizes}: {message} (sizes and number of entries)"


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        yield from file


def _check_diagonal(path: Path, A: Any, symmetry: str) -> None:
    """Symmetries say what a diagonal may hold; SciPy reads it as it stands."""
    diagonal = A.data[A.coords[0] == A.coords[1]]
    wrong = {"skew-symmetric": diagonal, "hermitian": diagonal.imag}.get(symmetry, np.zeros(0))
    if wrong.any():
        row = int(A.coords[0][A.coords[0] == A.coords[1]][np.flatnonzero(wrong)[0]])
        raise ValueError(f"{path}: entry ({row + 1}, {row + 1}) cannot stand on the diagonal of a {symmetry} matrix")
