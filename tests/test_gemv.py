"""Batches of matrices times vectors: kernels exact on integers and within bounds on random numbers, for all variants,
layouts, stacks and tails; `ms.blas.gemv` against NumPy from the outside.

Run as a script, it multiplies matrices that end, or begin, at memory that must not be touched.
"""

from __future__ import annotations

import ctypes
import doctest
import mmap
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batched_cases import DTYPES, arranged, integers
from gemv_cases import CASES, bounded, case_id, exact, laid_out, launch, numbers
from sparing import spared
from test_api import wanted
from test_compile import A100, H200
from test_gemm_cpu import guarded

import mansard as ms
from mansard import testing
from mansard.api import gemv_call
from mansard.backends import cpu
from mansard.compile import cxx, nvrtc
from mansard.errors import UnsupportedProblem
from mansard.families import gemv
from mansard.families.gemv import defaults, emit, shapes, space, space_cpu, spec, work
from mansard.families.gemv.space import Config, Lanes, Stream
from mansard.families.gemv.space_cpu import Simd
from mansard.model import machine, predict
from mansard.plan.problem import Problem

HERE = Path(__file__)
P = spec.problem
needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
needs_cpu = pytest.mark.skipif(cpu.unavailable() is not None, reason=f"cpu: {cpu.unavailable()}")
_MAP_NORESERVE = 0x4000  # Linux; Python's mmap does not name it
ONE_OF_EACH = [Lanes(2, 2), Lanes(2, 4, 2, 2, 2), Stream(4, 8, 2, 1), Stream(1, 32, 2, 2, 1, 2, 1)]


def name_of(config: Config) -> str:
    return f"{config.VARIANT}-{config.LANES_M}" if not isinstance(config, Simd) else config.VARIANT


@pytest.fixture(autouse=True)
def no_plans() -> None:
    gemv_call._PLANS.clear()


# ---- GPU kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", spared(CASES), ids=case_id)
def test_variant_is_exact(case: tuple[Problem, Config], gpu_backend: str) -> None:
    exact(*case, gpu_backend)
    exact(*case, gpu_backend, scaled=True)


@pytest.mark.parametrize("case", spared(CASES)[::2], ids=case_id)
def test_variant_is_within_bounds(case: tuple[Problem, Config], gpu_backend: str) -> None:
    bounded(*case, gpu_backend)


@pytest.mark.parametrize("order", ["reverse", "random"])
@pytest.mark.parametrize("case", CASES[1::4], ids=case_id)
def test_variant_in_other_thread_orders(
    case: tuple[Problem, Config], order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANSARD_EMULATED_ORDER", order)
    ms.settings.reread()
    try:
        exact(*case, "emulated")
    finally:
        monkeypatch.undo()
        ms.settings.reread()


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=name_of)
@pytest.mark.parametrize("width", [8, 9])
def test_every_size_of_a_batch(config: Config, width: int, gpu_backend: str) -> None:
    """None, one, one less and one more than a warp, a block and a grid take at a time."""
    for batch in (0, 1, 7, 8, 9, 31, 32, 33, 65):
        exact(P("float64", width, width, batch), config, gpu_backend)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=name_of)
def test_alpha_and_beta(config: Config, gpu_backend: str) -> None:
    """NaN in y does not leak where beta is zero, also if the kernel was made to read y."""
    xp = testing.array_module(gpu_backend)
    for dtype, accumulate in (("float64", False), ("float64", True), ("complex128", False), ("complex128", True)):
        problem = P(dtype, 8, 8, 11, accumulate=accumulate)
        alpha = 3 - 2j if problem.is_complex else -2.0
        A, x, y = (numbers(problem, side, xp, i, True) for i, side in enumerate("abc"))
        y.fill(np.nan)
        stacks = laid_out(problem, xp, A, x, y)
        launch(problem, config, gpu_backend, stacks, alpha, 0.0)
        assert bool((stacks[2].view == alpha * (A @ x)).all())


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("config", [*ONE_OF_EACH, Lanes(4, 8), Stream(8, 4, 1, 3)], ids=name_of)
def test_what_is_not_finite_stays_in_its_row(config: Config, layout: str, gpu_backend: str) -> None:
    """Lanes without a column of their own, and rows that are read twice, add nothing: infinities are not multiplied."""
    xp = testing.array_module(gpu_backend)
    problem = P("float64", 9, 9, 40, layout_a=layout)
    A, x, y = (numbers(problem, side, xp, i, True) for i, side in enumerate("abc"))
    expected = A @ x
    A[17], A[23, 8, 8], x[23] = np.nan, np.inf, 1.0
    stacks = laid_out(problem, xp, A, x, y)
    launch(problem, config, gpu_backend, stacks, 1.0, 0.0)
    others = [i for i in range(40) if i not in (17, 23)]
    assert bool((stacks[2].view[others] == expected[others]).all())
    assert bool(xp.isnan(stacks[2].view[17]).all()) and float(stacks[2].view[23, 8, 0]) == np.inf
    assert bool((stacks[2].view[23, :8] == A[23, :8] @ x[23]).all())


