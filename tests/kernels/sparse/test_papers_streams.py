"""BabelStream's kernels (papers/panzlaff) in the emulator: integers and their halves are exact."""

import numpy as np
import pytest
from orders import in_order

from mansard.backends import emulated
from mansard.compile import cxx
from papers.kernels import launched
from papers.panzlaff import streams

pytestmark = pytest.mark.skipif(bool(cxx.available()), reason="there is no C++ compiler")


@pytest.mark.parametrize("stream", streams.STREAMS)
def test_streams_are_exact(stream, monkeypatch):
    """A last block that is not full, and sums of blocks that take several turns."""
    monkeypatch.setattr(streams, "BLOCK", 64)
    backend, make = emulated.EmulatedBackend(), np.random.default_rng(5)
    for count, order in ((1, "forward"), (1000, "reverse"), (1024, "random")):
        A, B = (make.integers(-9, 10, count).astype(float) for _ in "AB")
        C = np.full(max(count, 8) + 1, np.nan)
        with in_order(order):
            launched(backend.prepare(streams.kernel(stream, count, "emulated", 2)), (A, B, C))
        assert (streams.result(stream, C, count, 2) == streams.expected(stream, A, B)).all()
        assert np.isnan(C[8 if stream == "dot" else count :]).all()


def test_bytes_are_those_of_babelstream():
    assert streams.STREAMS == {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}
    assert streams.kernel("add", 2000, "cuda", 132).geometry.grid == (2, 1, 1)
    assert streams.kernel("dot", 2000, "cuda", 132).geometry.grid == (528, 1, 1)
