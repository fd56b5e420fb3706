"""Arrays of every kind, dtype, stride, offset and byte order: NumPy's answer, or an error that names an argument.

`--boundary-examples 10000` runs it long; `make test` runs a sample.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import boundary_cases as cases
import numpy as np
import pytest
from conftest import needs_cpu
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mansard as ms
from mansard.errors import MansardError

pytestmark = needs_cpu
OURS = (TypeError, ValueError, MansardError, np.linalg.LinAlgError)


class Function(NamedTuple):
    """A public function, the shapes of its arguments, and what it is to give."""

    call: Callable[..., Any]
    names: str  # of the arguments, as its errors may call them
    shapes: tuple[tuple[int, ...], ...]
    reference: Callable[..., Any]


def _solved(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b)


def _columns(a: Any) -> Any:
    """R^H R = A^H A, whatever the signs of R."""
    a = a.astype(float) if a.dtype == bool else a
    return a.conj().swapaxes(-1, -2) @ a


def _own_columns(a: Any) -> Any:
    r = np.asarray(ms.linalg.qr(a, "r"))
    return _columns(r)


FUNCTIONS = {
    "gram": Function(ms.gram, "A|B", ((50, 2),), lambda a: a.conj().T @ a),
    "gram of two": Function(ms.gram, "A|B", ((50, 2), (50, 2)), lambda a, b: a.conj().T @ b),
    "gram into": Function(
        lambda a, b, out: ms.gram(a, b, out=out), "A|B|out", ((50, 2), (50, 2), (2, 2)),
        lambda a, b, out: a.conj().T @ b,
    ),
    "matmul": Function(ms.matmul, "A|B", ((50, 2), (2, 2)), np.matmul),
    "matmul of stacks": Function(ms.matmul, "A|B|a|x", ((40, 2, 2), (40, 2, 2)), np.matmul),
    "gemm": Function(ms.blas.gemm, "A|B", ((40, 2, 2), (40, 2, 2)), np.matmul),
    "gemv": Function(ms.blas.gemv, "a|x", ((40, 2, 2), (40, 2)), lambda a, x: (a @ x[..., None])[..., 0]),
    "solve": Function(ms.linalg.solve, "a|b", ((40, 2, 2), (40, 2, 2)), _solved),
    "trsm": Function(ms.blas.trsm, "a|b", ((40, 2, 2), (40, 2, 2)), lambda a, b: _solved(np.tril(a), b)),
    "cholesky": Function(ms.linalg.cholesky, "a", ((40, 2, 2),), np.linalg.cholesky),
    "inv": Function(ms.linalg.inv, "a", ((40, 2, 2),), np.linalg.inv),
    "qr": Function(_own_columns, "a", ((40, 2, 2),), _columns),
    "T @ x": Function(lambda x: cases._MATRIX @ x, "x|A", ((30,),), lambda x: cases.SPARSE @ x),
    "T @ X": Function(lambda x: cases._MATRIX @ x, "x|A", ((30, 3),), lambda x: cases.SPARSE @ x),
}
USUAL = ("float64",) * 12 + ("float32", "complex64", "complex128")  # every other dtype is another kernel
DTYPES = (*USUAL, "float16", "int32", "bool", "longdouble", "object", "U3")
STRIDES = ("rows",) * 5 + ("columns", "padded", "apart", "backwards", "repeated", "overlapping")
KINDS = ("numpy", "numpy", "torch", "torch", "jax")
SHAPES = ("right",) * 12 + ("empty", "number", "vector", "deeper", "longer", "huge")


class Layout(NamedTuple):
    """How an array lies."""

    dtype: str
    strides: str
    offset: int  # elements
    shift: int  # bytes
    foreign: bool
    readonly: bool
    shape: str
    trick: str  # of PyTorch's


layouts = st.builds(
    Layout,
    st.sampled_from(DTYPES),
    st.sampled_from(STRIDES),
    st.sampled_from((0, 0, 0, 1, 3)),
    st.sampled_from((0, 0, 0, 0, 1, 4)),
    st.sampled_from((False,) * 7 + (True,)),
    st.sampled_from((False,) * 5 + (True,)),
    st.sampled_from(SHAPES),
    st.sampled_from(("",) * 8 + ("conj", "neg", "meta", "grad", "expand", "sparse", "zero")),
)


def shaped(shape: tuple[int, ...], how: str) -> tuple[int, ...]:
    if how == "empty":
        return (0, *shape[1:])
    if how in ("number", "vector"):
        return () if how == "number" else shape[:1]
    if how in ("deeper", "longer"):
        return (3, *shape) if how == "deeper" else (shape[0] + 1, *shape[1:])
    return (1 << 40, *shape[1:]) if how == "huge" else shape


def steps(shape: tuple[int, ...], how: str) -> list[int]:
    """Strides in elements."""
    order = range(len(shape)) if how == "columns" else reversed(range(len(shape)))
    found, step = [0] * len(shape), 2 if how == "apart" else 1
    for axis in order:
        found[axis] = step
        step = step * max(1, shape[axis]) + (how == "padded")
    if how == "backwards" and found:
        found[0] = -found[0]
    if how == "repeated" and found:
        found[-1] = 0
    if how == "overlapping" and len(found) > 1:
        found[0] = found[-1]
    return found


def made(shape: tuple[int, ...], layout: Layout, seed: int) -> Any:
    """A NumPy array that lies so, inside of memory of its own."""
    shape, dtype = shaped(shape, layout.shape), np.dtype(layout.dtype)
    rng = np.random.default_rng(seed)
    if layout.shape == "huge":
        return np.broadcast_to(np.ones(shape[1:], dtype if dtype.kind in "fcib" else float), shape)
    strides = steps(shape, layout.strides)
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)] if 0 not in shape else []
    low, high = sum(min(0, one) for one in reach), sum(max(0, one) for one in reach)
    count = high - low + 1 + layout.offset
    values = rng.standard_normal(count) + 1j * rng.standard_normal(count) * (dtype.kind == "c")
    values = (values if dtype.kind == "c" else values.real).astype(dtype)
    shift = layout.shift if dtype.kind in "fc" else 0
    if shift:
        moved = np.zeros(values.nbytes + 16, np.uint8)
        moved[shift : shift + values.nbytes] = values.view(np.uint8)
        values = moved[shift : shift + values.nbytes].view(dtype)
    start = values[layout.offset - low :] if count > layout.offset - low else values
    array = np.lib.stride_tricks.as_strided(start, shape, [stride * values.itemsize for stride in strides])
    square = len(shape) > 1 and shape[-1] == shape[-2]
    if square and dtype.kind in "fc" and layout.strides in ("rows", "columns", "padded"):
        array[...] += 4 * np.eye(shape[-1], dtype=dtype)
    if layout.foreign and dtype.kind in "fc":
        array = array.astype(dtype.newbyteorder())
    if layout.readonly:
        array.flags.writeable = False
    return array


def tensor(array: Any, trick: str) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    try:
        found = torch.from_numpy(array.copy() if not array.flags.writeable and array.size < 1 << 20 else array)
    except (TypeError, ValueError):
        return None
    if trick == "meta":
        return found.to("meta")
    if trick == "conj" and found.is_complex():
        return found.conj()
    if trick == "neg" and found.is_complex():
        return found.conj().imag
    if trick == "grad" and (found.is_complex() or found.is_floating_point()):
        return found.requires_grad_()
    if trick == "expand" and found.ndim:
        return found[:1].expand(found.shape) if found.shape[0] else found
    whole = found.data_ptr() % found.element_size() == 0  # PyTorch's own conversions of others crash
    if trick == "sparse" and found.ndim == 2 and found.numel() < 1 << 20 and whole:
        return found.to_sparse()
    return torch._efficientzerotensor(found.shape, dtype=found.dtype) if trick == "zero" else found


def as_kind(array: Any, kind: str, trick: str) -> Any:
    """The array in a library, None where it makes none."""
    if kind == "torch":
        return tensor(array, trick)
    if kind == "jax":
        jax = pytest.importorskip("jax", reason="jax is not installed")
        taken = array.dtype.kind in "fcib" and array.dtype.char != "g" and array.dtype.isnative and array.size < 1 << 20
        return jax.numpy.asarray(array) if taken else None
    return array


def literal(array: Any) -> Any:
    """The values, for NumPy."""
    if isinstance(array, np.ndarray):
        return array.astype(array.dtype.newbyteorder("="))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return array.detach().resolve_conj().resolve_neg().to_dense().numpy(force=True)
    return np.asarray(array)


def close(found: Any, expected: Any) -> bool:
    found = literal(found)
    found = found.astype(float) if found.dtype == bool else found
    if not np.isfinite(expected).all():
        return True
    worst = {"f": 2e-2, "d": 1e-6}.get(np.result_type(found, np.float32).char.lower(), 1e-6)
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    return bool(found.shape == expected.shape and np.abs(found - expected).max(initial=0) <= worst * scale)


def one_example(data: Any) -> None:
    function = FUNCTIONS[data.draw(st.sampled_from(sorted(FUNCTIONS)), "function")]
    kind, seed = data.draw(st.sampled_from(KINDS), "kind"), data.draw(st.integers(0, 9), "seed")
    usual = Layout("float64", "rows", 0, 0, False, False, "right", "")
    odd = data.draw(st.integers(0, len(function.shapes)), "odd")  # so that only one argument is strange, or all are
    given = []
    for position, shape in enumerate(function.shapes):
        layout = data.draw(layouts, "layout") if odd in (position, len(function.shapes)) else usual
        array = as_kind(made(shape, layout, seed + position), kind, layout.trick)
        if array is None:
            return
        given.append(array)
    try:
        found = function.call(*given)
    except OURS as error:
        assert re.search(rf"\b({function.names})\b", str(error), re.IGNORECASE), str(error)
        return
    except MemoryError:
        assert any(max(array.shape, default=0) >= 1 << 40 for array in given)
        return
    with np.errstate(all="ignore"):
        try:
            expected = function.reference(*map(literal, given))
        except np.linalg.LinAlgError:
            return
    assert close(found, expected), [(type(one), one.dtype, one.shape) for one in given]


@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore")
def test_arrays_of_every_kind_give_the_answer_or_an_error_with_a_name(request: pytest.FixtureRequest) -> None:
    examples = request.config.getoption("--boundary-examples")

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def walk(data: Any) -> None:
        one_example(data)

    walk()