def test_more_blocks_than_a_grid_once_had(gpu_backend: str) -> None:
    exact(P("float32", 1, 1, 70_001), Stream(1, 32, 1, 1, 1, 1, 1), gpu_backend)
    exact(P("float32", 1, 1, 70_001), Lanes(32, 1, 1, 1, 1), gpu_backend)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=name_of)
def test_matrices_beyond_two_to_the_31_elements(config: Config) -> None:
    """Of a stack whose second matrix is that far away; memory that is not touched costs nothing."""
    problem = P("float64", 8, 8, 2, stack_a="strided")
    stride = 2**31 + 2
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    memory = np.frombuffer(mmap.mmap(-1, 8 * (stride + 64), flags=flags), np.float64)
    stacks = laid_out(problem, np, *(numbers(problem, side, np, ord(side), True) for side in "abc"))
    view = np.lib.stride_tricks.as_strided(memory, (2, 8, 8), (8 * stride, 64, 8))
    view[...] = stacks[0].view
    stacks[0] = replace(stacks[0], view=view, buffer=memory, strides=(stride, 8, 1))
    launch(problem, config, "emulated", stacks, 1.0, 0.0)
    assert (stacks[2].view == view @ stacks[1].view).all()


@pytest.mark.parametrize(
    "config", [Lanes(8, 4), Lanes(4, 4, 1, 2, 1), Stream(4, 8, 3, 2), Stream(1, 32, 4, 2, 1, 4, 1)], ids=name_of
)
def test_the_same_bits_every_time(config: Config, gpu_backend: str) -> None:
    xp, problem = testing.array_module(gpu_backend), P("float32", 37, 53, 9)
    A, x, y = (numbers(problem, side, xp, i, False) for i, side in enumerate("abc"))
    found = []
    for _ in range(3):
        stacks = laid_out(problem, xp, A, x, y)
        launch(problem, config, gpu_backend, stacks, 1.0, 0.0)
        found.append(stacks[2].view.copy())
    assert bool((found[0] == found[1]).all()) and bool((found[0] == found[2]).all())


# ---- what the compiler makes of them ----------------------------------------------------------------------


def compiled(problem: Problem, config: Config, arch: str = "sm_90a") -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), arch)
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


@needs_nvrtc
@pytest.mark.parametrize("case", spared(CASES), ids=case_id)
def test_compiles_for_sm_90_without_spills(case: tuple[Problem, Config]) -> None:
    problem, config = case
    assert space.illegal(problem, config, H200) is None
    resources = compiled(problem, config)
    assert resources.spill_bytes == 0 and resources.stack_bytes == 0
    estimate = work.registers(problem, config)
    assert 0.5 * resources.registers - 16 <= estimate <= 1.6 * resources.registers + 32


