"""What the kernels of this folder must compute. Run as a script, checks one library in all orders.

A sanitized library needs its sanitizer loaded before Python allocates anything, hence a process of its own.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ORDERS = {"forward": 0, "reverse": 1, "random": 2, "greedy": 3, "greedy-reverse": 4}


# --- Launching ----------------------------------------------------------------------------------------------


class Launch(ctypes.Structure):
    """Mirror of mansard::emulated::Launch."""

    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("order", ctypes.c_int),
        ("seed", ctypes.c_uint32),
        ("cooperative", ctypes.c_int),
    ]


class EmulatorError(Exception):
    """What the emulator reported instead of finishing a launch."""


@dataclass
class Kernel:
    """A kernel library, launched in one order."""

    path: Path
    order: str
    cooperative: bool = False

    def __call__(self, grid: int, block: int, shared: int, *arguments: np.ndarray[Any, Any] | int) -> None:
        library = ctypes.CDLL(str(self.path))
        library.mansard_emulated_error.restype = ctypes.c_char_p
        kinds = [ctypes.c_int if isinstance(a, int) else ctypes.c_void_p for a in arguments]
        values = [a if isinstance(a, int) else a.ctypes.data for a in arguments]
        fields = [(f"field{i}", kind) for i, kind in enumerate(kinds)]
        packed = type("Arguments", (ctypes.Structure,), {"_fields_": fields})(*values)
        launch = Launch((grid, 1, 1), (block, 1, 1), shared, ORDERS[self.order], 7, self.cooperative)
        params = (ctypes.c_void_p * 1)(ctypes.addressof(packed))
        if library.mansard_launch(ctypes.byref(launch), params) != 0:
            raise EmulatorError(library.mansard_emulated_error().decode())
        assert library.mansard_emulated_error() == b""


# --- What each kernel must compute --------------------------------------------------------------------------


def check_tree_sum(kernel: Kernel) -> None:
    x = np.arange(1000.0)
    partial, ticket, result = np.zeros(5), np.zeros(1, np.uint32), np.zeros(1)
    kernel(5, 96, 3 * 8, x, partial, ticket, result, x.size)
    assert result[0] == x.sum()


def check_mma_shapes(kernel: Kernel) -> None:
    random = np.random.default_rng(1)
    a, b, c = (random.standard_normal(shape) for shape in ((16, 16), (16, 8), (4, 16, 8)))
    wanted = c.copy()
    wanted[0, :8] += a[:8, :4] @ b[:4]
    for i, k in enumerate((4, 8, 16), 1):
        wanted[i] += a[:, :k] @ b[:k]
    kernel(1, 32, 0, a, b, c)
    np.testing.assert_allclose(c, wanted, rtol=0, atol=1e-14)


def check_double_buffer(kernel: Kernel) -> None:
    x, sums = np.arange(5 * 128.0), np.zeros(128)
    kernel(1, 64, 2 * 64 * 16, x, sums, 5)
    assert (sums.reshape(64, 2)[::-1] == x.reshape(5, 64, 2).sum(axis=0)).all()


def check_bulk_ring(kernel: Kernel) -> None:
    x, reversed_chunks = np.arange(10 * 64.0), np.zeros(10 * 64)
    shared = (3 + 1) * 64 * 8 + 6 * 8
    kernel(1, 96, shared, x, reversed_chunks, 10)
    assert (reversed_chunks.reshape(10, 64) == x.reshape(10, 64)[:, ::-1]).all()


def check_grid_barrier(kernel: Kernel) -> None:
    values = np.zeros((2, 6))
    wanted = values[0] = np.arange(1.0, 7.0)
    kernel(6, 32, 2 * 8, values, np.zeros(1, np.uint32), np.zeros(1, np.uint32), 5)
    for _ in range(5):
        wanted = wanted + np.roll(wanted, 1) + np.roll(wanted, -1)
    assert (values[1] == wanted).all()


def check_atomics(kernel: Kernel) -> None:
    threads = 2 * 48
    i32, word, wide = np.zeros(3, np.int32), np.zeros(5, np.uint32), np.zeros(2, np.uint64)
    single, pair = np.zeros(1, np.float32), np.zeros(2)
    kernel(2, 48, 0, i32, word, wide, single, pair)
    total = threads * (threads - 1) // 2
    assert i32.tolist() == [total, threads - 1, 1 - threads]
    assert word.tolist() == [2 * threads, threads % 5, 2**32 - 1, 0, 5]
    assert wide.tolist() == [threads << 33, (threads - 1) << 32]
    assert single[0] == threads / 2
    assert pair.tolist() == [threads / 4, total]


def check_warp_words(kernel: Kernel) -> None:
    rows, lane = np.zeros((12, 32), np.int32), np.arange(32)
    kernel(1, 32, 0, rows)
    low = lane < 16
    wanted = [
        np.full(32, 5),
        lane // 8 * 8 + 1,
        np.where(lane % 16 >= 3, lane - 3, lane),
        np.where(lane % 16 < 13, lane + 3, lane),
        lane ^ 5,
        np.full(32, sum(1 << i for i in range(0, 32, 3)), np.uint32).view(np.int32),
        np.where(low, 0, 1),
        np.where(low, 1, 0),
        np.where(low, (lane ^ 1) + 100 * (lane ^ 2), lane ^ 8),
        [16 + (int(i) & -int(i)).bit_length() for i in lane],
        np.full(32, 8),
        np.full(32, 1 + 2),
    ]
    for row, expected in zip(rows, wanted, strict=True):
        assert (row == expected).all()


def check_warp_turns(kernel: Kernel) -> None:
    out, wanted = np.zeros(96, np.int32), np.arange(96)
    kernel(1, 96, 96 * 4 + 8, out, 3)
    for _ in range(3):
        wanted = np.roll(wanted, -32)[np.arange(96) ^ 1]
    assert (out == wanted).all()


CHECKS: dict[str, Callable[[Kernel], None]] = {
    "tree_sum": check_tree_sum,
    "mma_shapes": check_mma_shapes,
    "double_buffer": check_double_buffer,
    "bulk_ring": check_bulk_ring,
    "grid_barrier": check_grid_barrier,
    "atomics": check_atomics,
    "warp_words": check_warp_words,
    "warp_turns": check_warp_turns,
}
COOPERATIVE = {"grid_barrier"}


def check(name: str, library: Path, order: str) -> None:
    """Raises AssertionError for a wrong answer, EmulatorError for a report."""
    CHECKS[name](Kernel(library, order, name in COOPERATIVE))


if __name__ == "__main__":
    for _order in ORDERS:
        check(sys.argv[1], Path(sys.argv[2]), _order)
