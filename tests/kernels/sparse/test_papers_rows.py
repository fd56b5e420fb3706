"""Powers by level groups in CRS and SELL (papers/panzlaff), on the CPU and in the emulator: integers are exact."""

import numpy as np
import pytest
from orders import in_order

from mansard.backends import emulated
from mansard.bench.sparse import matrices
from mansard.compile import cxx
from papers.panzlaff import rows

pytestmark = pytest.mark.skipif(bool(cxx.available()), reason="there is no C++ compiler")
P = 3


def _powers(device, C, lanes_first, budget):
    """The powers that a device gives, and those of the matrix."""
    csr = matrices.make("7pt", 240, "float64", np)
    csr.data[:] = np.random.default_rng(2).integers(-1, 2, csr.nnz)
    matrix = rows.stored(csr, C, lanes_first)
    ranges = rows.groups(matrix, budget, P)
    V = np.full((P + 1, csr.shape[0]), np.nan)
    V[0] = np.arange(csr.shape[0]) % 5
    device.calls(matrix, V, list(rows.schedule(ranges, P)))()
    expected = [V[0]]
    for _ in range(P):
        expected.append(csr @ expected[-1])
    return V, np.array(expected), len(ranges)


@pytest.mark.parametrize("C", [1, 8, 32])
@pytest.mark.parametrize("budget", [1.0, np.inf])
def test_powers_on_cpus(C, budget):
    found, expected, count = _powers(rows.OnCpu(2), C, False, budget)
    assert (found == expected).all()
    assert (count > 2) == (budget == 1.0)


@pytest.mark.parametrize(("C", "ahead"), [(1, 4), (2, 1), (8, 4), (32, 1), (32, 4)])
def test_powers_in_the_emulator(C, ahead):
    with in_order("random"):
        found, expected, count = _powers(rows.OnGpu(emulated.EmulatedBackend(), ahead=ahead), C, True, 1.0)
    assert (found == expected).all() and count > 2


def test_schedule_respects_what_a_power_reads():
    """Power k of a group follows power k - 1 of the group itself and of both neighbours."""
    ranges = [(i, i + 1) for i in range(5)]
    done = set()
    for power, first, _ in rows.schedule(ranges, P):
        needed = {(power - 1, group) for group in (first - 1, first, first + 1) if 0 <= group < 5 and power > 1}
        assert needed <= done
        done.add((power, first))
    assert len(done) == 5 * P


def test_experiments_on_gpus_have_every_format():
    """Bands with every C; of the stencils single products with one line of a chunk at a time, too."""
    found = list(rows.stencils(64))
    assert [each.C for each in found] == 2 * [1, 32, 8] and {each.runs for each in found} == {found[0].runs}
    assert len(set(found[0].runs)) == 6 and [p for p, ahead in found[0].runs if ahead == 1] == [1]
    first, *others = rows.ramp((12, 20))
    assert first == ("band-27", (1 << 12) // (12 * 27), 8, ((5, rows.AHEAD),))
    assert {each.C for each in others} == {1, *rows.CHUNKS}
    assert (rows.prepared(first).C, rows.prepared(first).rows) == (8, first.rows)
