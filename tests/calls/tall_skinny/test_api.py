"""The face: array kinds in and out, bad input by name, plans, pins, explanations."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import wanted

import mansard as ms
from mansard.backends import cuda
from mansard.errors import IllegalConfig, UnsupportedProblem

rng = np.random.default_rng(3)
A = rng.integers(-3, 4, (50, 4)).astype(float)
B = rng.integers(-3, 4, (50, 3)).astype(float)


def test_numpy_in_numpy_out() -> None:
    C = ms.gram(A, B)
    assert type(C) is np.ndarray and (C == A.T @ B).all()


def test_subclass_and_memmap(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "a", float, "w+", shape=A.shape)
    mapped[...] = A
    assert (ms.gram(mapped, mapped) == A.T @ A).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_torch_cpu(dtype: str) -> None:
    torch = wanted("torch")
    a, b = torch.tensor(A).to(getattr(torch, dtype)), torch.tensor(B).to(getattr(torch, dtype))
    if dtype.startswith("complex"):
        a, b = a * (1 + 2j), b * (2 - 1j)
    C = ms.gram(a, b)
    assert isinstance(C, torch.Tensor) and C.dtype == a.dtype and C.device == a.device
    assert torch.equal(C, a.mH @ b)
    assert torch.equal(ms.gram(a, b, conj=False), a.mT @ b)
    assert torch.equal(ms.gram(a.conj(), b), a.mT @ b)  # lazily conjugated: no copy of A
    assert torch.equal(ms.gram(a, b.conj()), a.mH @ b.conj())
    assert torch.equal(ms.gram(a.T.contiguous().T, b), a.mH @ b)


def test_torch_gradient_is_recorded() -> None:
    torch = wanted("torch")
    a = torch.ones(5, 2, requires_grad=True)
    ms.gram(a).sum().backward()
    assert a.grad.tolist() == [[4, 4]] * 5
    with torch.no_grad():
        assert ms.gram(a).tolist() == [[5, 5], [5, 5]]


def test_jax() -> None:
    jnp = wanted("jax.numpy")
    a, b = jnp.asarray(A, "float32"), jnp.asarray(B, "float32")
    C = ms.gram(a, b)
    assert type(C) is type(a) and (np.asarray(C) == A.T @ B).all()
    with pytest.raises(TypeError, match="JAX"):
        ms.gram(a, b, out=C)


@pytest.mark.gpu
def test_gpu_kinds_and_streams() -> None:
    from conftest import usable

    usable("cuda")
    cupy, torch = wanted("cupy"), wanted("torch")
    a, b = cupy.asarray(A), cupy.asarray(B)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        C = ms.gram(a, b)
    stream.synchronize()
    assert isinstance(C, cupy.ndarray) and (C.get() == A.T @ B).all()
    ta, tb = torch.tensor(A, device="cuda"), torch.tensor(B, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        tc = ms.gram(ta, tb)
    side.synchronize()
    assert tc.device == ta.device and torch.equal(tc.cpu(), torch.tensor(A.T @ B))
    with pytest.raises(ValueError, match="on cuda:0 and B on cpu"):
        ms.gram(ta, torch.tensor(B))
    with pytest.raises(TypeError, match="CuPy array and B a PyTorch"):
        ms.gram(a, tb)


@pytest.mark.gpu
def test_gpu_graph_capture_and_replay() -> None:
    from conftest import usable

    usable("cuda")
    torch = wanted("torch")
    a, b = (torch.randn(20011, 24, dtype=torch.float64, device="cuda") for _ in range(2))
    outs = [torch.empty(24, 24, dtype=torch.float64, device="cuda") for _ in range(2)]
    expected = ms.gram(a, b).clone()
    ms.gram(a, b, out=outs[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for out in outs:
            ms.gram(a, b, out=out)
    for _ in range(5):
        for out in outs:
            out.fill_(float("nan"))
        graph.replay()
        beside = ms.gram(a, b)  # eager work between replays has other workspace
        torch.cuda.synchronize()
        assert all(torch.equal(out, expected) for out in (*outs, beside))


@pytest.mark.gpu
def test_gpu_graphs_leave_their_workspace_to_others() -> None:
    from conftest import usable

    usable("cuda")
    torch = wanted("torch")
    a, out = torch.randn(20011, 24, device="cuda"), torch.empty(24, 24, device="cuda")
    ms.gram(a, out=out)
    held = []
    for _ in range(6):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            ms.gram(a, out=out)
        graph.replay()
        torch.cuda.synchronize()
        del graph
        gc.collect()
        held.append(len(cuda.backend(0).workspaces._pieces))
    assert held[-1] <= held[1], "every graph left a workspace behind"


class PlayedGraphs:
    """What `Workspaces` asks of a driver: memory, and signs that graphs are gone."""

    def __init__(self) -> None:
        self.allocated, self.signs, self.ended = 0, 0, set()  # type: ignore[var-annotated]

    def allocate(self, size: int) -> int:
        self.allocated += 1
        return self.allocated << 20

    def end_of_capture(self, stream: object) -> int:
        self.signs += 1
        return self.signs

    def has_ended(self, sign: int) -> bool:
        return sign in self.ended and not self.ended.discard(sign)


def test_workspaces_of_graphs() -> None:
    driver = PlayedGraphs()
    spaces = cuda.Workspaces(driver)  # type: ignore[arg-type]
    small = SimpleNamespace(geometry=SimpleNamespace(partial_bytes=1000, sum_bytes=0))
    stream, first, second = (spaces.get(small, 7, capture) for capture in (0, 1, 2))
    assert len({*stream, *first, *second}) == 6  # streams and living graphs share nothing
    assert spaces.get(small, 7, 1) == first
    assert len({*spaces.get(small, 8, 1), *first}) == 4  # nor do branches of one graph
    driver.ended.add(1)
    assert spaces.get(small, 7, 4) == first  # what a graph left behind is used again
    large = SimpleNamespace(geometry=SimpleNamespace(partial_bytes=1 << 20, sum_bytes=0))
    partials, sums = spaces.get(large, 7, 4)
    assert partials != first[0] and sums == first[1]


@pytest.mark.gpu
def test_gpu_jax() -> None:
    from conftest import usable

    usable("cuda")
    jax = wanted("jax")
    if not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("JAX sees no GPU")
    a = jax.numpy.asarray(A, "float32")
    C = ms.gram(a)
    assert type(C) is type(a) and (np.asarray(C) == A.T @ A).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ms.gram(A, B[:-1]), ValueError, "A has 50 rows and B 49"),
        (lambda: ms.gram(A[0]), ValueError, "A has shape"),
        (lambda: ms.gram(A, B[None]), ValueError, "B has shape"),
        (lambda: ms.gram(A.astype(int)), UnsupportedProblem, "A has dtype int64"),
        (lambda: ms.gram(A.astype("float16")), UnsupportedProblem, "A has dtype float16"),
        (lambda: ms.gram(A, B.astype("float16")), UnsupportedProblem, "B has dtype float16"),
        (lambda: ms.gram([["a"]]), TypeError, r"A is a builtins\.list"),
        (lambda: ms.gram(A, B, out=np.empty((3, 4))), ValueError, "out has shape"),
        (lambda: ms.gram(A, B, out=np.empty((4, 3), "float32")), TypeError, "out float32"),
        (lambda: ms.gram(A, out=A[:4]), ValueError, "out overlaps A"),
        (lambda: ms.gram(A, A, out=np.broadcast_to(np.zeros(4), (4, 4))), ValueError, "out is read-only"),
        (lambda: ms.gram(A, B, beta=1.0), ValueError, "pass out"),
        (lambda: ms.gram(A, B, alpha=1j), TypeError, "must be real"),
        (lambda: ms.gram(A, B, backend="gpu"), ValueError, "backend='gpu'"),
        (lambda: ms.gram(A, B, backend="cuda"), ValueError, "needs arrays on a GPU"),
        (lambda: ms.plan("spam", A), ValueError, "operation='spam'"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_overlap_with_b_and_nothing_written() -> None:
    big = np.arange(200.0).reshape(50, 4)
    before = big.copy()
    with pytest.raises(ValueError, match="out overlaps B"):
        ms.gram(A, big[:, :4], out=big[2:6])
    assert (big == before).all()


def test_repeating_out_is_refused() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(4), (4, 3), (8, 0))
    with pytest.raises(ValueError, match="share one place"):
        ms.gram(A, B, out=out)


def test_mixing_kinds_says_which() -> None:
    torch = wanted("torch")
    with pytest.raises(TypeError, match="A is a NumPy array and B a PyTorch array"):
        ms.gram(A, torch.tensor(B))


def test_plan_holds_a_call() -> None:
    plan = ms.plan("gram", A, B)
    assert (plan(A, B) == A.T @ B).all()
    out = np.empty((4, 3))
    held = ms.plan("gram", A, B, out=out)
    assert held(A, B, out=out, alpha=2.0) is out and (out == 2 * A.T @ B).all()
    with pytest.raises(ValueError, match="B differs"):
        plan(A, A)


def test_explain_tells_what_runs() -> None:
    text = ms.plan("gram", A, B, backend="emulated").explain()
    for word in ("VARIANT=", "because", "limit", "set by", "ceilings"):
        assert word in text
    assert "reference" in ms.plan("gram", A, B, backend="reference").explain()


def test_source_is_the_generated_text() -> None:
    source = ms.plan("gram", A, B, backend="emulated").source()
    assert "struct Params" in source and "static constexpr int M = 4;" in source


def test_pin_some_and_leave_the_rest() -> None:
    with ms.pin(VARIANT="tiled", TILE_M=2):
        plan = ms.plan("gram", A, B, backend="emulated")
        assert plan.choice.config.TILE_M == 2 and plan.choice.origin == "pinned"
        with ms.pin(TILE_N=3):
            assert ms.plan("gram", A, B, backend="emulated").choice.config.TILE_N == 3
    assert ms.plan("gram", A, B, backend="emulated").choice.origin != "pinned"


def test_pinned_name_finds_its_variant() -> None:
    with ms.pin(LEAPFROG=True):
        assert ms.plan("gram", A, B, backend="emulated").choice.config.VARIANT == "tiled"


@pytest.mark.parametrize("pins", [{"VARIANT": "tiled", "TILE_M": 99}, {"NOSUCH": 1}, {"VARIANT": "spam"}])
def test_impossible_pin_says_why(pins: dict[str, Any]) -> None:
    with pytest.raises(IllegalConfig), ms.pin(**pins):
        ms.gram(A, B, backend="emulated")


def test_wide_problems_go_to_the_vendor() -> None:
    wide = np.ones((300, 200))
    plan = ms.plan("gram", wide)
    assert (plan.choice.answered_by, plan.choice.origin) == ("library", "rule") and (plan(wide) == 300).all()


def test_importing_mansard_imports_no_framework() -> None:
    import subprocess
    import sys

    code = "import sys, mansard; print([m for m in ('torch', 'cupy', 'jax', 'matplotlib') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_gram_of_a_lazily_conjugated_tensor() -> None:
    torch = pytest.importorskip("torch")
    A = torch.complex(torch.arange(12.0).reshape(4, 3), torch.arange(12.0).reshape(4, 3) ** 2)
    literal = A.conj().resolve_conj()
    assert torch.equal(ms.gram(A.conj()), ms.gram(literal))
    assert torch.allclose(ms.gram(A.conj()), literal.mH @ literal)


def test_what_memory_does_not_hold_literally_is_refused() -> None:
    A = np.arange(40.0).reshape(10, 4)
    with pytest.raises(TypeError, match="foreign byte order"):
        ms.gram(A.astype(">f8" if A.dtype.isnative and np.little_endian else "<f8"))
    torch = pytest.importorskip("torch")
    lazy = torch.ones(10, 4, dtype=torch.complex128).conj().imag  # negated when it is read
    assert lazy.is_neg()
    with pytest.raises(TypeError, match="lazily negated"):
        ms.gram(lazy)


def test_a_plan_for_a_writable_out_does_not_write_to_a_read_only_one() -> None:
    A, out = np.ones((10, 4)), np.zeros((4, 4))
    ms.gram(A, A, out=out)
    out[:] = 0
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        ms.gram(A, A, out=out)
    assert not out.any()
