"""Batches of products as they are called: what `numpy.matmul` does, memory, bad input, libraries, plans, tuning."""

from __future__ import annotations

import ctypes
import doctest
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from batched_cases import (
    Played,
    integers,
    play_products,  # noqa: F401
)
from conftest import wanted

import mansard as ms
from mansard.errors import LaunchError, UnsupportedProblem
from mansard.operations import stacks
from mansard.operations.batched import gemm_call
from mansard.operations.plans import PLANS

pytestmark = pytest.mark.usefixtures("no_plans")


# ---- what numpy.matmul does -------------------------------------------------------------------------------


def test_vectors(played: Played) -> None:
    rng = np.random.default_rng(8)
    A, v, w = integers(rng, (6, 3, 4)), integers(rng, (4,)), integers(rng, (3,))
    for left, right in ((A, v), (w, A), (A, v[::-1]), (w, A[:, :, 1:])):
        assert (ms.matmul(left, right) == left @ right).all()
        out = np.zeros((left @ right).shape)
        assert ms.matmul(left, right, out=out, alpha=2) is out and (out == 2 * (left @ right)).all()
    assert played.launches == 8
    with pytest.raises(ValueError, match="out has shape"):
        ms.matmul(A, v, out=np.zeros((6, 3, 1)))
    with pytest.raises(ValueError, match="4 columns and B 3 rows"):
        ms.matmul(A, w)


