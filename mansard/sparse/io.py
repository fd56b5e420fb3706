"""Matrix Market files, plain and gzipped, through SciPy's reader and writer.

A broken file raises ValueError with its name and the line. A file is written under a temporary name and renamed at the
end, so that an interrupted write leaves the old file as it was.

Files may come from anywhere. What a header promises is therefore compared with the size of the file before memory is
allocated; a file is refused if one of these holds:

* its text is more than 100 times as large as the packed file, and more than 8 MiB (matrices reach 5 to 20 times);
* its entries would take more than 16 MiB and 4 times the text (28 bytes each, twice that with a symmetry to fill in);
* pointers to its rows (8 bytes each) would take more than 64 MiB and 4 times the text.

Usual files take 1 to 3 times their text. Refused are, for example, millions of lines like "2 1".
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from ..arrays.types import SparseMatrix
from ..untrusted import Damaged, open_regular

__all__ = ["read", "write"]

MOST_RATIO, LEAST_TEXT = 100, 8 << 20  # of a packed file: its text over its size, and what is allowed in any case
SPARE = 64 << 20  # bytes for rows without entries
SPARE_FOR_ENTRIES = 16 << 20  # bytes for short lines, beside 4 times the text
_HEADER_BYTES = 1 << 20  # of text, in which comments and sizes must end
_SHORTEST = {"pattern": 4, "real": 6, "integer": 6, "unsigned-integer": 6, "complex": 8}  # bytes of "1 1 0 0\n"
_PACKED: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_SYMMETRIC = re.compile(rb"\A([^\n]*)symmetric", re.IGNORECASE)  # the last word of the first line
BROKEN = (ValueError, TypeError, OverflowError, EOFError, IndexError, zlib.error, gzip.BadGzipFile)


def read(path: str | os.PathLike[str], *, dtype: Any = None) -> SparseMatrix:
    """Read a Matrix Market file (.mtx, .mtx.gz) as a scipy.sparse.csr_array.

    The other triangle of symmetric, skew-symmetric and Hermitian files is filled in; entries of a pattern are ones;
    entries given twice are added. Values are converted to `dtype`; without it they are float64, complex128 or int64,
    as the file says. A broken file, and one that is refused (above), raises ValueError.

    Cost: one pass over the text, in pieces; memory is that of the matrix and of the entries as they are read.

    >>> import os, tempfile, mansard as ms
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "band.mtx.gz")
    ...     ms.sparse.io.write(path, ms.sparse.matrices.band(3, 3))
    ...     A = ms.sparse.io.read(path)
    >>> A.toarray()
    array([[ 2., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  2.]])
    """
    path = Path(path)
    try:
        with open_regular(path) as file:
            text = Text(path, file)
            shape, symmetry, is_dense = checked_header(text)
            try:
                if is_dense and 0 in shape:  # SciPy's reader divides by the number of rows
                    found = np.zeros(shape)
                else:
                    found = scipy_io.mmread(path if text.is_as_scipy_needs_it() else text)
            except BROKEN as error:
                raise Damaged(text.problem or _placed(text, str(error))) from error
            if text.problem:
                raise Damaged(text.problem)
    except Damaged as error:
        raise ValueError(f"{path}: {error}") from error.__cause__
    if is_dense:
        if symmetry in _ON_DIAGONAL:
            check_diagonal(path, np.arange(min(shape)), np.diagonal(found), symmetry)
        A = _nonzeros(found)
    else:
        A = sparse.coo_array(found)
        del found
        if symmetry in _ON_DIAGONAL:
            places = np.flatnonzero(A.coords[0] == A.coords[1])
            check_diagonal(path, A.coords[0][places], A.data[places], symmetry)
        if text.as_general:
            coords = list(A.coords)
            del A
            A = _filled_up(coords, shape)
        else:
            A = sparse.csr_array(A)
    return A if dtype is None else A.astype(dtype, copy=False)


class Text:
    """The text of a file from its beginning, unpacked on the way; of a packed one no more than its size allows.

    SciPy's reader (1.17) looks for the end of a line with `strchr` and crashes where there is none: a null byte, or a
    last line that does not end. The first is a problem here, and the second gets its end. An exception it takes for the
    end of the text, so that `problem` keeps what went wrong."""

    def __init__(self, path: Path, file: Any) -> None:
        self.file, self.unpack = file, _PACKED.get(path.suffix)
        self.as_general = False  # give a symmetric file out as a general one, which SciPy does not fill up
        self.size = os.fstat(file.fileno()).st_size
        self.is_packed = self.unpack is not None
        self.most = max(LEAST_TEXT, MOST_RATIO * self.size) if self.is_packed else self.size  # bytes of text
        self.rewind()

    def rewind(self) -> None:
        self.file.seek(0)
        self.stream = self.unpack(self.file) if self.unpack else self.file
        self.taken, self.problem = 0, ""
        self.last, self.is_ended = b"\n", True  # the byte before, and whether the file has all newlines itself

    def is_as_scipy_needs_it(self) -> bool:
        """Whether the file can be given to SciPy by its name: plain, without null bytes, its last line ended."""
        if self.is_packed or self.as_general:
            return False
        while self.read(1 << 20):
            pass
        if self.problem:
            raise Damaged(self.problem)
        is_ended = self.is_ended
        self.rewind()
        return is_ended

    def read(self, count: int = -1) -> bytes:
        """The next bytes, at most `count` of them; none at the end, and after a problem."""
        if self.problem or count == 0:
            return b""
        try:
            found: bytes = self.stream.read(min(count if count >= 0 else self.most, self.most - self.taken + 1))
        except (OSError, EOFError, zlib.error) as error:
            self.problem = str(error)
            return b""
        if self.as_general and self.taken == 0:
            found = _SYMMETRIC.sub(rb"\1general  ", found, count=1)
        self.taken += len(found)
        if self.taken > self.most:
            most = f"{self.most} bytes, {MOST_RATIO} times those of the file"
            self.problem = f"its text has more than {most}: unpack it first if you trust it"
        elif b"\0" in found:
            self.problem = "it holds null bytes"
        elif not found and self.last != b"\n":
            found, self.is_ended = b"\n", False
        self.last = found[-1:] or self.last
        return b"" if self.problem else found


def checked_header(text: Text) -> tuple[tuple[int, int], str, bool]:
    """Shape, symmetry, and whether all entries are listed, of a file that has room for what its header promises; `text`
    is at its beginning afterwards."""
    head = text.read(_HEADER_BYTES)
    if text.problem:
        raise Damaged(text.problem)
    ended = head if head.endswith(b"\n") else head + b"\n"
    try:
        rows, columns, entries, format, field, symmetry = scipy_io.mminfo(BytesIO(ended))
    except BROKEN as error:
        raise Damaged(_placed_in(head, str(error))) from error
    text.rewind()
    if symmetry != "general" and rows != columns:
        raise Damaged(f"a {symmetry} matrix is square, not {rows} x {columns}")
    if format == "array" and symmetry != "general":
        entries = rows * (rows - 1 if symmetry == "skew-symmetric" else rows + 1) // 2
    least = entries * (_SHORTEST.get(field, 4) - (4 if format == "array" else 0))
    if least > text.most + 1:  # the last line need not end
        raise Damaged(f"{entries} entries take at least {least} bytes of text, the file has at most {text.most}")
    if 8 * rows > SPARE + 4 * text.most:
        raise Damaged(f"{rows} rows are too many for at most {text.most} bytes of text")
    taken = _taken(entries, max(rows, columns), format, field, symmetry)
    if taken > SPARE_FOR_ENTRIES + 4 * text.most:
        raise Damaged(f"{entries} entries take {taken} bytes of memory, too many for at most {text.most} of text")
    if format == "coordinate" and field == "pattern" and symmetry == "symmetric":
        text.as_general = True
    return (rows, columns), symmetry, format == "array"


def _taken(entries: int, longest: int, format: str, field: str, symmetry: str) -> int:
    """Bytes of memory that the entries of a file take at most while it is read, as triples and as rows at once."""
    index, value = 4 if longest < 1 << 31 else 8, 16 if field == "complex" else 8
    if format == "array":  # all entries, and those that are not zero
        return entries * (1 if symmetry == "general" else 2) * (2 * value + index)
    if symmetry == "general":
        return entries * (3 * index + 2 * value)
    if field == "pattern":
        return entries * (6 * index + 20)  # numbers of 32 bits, until duplicates are added
    return entries * (6 * index + 4 * value + 1)


def _nonzeros(dense: Any) -> Any:
    """The entries of a full matrix that are not zero, found some rows at a time."""
    rows, columns = dense.shape
    starts = np.zeros(rows + 1, np.int64)
    some = max(1, (1 << 17) // max(1, columns))
    slabs = [slice(first, first + some) for first in range(0, rows, some)]
    for slab in slabs:
        starts[1:][slab] = np.count_nonzero(dense[slab], axis=1)
    starts = np.cumsum(starts)
    index = np.int32 if max(columns, starts[-1]) < 1 << 31 else np.int64
    indices, data = np.empty(starts[-1], index), np.empty(starts[-1], dense.dtype)
    for slab in slabs:
        place, present = slice(starts[slab.start], starts[min(slab.stop, rows)]), dense[slab] != 0
        indices[place], data[place] = present.nonzero()[1], dense[slab][present]
    return sparse.csr_array((data, indices, starts.astype(index)), shape=dense.shape)


def _filled_up(coords: list[Any], shape: tuple[int, int]) -> Any:
    """The symmetric pattern whose one half, or both, has entries at `coords`, which is emptied: nothing is kept longer
    than needed. Ones are integers of 32 bits until duplicates are added."""
    j, i = coords.pop(), coords.pop()
    across = i != j
    places = np.concatenate((i, j[across])), np.concatenate((j, i[across]))
    del i, j, across
    A = sparse.csr_array((np.ones(len(places[0]), np.int32), places), shape=shape)
    del places
    return sparse.csr_array((A.data.astype(np.float64), A.indices, A.indptr), shape=shape)


def write(
    path: str | os.PathLike[str],
    A: SparseMatrix,
    *,
    comment: str = "",
    symmetry: str | None = None,
    pattern: bool = False,
) -> None:
    """Write a sparse matrix so that reading it gives the same numbers bit by bit; gzipped if the name ends in .gz.

    `symmetry` is general, symmetric, skew-symmetric or hermitian. Without it the matrix is examined; of a symmetric
    one half of the entries is written. `pattern` writes no values. A matrix on a GPU is copied to the host.

    Cost: one pass over the entries; the matrix is compared with its transposed unless `symmetry` is given.

    >>> import os, tempfile, mansard as ms
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "band.mtx")
    ...     ms.sparse.io.write(path, ms.sparse.matrices.band(3, 3), comment="tridiagonal")
    ...     print(open(path).read().splitlines()[0])
    %%MatrixMarket matrix coordinate real symmetric
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


