"""Model of sparse products and powers. Equations are those of Panzlaff, "Matrix Power Kernels on GPUs" (2024),
chapter 4, with widths of values and indices, padding and re-reads of x left open.

Bytes and flops are per row of the matrix unless they say otherwise; bandwidths are bytes per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .machine import Machine
from .roofline import Work, bandwidth


@dataclass(frozen=True)
class Storage:
    """Widths of the entries, rows and vectors of a stored matrix, in bytes, and its padding."""

    format: str = "sell"  # sell | csr | ell
    C: int = 32  # rows of a chunk
    values: int = 8  # bytes of a value
    index: int = 4  # bytes of a column; 2: distance from a base of four bytes, one for C entries
    vectors: int = 8  # bytes of an entry of x and y
    padding: float = 1.0  # entries stored over entries there are

    @property
    def row(self) -> float:
        """Bytes of pointers: a chunk's start and width (equation 4.2), or one per row."""
        return {"sell": 8 / self.C, "csr": 4.0, "ell": 0.0}[self.format]

    @property
    def entry(self) -> float:
        """Bytes of an entry, its share of padding included."""
        base = 4 / self.C if self.index == 2 else 0.0
        return self.padding * (self.values + self.index + base)


SELL = Storage()


def row_flops(entries: float, complex_values: bool = False) -> float:
    """Equation 4.1: a multiplication and an addition per entry, eight operations if both are complex."""
    return (8 if complex_values else 2) * entries


def matrix_bytes(entries: float, storage: Storage = SELL) -> float:
    """Bytes of the matrix: the first, fourth and fifth term of equation 4.2."""
    return storage.row + entries * storage.entry


def row_bytes(
    entries: float, storage: Storage = SELL, *, alpha: float | None = None, accumulate: bool = False
) -> float:
    """Equations 4.2 to 4.4: pointers, y, values, columns, x.

    `alpha` is the share of the reads of x that miss the caches: 1 / entries, one per row, unless given (1: every one).
    `accumulate` reads y before it is written.
    """
    x = storage.vectors * (1.0 if alpha is None else alpha * entries)
    return matrix_bytes(entries, storage) + storage.vectors * (2 if accumulate else 1) + x


def intensity(
    entries: float, storage: Storage = SELL, *, alpha: float | None = None, complex_values: bool = False
) -> float:
    """Equation 4.5: bytes per flop, 6 and a little for 8-byte values and 4-byte columns."""
    return row_bytes(entries, storage, alpha=alpha) / row_flops(entries, complex_values)


def performance(bytes_per_second: float, bytes_per_flop: float) -> float:
    """Flops per second at a bandwidth (equations 4.9 and 4.10)."""
    return bytes_per_second / bytes_per_flop


def powers_performance(p: int, dram: float, cache: float) -> float:
    """Equation 4.8: flops per second where the first of p powers runs at the memory's rate, the rest at the cache's."""
    if p < 1:
        raise ValueError(f"p={p}: there is no power to compute")
    return 1 / ((1 / p) / dram + (1 - 1 / p) / cache)


def powers_speedup(p: int, ratio: float) -> float:
    """Equation 4.8 over p single products; `ratio` is the cache's bandwidth over the memory's."""
    return powers_performance(p, 1.0, ratio)


def overlapped_speedup(p: int, entries: float, ratio: float, storage: Storage = SELL) -> float:
    """Equation 4.8 where reads of the memory and of the cache overlap and all p vectors are written: the memory moves
    the matrix and p + 1 vectors once, the cache all p products."""
    plain = p * row_bytes(entries, storage)
    once = matrix_bytes(entries, storage) + (p + 1) * storage.vectors
    return min(plain / once, ratio)


def effective_bandwidth(bytes_moved: float, overhead: float, full: float) -> float:
    """Equation 4.12: bandwidth of a kernel that moves `bytes_moved` after `overhead` seconds of start-up."""
    return bytes_moved / (overhead + bytes_moved / full)


def fit_overhead(bytes_moved: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """(overhead in seconds, full bandwidth) of equation 4.12 that fit measured times best, relative to each of them."""
    moved, took = np.asarray(bytes_moved, float), np.asarray(seconds, float)
    if len(moved) != len(took) or len(np.unique(moved)) < 2 or (took <= 0).any():
        raise ValueError("the fit takes as many positive times as sizes, of at least two different sizes")
    terms = np.stack([1 / took, moved / took], axis=1)
    (overhead, per_byte), *_ = np.linalg.lstsq(terms, np.ones(len(took)), rcond=None)
    if per_byte <= 0:
        raise ValueError("the times do not grow with the bytes moved: measure larger sizes")
    return float(overhead), float(1 / per_byte)


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of p powers: plain, blocked, and with launches."""

    plain: float  # p single products
    blocked: float  # equation 4.8
    groups: float  # equation 4.8 with a launch per level group and power, equation 4.12
    cache_bandwidth: float

    @property
    def speedup(self) -> float:
        """Speedup of equation 4.8 over single products."""
        return self.plain / self.blocked


def predict(
    machine: Machine,
    rows: int,
    nnz: int,
    p: int,
    storage: Storage = SELL,
    *,
    footprint: float,
    launches: int = 0,
    alpha: float | None = None,
) -> Prediction:
    """Powers on a machine with measured ceilings. `footprint` bytes (p + 1 level groups) are to stay in a cache;
    `launches` is the number of groups times p."""
    entries = nnz / max(1, rows)
    moved = rows * row_bytes(entries, storage, alpha=alpha)
    written = rows * storage.vectors
    work = Work(int(moved - written), int(written), int(rows * row_flops(entries)), "float64")
    memory, cache = bandwidth(work, machine), cached_bandwidth(machine, footprint)
    blocked = moved / memory + (p - 1) * moved / max(cache, memory)
    plain = p * (moved / memory + machine.launch_seconds)
    groups = blocked + launches * machine.graph_step_seconds
    return Prediction(plain, blocked + machine.launch_seconds, groups, cache)


def cached_bandwidth(machine: Machine, footprint: float) -> float:
    """Bandwidth of repeated reads of a footprint, interpolated between measured footprints; the memory's where none was
    measured."""
    curve: Any = sorted(machine.cache_bandwidth)
    if not curve:
        return machine.read_bandwidth
    sizes, rates = zip(*curve, strict=True)
    return float(np.interp(np.log(max(footprint, 1.0)), np.log(sizes), rates))
