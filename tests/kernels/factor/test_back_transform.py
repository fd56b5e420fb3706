"""`back_transform`: order of values, matrices that are not finite, refusals, defaults, resources."""

from __future__ import annotations

import numpy as np
import pytest
from back_transform_cases import expected, operands, run
from devices import H200
from sparing import sliced

from mansard.compile import nvrtc
from mansard.kernels.factor.back_transform import defaults, emit, space, spec, work
from mansard.kernels.factor.back_transform.space import Block, Config, Lanes
from mansard.kernels.factor.sweeps import spec as sweeps
from mansard.plan.problem import DTYPES

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
ONE_OF_EACH = [Lanes(8, 1), Block(1, 1)]


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=str)
def test_bad_neighbours_change_nothing(config: Config, gpu_backend: str) -> None:
    """NaN among the values of one matrix makes that matrix NaN, whatever its reflectors are, and no other."""
    problem = spec.problem("float64", 8, 5, 7)
    given = operands(problem)
    alone = run(problem, config, gpu_backend, given)
    given.D[1], given.count[1], given.V[1] = np.nan, 0, np.inf
    W, Z = run(problem, config, gpu_backend, given)
    fine = [0, 2, 3, 4]
    assert (W[fine] == alone[0][fine]).all() and (Z[fine] == alone[1][fine]).all()
    assert np.isnan(W[1]).all() and np.isnan(Z[1]).all()


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=str)
def test_values_need_not_be_stored(config: Config, gpu_backend: str) -> None:
    """W and the scale are optional: of the two sides of a decomposition one stores the values."""
    problem = spec.problem("float64", 8, 5, 7)
    given = operands(problem)._replace(scale=None)
    W, Z = run(problem, config, gpu_backend, given)
    ones = np.ones(5)
    values, vectors = expected(problem, given._replace(scale=ones))
    assert (values == W).all() and np.allclose(Z, vectors, atol=1e-13)


def test_empty_batches(gpu_backend: str) -> None:
    for config in ONE_OF_EACH:
        problem = spec.problem("float64", 8, 0)
        given = operands(problem.replace(BATCH=1))
        run(problem, config, gpu_backend, given._replace(V=given.V[:0]))


def test_the_reference() -> None:
    given = operands(spec.problem("complex128", 6, 2, 0, side="right"))
    QH = spec.reference(given.V, given.tau, given.phase, "right")
    assert np.allclose(QH @ QH.conj().swapaxes(1, 2), np.eye(6))


def test_what_is_refused() -> None:
    for problem, reason in (
        (spec.problem("float16", 4, 1), "dtype"),
        (spec.problem("float64", 513, 1), "rows"),
        (spec.problem("float64", 4, 1, side="both"), "side"),
    ):
        assert reason in str(spec.refusal(problem)), problem
    large = spec.problem("float64", 64, 1)
    assert "LANES" in str(space.illegal(large, Lanes(32), H200))
    assert "SPLIT" in str(space.illegal(large, Block(3), H200))
    assert "four columns" in str(space.illegal(spec.problem("float64", 10, 1), Block(4), H200))
    assert "registers" in str(space.illegal(large, Block(1, 2, 8), H200))
    assert work.parts(large, Block(2, 1)) == 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_order_has_a_default(dtype: str) -> None:
    for n in (*range(1, 129), 129, 192, 256, 257, 300, 512):
        for side in spec.SIDES:
            if side == "product" and n > 128:
                continue  # vectors of small matrices alone come as a factor
            problem = spec.problem(dtype, n, 1000, 0 if side == "product" else sweeps.capacity(n), side=side)
            assert defaults.default(problem, H200) is not None, problem
    assert len(list(space.candidates(spec.problem(dtype, 32, 1000, 160), H200))) > 5


@needs_nvrtc
@pytest.mark.parametrize("n, dtype", sliced([(n, dtype) for n in (3, 8, 16, 32, 33, 64, 128) for dtype in DTYPES], 14))
def test_default_does_not_spill(n: int, dtype: str) -> None:
    problem = spec.problem(dtype, n, 1 << 16, sweeps.capacity(n))
    config = defaults.default(problem, H200)
    assert config is not None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    resources = nvrtc.resources(entry.log)
    assert "warning" not in entry.log and resources.spill_bytes == resources.stack_bytes == 0
