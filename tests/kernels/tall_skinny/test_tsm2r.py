"""The tsm2r kernels and their plans: exact on integers, within bounds on random numbers, for all variants, layouts."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from orders import in_order
from sparing import rotated, sliced
from tsm2r_cases import GROUP, Group, P, Steps, Tensor, case_id, exact, launch, operands

import mansard as ms
from mansard import testing
from mansard.backends import emulated
from mansard.backends.emulated import ORDERS
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.tall_skinny import tsm2r
from mansard.kernels.tall_skinny.tsm2r import defaults, emit, space, spec, work
from mansard.kernels.tall_skinny.tsm2r.space import Config
from mansard.machine import machine
from mansard.plan import predict
from mansard.plan.problem import DTYPES, Problem

H200 = Device("cuda", "NVIDIA H200", "sm_90a", 132, 232448, 233472, 65536, 2048, 60 << 20)
A100 = Device("cuda", "NVIDIA A100", "sm_80", 108, 166912, 167936, 65536, 2048, 40 << 20)
CPU = Device("cpu", "some CPU", "x86_64", 2)
# several panels, shared by several blocks: fewer rows than blocks, one panel for all, parts that begin and end inside
SHARED: list[tuple[Problem, Config]] = [
    (P("float64", 200, 5, 700), Tensor(2, 1, 1, 1, 32)),
    (P("float64", 30, 9, 1000), Tensor(1, 1, 2, 1, 32)),
    (P("float64", 100, 8, 600, layout_a="col"), Tensor(1, 1, 4, 2, 32)),
    (P("complex128", 60, 3, 300), Tensor(2, 1, 1, 1, 32, "registers")),
    (P("float32", 100, 20, 500), Tensor(4, 1, 1, 1, 64, UNIT="tf32x3")),
    (P("float32", 100, 20, 500), Group(1, 1, 64, 1, 2, 1)),
    (P("complex64", 100, 6, 200, layout_a="col"), Group(1, 2, 32, 2, 2, 1)),
    (P("float64", 100, 5, 700, layout_a="col"), Steps("prefetch", 32, 4, 4, 5)),
]


@rotated(3)
@pytest.mark.parametrize("case", SHARED, ids=lambda case: f"{case[1].VARIANT}-{case[0].dtype}-{case[0].M}")
def test_blocks_share_panels(case: tuple[Problem, Config], monkeypatch: pytest.MonkeyPatch) -> None:
    """On devices with more multiprocessors than panels; the sums have the same bits whoever arrives last."""
    for multiprocessors in (2, 7, 16):
        many = emulated.EmulatedBackend(multiprocessors)
        monkeypatch.setattr(emulated, "backend", lambda many=many: many)
        exact(*case, "emulated")
        results = []
        for order in ORDERS:
            A, B, C = operands(case[0], "emulated", 5, integers=False)
            with in_order(order):
                launch(*case, "emulated", A, B, C, 1.0, 0.0)
            results.append(C.copy())
        assert all((results[0] == other).all() for other in results[1:])


WIDE_RANGE: list[Config] = [
    Tensor(4, 1, 1, 1, 32, UNIT="float64"),
    Tensor(4, 1, 1, 1, 32, UNIT="tf32x3"),
    Group(1, 1, 64, 2, 2, 1),
    Group(1, 2, 64, 1, 2, 1),
    Group(1, 1, 64, 1, 2, 1, JOINED=True),
]


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("config", WIDE_RANGE, ids=lambda config: f"{config.VARIANT}-{config.UNIT}-{config.TILES}")
def test_infinities_and_nans_stay_in_their_rows(config: Config, layout: str, gpu_backend: str) -> None:
    problem = P("float32", 100, 20, 160, layout_a=layout)
    A, B, C = operands(problem, gpu_backend, 0, integers=True)
    clean = A @ B
    A[3, 70], A[50, 1], A[77, 159], A[99, 80] = np.inf, np.nan, -np.inf, 3e38
    launch(problem, config, gpu_backend, A, B, C, 1.0, 0.0)
    with np.errstate(invalid="ignore"):
        expected = A.astype("float64") @ B.astype("float64")
    got, wanted = (np.asarray(_host(array)) for array in (C, expected))
    rest = np.ones(100, bool)
    rest[[3, 50, 77, 99]] = False
    assert (got[rest] == np.asarray(_host(clean))[rest]).all()
    assert (np.isnan(got[[3, 50, 77]]) == np.isnan(wanted[[3, 50, 77]])).all()
    infinite = np.isinf(wanted[[3, 77]])
    assert (got[[3, 77]][infinite] == wanted[[3, 77]][infinite]).all()
    with np.errstate(over="ignore"):
        assert np.allclose(got[99], wanted[99].astype("float32"), rtol=1e-6)


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("config", WIDE_RANGE, ids=lambda config: f"{config.VARIANT}-{config.UNIT}-{config.TILES}")
def test_infinities_and_nans_stay_in_their_columns(config: Config, layout: str, gpu_backend: str) -> None:
    """A NaN may differ from an infinity in the last bits only, which TF32 does not have."""
    problem = P("float32", 100, 20, 161, layout_a=layout, pitch_a=164 if layout == "row" else 100)
    A, B, C = operands(problem, gpu_backend, 0, integers=True)
    clean = A @ B
    B[3, 7], B[70, 11], B[160, 0], B[90, 19] = np.inf, np.nan, -np.inf, 3e38
    B[5, 15:16].view("uint32")[:] = 0x7F800001
    launch(problem, config, gpu_backend, A, B, C, 1.0, 0.0)
    with np.errstate(invalid="ignore"):
        expected = A.astype("float64") @ B.astype("float64")
    got, wanted = (np.asarray(_host(array)) for array in (C, expected))
    rest = np.ones(20, bool)
    rest[[0, 7, 11, 15, 19]] = False
    assert (got[:, rest] == np.asarray(_host(clean))[:, rest]).all()
    assert np.isnan(got[:, [11, 15]]).all()
    assert (np.isnan(got[:, [0, 7]]) == np.isnan(wanted[:, [0, 7]])).all() and np.isinf(wanted[:, [0, 7]]).any()
    infinite = np.isinf(wanted[:, [0, 7]])
    assert (got[:, [0, 7]][infinite] == wanted[:, [0, 7]][infinite]).all()
    with np.errstate(over="ignore"):
        assert np.allclose(got[:, 19], wanted[:, 19].astype("float32"), rtol=1e-6)


def _host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_plan(order: str, dtype: str, backend: str) -> None:
    xp = testing.array_module(backend)
    A = xp.asarray(testing.random_matrix(xp, 150, 130, dtype, 0, integers=True), order=order)
    B = testing.random_matrix(xp, 130, 7, dtype, 1, integers=True)
    plan = ms.plan("tsm2r", A, B, backend=None if backend == "cuda" else backend)
    C = plan(A, B)
    assert C.dtype.name == dtype and bool((C == A @ B).all())
    if backend == "cpu":
        assert plan.choice.answered_by == "library" and "no configuration of tsm2r is legal" in plan.explain()
    else:
        assert plan.choice.config is not None and plan.choice.config.VARIANT in ("tensor", "group", "steps")


def test_plan_with_other_strides_and_scaling(backend: str) -> None:
    xp = testing.array_module(backend)
    where = None if backend == "cuda" else backend
    A = testing.random_matrix(xp, 60, 90, "complex128", 0, integers=True)
    B = testing.random_matrix(xp, 90, 5, "complex128", 1, integers=True)
    for left in (A, xp.asfortranarray(A), A[::-1], A[:, ::-1], xp.repeat(A, 2, axis=1)[:, ::2], A[1:, 1:]):
        for right in (B, xp.asfortranarray(B), B[:, ::-1]):
            right = right[: left.shape[1]]
            out = xp.ones((left.shape[0], 5), "complex128", order="F")
            plan = ms.plan("tsm2r", left, right, out=out, backend=where)
            assert plan(left, right, out, alpha=2 - 1j, beta=3j) is out
            assert bool((out == (2 - 1j) * (left @ right) + 3j).all())


def test_lazily_conjugated_tensors_are_not_copied() -> None:
    torch = pytest.importorskip("torch")
    A, B = torch.randint(-3, 4, (80, 60)).to(torch.complex128), torch.randint(-3, 4, (60, 4)).to(torch.complex128)
    A, B = A * (1 + 2j), B * (2 - 1j)
    for left, right in ((A.conj(), B), (A, B.conj()), (A.mT.contiguous().mT.conj(), B.conj())):
        plan = ms.plan("tsm2r", left, right, backend="emulated")
        assert plan.problem.conj_a == left.is_conj() and plan.problem.conj_b == right.is_conj()
        assert torch.equal(plan(left, right), left.resolve_conj() @ right.resolve_conj())


@pytest.mark.parametrize("shape", [(0, 4, 4), (50, 0, 4), (50, 4, 0)])
def test_empty(shape: tuple[int, int, int], backend: str) -> None:
    M, K, N = shape
    xp = testing.array_module(backend)
    A, B, out = xp.ones((M, K)), xp.ones((K, N)), xp.full((M, N), 2.0)
    where = None if backend == "cuda" else backend
    C = ms.plan("tsm2r", A, B, backend=where)(A, B)
    assert C.shape == (M, N) and not bool(C.any())
    if out.size:
        ms.plan("tsm2r", A, B, out=out, backend=where)(A, B, out, beta=3.0)
        assert bool((out == 6.0).all())


def test_bad_input_is_named() -> None:
    A, B = np.ones((40, 30)), np.ones((30, 4))
    with pytest.raises(TypeError, match="pass B"):
        ms.plan("tsm2r", A)
    with pytest.raises(ValueError, match="A has 30 columns and B 29 rows"):
        ms.plan("tsm2r", A, B[:-1])
    with pytest.raises(ValueError, match="out has shape"):
        ms.plan("tsm2r", A, B, out=np.ones((40, 3)))
    with pytest.raises(ValueError, match="out overlaps A"):
        ms.plan("tsm2r", A, B, out=A[:, :4])(A, B, A[:, :4])
    wide = ms.plan("tsm2r", A, np.ones((30, 65)), backend="emulated")
    assert wide.choice.answered_by == "library" and "wider than 64" in wide.choice.reason


def test_rules_and_reasons() -> None:
    problem = P("float64", 20480, 32, 20480)
    assert defaults.default(problem, CPU) is None and list(space.candidates(problem, CPU)) == []
    for other, kind in ((problem, "bulk"), (problem.replace(aligned=False), "registers")):
        config = defaults.default(other, H200)
        assert isinstance(config, Tensor) and kind == config.LOAD
    for other, device in ((problem.replace(layout_a="any"), H200), (problem, A100)):
        config = defaults.default(other, device)
        assert isinstance(config, Steps)
    for config, reason in (
        (Steps("middle"), "is not one of inner"),
        (Steps("outer", 128, 4, 1), "has T2=32"),
        (Steps("prefetch", 100), "multiple of 32"),
        (Tensor(DEPTH=24), "does not split"),
        (Tensor(UNIT="tf32x3"), "float32 and complex64"),
        (Tensor(TILES=4), "registers per thread"),
        (Tensor(TILES=1, STAGES=9), "shared memory"),
        (Tensor(1, 1, 1), "too few to lay down B"),
        (Group(), "float32 and complex64"),
    ):
        assert reason in str(space.illegal(problem, config, H200)), config
    single = P("float32", 20480, 32, 20480)
    for config, reason in (
        (Group(DEPTH=48), "does not split"),
        (Group(DEPTH=128), "threads do not divide"),
        (Group(STAGES=5), "shared memory"),
        (Group(4, 2, 32), "registers per thread"),
        (Group(STAGES=1), "two at least"),
        (Group(FEEDERS=0), "one at least"),
    ):
        assert reason in str(space.illegal(single, config, H200)), config
    assert space.illegal(single, Group(), H200) is None
    for other, device, reason in (
        (single.replace(aligned=False), H200, "16-byte boundaries"),
        (single.replace(layout_a="any"), H200, "neither row- nor column-major"),
        (single, A100, "sm_90a"),
    ):
        assert reason in str(space.illegal(other, Group(), device))
        assert not isinstance(defaults.default(other, device), Group)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("width", [1, 2, 7, 8, 16, 32, 64])
def test_the_space_is_sane(width: int, layout: str, dtype: str) -> None:
    problem = P(dtype, 10240, width, 10240, layout_a=layout)
    configs = list(space.candidates(problem, H200))
    assert 50 <= len(configs) <= 1000 and len(set(configs)) == len(configs)
    grouped = work.real_bytes(problem) == 4 and 9 <= work.width(problem) <= 64
    assert {config.VARIANT for config in configs} == {"steps", "tensor", *(["group"] if grouped else [])}
    config = defaults.default(problem, H200)
    assert config is not None and isinstance(config, Group if grouped else Tensor)
    assert space.from_dict(space.to_dict(config)) == config
    assert work.bytes_in_flight(problem, config) >= 40 << 10
    assert all(work.threads(problem, config) <= 1024 for config in configs)


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("width", [24, 32, 48, 64])
def test_warpgroups_are_first_among_wide_ones(width: int, layout: str) -> None:
    """What the H200 does best with 17 columns and more: the rule and all of the model's favourites."""
    problem, ceilings = P("float32", 20480, width, 20480, layout_a=layout), machine.known(H200)
    rule = defaults.default(problem, H200)
    teams = (2, 1) if width > 32 else (4, 1) if layout == "col" else (2, 2)
    assert isinstance(rule, Group) and not rule.JOINED
    assert (*teams, 2 if layout == "col" else 4) == (rule.GROUPS, rule.TILES, rule.FEEDERS)
    seconds = partial(predict.seconds, tsm2r.FAMILY, problem, device=H200, machine=ceilings)
    favourites = sorted(space.candidates(problem, H200), key=lambda config: seconds(config=config))[:5]
    assert all(isinstance(config, Group) for config in favourites)


needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


@needs_nvrtc
@rotated(3)
@pytest.mark.parametrize("size, layout", sliced(list(product([
    ("float64", 2), ("float64", 8), ("float64", 16), ("float64", 32), ("float32", 16),
    ("float32", 32), ("float32", 64), ("complex64", 16), ("complex128", 16), ("complex128", 64),
], ["row", "col"])), 5))  # fmt: skip
def test_default_does_not_spill(size: tuple[str, int], layout: str) -> None:
    dtype, width = size
    problem = P(dtype, 20480, width, 20480, layout_a=layout)
    for other in (problem, problem.replace(aligned=False)):
        config = defaults.default(other, H200)
        assert config is not None
        entry = nvrtc.compile_cuda(emit.source(other, config, "cuda"), H200.arch)
        resources = nvrtc.resources(entry.log)
        assert "warning" not in entry.log, entry.log
        assert resources.spill_bytes == 0 and resources.stack_bytes == 0
        estimate = work.registers(other, config)
        assert 0.5 * resources.registers - 16 <= estimate <= 1.6 * resources.registers + 24


@needs_nvrtc
@rotated(3)
@pytest.mark.parametrize("case", sliced(GROUP, 4), ids=case_id)
def test_warpgroups_compile_without_spills(case: tuple[Problem, Config]) -> None:
    entry = nvrtc.compile_cuda(emit.source(*case, "cuda"), H200.arch)
    resources = nvrtc.resources(entry.log)
    assert "warning" not in entry.log and "serialized" not in entry.log, entry.log
    assert resources.spill_bytes == 0 and resources.stack_bytes == 0
    estimate = work.registers(*case)
    assert 0.5 * resources.registers - 16 <= estimate <= 1.6 * resources.registers + 24


@needs_nvrtc
@pytest.mark.parametrize("step", ["inner", "outer", "shared", "prefetch"])
def test_steps_compile_for_older_gpus(step: str) -> None:
    problem = P("float64", 10240, 8, 10240, layout_a="col")
    config = Steps(step, 128, *{"inner": (1, 1), "outer": (8, 1)}.get(step, (8, 8)))
    assert space.illegal(problem, config, A100) is None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), A100.arch)
    assert "warning" not in entry.log and nvrtc.resources(entry.log).spill_bytes == 0


def test_the_reference_is_what_it_says() -> None:
    A, B, C = (np.full((2, 2), value) for value in (1j, 2 + 1j, 3.0))
    assert (spec.reference(A, B, C, 2, 1, conj_a=True, conj_b=True) == 2 * 2 * (-1j * (2 - 1j)) + 3).all()