@pytest.mark.parametrize(
    ("a", "b"), [((0, 3, 4), (0, 4, 5)), ((6, 3, 0), (6, 0, 5)), ((6, 0, 4), (4, 5)), ((2, 3, 4), (2, 4, 0))]
)
def test_nothing_to_multiply(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for dtype in ("float32", "complex128"):
        A, B = np.ones(a, dtype), np.ones(b, dtype)
        result = ms.matmul(A, B)
        assert result.shape == (A @ B).shape and result.dtype == dtype and (result == 0).all()
        out = np.ones((A @ B).shape, dtype)
        assert (ms.matmul(A, B, out=out, beta=2.0) == 2).all()
        assert "nothing to multiply" in ms.plan("gemm", A, B).explain()
    assert ms.matmul([np.ones((2, 0))] * 3, [np.ones((0, 2))] * 3)[2].tolist() == [[0, 0], [0, 0]]


def test_other_dtypes_are_the_array_librarys() -> None:
    A, B = np.ones((5, 2, 3), int), np.ones((3, 2), "float16")
    assert ms.matmul(A, A.swapaxes(1, 2)).dtype == A.dtype
    assert (ms.matmul(A, B) == A @ B).all()
    with pytest.raises(UnsupportedProblem, match="A has dtype int64"):
        ms.blas.gemm(A, A, trans_b="T")


def test_wide_ones_are_the_array_librarys(played: Played) -> None:
    rng = np.random.default_rng(9)
    A, B = integers(rng, (3, 161, 5)), integers(rng, (3, 5, 2))
    assert (ms.matmul(A, B) == A @ B).all() and played.launches == 0
    out = np.ones((3, 161, 2))
    assert ms.matmul(A, B, out=out) is out and (out == A @ B).all()
    assert (ms.matmul(A, B, out=out, alpha=2, beta=1) == 3 * (A @ B)).all()
    assert all((x == y).all() for x, y in zip(ms.matmul(list(A), B[0]), A @ B[0], strict=True))
    assert (ms.blas.gemm(A, A, trans_a="C") == A.swapaxes(1, 2) @ A).all()
    assert played.launches == 0
    A = A.real.copy()
    assert (ms.matmul(A, B, backend="cpu") == A @ B).all() and played.launches == 1  # but who asks, gets


# ---- memory -----------------------------------------------------------------------------------------------


def test_overlap(played: Played) -> None:
    X = np.ones((6, 8, 4))
    B = np.ones((6, 4, 4))
    assert (ms.matmul(X[:, :4], B, out=X[:, 4:])[0] == 4).all()  # in one region, but apart
    for out in (X[:, :4], X[:, 2:6]):
        with pytest.raises(ValueError, match="out overlaps A"):
            ms.matmul(X[:, :4], B, out=out)
    with pytest.raises(ValueError, match="out overlaps B"):
        ms.matmul(X[:, :4], B, out=B)
    many = list(np.ones((3, 2, 2)))
    with pytest.raises(ValueError, match="out overlaps B"):
        ms.matmul(list(np.ones((3, 2, 2))), many, out=many)
    with pytest.raises(ValueError, match="an array twice"):
        ms.matmul(many, many, out=[np.ones((2, 2))] * 3)


def test_addresses_travel_to_the_device() -> None:
    """A driver played by host memory: the kernel of the emulator reads what was uploaded."""
    copied: list[int] = []

    def copy(to: Any, source: Any, size: Any, stream: Any) -> int:
        copied.append(size.value)
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    library = SimpleNamespace(cuMemcpyHtoDAsync_v2=copy)
    driver = SimpleNamespace(lib=library, capture_id=lambda stream: 0, check=lambda status, what: None)
    rng = np.random.default_rng(10)
    A, B = [integers(rng, (4, 4)) for _ in range(5)], [integers(rng, (4, 4)) for _ in range(5)]
    run = gemm_call.plan_gemm(A, B, None, "emulated").run
    run.__self__.backend = SimpleNamespace(name="cuda", driver=driver)  # type: ignore[attr-defined]
    assert all((x == a @ b).all() for x, a, b in zip(run(A, B), A, B, strict=True))
    assert copied == [80]
    driver.capture_id = lambda stream: 5
    with pytest.raises(LaunchError, match="a graph cannot hold"):
        run(A, B)


# ---- bad input --------------------------------------------------------------------------------------------

ONES = np.ones((5, 3, 3))


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: ms.matmul(ONES, ONES[:4]), ValueError, r"leading dimensions \(5,\) and B \(4,\)"),
        (lambda: ms.matmul(ONES, ONES[:, :2]), ValueError, "3 columns and B 2 rows"),
        (lambda: ms.matmul(ONES, ONES, out=np.ones((5, 3, 2))), ValueError, r"out has shape \(5, 3, 2\), the result"),
        (lambda: ms.matmul(ONES, ONES, out=np.ones((1, 5, 3, 3))), ValueError, "out has shape"),
        (lambda: ms.matmul(ONES, ONES, out=np.broadcast_to(1.0, (5, 3, 3))), ValueError, "read-only|share one place"),
        (lambda: ms.matmul(ONES, ONES, out=np.ones((5, 3, 3), "float32")), TypeError, "A has dtype float64 and out"),
        (lambda: ms.matmul(ONES, ONES, beta=1.0), ValueError, "pass out"),
        (lambda: ms.matmul(ONES, ONES, alpha=1j), TypeError, "must be real"),
        (lambda: ms.plan("gemm", [ONES[0], ONES[1, :2]], ONES), ValueError, r"\[1\] has shape \(2, 3\).*ms.Ragged"),
        (lambda: ms.matmul([ONES[0], ONES[1].astype("f2")], ONES[0]), TypeError, r"A\[1\] float16"),
        (lambda: ms.matmul([ONES[0], 3], ONES[0]), TypeError, r"A\[1\] is a builtins.int"),
        (lambda: ms.matmul([ONES, ONES], ONES), ValueError, r"A\[0\] has shape \(5, 3, 3\)"),
        (lambda: ms.matmul(list(ONES), list(ONES[:1])), ValueError, "A is a list of 5 arrays and B is a list of 1"),
        (lambda: ms.matmul(list(ONES), ONES[:2]), ValueError, "A is a list of 5 arrays and B has leading dimensions"),
        (lambda: ms.matmul(list(ONES), []), ValueError, "A is a list of 5 arrays, and of B there are none"),
        (lambda: ms.matmul(list(ONES), list(ONES), out=list(np.ones((4, 3, 3)))), ValueError, "out has 4 arrays"),
        (lambda: ms.blas.gemm(ONES, ONES, trans_a="H"), ValueError, "trans_a='H'"),
        (lambda: ms.blas.gemm(ONES[0, 0], ONES), ValueError, r"a has shape \(3,\)"),
        (lambda: ms.blas.syrk(ONES, uplo="X"), ValueError, "uplo='X'"),
        (lambda: ms.blas.herk(ONES, trans="T"), ValueError, "neither 'N' nor 'C'"),
        (lambda: ms.blas.herk(ONES, alpha=1j), TypeError, "alpha must be real"),
        (lambda: ms.blas.syrk(ONES, out=np.ones((5, 3, 2))), ValueError, "the result"),
        (lambda: ms.blas.syrk(ONES, out=np.ones((5, 3, 3), "f4")), TypeError, "a has dtype float64"),
        (lambda: ms.blas.syrk(list(ONES), out=ONES), ValueError, "out is an array and a a list of 5"),
        (lambda: ms.plan("gemm", ONES), TypeError, "pass B"),
        (lambda: ms.plan("gemm", [], []), ValueError, "an empty list"),
    ],
)
def test_errors(run: Any, error: type[Exception], message: str, played: Played) -> None:
    with pytest.raises(error, match=message):
        run()
    assert played.launches == 0


