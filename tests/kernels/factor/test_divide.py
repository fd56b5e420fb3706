"""`divide`: every kind of matrix, neighbours that are not finite, the same bits, refusals, resources."""

from __future__ import annotations

import numpy as np
import pytest
from devices import H200
from divide_cases import Bisect, Merge, check, diagonals_of, merge, run, stack
from sparing import spared

from mansard.compile import nvrtc
from mansard.kernels.factor.divide import defaults, emit, space, spec, work

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


@pytest.mark.parametrize("n", [13, 33])
def test_every_kind_of_matrix(n: int, gpu_backend: str) -> None:
    problem = spec.problem("float64", n, 38, want="vectors")
    D, E, kinds = stack(problem, seed=5)
    found = run(problem, merge(problem), gpu_backend, D, E)
    check(problem, found, D, E, kinds)
    again = run(problem, merge(problem), gpu_backend, D, E)
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(found, again, strict=True))


@pytest.mark.parametrize("form", spec.FORMS)
def test_shifts_are_values_in_ascending_order(form: str, gpu_backend: str) -> None:
    """Not divided by the scale, whatever the form: `sweeps` uses the smallest singular value first."""
    values, shifts = (spec.problem("float64", 8, 19, form=form, want=want) for want in ("values", "shifts"))
    D, E, _ = stack(values, seed=3)
    found = [run(problem, Bisect(8), gpu_backend, D, E) for problem in (values, shifts)]
    expected = found[0].W if form == "tridiagonal" else found[0].W[:, ::-1]
    assert np.array_equal(found[1].W, expected, equal_nan=True) and (found[0].info == found[1].info).all()


@pytest.mark.parametrize("form", spec.FORMS)
def test_values_do_not_depend_on_lanes(form: str, gpu_backend: str) -> None:
    """More lanes per value divide its interval into other parts: values agree to rounding."""
    problem = spec.problem("float64", 8, 19, form=form)
    D, E, kinds = stack(problem, seed=2)
    for lanes in (4, 8):
        check(problem, run(problem, Bisect(lanes), gpu_backend, D, E), D, E, kinds)


def test_bad_neighbours_change_nothing(gpu_backend: str) -> None:
    problem = spec.problem("float64", 13, 5, want="vectors")
    made = [diagonals_of("random", 13, "tridiagonal", m) for m in range(5)]
    D, E = (np.array(one) for one in zip(*made, strict=True))
    alone = run(problem, merge(problem), gpu_backend, D, E)
    D[1, 2], E[3, 0] = np.nan, np.inf
    beside = run(problem, merge(problem), gpu_backend, D, E)
    fine = [0, 2, 4]
    assert (alone.W[fine] == beside.W[fine]).all() and (alone.Z[fine] == beside.Z[fine]).all()
    assert list(beside.info) == [0, 14, 0, 14, 0] and np.isnan(beside.Z[[1, 3]]).all()


def test_refusals() -> None:
    for problem, reason in (
        (spec.problem("complex128", 4, 1), "dtype"),
        (spec.problem("float64", 513, 1), "513 rows"),
        (spec.problem("float64", 129, 1, want="vectors"), "129 rows: from 2 to 128"),
        (spec.problem("float64", 1, 1), "1 rows"),
        (spec.problem("float64", 4, 1, form="dense"), "form"),
        (spec.problem("float64", 4, 1, want="rotations"), "want"),
        (spec.problem("float64", 4, 1, form="bidiagonal", want="vectors"), "bidiagonal"),
    ):
        assert reason in str(spec.refusal(problem)), problem
    values, vectors = (spec.problem("float64", 20, 1, want=want) for want in ("values", "vectors"))
    assert "values alone" in str(space.illegal(vectors, Bisect(), H200))
    assert "bisect" in str(space.illegal(values, Merge(3), H200))
    assert "one for eight, 3" in str(space.illegal(vectors, Merge(4), H200))
    assert "power of two" in str(space.illegal(values, Bisect(3), H200))
    assert work.work(values).bytes == 3 * 20 * 8


@needs_nvrtc
@pytest.mark.parametrize("n", spared([3, 16, 32, 64, 100, 128], 3))
def test_default_does_not_spill(n: int) -> None:
    for form, want in (("tridiagonal", "values"), ("bidiagonal", "values"), ("tridiagonal", "vectors")):
        problem = spec.problem("float64", n, 1 << 10, form=form, want=want)
        config = defaults.default(problem, H200)
        assert config is not None
        entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
        resources = nvrtc.resources(entry.log)
        assert "warning" not in entry.log and resources.spill_bytes <= 32
        assert resources.registers <= work.registers(problem, config) + 8
