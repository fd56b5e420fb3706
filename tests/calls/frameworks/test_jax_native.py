"""Kernels that programs compiled by XLA call themselves, without Python: which calls these are, their results under
every transformation, and what remains a call back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard import settings

jax = pytest.importorskip("jax", reason="jax is not installed")
native = pytest.importorskip("mansard.frameworks.tangents.native")
pytestmark = [needs_cpu, pytest.mark.skipif(not hasattr(jax, "ffi"), reason="this version of JAX has no jax.ffi")]
jnp = jax.numpy
OURS: dict[str, Any] = {"backend": "cpu"}  # a kernel, however little the work
RNG = np.random.default_rng(11)
X = RNG.integers(-3, 4, (50, 2)).astype("float32")
S = (RNG.integers(-2, 3, (5, 2, 2)) + 4 * np.eye(2)).astype("float32")


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def program(call: Callable[..., Any], *operands: Any) -> str:
    text: str = jax.jit(call).lower(*operands).as_text()
    return "kernel" if "mansard_on_cpu" in text else "call back" if "callback" in text else "XLA"


CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "gram": (lambda x, s: ms.gram(x, **OURS), lambda x, s: x.T @ x),
    "gemm": (lambda x, s: ms.blas.gemm(s, s, trans_a="T", **OURS), lambda x, s: s.swapaxes(1, 2) @ s),
    "tall": (lambda x, s: ms.matmul(x, s[0], **OURS), lambda x, s: x @ s[0]),
    "solve": (lambda x, s: ms.linalg.solve(s, s[:, :, :1], **OURS), lambda x, s: np.linalg.solve(s, s[:, :, :1])),
    "inv": (lambda x, s: ms.linalg.inv(s, **OURS), lambda x, s: np.linalg.inv(s)),
    "slogdet": (lambda x, s: ms.linalg.slogdet(s, **OURS).logabsdet, lambda x, s: np.linalg.slogdet(s)[1]),
}


@pytest.mark.parametrize("name", CALLS)
def test_programs_call_kernels(name: str) -> None:
    call, reference = CALLS[name]
    assert program(call, X, S) == "kernel"
    np.testing.assert_allclose(jax.jit(call)(X, S), reference(X, S.astype(float)), rtol=2e-6, atol=2e-6)


def test_little_work_is_xlas_own_and_several_steps_call_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANSARD_LIBRARY_BELOW", "20")
    settings.reread()
    assert program(ms.gram, X) == program(lambda s: ms.matmul(s, s), S) == "XLA"
    assert (jax.jit(ms.gram)(X) == X.T @ X).all()
    assert program(lambda x: ms.gram(x, backend="reference"), X) == "call back"
    assert program(lambda s: ms.linalg.eigh(s), S) == "call back"
    monkeypatch.undo()
    settings.reread()


def test_programs_for_gpus_are_made_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered for CUDA, a call of one kernel becomes a call of the handler there, and other calls call back."""

    def lowered(call: Callable[..., Any]) -> str:
        text: str = jax.jit(call).trace(X).lower(lowering_platforms=("cuda",)).as_text()
        return text

    assert "callback" in lowered(lambda x: ms.gram(x, backend="reference"))
    planned = native.described
    monkeypatch.setattr(native, "described", lambda describe, platform, operands, options: planned(
        describe, "cpu", operands, options
    ))  # fmt: skip
    entered: list[str] = []
    monkeypatch.setattr(native, "_entered", lambda kernel, platform: entered.append(platform) or 7)
    text = lowered(lambda x: ms.gram(x, **OURS))
    assert entered == ["cuda"] and "mansard_on_gpu" in text and "mansard_on_cpu" not in text


def test_without_the_library_of_handlers_python_is_called_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_library", lambda: None)
    call = CALLS["gram"][0]
    assert program(lambda x, s: call(x, s), X, S) == "call back"  # a new function: JAX keeps lowered ones
    assert (jax.jit(lambda x: ms.gram(x, **OURS) + 0)(X) == X.T @ X).all()


def test_a_version_of_jax_without_the_interface_has_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise ImportError("jax.ffi")

    native._library.cache_clear()
    monkeypatch.setattr(native, "_ffi", missing)
    assert native._library() is None
    native._library.cache_clear()


def test_a_setting_that_names_the_emulator_calls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANSARD_BACKEND", "reference")
    settings.reread()
    assert program(lambda s: ms.linalg.inv(s), S) == "call back"
    monkeypatch.undo()
    settings.reread()


def test_kernels_in_loops_gradients_and_mappings() -> None:
    def step(total: Any, x: Any) -> tuple[Any, Any]:
        return total + ms.gram(x, **OURS), ms.linalg.solve(
            jnp.stack([4 * jnp.eye(2)] * 5), S[:, :, :1] + x[0, 0], **OURS
        )

    total, solved = jax.jit(lambda x: jax.lax.scan(step, jnp.zeros((2, 2)), x))(X.reshape(5, 10, 2))
    assert (total == X.T @ X).all()
    assert (solved == (S[None, :, :, :1] + X[::10, 0][:, None, None, None]) / 4).all()
    slope = jax.jit(jax.vmap(jax.grad(lambda s, b: ms.linalg.solve(s, b, **OURS).sum())))(S, S[:, :, :1])
    inverse = np.linalg.inv(S.astype(float))
    expected = -inverse.sum(1)[:, :, None] * (inverse @ S[:, :, :1]).swapaxes(1, 2)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6)


def test_a_singular_matrix_is_nan_and_its_neighbours_are_right() -> None:
    """Elimination alone would give infinities: the right-hand side is not in the range of the matrix."""
    stack = S.copy()
    stack[1] = 1
    right = np.array([[1], [2]], "float32")
    x = np.asarray(jax.jit(lambda s, b: ms.linalg.solve(s, b, **OURS))(stack, np.stack([right] * 5)))
    assert np.isnan(x[1]).all()
    np.testing.assert_allclose(stack[[0, 2, 3, 4]] @ x[[0, 2, 3, 4]], [right] * 4, rtol=1e-5)


def test_a_program_of_another_process_is_refused_by_name() -> None:
    """Numbers of kernels that were not entered here."""
    jax.jit(CALLS["gram"][0])(X, S)  # the handler is registered
    result = jax.ShapeDtypeStruct((2, 2), np.float32)
    words = {"record": np.zeros(9, np.int64), "places": np.array([0, 1], np.int64)}
    call = jax.jit(lambda x: jax.ffi.ffi_call("mansard_on_cpu", result)(x, kernel=np.int64(5), **words))
    with pytest.raises(Exception, match="was not loaded in this process"):
        call(S[0]).block_until_ready()


def test_numbers_of_kernels_stand_for_their_launch() -> None:
    """A number is the same in every process, and differs where the text or the launch do."""
    from dataclasses import replace

    kernel = ms.plan("gram", X, **OURS).kernel
    assert kernel is not None
    geometry = replace(kernel.geometry, partial_bytes=kernel.geometry.partial_bytes + 64)
    others = (
        replace(kernel, source=replace(kernel.source, text=kernel.source.text + " ")),
        replace(kernel, geometry=geometry),
    )
    numbers = {native._number(one) for one in (kernel, *others)}
    assert len(numbers) == 3 and native._number(replace(kernel, fixed=(1,))) in numbers