# ---- other libraries, plans, tuning -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_torch(dtype: str) -> None:
    torch = wanted("torch")
    rng = np.random.default_rng(11)
    a, b = (torch.tensor(integers(rng, (2, 6, 4, 4), dtype)) for _ in range(2))
    result = ms.matmul(a, b)
    assert isinstance(result, torch.Tensor) and result.is_contiguous() and torch.equal(result, a @ b)
    assert torch.equal(ms.matmul(a.conj(), b.mH), a.conj() @ b.mH)
    assert torch.equal(ms.blas.gemm(a.conj(), b, trans_a="C"), a.mT @ b)
    assert torch.equal(ms.blas.gemm(a, b.conj(), trans_b="C"), a @ b.mT)
    assert torch.equal(ms.matmul(a[0], b[0, 0]), a[0] @ b[0, 0])
    out = torch.zeros_like(a)
    assert ms.matmul(a, b, out=out, alpha=2) is out and torch.equal(out, 2 * (a @ b))
    lists = ms.matmul(list(a[0]), [b[0, 0].conj(), *b[0, 1:]])
    assert torch.equal(torch.stack(lists)[1:], (a[0] @ b[0])[1:]) and torch.equal(lists[0], a[0, 0] @ b[0, 0].conj())
    assert torch.equal(ms.blas.herk(a), torch.tensor(ms.blas.herk(a.numpy())))
    with pytest.raises(ValueError, match="lazily conjugated" if "complex" in dtype else "read-only|overlaps"):
        ms.matmul(a, b, out=out.conj() if "complex" in dtype else b)
    with pytest.raises(TypeError, match="A has PyTorch arrays and B NumPy"):
        ms.matmul(list(a[0]), list(b[0].numpy()))
    assert ms.matmul(a.requires_grad_(), b).requires_grad
    with pytest.raises(TypeError, match="detach"):
        ms.plan("gemm", a, b)


def test_jax() -> None:
    jnp = wanted("jax.numpy")
    A = integers(np.random.default_rng(12), (6, 4, 4), "float32").astype("float32")
    a = jnp.asarray(A)
    result = ms.matmul(a, a)
    assert type(result) is type(a) and (np.asarray(result) == A @ A).all()
    assert all((np.asarray(x) == y).all() for x, y in zip(ms.matmul(list(a), list(a)), A @ A, strict=True))
    assert (np.asarray(ms.blas.gemm(a, a, trans_a="T")) == A.swapaxes(1, 2) @ A).all()


@pytest.mark.gpu
def test_gpu_streams_and_graphs() -> None:
    from conftest import usable

    usable("cuda")
    cupy, torch = wanted("cupy"), wanted("torch")
    A, B = (integers(np.random.default_rng(seed), (500, 7, 7)) for seed in (13, 14))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        many = ms.matmul(list(cupy.asarray(A)), list(cupy.asarray(B)))  # the addresses are used after they are let go
        again = ms.matmul(list(cupy.asarray(B)), list(cupy.asarray(A)))
    stream.synchronize()
    assert (cupy.stack(many).get() == A @ B).all() and (cupy.stack(again).get() == B @ A).all()
    a, b = torch.tensor(A, device="cuda"), torch.tensor(B, device="cuda")
    out = ms.matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ms.matmul(a, b, out=out)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.cpu(), torch.tensor(A @ B))