@needs_nvrtc
@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", spared([1, 4, 7, 8, 16, 17, 32, 33, 64, 65, 100, 128, 255, 256]))
def test_what_is_chosen_does_not_spill(width: int, dtype: str, layout: str) -> None:
    problem = P(dtype, width, width, max(1, 2**27 // width**2), layout_a=layout)
    rule = defaults.default(problem, H200)
    chosen = predict.choose(gemv, problem, H200, machine.known(H200))
    for config in {rule, chosen}:
        assert config is not None
        resources = compiled(problem, config)
        assert resources.spill_bytes == 0 and resources.stack_bytes == 0, config


@needs_nvrtc
def test_compiles_for_sm_80() -> None:
    for problem, config in CASES[::6]:
        assert compiled(problem, config, A100.arch).spill_bytes == 0


# ---- the space and its model ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_is_always_a_configuration(dtype: str) -> None:
    """For every shape, layout and stack; candidates are legal, distinct and few."""
    rng = np.random.default_rng(4)
    fixed = [(1, 1), (1, 4096), (4096, 1), (4096, 4096), (2, 300), (300, 2), (256, 256)]
    for M, K in fixed + rng.integers(1, 257, (20, 2)).tolist():
        traits = {"layout_a": str(rng.choice(["row", "col", "any"])), "aligned": bool(rng.integers(2))}
        stacks = {f"stack_{side}": str(rng.choice(("packed", "strided", "shared"))) for side in "ab"}
        odd = P(dtype, M, K, 5, **traits, **stacks, pitch_b=int(rng.integers(1, 3)))
        for problem in (P(dtype, M, K, 5000), P(dtype, M, K, 5000, layout_a="col"), odd):
            for device in (H200, A100):
                assert defaults.default(problem, device) is not None, (problem, device)
            found = list(space.candidates(problem, H200))
            assert 1 <= len(found) == len(set(found)) <= 200
            assert all(space.illegal(problem, config, H200) is None for config in found)
            assert all(space.from_dict(space.to_dict(config)) == config for config in found)


@pytest.mark.parametrize("layout", ["row", "col"])
def test_rules_keep_enough_bytes_under_way(layout: str) -> None:
    """A quarter more than Little's law asks for, and nothing that takes three quarters as long as memory: for all
    squares from 4 to 256, and for tall and wide ones."""
    ceilings = machine.known(H200)
    needed = 1.25 * ceilings.read_bandwidth * ceilings.loaded_latency / H200.multiprocessors
    tall = [(128, 8), (256, 16), (1000, 4), (700, 3)]
    for M, K in [(n, n) for n in range(4, 257)] + tall + [(k, m) for m, k in tall]:
        problem = P("float64", M, K, max(1, 2**28 // (M * K)), layout_a=layout)
        config = defaults.default(problem, H200)
        assert work.bytes_in_flight(problem, config) >= needed, (problem, config)
        least = work.work(problem).bytes / ceilings.read_bandwidth
        busiest = max(work.limits(problem, config, H200, ceilings).values())
        assert busiest <= 0.75 * least, (problem, config, work.limits(problem, config, H200, ceilings), least)


def test_work_counts_what_must_move_once() -> None:
    n, batch = 8, 1000
    plain = work.work(P("float64", n, n, batch))
    assert (plain.read, plain.written, plain.flops) == (8 * (n + 1) * n * batch, 8 * n * batch, 2 * n * n * batch)
    shared = work.work(P("float64", n, n, batch, stack_a="shared", accumulate=True))
    assert shared.read == 8 * (n * n + 2 * n * batch)
    remark = work.remarks(P("float64", n, n, batch), Lanes(), H200, machine.known(H200))[0]
    assert "80 % of the bytes are the matrices'" in remark


def test_one_name_for_what_is_the_same_in_memory() -> None:
    column = spec.canonical(P("float64", 5, 1, 9))
    assert (column.layout_a, column.pitch_a, column.layout_b, column.layout_c) == ("col", 5, "col", "col")
    row = spec.canonical(P("float64", 1, 5, 9, layout_a="col"))
    assert (row.layout_a, row.pitch_a) == ("row", 5)
    assert spec.canonical(P("float64", 5, 1, 9, pitch_a=2, stack_a="strided")).layout_a == "row"
    assert spec.canonical(P("float64", 5, 6, 9, pitch_b=2, stack_b="strided")).layout_b == "any"


def test_runs_that_one_load_takes() -> None:
    assert [shapes.adjacent(P("float64", 6, k, 9)) for k in (4, 5, 6)] == [2, 1, 2]
    assert [shapes.adjacent(P("float32", m, 5, 9, layout_a="col")) for m in (4, 6, 7)] == [4, 2, 1]
    assert shapes.adjacent(P("float64", 6, 4, 9, aligned=False)) == 1
    assert shapes.adjacent(P("float64", 6, 4, 9, pitch_a=7, stack_a="strided")) == 1


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Lanes(3, 2), "does not divide a warp"),
        (Lanes(2, 2, 0), "a count is not positive"),
        (Lanes(1, 1, 8, 4, 8), "bytes of shared memory"),
        (Lanes(2, 2, 1, 1, 64), "threads exceed"),
        (Stream(2, 8), "not the 32 of a warp"),
        (Stream(1, 32, 0), "a count is not positive"),
        (Stream(1, 32, 2, 2, 1, 2, 2), "one team where warps share rows"),
        (Stream(1, 32, 32, 8), "registers per thread"),
        (Simd(), "for CPUs"),
    ],
)
def test_illegal_ones_say_why(config: Config, reason: str) -> None:
    found = space.illegal(P("float64", 40, 40, 10), config, H200)
    assert found is not None and reason in found


def test_refusals() -> None:
    assert "beyond 4096" in str(spec.refusal(P("float64", 5000, 3, 2)))
    assert spec.refusal(P("float64", 4096, 4096, 2)) is None
    assert "dtype int32" in str(spec.refusal(Problem("gemv", "int32", P("float64", 2, 2, 2).sizes)))


# ---- CPU kernel -------------------------------------------------------------------------------------------

CPU_CASES: list[tuple[Problem, Simd | None]] = [
    (problem, None) for problem, _ in CASES[::2] if problem.layout_a != "any"
]
CPU_CASES += [
    (P("float64", 17, 23, 40), Simd(2, 8)),
    (P("float64", 17, 23, 40, layout_a="col"), Simd(2, 8, 2, 4096)),
    (P("float64", 9, 5, 40), Simd(1, 1)),
    (P("float32", 30, 70, 40), Simd(4, 16, 1, 1024)),
    (P("complex64", 15, 21, 40, conj_a=True), Simd(2, 4)),
    (P("complex128", 15, 21, 40, layout_a="col", conj_b=True), Simd(2, 8)),
    (P("float64", 8, 8, 9000), None),  # several threads
    (P("complex64", 40, 50, 200, pitch_b=3, stack_b="strided", layout_a="col"), None),
]


def chosen(problem: Problem, config: Simd | None) -> Simd:
    return config or space_cpu.default(problem, cpu.backend().device)


@needs_cpu
@pytest.mark.parametrize("case", spared(CPU_CASES, 3), ids=lambda case: f"{case[0].dtype}-{CPU_CASES.index(case)}")
def test_cpu_is_exact(case: tuple[Problem, Simd | None]) -> None:
    problem, config = case[0], chosen(*case)
    exact(problem, config, "cpu")
    exact(problem, config, "cpu", scaled=True)
    bounded(problem, config, "cpu")


@needs_cpu
@pytest.mark.parametrize("layout", ["row", "col"])
def test_cpu_tails(layout: str) -> None:
    """All lengths around a vector and a tile, and a batch of any size."""
    sizes = (1, 2, 3, 4, 5, 7, 8, 9)
    for M, K in [(m, 5) for m in sizes] + [(3, k) for k in sizes]:
        exact(P("float64", M, K, 3, layout_a=layout), Simd(2, 4), "cpu")
    for batch in (0, 1, 2, 63):
        exact(P("float64", 3, 3, batch, layout_a=layout), Simd(2, 2), "cpu")


@needs_cpu
@pytest.mark.parametrize("march", ["haswell", "x86-64"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_cpu_with_other_vectors(march: str, dtype: str) -> None:
    if "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("not an x86 processor with fma")
    device = replace(cpu.backend().device, vector_bytes=32 if march == "haswell" else 16)
    for problem in (P(dtype, 7, 9, 21, accumulate=True), P(dtype, 7, 9, 21, layout_a="col", accumulate=True)):
        A, x, y = (numbers(problem, side, np, i, True) for i, side in enumerate("abc"))
        stacks = laid_out(problem, np, A, x, y)
        strides = tuple(stride for stack in stacks for stride in stack.strides)
        kernel = emit.kernel(problem, space_cpu.default(problem, device), device, strides)
        library = ctypes.CDLL(str(cxx.compile_cpu(kernel.source, (f"-march={march}",)).binary))
        cpu.CpuLaunch(library, kernel)(tuple(stack.pointer for stack in stacks), (2.0, 0.0, -1.0, 0.0), 0)
        assert (stacks[2].view == spec.reference(A, x, y, 2.0, -1.0)).all()


@needs_cpu
def test_cpu_space() -> None:
    device = cpu.backend().device
    for problem, config, reason in (
        (P("float64", 4, 4, 9, layout_a="any"), Simd(), "strides"),
        (P("float64", 4, 4, 9, stack_c="shared"), Simd(), "a place each"),
        (P("float64", 4, 4, 9), Simd(3), "LANES=3"),
        (P("complex128", 4, 4, 9), Simd(1), "LANES=1"),
        (P("float64", 4, 4, 9), Simd(2, 64), "64 vector sums"),
        (P("float64", 4, 4, 9), Simd(2, 3), "no power of two"),
    ):
        assert reason in (space_cpu.illegal(problem, config, device) or "legal")
    for vector_bytes in (16, 32, 64):
        other = replace(device, vector_bytes=vector_bytes)
        for dtype in DTYPES:
            for M, K in ((1, 1), (2, 2), (1, 9), (9, 1), (33, 31), (256, 256)):
                for layout in ("row", "col"):
                    problem = P(dtype, M, K, 1 << 20, layout_a=layout)
                    assert space_cpu.illegal(problem, space_cpu.default(problem, other), other) is None
    found = list(space_cpu.candidates(P("float64", 8, 8, 1 << 20), device))
    assert len(set(found)) == len(found) > 20 and found[-1] == space_cpu.default(P("float64", 8, 8, 1 << 20), device)


def touch_nothing_else(extra: int) -> None:
    """Operands between protected pages; with `extra` matrices more than there are, the process dies."""
    cases = [case for case in CPU_CASES if {"packed"} == {getattr(case[0], f"stack_{side}") for side in "abc"}]
    for problem, config in cases[:1] if extra else cases:
        told = problem.replace(BATCH=problem.BATCH + extra)
        kernel = emit.kernel(told, chosen(problem, config), cpu.backend().device, spec.strides(problem))
        run = cpu.backend().prepare(kernel)
        for at_end in (True, False):
            sizes = (problem.M * problem.K, problem.K, problem.M)
            held = [guarded(problem.BATCH * size * problem.itemsize, at_end) for size in sizes]
            run(tuple(array.ctypes.data for array, _ in held), (1.0, 0.0, 0.0, 0.0), 0)
    print(f"untouched: {len(cases)}")


@needs_cpu
@pytest.mark.parametrize("extra", [0, 1])
def test_cpu_touches_nothing_else(extra: int) -> None:
    result = subprocess.run([sys.executable, str(HERE), str(extra)], capture_output=True, text=True, timeout=300)
    assert (result.returncode == 0 and "untouched: " in result.stdout) != bool(extra), result.stderr[-2000:]
    if extra:
        assert result.returncode < 0  # a signal


# ---- ms.blas.gemv -----------------------------------------------------------------------------------------

LEADING = [  # dimensions of a and x
    ((7,), (7,)), ((7,), ()), ((), (7,)), ((), ()), ((1,), (7,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((12, 1), (1, 12)),
    ((70, 1), (2,)), ((0,), ()), ((0,), (0,)), ((3, 0), (1,)),
]  # fmt: skip


def moved(array: Any, backend: str) -> Any:
    """The same values and strides where the backend wants them."""
    return array if backend != "cuda" else testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def product_of(a: Any, x: Any, trans: str) -> Any:
    a = {"N": a, "T": a.swapaxes(-1, -2), "C": a.swapaxes(-1, -2).conj()}[trans]
    return (a @ x[..., None])[..., 0]


@pytest.mark.parametrize("forms", LEADING, ids=str)
@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_stacks(forms: tuple[tuple[int, ...], tuple[int, ...]], trans: str, backend: str) -> None:
    rng = np.random.default_rng(1)
    dtype, (m, n) = {"N": ("float64", (3, 4)), "T": ("float32", (5, 2)), "C": ("complex64", (4, 4))}[trans]
    a, x = integers(rng, (*forms[0], m, n), dtype), integers(rng, (*forms[1], n if trans == "N" else m), dtype)
    expected = product_of(a, x, trans)
    old, options = integers(rng, expected.shape, dtype), {"trans": trans, "backend": backend}
    a, x, out = moved(a, backend), moved(x, backend), moved(old.copy(), backend)
    result = ms.blas.gemv(a, x, **options)
    assert result.shape == expected.shape and result.dtype == a.dtype and (host(result) == expected).all()
    assert ms.blas.gemv(a, x, alpha=2, beta=-3, out=out, **options) is out
    assert (host(out) == 2 * expected - 3 * old).all()


@pytest.mark.parametrize("seed", range(8))
def test_any_strides(seed: int, backend: str) -> None:
    """Transposed, padded, in steps, backwards; results too, of which nothing else is touched."""
    if backend == "cuda":
        pytest.skip("strides are NumPy's")
    rng = np.random.default_rng(seed)
    for _ in range(2):
        dtype, trans = str(rng.choice(DTYPES)), str(rng.choice(["N", "T", "C"]))
        m, n = (int(size) for size in rng.integers(1, 9, 2))
        a = integers(rng, (4, 3, m, n), dtype)
        x = integers(rng, (3, n if trans == "N" else m) if seed % 2 else (4, 3, n if trans == "N" else m), dtype)
        expected = product_of(a, x, trans)
        a, x, out = (arranged(rng, one) for one in (a, x, np.full_like(expected, np.nan)))
        around = out if out.base is None else out.base
        assert ms.blas.gemv(a, x, trans=trans, out=out, backend=backend) is out and (out == expected).all()
        out[...] = 99
        assert not np.isnan(around).any()


def test_lists(backend: str) -> None:
    rng = np.random.default_rng(2)
    a, x = integers(rng, (6, 4, 5)), integers(rng, (6, 5))
    expected = product_of(a, x, "N")
    many_a, many_x = [moved(one, backend) for one in a], [moved(one, backend) for one in x]
    mixed = [one if i % 2 else one.T.copy().T for i, one in enumerate(many_a)]  # strides that differ
    for A, X, wanted_one in (
        (many_a, many_x, expected),
        (many_a, many_x[0], product_of(a, x[0], "N")),
        (many_a, moved(x, backend), expected),
        (many_a[0], many_x, product_of(a[0], x, "N")),
        (mixed, many_x, expected),
        (tuple(many_a), moved(x[:1], backend), product_of(a, x[0], "N")),
    ):
        result = ms.blas.gemv(A, X, backend=backend)
        assert isinstance(result, list) and all((host(y) == z).all() for y, z in zip(result, wanted_one, strict=True))
    out = [moved(np.ones(4), backend) for _ in range(6)]
    assert ms.blas.gemv(many_a, many_x, out=out, alpha=2, beta=1, backend=backend) is out
    assert all((host(y) == 2 * z + 1).all() for y, z in zip(out, expected, strict=True))
    with ms.pin(VARIANT="vendor"):
        for A, X in ((many_a, many_x), (many_a, many_x[0]), (many_a[0], many_x), (many_a, moved(x, backend))):
            found = ms.blas.gemv(A, X, backend=backend)
            assert (host(found[3]) == host(A[3] if A is many_a else A) @ host(X[3] if len(X) == 6 else X)).all()
    assert ms.blas.gemv([], [], backend=backend) == []


def test_empty_and_zero_sizes(backend: str) -> None:
    empty = moved(np.ones((5, 3, 0)), backend)
    assert (host(ms.blas.gemv(empty, moved(np.ones((5, 0)), backend), backend=backend)) == np.zeros((5, 3))).all()
    assert ms.blas.gemv(empty, moved(np.ones((5, 3)), backend), trans="T", backend=backend).shape == (5, 0)
    out = moved(np.full((5, 3), 2.0), backend)
    ms.blas.gemv(empty, moved(np.ones(0), backend), beta=3.0, out=out, backend=backend)
    assert (host(out) == 6).all()
    out[...] = np.nan
    ms.blas.gemv(empty, moved(np.ones(0), backend), out=out, backend=backend)
    assert (host(out) == 0).all()
    nobody = ms.blas.gemv(moved(np.ones((0, 3, 4)), backend), moved(np.ones((0, 4)), backend), backend=backend)
    assert nobody.shape == (0, 3)


def test_out_is_not_read(backend: str) -> None:
    a, x = np.ones((40, 4, 4)), np.full((40, 4), 2.0)
    out = moved(np.full((40, 4), np.nan), backend)
    ms.blas.gemv(moved(a, backend), moved(x, backend), alpha=0.5, out=out, backend=backend)
    assert (host(out) == 4).all()


def test_many_matrices(backend: str) -> None:
    """More than a grid once had in one dimension; one vector, or one matrix, for all."""
    a = np.arange(70_000 * 4, dtype="float32").reshape(70_000, 2, 2) % 7
    x = np.array([1, -2], "float32")
    assert (host(ms.blas.gemv(moved(a, backend), moved(x, backend), backend=backend)) == a @ x).all()
    found = ms.blas.gemv(moved(a[5], backend), moved(a[:, 0], backend), backend=backend)
    assert (host(found) == a[:, 0] @ a[5].T).all()


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_torch(dtype: str) -> None:
    torch = wanted("torch")
    rng = np.random.default_rng(11)
    a, x = torch.tensor(integers(rng, (6, 4, 5), dtype)), torch.tensor(integers(rng, (6, 5), dtype))
    expected = (a @ x[..., None])[..., 0]
    result = ms.blas.gemv(a, x)
    assert isinstance(result, torch.Tensor) and torch.equal(result, expected)
    assert torch.equal(ms.blas.gemv(a.conj(), x.conj()), expected.conj().resolve_conj())
    assert torch.equal(ms.blas.gemv(a.conj().mT, x, trans="T"), (a.conj() @ x[..., None])[..., 0])
    assert torch.equal(ms.blas.gemv(a.mT, x, trans="C"), (a.conj() @ x[..., None])[..., 0])
    assert torch.equal(ms.blas.gemv(a, x, backend="emulated"), expected)
    assert torch.equal(torch.stack(ms.blas.gemv(list(a), list(x))), expected)
    out = torch.zeros((6, 4), dtype=a.dtype)
    assert ms.blas.gemv(a, x, out=out, alpha=2) is out and torch.equal(out, 2 * expected)
    with pytest.raises(TypeError, match="a has PyTorch arrays and x NumPy"):
        ms.blas.gemv(a, x.numpy())


def test_jax() -> None:
    jnp = wanted("jax.numpy")
    rng = np.random.default_rng(12)
    A, X = integers(rng, (6, 4, 5), "float32"), integers(rng, (6, 5), "float32")
    a, x = jnp.asarray(A), jnp.asarray(X)
    result = ms.blas.gemv(a, x)
    assert type(result) is type(a) and (np.asarray(result) == product_of(A, X, "N")).all()
    assert (np.asarray(ms.blas.gemv(list(a), list(x))[2]) == A[2] @ X[2]).all()
    with pytest.raises(TypeError, match="out is a JAX array"):
        ms.blas.gemv(a, x, out=x)


ONES = np.ones((5, 3, 4))


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: ms.blas.gemv(ONES, np.ones((4, 4))), ValueError, r"a has leading dimensions \(5,\) and x \(4,\)"),
        (lambda: ms.blas.gemv(ONES, np.ones(3)), ValueError, "a has 4 columns and x 3 entries"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), trans="T"), ValueError, "a has 3 rows .* and x 4 entries"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), trans="H"), ValueError, "trans='H'"),
        (lambda: ms.blas.gemv(ONES, np.float64(3)), TypeError, "x is a numpy.float64"),
        (lambda: ms.blas.gemv(ONES, np.array(3.0)), ValueError, "x is a single number"),
        (lambda: ms.blas.gemv(ONES[0, 0], np.ones(4)), ValueError, r"a has shape \(4,\)"),
        (lambda: ms.blas.gemv(ONES, np.ones(4, "f4")), TypeError, "a has dtype float64 and x float32"),
        (lambda: ms.blas.gemv(ONES.astype(int), np.ones(4, int)), UnsupportedProblem, "a has dtype int64"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), out=np.ones((5, 4))), ValueError, r"out has shape \(5, 4\), the"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), out=ONES[:, :, 0]), ValueError, "out overlaps a"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), out=np.broadcast_to(1.0, (5, 3))), ValueError, "read-only|one place"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), beta=1.0), ValueError, "pass out"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), alpha=1j), TypeError, "must be real"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones(4)]), ValueError, "a is a list of 5 arrays and x is a list of 1"),
        (lambda: ms.blas.gemv(list(ONES), []), ValueError, "a is a list of 5 arrays, and of x there are none"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones(4), *[np.ones(3)] * 4]), ValueError, r"x\[1\] has shape \(3,\)"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones((4, 1))] * 5), ValueError, r"x\[0\] has shape \(4, 1\)"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones(4)] * 5, out=[np.ones(3)] * 5), ValueError, "an array twice"),
        (lambda: ms.plan("gemv", ONES), TypeError, "pass B"),
        (lambda: ms.plan("gemv", [], []), ValueError, "an empty list"),
        (lambda: ms.plan("gemv", ONES, np.ones(4), side="L"), TypeError, "side"),
    ],
)
def test_errors(run: Any, error: type[Exception], message: str) -> None:
    before = ONES.copy()
    with pytest.raises(error, match=message):
        run()
    assert (before == ONES).all()


