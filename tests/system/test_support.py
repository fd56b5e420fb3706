"""The support matrix: every function is asked, and what a function does not support is seen."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mansard as ms
from docs.site import derivatives, probes, support


def _planted(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> probes.Probe:
    """A probe of a function that stands in `ms.linalg` for the test."""
    monkeypatch.setitem(vars(ms.linalg), "planted", function)

    def make(form: str, convert: probes.Convert) -> list[Any]:
        return [probes.batch(convert(probes.POSITIVE), form)]

    return probes.Probe("mansard.linalg", "planted", make)


def test_every_function_of_dense_matrices_is_asked() -> None:
    public = {f"{home}.{name}" for home in ("linalg", "blas") for name in getattr(ms, home).__all__
              if not name.endswith("_ex") and not inspect.isclass(getattr(getattr(ms, home), name))}  # fmt: skip
    asked = {f"{probe.home}.{probe.name}".removeprefix("mansard.") for probe in probes.probes()}
    assert public < asked and {"gram", "matmul", "cholesky_qr"} < asked


def test_a_form_or_dtype_that_is_refused_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(a: Any, out: Any = None) -> Any:
        if isinstance(a, ms.Ragged):
            raise TypeError("a is a Ragged | no")
        if not isinstance(a, list | ms.Interleaved) and a.dtype == np.float32:
            raise ValueError("single precision is refused\nmore")

    rows = support.forms_table([_planted(monkeypatch, function)], probes.as_dtype, True)
    some = "float64, complex64, complex128"
    assert rows[2] == f"| `ms.linalg.planted` | {some} | {some} | yes | yes | - | yes | yes |"
    assert "single precision is refused: `ms.linalg.planted` (matrix), `ms.linalg.planted` (stack)" in rows[-2]
    assert "a is a Ragged &#124; no: `ms.linalg.planted` (`Ragged`)" in rows[-1]


def test_calls_end_where_kernels_are_compiled() -> None:
    """A call that would compile is one that was accepted; nothing is left changed."""
    from mansard.compile import cxx

    before = cxx.compile_cpu
    with probes.without_compiling():
        assert cxx.compile_cpu is not before
        assert probes.accepts(lambda: cxx.compile_cpu("no source")) == probes.YES  # type: ignore[arg-type, call-arg]
    assert cxx.compile_cpu is before


def test_missing_and_wrong_derivatives_of_pytorch_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from torch.autograd.function import once_differentiable

    class Once(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a**3

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * g * (ctx.saved_tensors[0].conj() ** 2)

    class Wrong(Once):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * (ctx.saved_tensors[0].conj() ** 2)

    def asked(function: Callable[..., Any]) -> list[probes.Cell]:
        return list(derivatives.torch_cells(_planted(monkeypatch, function), "stack"))

    assert asked(lambda a: a**3) == [probes.YES, probes.YES]
    first, second = asked(Once.apply)
    assert first == probes.YES and second.text == "-"
    first, second = asked(Wrong.apply)
    assert first.text == second.text == "-" and "differences give" in first.reason
    first, _ = asked(lambda a: a.detach())
    assert first == probes.Cell("-", "no part of the result has a derivative")
    first, _ = asked(lambda a: a**3 if a.is_complex() else a.detach())
    assert first.text == "complex128" and first.reason


def test_missing_derivatives_of_jax_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")

    def asked(function: Callable[..., Any]) -> list[probes.Cell]:
        return list(derivatives.jax_cells(_planted(monkeypatch, function), "stack"))

    def on_the_host(a: Any) -> Any:
        return jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(a.shape, a.dtype), a)

    assert asked(lambda a: a**3) == [probes.YES, probes.YES]
    assert [cell.text for cell in asked(on_the_host)] == ["-", "-"]


def test_derivatives_of_a_few_operations() -> None:
    """What docs/torch.md says of them."""
    pytest.importorskip("torch")
    known = {probe.name: probe for probe in probes.probes()}
    with probes.by_lapack():
        for name in ("inv", "cholesky", "eigh", "gemm"):
            assert derivatives.torch_cells(known[name], "stack") == (probes.YES, probes.YES), name
        first, second = derivatives.torch_cells(known["tridiagonalize"], "stack")
    assert first.text == second.text == "-" and "detach" in first.reason