def test_plan() -> None:
    A, B = np.ones((5, 4, 4)), np.full((5, 4, 4), 2.0)
    plan = ms.plan("gemm", A, B)
    assert "M=4 N=4 K=4 BATCH=5" in plan.explain() and "gemm_simd" in plan.source()
    assert (plan(A, B) == 8).all() and (plan(B, A) == 8).all()
    with pytest.raises(ValueError, match="make another plan"):
        plan(A[:4], B[:4])
    listed = ms.plan("gemm", list(A), list(B))
    assert (listed(list(B), list(A))[4] == 8).all()
    with pytest.raises(ValueError, match="A differs"):
        listed(list(A[:4]), list(B))
    with ms.pin(VARIANT="vendor"):
        assert "vendor" in ms.plan("gemm", A, B).explain() and (ms.matmul(A, B) == 8).all()
    with ms.pin(TILE_M=2):
        assert ms.plan("gemm", A, B).choice.config.TILE_M == 2


def test_plans_are_kept(played: Played) -> None:
    A = [np.ones((4, 4)) for _ in range(3)]
    for _ in range(3):
        ms.matmul(A, A)
        ms.matmul(np.ones((5, 4, 4)), np.ones((5, 4, 4)))
    assert len(played.problems) == 2


def test_tune(own_cache: Any) -> None:
    A = np.ones((200, 3, 3))
    ms.matmul(list(A), list(A))
    result = ms.tune("gemm", A, A[0].T, limit=2)
    assert not len(PLANS)  # what is planned from now on may use the winner
    assert result.winner and not [trial for trial in result.trials if trial.status != "ok"]
    assert "measured at BATCH=200" in ms.plan("gemm", A, A[0].T).explain()


def test_commands(own_cache: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--batch is the number of products, and K may differ from M."""
    from mansard.cli import main

    options = ["--backend", "emulated", "--limit", "1"]
    assert main(["tune", "gemm", "--m", "2", "--n", "3", "--batch", "50", *options]) == 0
    assert "M=2 N=3 K=2 BATCH=50" in capsys.readouterr().out
    assert main(["explain", "gemm", "--m", "4", "--n", "3", "--k", "7", "--batch", "10", "--device", "emulated"]) == 0
    assert "M=4 N=3 K=7 BATCH=10" in capsys.readouterr().out
    assert main(["explain", "gemm", "--m", "4", "--batch", "1e6", "--device", "emulated", "--source"]) == 0
    text = capsys.readouterr().out
    assert "BATCH=1000000" in text and "gemm_lanes" in text and "P_max" in text


@pytest.mark.parametrize("stack", ["packed", "strided", "shared", "pointers"])
def test_tuned_operands_lie_as_the_problem_says(stack: str) -> None:
    from mansard.backends import cpu
    from mansard.kernels.batched.gemm import spec
    from mansard.tune.cases.gemm import GemmCase
    from mansard.tune.verify import Verifier, Wrong

    for layout_c in ("row", "col"):
        options: dict[str, Any] = dict(stack_a=stack, layout_b="col", layout_c=layout_c, conj_b=True, aligned=False)
        options |= {"pitch_a": 6} if stack == "strided" else {}
        problem = spec.problem("complex128", 3, 2, 4, 20, **options)
        case = GemmCase(problem, cpu.backend())
        assert case.operands[0].shape == (20, 3, 4) and case.operands[0].ctypes.data % 16 == 8
        verifier, config = Verifier(case), case.family.defaults.default(problem, cpu.backend().device)
        verifier.exact(config, lambda: None)
        out = case.poisoned()
        case.call(cpu.backend().prepare(case.kernel(config)), out)()
        verifier.bounded(out)
        out[17, 1] += 1e-6
        with pytest.raises(Wrong, match=r"entry \[17,1\]"):
            verifier.bounded(out)


def test_doctests() -> None:
    failures, tried = doctest.testmod(import_module("mansard.blas.products"))
    assert tried >= 8 and failures == 0


def test_signature_of_lists_sees_every_array() -> None:
    kind, A = stacks.kind_of(ONES, "A"), list(ONES)
    assert stacks.signature(kind, A) == stacks.signature(kind, A[::-1])
    assert stacks.signature(kind, A) != stacks.signature(kind, [*A[:4], A[4].T])
