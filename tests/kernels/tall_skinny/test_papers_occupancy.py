"""The kernels of Ernst et al.'s table 1 and figure 17 (papers/ernst) in the emulator: sums of integers are exact."""

import numpy as np
import pytest
from orders import in_order

from mansard.backends import emulated
from mansard.compile import cxx
from papers.ernst.occupancy import BLOCK, HEADER, probe_kernel, probe_text, read_kernel
from papers.kernels import launched

pytestmark = pytest.mark.skipif(bool(cxx.available()), reason="there is no C++ compiler")


def test_reading_takes_every_number_once():
    backend, blocks = emulated.EmulatedBackend(), 3
    A = np.random.default_rng(5).integers(-3, 4, 5000).astype(float)
    kernel = read_kernel(4, blocks, A.size, backend.device, "emulated", resident=16)
    count = kernel.fixed[0] * blocks * BLOCK * 4
    assert A.size - blocks * BLOCK * 4 < count <= A.size
    sums = np.full(blocks * BLOCK, np.nan)
    with in_order("random"):
        launched(backend.prepare(kernel), (A, sums))
    own = A[:count].reshape(-1, blocks * BLOCK).sum(0)
    assert (sums == own).all()


@pytest.mark.parametrize("resident", [1, 2, 4, 8, 16])
def test_shared_memory_limits_the_blocks(resident):
    device = emulated.EmulatedBackend().device
    shared = read_kernel(1, 3, 5000, device, "emulated", resident).geometry.shared_bytes
    assert shared <= device.shared_per_block
    assert device.shared_per_multiprocessor // (shared + 1024) == resident


@pytest.mark.parametrize(("kind", "divisor"), [("correct", 0), ("fewer registers", 0), ("in L1", 7)])
def test_altered_kernels_do_the_same_work(kind, divisor):
    """The sum of all results is that of A^T B, whatever they were added to; rows are divided by the divisor."""
    rng, rows, width = np.random.default_rng(6), 203, 12
    A, B = (rng.integers(-3, 4, (rows, width)).astype(float) for _ in "AB")
    text = probe_text((8, 4), kind, width, divisor)
    sums = np.full(2 * BLOCK, np.nan)
    launched(emulated.EmulatedBackend().prepare(probe_kernel(text, 2, rows, "emulated")), (A, B, sums))
    read = np.arange(rows) // (divisor or 1)
    team = -(-width // 8) * -(-width // 4)  # threads of a row; the last ones of a block have none
    own = sums.reshape(2, BLOCK)[:, : BLOCK // team * team]
    assert own.sum() == (A[read].T @ B[read]).sum()
    assert HEADER.exists()