def test_a_square_may_not_be_overwritten() -> None:
    x = np.ones((5, 3))
    with pytest.raises(ValueError, match="out overlaps x"):
        ms.blas.gemv(np.ones((5, 3, 3)), x, out=x)


@needs_cpu
def test_plan() -> None:
    A, x = np.ones((5, 3, 4)), np.full((5, 4), 2.0)
    plan = ms.plan("gemv", A, x)
    assert "M=3 N=1 K=4 BATCH=5" in plan.explain() and "gemv_simd" in plan.source() and (plan(A, x) == 8).all()
    with pytest.raises(ValueError, match="make another plan"):
        plan(A[:4], x[:4])
    assert (ms.plan("gemv", A, np.ones((5, 3)), trans="T")(A, np.ones((5, 3))) == 3).all()
    with ms.pin(VARIANT="vendor"):
        assert "vendor" in ms.plan("gemv", A, x).explain() and (ms.blas.gemv(A, x) == 8).all()
    with ms.pin(TILE_M=2):
        assert ms.plan("gemv", A, x).choice.config.TILE_M == 2
    with ms.pin(VARIANT="stream", UNROLL=3, BLOCKS_PER_SM=1):
        held = ms.plan("gemv", A, x, backend="emulated")
    assert "UNROLL=3" in held.explain() and "the matrices'" in held.explain() and (held(A, x) == 8).all()


