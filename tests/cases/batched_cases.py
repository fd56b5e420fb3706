"""Stacks and lists of all kinds, and a kernel played by NumPy that takes descriptions of operands at their word."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mansard.kernels.batched import gemm, gemv
from mansard.kernels.batched.gemm import spec
from mansard.operations import run as call
from mansard.plan.problem import Problem
from mansard.plan.route import Choice, Library

DTYPES = ("float32", "float64", "complex64", "complex128")


def integers(rng: Any, shape: tuple[int, ...], dtype: str = "float64") -> Any:
    """Small ones: every sum of their products is exact."""
    values = rng.integers(-3, 4, shape).astype(dtype)
    return (values + 1j * rng.integers(-3, 4, shape)).astype(dtype) if dtype.startswith("complex") else values


def arranged(rng: Any, values: Any) -> Any:
    """The same values somewhere else: transposed, padded, in steps, backwards, dimensions in another order."""
    order = rng.permutation(values.ndim) if rng.integers(2) else np.arange(values.ndim)
    if rng.integers(2) and values.ndim > 1:  # the usual case: only the matrices are turned
        order = np.arange(values.ndim)
        order[-2:] = order[-2:][::-1]
    moved = values.transpose(order)
    pads = rng.integers(0, 3, values.ndim) * (rng.random(values.ndim) < 0.3)
    steps = np.where(rng.random(values.ndim) < 0.15, 2, 1) * np.where(rng.random(values.ndim) < 0.1, -1, 1)
    sizes = [size * abs(step) + pad for size, step, pad in zip(moved.shape, steps, pads, strict=True)]
    wide = np.full(sizes, 99, values.dtype)
    index = tuple(
        slice(0, size * step, step) if step > 0 else slice(size * -step - 1, None, step)
        for size, step in zip(moved.shape, steps, strict=True)
    )
    view = wide[index]
    if view.shape != moved.shape:  # a step backwards ends before the first element
        view = wide[tuple(slice(0, size) for size in moved.shape)]
    view[...] = moved
    return view.transpose(np.argsort(order))


def at(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    """An array that owns nothing; strides in elements."""
    item = np.dtype(dtype).itemsize
    facts = {"data": (address, False), "shape": shape, "typestr": np.dtype(dtype).str, "version": 3}
    facts["strides"] = tuple(stride * item for stride in strides)
    return np.asarray(SimpleNamespace(__array_interface__=facts))


def matrices_at(
    problem: Any, stack: str, pointer: int, shape: tuple[int, int], strides: tuple[int, ...], dtype: Any = None
) -> list[Any]:
    """The matrices of an operand as a kernel finds them: by a table of addresses, or a step; where they should be."""
    matrix, *inner = strides
    dtype = np.dtype(dtype or problem.dtype)
    if stack == "pointers":
        addresses = list((ctypes.c_int64 * problem.BATCH).from_address(pointer))
    else:
        addresses = [pointer + i * matrix * dtype.itemsize for i in range(problem.BATCH)]
    if problem.aligned:
        assert all(address % 16 == 0 for address in (addresses[:1] if stack == "packed" else addresses))
    return [at(address, shape, tuple(inner), dtype) for address in addresses]


class Played:
    """Stands in for `call.prepare`: launches are counted, and every trait of the problem is checked."""

    def __init__(self) -> None:
        self.launches = 0
        self.problems: list[Problem] = []

    def __call__(
        self, emit: Any, problem: Problem, backend: Any, strides: tuple[int, ...], choice: Choice | None = None
    ) -> Any:
        assert emit in (gemm.emit, gemv.emit)
        if choice is not None and choice.config is None:
            return None, choice, None
        self.problems.append(problem)

        def launch(pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
            self.launches += 1
            A, B, C = (
                self.matrices(problem, side, pointer, strides[3 * i : 3 * i + 3], backend.name == "cpu" and i < 2)
                for i, (side, pointer) in enumerate(zip("abc", pointers, strict=True))
            )
            alpha, beta = complex(*scalars[:2]), complex(*scalars[2:])
            assert problem.accumulate == (beta != 0)
            if not problem.is_complex:
                assert alpha.imag == beta.imag == 0
                alpha, beta = alpha.real, beta.real  # type: ignore[assignment]
            for a, b, c in zip(A, B, C, strict=True):
                c[...] = spec.reference(a, b, c, alpha, beta, conj_a=problem.conj_a, conj_b=problem.conj_b)

        return launch, choice or Choice(gemm.FAMILY, Library("NumPy", "played"), "rule"), None

    @staticmethod
    def matrices(problem: Problem, side: str, pointer: int, strides: tuple[int, ...], loose: bool) -> list[Any]:
        rows, columns = (getattr(problem, name) for name in spec.SHAPES[side])
        layout, stack, pitch = (getattr(problem, f"{trait}_{side}") for trait in ("layout", "stack", "pitch"))
        matrix, row, column = strides
        if layout != "any":
            assert (row, column) == ((pitch, 1) if layout == "row" else (1, pitch))
            assert loose or pitch >= (columns if layout == "row" else rows)
        if stack == "packed":
            assert pitch == (columns if layout == "row" else rows)
            matrix = rows * columns
        else:
            dense = layout != "any" and pitch == (columns if layout == "row" else rows)
            assert stack != "strided" or not dense or matrix != rows * columns, "packed was not recognised"
        if stack == "shared":
            assert matrix == 0 and side != "c"
        return matrices_at(problem, stack, pointer, (rows, columns), strides)


@pytest.fixture(name="played")
def play_products(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels played by NumPy, and no plan of before."""
    found = Played()
    monkeypatch.setattr(call, "prepare", found)
    return found