def _placed(text: Text, message: str) -> str:
    """SciPy's message with the line it is about; it names most, but not the one at which a file ends."""
    if not message.startswith("Truncated"):
        return message
    text.rewind()
    lines = 0
    while part := text.read(1 << 20):
        lines += part.count(b"\n")
    return text.problem or f"Line {lines + 1}: {message}"


def _placed_in(head: bytes, message: str) -> str:
    """SciPy's message about a header with its line; it names most, but not the one of the sizes."""
    lines = head.split(b"\n")
    sizes = next((n for n, line in enumerate(lines, 1) if line.strip() and not line.startswith(b"%")), len(lines))
    if sizes == len(lines) and len(head) == _HEADER_BYTES:
        return f"comments and sizes do not end within its first {_HEADER_BYTES} bytes"
    return message if message.startswith("Line ") else f"Line {sizes}: {message} (sizes and number of entries)"


_ON_DIAGONAL = ("skew-symmetric", "hermitian")  # symmetries that say what a diagonal may hold


def check_diagonal(path: Path, rows: Any, diagonal: Any, symmetry: str) -> None:
    """Refuse entries of a diagonal, in these rows, that the symmetry rules out: SciPy reads them as they stand."""
    wrong = diagonal if symmetry == "skew-symmetric" else diagonal.imag
    if wrong.any():
        row = int(rows[np.flatnonzero(wrong)[0]])
        raise ValueError(f"{path}: entry ({row + 1}, {row + 1}) cannot stand on the diagonal of a {symmetry} matrix")