@needs_cpu
def test_plans_are_kept() -> None:
    for _ in range(3):
        ms.blas.gemv(np.ones((5, 4, 4)), np.ones(4))
        ms.blas.gemv([np.ones((4, 4))] * 3, [np.ones(4)] * 3)
    assert len(gemv_call._PLANS) == 2


@needs_cpu
def test_tune(own_cache: Any) -> None:
    A, x = np.ones((200, 3, 3)), np.ones((200, 3))
    ms.blas.gemv(A, x)
    result = ms.tune("gemv", A, x, limit=2)
    assert not gemv_call._PLANS  # what is planned from now on may use the winner
    assert result.winner and not [trial for trial in result.trials if trial.status != "ok"]
    assert "measured at BATCH=200" in ms.plan("gemv", A, x).explain()


def test_commands(own_cache: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--k is the number of matrices."""
    from mansard.cli import main

    assert main(["tune", "gemv", "--m", "3", "--n", "5", "--k", "50", "--backend", "emulated", "--limit", "2"]) == 0
    assert "M=3 N=1 K=5 BATCH=50" in capsys.readouterr().out
    assert main(["explain", "gemv", "--m", "4", "--k", "1e6", "--device", "emulated", "--source"]) == 0
    text = capsys.readouterr().out
    assert "BATCH=1000000" in text and "gemv_lanes" in text and "at the speed of reading" in text


@pytest.mark.parametrize("stack", ["packed", "strided", "shared", "pointers"])
def test_tuned_operands_lie_as_the_problem_says(stack: str) -> None:
    from mansard.backends import emulated
    from mansard.tune.cases import make_case
    from mansard.tune.verify import Verifier, Wrong

    for layout in ("row", "col"):
        problem = P("complex128", 3, 4, 20, stack_a=stack, layout_a=layout, conj_b=True, stack_b="strided", pitch_b=2)
        case = make_case(problem, emulated.backend())
        verifier, config = Verifier(case), defaults.default(problem, emulated.backend().device)
        verifier.exact(config, lambda: None)
        out = case.poisoned()
        case.call(emulated.backend().prepare(case.kernel(config)), out)()
        verifier.bounded(out)
        out[17] += 1e-6
        with pytest.raises(Wrong, match=r"entry \[17,0\]"):
            verifier.bounded(out)


def test_doctests() -> None:
    failures, tried = doctest.testmod(ms.blas.vectors)
    assert tried >= 4 and failures == 0


if __name__ == "__main__":
    touch_nothing_else(int(sys.argv[1]))
