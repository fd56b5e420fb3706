"""Gradients of tiny matrices: what the rules choose compiles for a real GPU. The contract's tests run the kernels."""

from __future__ import annotations

import pytest
from devices import H200

from mansard.compile import nvrtc
from mansard.kernels.factor.gradients import defaults, emit, space, spec


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("n", [2, 8, 9, 25])
def test_defaults_compile_without_spills(n: int) -> None:
    """ptxas refuses float64 tensor instructions where blocks are so many that a thread has fewer than 64 registers."""
    problem = spec.problem("float64", n, 100_000)
    config = defaults.default(problem, H200)
    assert isinstance(config, space.Tensor)
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    assert "warning" not in entry.log and nvrtc.resources(entry.log).spill_bytes == 0, config


def test_a_launch_of_too_many_blocks_is_illegal() -> None:
    problem = spec.problem("float64", 2, 100_000)
    reason = space.illegal(problem, space.Tensor(16, 4, BLOCKS_PER_SM=10), H200)
    assert reason is not None and "registers" in reason
