"""Level groups that fit a cache, and the order in which their powers are computed.

Row i of v_(k+1) needs v_k on the columns of row i, so that power k + 1 of a group waits for power k of its neighbours
alone. Along the diagonals of the level-power plane the matrix of a group is read again p - 1 groups later: p + 1 groups
in a cache serve all p powers with one pass over the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from .....arrays.types import Array
from .reach import Levels

_LINE = 128  # bytes to which chunks are padded
_PART = 16  # bytes at which the parts of a chunk begin


def row_bytes(
    lengths: Array, *, values: int = 8, index: int = 4, vectors: int = 2, vector_item: int = 8, C: int = 1
) -> Array:
    """Bytes per row, float64 [rows]: matrix with its padding to chunks of `C` rows, and `vectors` vectors.

    `lengths` are entries per row in stored order; `values` and `index` bytes per entry (2: 16-bit distances from an
    int32 per column of the chunk). C = 1 stands for CSR: no padding, a pointer of eight bytes per row.
    """
    lengths = np.asarray(lengths)
    if C == 1:
        return lengths * float(values + index) + 8 + vectors * vector_item
    rows = len(lengths)
    chunks = -(-rows // C)
    padded = np.zeros(chunks * C, lengths.dtype)
    padded[:rows] = lengths
    widths = padded.reshape(chunks, C).max(axis=1)
    parts = [widths * C * values, widths * C * index] + ([widths * 4] if index == 2 else [])
    sizes = sum(-(-part // _PART) * _PART for part in parts)
    sizes = -(-sizes // _LINE) * _LINE + 8.0  # where it starts, how wide it is
    return np.repeat(sizes / C, C)[:rows] + vectors * vector_item


def level_bytes(levels: Levels, bytes_of_row: Array) -> Array:
    """Bytes of every level, float64 [levels]. `bytes_of_row`: one number, or one per row in the levels' order."""
    if np.ndim(bytes_of_row) == 0:
        return np.diff(levels.starts) * float(bytes_of_row)
    if len(bytes_of_row) != len(levels.permutation):
        raise ValueError(f"bytes_of_row has {len(bytes_of_row)} entries for {len(levels.permutation)} rows")
    total = np.concatenate([[0.0], np.cumsum(bytes_of_row, dtype=np.float64)])
    return np.diff(total[levels.starts])


def groups(levels: Levels, bytes_of_row: Array, budget: float, p: int = 0) -> Array:
    """Groups of consecutive levels: int32 [groups + 1], in levels. Each takes at most budget / (p + 1) bytes, or is one
    level that takes more: `too_wide` says what that means."""
    limit = budget / (p + 1)
    total = np.concatenate([[0.0], np.cumsum(level_bytes(levels, bytes_of_row))])
    found = [0]
    while found[-1] < len(total) - 1:
        begin = found[-1]
        end = int(np.searchsorted(total, total[begin] + limit * (1 + 1e-12), side="right")) - 1
        found.append(max(end, begin + 1))
    return np.array(found, np.int32)


def schedule(groups: Array, p: int) -> list[tuple[int, int]]:
    """(group, power) in Lp order: along the diagonals group + power, powers 1 to p ascending."""
    if p < 1:
        raise ValueError(f"p={p}: there is no power to compute")
    count = len(groups) - 1
    power, group = np.divmod(np.arange(count * p), count) if count else (np.empty(0, int), np.empty(0, int))
    order = np.lexsort((power, group + power))
    return list(zip(group[order].tolist(), (power[order] + 1).tolist(), strict=True))


def too_wide(levels: Levels, bytes_of_row: Array, budget: float, p: int) -> str | None:
    """Why blocking for `p` powers cannot serve from a cache of `budget` bytes; None where it can.

    The matrix may be re-read for a few levels that do not fit: up to a tenth of all bytes.
    """
    sizes = level_bytes(levels, bytes_of_row)
    limit = budget / (p + 1)
    outside = sizes[sizes > limit].sum()
    if outside <= 0.1 * sizes.sum():
        return None
    return (
        f"{(sizes > limit).sum()} of {len(sizes)} levels, {100 * outside / sizes.sum():.0f} % of the bytes, exceed "
        f"{limit / 1e6:.2f} MB, of which p + 1 = {p + 1} must fit {budget / 1e6:.1f} MB (the widest has "
        f"{sizes.max() / 1e6:.2f} MB)"
    )


def sections(levels: Levels, bytes_of_row: Array, budget: float, p: int) -> list[int]:
    """p as a sum of as few and as equal numbers of powers as levels this wide allow at a time; [1] * p: none at all."""
    if p < 1:
        raise ValueError(f"p={p}: there is no power to compute")
    for count in range(1, p):
        most = -(-p // count)
        if too_wide(levels, bytes_of_row, budget, most) is None:
            return [p // count + (i < p % count) for i in range(count)]
    return [1] * p


def violated(
    starts: Array, indptr: Array, indices: Array, tasks: Iterable[tuple[int, int]], p: int
) -> str | None:  # fmt: skip
    """The first dependency that a schedule breaks, None if it computes powers 1 to p of every block once and in order.

    Blocks of consecutive rows begin at `starts`; indptr and indices are those of the permuted matrix.
    """
    blocks = len(starts) - 1
    reads = _blocks_read(starts, indptr, indices)
    done = np.zeros(blocks, np.int64)
    for block, power in tasks:
        if done[block] != power - 1:
            return f"power {power} of block {block} follows its power {done[block]}"
        behind = reads[block][done[reads[block]] < power - 1]
        if len(behind):
            return f"power {power} of block {block} reads block {behind[0]}, which is at power {done[behind[0]]}"
        done[block] = power
    if (done != p).any():
        return f"block {int(np.argmax(done != p))} ends at power {done[done != p][0]}, not {p}"
    return None


def _blocks_read(starts: Array, indptr: Array, indices: Array) -> list[Array]:
    block_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return [np.unique(block_of[indices[indptr[begin] : indptr[end]]]) for begin, end in pairwise(starts)]
