"""Steps of an orthogonalisation planned on the device: by the rules of small_factors, or declined."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import numpy as np
import pytest
from orders import in_order, thread_orders
from orthogonal_cases import conditioned
from small_step_cases import CASES, P, case_id, double, from_sketch, gram_of, steps
from sparing import every, sliced

from mansard.backends import mailbox
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.tall_skinny.small_step import defaults, emit, space, spec
from mansard.kernels.tall_skinny.small_step.spec import Status
from mansard.operations.tall_skinny import small_factors as small
from mansard.plan.problem import DTYPES, Problem

H200 = Device("cuda", "NVIDIA H200", "sm_90a", 132, 232448, 233472, 65536, 2048, 60 << 20)
WIDEST = 119  # columns that a block has room for
CASE = pytest.mark.parametrize("case", CASES, ids=case_id)


@thread_orders(every(2, CASES), case_id)
def test_other_thread_orders(case: tuple[Problem, Any], order: str) -> None:
    """Bit for bit: a missing barrier would show."""
    problem = case[0]
    expected = steps(*case, "emulated", [gram_of(problem, 100.0), np.eye(problem.N)])
    with in_order(order):
        got = steps(*case, "emulated", [gram_of(problem, 100.0), np.eye(problem.N)])
    assert got.status == expected.status and (got.S == expected.S).all() and (got.R == expected.R).all()


def departure(problem: Problem, S: Any, G: Any) -> Any:
    """S^H G S - I."""
    S = double(problem, S)
    return S.conj().T @ double(problem, G) @ S - np.eye(problem.N)


@CASE
def test_two_steps_give_r(case: tuple[Problem, Any], gpu_backend: str) -> None:
    """The first turns the block, the second, of a block that is orthonormal, undoes it: then R^H R = G."""
    problem, u = case[0], small.unit_roundoff(case[0].dtype)
    G = gram_of(problem, 100.0)
    first = steps(*case, gpu_backend, [G])
    if problem.N == 1:
        assert first.status == Status.LAST
        return
    assert first.status == Status.TRUSTED and first.gate == 1 and np.isnan(first.R).all()
    assert np.abs(departure(problem, first.S, G)).max() <= 4 * problem.N * 1e4 * u
    norms, factor = spec.state_parts(problem, first.state, 1)
    assert (norms == np.sqrt(np.diag(double(problem, G)).real)).all()
    assert np.abs(double(problem, first.S) @ factor - np.eye(problem.N)).max() <= 8 * problem.N * u
    last = steps(*case, gpu_backend, [G, np.eye(problem.N)])
    R = double(problem, last.R)
    assert last.status == Status.LAST and last.gate == 1
    assert not np.tril(R, -1).any() and (np.diag(R).real > 0).all() and not np.diag(R).imag.any()
    error = np.abs(R.conj().T @ R - double(problem, G))
    assert (error <= 4 * problem.N * u * np.outer(norms, norms)).all()
    # the second block is the first one turned: its S has orthonormal columns, and S R is the factor
    Z = double(problem, last.S)
    assert np.abs(Z.conj().T @ Z - np.eye(problem.N)).max() <= 8 * problem.N * u
    assert (np.abs(Z @ R - factor) <= 8 * problem.N * u * norms).all()


@CASE
def test_last_steps_are_triangular(case: tuple[Problem, Any], gpu_backend: str) -> None:
    problem, u = case[0], small.unit_roundoff(case[0].dtype)
    near = np.eye(problem.N) + 0.1 / problem.N * (gram_of(problem, 10.0) - np.diag(np.diag(gram_of(problem, 10.0))))
    near = near.astype(problem.dtype)
    left = steps(*case, gpu_backend, [near])
    S, R = spec.reference(double(problem, near))
    assert left.status == Status.LAST and not np.tril(left.S, -1).any() and not np.tril(left.R, -1).any()
    assert np.abs(left.S - S).max() <= 8 * u and np.abs(left.R - R).max() <= 8 * u


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_shift_is_that_of_the_host(dtype: str, gpu_backend: str) -> None:
    """By the smallest eigenvalue of G scaled to a diagonal of ones; the bound is off by the root of N at most."""
    problem, u = P(dtype, 16), small.unit_roundoff(dtype)
    seen = set()
    for condition in np.logspace(-1.5, 3, 10) * (small.SAFE * u) ** -0.5:
        G = gram_of(problem, condition)
        norms = np.sqrt(np.diag(double(problem, G)).real)
        least = np.linalg.eigvalsh(double(problem, G) / np.outer(norms, norms))[0]
        left = steps(problem, None, gpu_backend, [G])
        if least >= 4 * small.SAFE * u:
            assert left.status == Status.TRUSTED
        elif least < small.SAFE * u / 2:
            assert left.status == Status.SHIFTED
            longest = np.linalg.norm(norms[:, None] * double(problem, left.S), 2)
            assert longest <= 2 * (small.SHIFT * 16 * u) ** -0.5
        seen.add(left.status)
    assert seen == {Status.TRUSTED, Status.SHIFTED}


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_that_are_not_positive_are_shifted(dtype: str, gpu_backend: str) -> None:
    """An eigenvalue is below zero by more than the roundoff of G: some pivot is."""
    problem, u = P(dtype, 16), small.unit_roundoff(dtype)
    values, vectors = np.linalg.eigh(double(problem, gram_of(problem, 10.0)))
    values[0] = -16 * u
    G = ((vectors * values) @ vectors.conj().T).astype(dtype)
    left = steps(problem, None, gpu_backend, [G])
    assert np.linalg.eigvalsh(double(problem, G))[0] < 0
    assert left.status == Status.SHIFTED and np.isfinite(left.S).all()
    norms, factor = spec.state_parts(problem, left.state, 1)
    added = (factor.conj().T @ factor - double(problem, G)) / np.outer(norms, norms)
    shift = small.SHIFT * 16 * u
    assert min(np.abs(added - times * shift * np.eye(16)).max() for times in (1, 4, 16)) <= 16 * 2.0**-53


def bad_grams(dtype: str) -> dict[str, Any]:
    G = gram_of(P(dtype, 6), 10.0)
    named = {name: G.copy() for name in ("nan", "infinite", "zero column", "underflow")}
    named["nan"][1, 4] = named["nan"][4, 1] = np.nan
    named["infinite"][2, 2] = np.inf
    named["zero column"][3], named["zero column"][:, 3] = 0, 0
    named["underflow"] = (np.eye(6) * float(np.finfo(small.REAL[dtype]).tiny)).astype(dtype)
    return named


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_the_rules_do_not_cover_is_declined(dtype: str, gpu_backend: str) -> None:
    for name, G in bad_grams(dtype).items():
        left = steps(P(dtype, 6), None, gpu_backend, [G])
        assert left.status == Status.DECLINED and left.gate == 0, name
        assert (np.eye(6) == left.S).all() and np.isnan(left.R).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_declined_step_leaves_the_factor(dtype: str, gpu_backend: str) -> None:
    """The columns come out of it as weak as roundoff: whether they are dependent is not for the kernel to say."""
    problem, u = P(dtype, 6), small.unit_roundoff(dtype)
    G = gram_of(problem, 50.0)
    weak = np.eye(6) * 1.0
    weak[5, 5] = (small.WEAK * u / 100) ** 2
    expected = spec.state_parts(problem, steps(problem, None, gpu_backend, [G]).state, 1)
    left = steps(problem, None, gpu_backend, [G, weak])
    assert left.status == Status.DECLINED and left.gate == 0 and (np.eye(6) == left.S).all()
    for before, after in zip(expected, spec.state_parts(problem, left.state, 1), strict=True):
        assert (before == after).all()


OF_SKETCH = pytest.mark.parametrize("dtype, N", [("float64", 9), ("complex128", 5), ("float32", 4), ("complex64", 1)])


@OF_SKETCH
def test_a_step_from_a_sketch(dtype: str, N: int, gpu_backend: str) -> None:
    """What it leaves of an ill-conditioned block is well conditioned; the factor undoes it; pivots come first."""
    problem, u = P(dtype, N, sketched=True), small.unit_roundoff(dtype)
    A = conditioned(600, N, 1e-2 / u, dtype) * np.logspace(3, -3, N).astype(dtype)
    left = from_sketch(problem, gpu_backend, A)
    assert left.status == Status.SKETCHED and left.gate == 1
    norms, factor = spec.state_parts(problem, left.state, 1)
    assert np.allclose(norms, np.linalg.norm(A, axis=0), rtol=8 * u, atol=0)
    S = double(problem, left.S)
    assert np.abs((S * norms[:, None]) @ (factor / norms) - np.eye(N)).max() <= 60 * N * u
    W = double(problem, A) @ S
    values = np.linalg.svd(W, compute_uv=False)
    assert values[0] <= 3 and values[-1] >= 0.3
    assert (np.linalg.norm(A - W @ factor, axis=0) <= 60 * N * u * norms).all()
    order = np.argmax(factor != 0, axis=0)  # the pivot's row begins with zeros in the columns of those before it
    pivots = np.sort(np.abs(factor / norms)[order, np.arange(N)])[::-1]
    assert (np.sort((factor != 0).sum(axis=1)) == np.arange(1, N + 1)).all() and pivots[0] > 0.5


@OF_SKETCH
def test_a_step_from_a_sketch_waits_for_the_other(dtype: str, N: int, gpu_backend: str) -> None:
    """A step that has been planned stays; dependent columns, and entries that are not finite, are declined."""
    problem = P(dtype, N, sketched=True)
    A = conditioned(300, N, 10.0, dtype)
    planned = from_sketch(problem, gpu_backend, A, gate=1)
    assert planned.gate == 1 and np.isnan(planned.S).all() and np.isnan(planned.state[1:]).all()
    spoilt, zero = A.copy(), A.copy()
    spoilt[7, N - 1], zero[:, 0] = np.nan, 0
    bad = [spoilt, zero, A * 1e-30 if dtype in ("float32", "complex64") else A * 1e-170]
    if N > 1:
        bad.append(np.hstack([A[:, :-1], A[:, :1]]))
    for block in bad:
        left = from_sketch(problem, gpu_backend, block)
        assert left.gate == 0 and (np.eye(N) == left.S).all()


def test_what_fits() -> None:
    assert defaults.default(P("float64", 119), H200) and not defaults.default(P("float64", 120), H200)
    assert defaults.default(P("complex64", 84), H200) and not defaults.default(P("complex64", 85), H200)
    assert "whole warps" in str(space.illegal(P("float64", 40), space.Block(32), H200))
    assert all(space.from_dict(space.to_dict(c)) == c for c in space.candidates(P("float32", 40), H200))
    assert "from sketches" in str(space.illegal(P("float64", 9), space.Pivots(96), H200))
    assert "eight threads" in str(space.illegal(P("float64", 9, sketched=True), space.Pivots(64), H200))
    assert spec.refusal(P("float64", 49, sketched=True)) and spec.refusal(P("complex64", 25, sketched=True))
    assert spec.refusal(P("float64", 0)) and spec.refusal(P("int64", 3)) and not spec.refusal(P("float32", 3))


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("dtype, N", sliced(list(product(DTYPES, (1, 32, 64, WIDEST))), 5))
def test_compiles_without_spills(dtype: str, N: int) -> None:
    problem = P(dtype, min(N, 84) if dtype.startswith("complex") else N)
    config = defaults.default(problem, H200)
    assert config is not None
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), H200.arch)
    assert "warning" not in entry.log, entry.log
    assert nvrtc.resources(entry.log).spill_bytes == 0


class PlayedDriver:
    """What a mailbox asks of a driver; `current` is the context of the thread, 1 that of the device."""

    def __init__(self) -> None:
        self.lib, self.current, self.events = self, 2, 0
        self.memory = (ctypes.c_uint * 16)()

    def current_context(self) -> Any:
        return ctypes.c_void_p(self.current)

    def make_current(self, ordinal: int) -> None:
        self.current = 1

    def restore(self, context: Any) -> None:
        self.current = context.value

    def check(self, status: int, what: str) -> None:
        assert status == 0, what

    def event(self) -> int:
        assert self.current == 1
        return 5

    def cuMemHostAlloc(self, pointer: Any, size: Any, flags: Any) -> int:
        assert self.current == 1 and size.value <= ctypes.sizeof(self.memory)
        pointer._obj.value = ctypes.addressof(self.memory)
        return 0

    def cuEventRecord(self, event: int, stream: Any) -> int:
        self.events += self.current == 1
        return 0 if self.current == 1 else 400

    def cuEventSynchronize(self, event: int) -> int:
        return 0 if self.events else 1


class PlayedBackend:
    name, device = "cuda", H200

    def __init__(self) -> None:
        self.driver = PlayedDriver()


def test_a_mailbox_leaves_the_context_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_IDLE", {})
    where = PlayedBackend()
    box = mailbox.take(where)
    assert where.driver.current == 2 and box.address == ctypes.addressof(where.driver.memory)
    where.driver.memory[0] = 3
    with pytest.raises(AssertionError, match="the stream's work"):
        box.read()
    box.posted(7)
    assert box.read() == 3 and where.driver.current == 2 and where.driver.events == 1
    assert mailbox.take(where) is not box  # one call, one mailbox
    mailbox.give(where, box)
    assert mailbox.take(where) is box
