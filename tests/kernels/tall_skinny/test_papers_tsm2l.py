"""TSM2L's algorithms 6 and 7 (papers/tsm2) in the emulator: exact products of integers in any order of threads."""

import numpy as np
import pytest
from orders import in_order

from mansard.backends import emulated
from mansard.compile import cxx
from papers.tsm2.tsm2l import Config, kernel, multiply

pytestmark = pytest.mark.skipif(bool(cxx.available()), reason="there is no C++ compiler")
# rows that no tile divides, k beyond one tile of B and not a multiple of T3, columns that T2 does not divide
CASES = [("float64", 5, interleaved, 70) for interleaved in (False, True)] + [("float32", 8, True, 6)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{7 if case[2] else 6}-k{case[3]}")
def test_products_of_integers_are_exact(case):
    dtype, n, interleaved, k = case
    rng = np.random.default_rng(7)
    for rows, order in zip((1, 131, 333), ("forward", "reverse", "random"), strict=True):
        A = np.asfortranarray(rng.integers(-3, 4, (rows, k)).astype(dtype))
        B = rng.integers(-3, 4, (k, n)).astype(dtype)
        C = np.full((rows, n), np.nan, dtype, order="F")
        with in_order(order):
            multiply(A, B, C, Config(interleaved, T1=32, T2=4, T3=4, TCF=3), emulated.EmulatedBackend())
        assert (C == A @ B).all()


def test_tiles_divide_the_threads():
    A, B, C = np.zeros((1000, 8)), np.zeros((8, 8)), np.zeros((1000, 8))
    blocks = [kernel(A, B, C, Config(False, T1=32, TCF=tiles), "cuda").geometry.grid[0] for tiles in (1, 2, 4)]
    assert blocks == [32, 16, 8]
