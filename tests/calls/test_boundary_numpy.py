"""NumPy at the array boundary: subclasses that mean more than their numbers, memory maps, dtypes and strides of all
kinds, and arrays whose shape is changed in place."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import boundary_cases as cases
import numpy as np
import pytest
from boundary_cases import CASES, Case, given
from conftest import needs_cpu

import mansard as ms
from mansard.arrays import numpy as array_numpy

pytestmark = needs_cpu


def refused(call: Callable[[], Any], argument: str, what: str) -> None:
    """The call raises an error of ours that names the argument and says what is wrong with it."""
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    text = str(error.value)
    assert re.search(rf"\b{argument}\b", text, re.IGNORECASE), text
    assert re.search(what, text), text


class Quantity(np.ndarray):
    """Numbers with a unit."""

    def __array_ufunc__(self, *arguments: Any, **options: Any) -> Any:
        return NotImplemented


class Tagged(np.ndarray):
    """Numbers with a name that nobody needs."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_masks_are_not_lost(case: Case) -> None:
    for name in case.arrays:
        if "Ragged.empty_like" in case.functions or ("A" in case.arrays and len(case.arrays["A"]) == cases.SPARSE.nnz):
            continue  # values that do not matter, or that SciPy's matrices take out of their masks
        arrays = given(case, lambda array: array)
        setattr(arrays, name, np.ma.masked_array(getattr(arrays, name), mask=False))
        with pytest.raises(TypeError, match="masked array"):
            case.call(arrays)


def test_subclasses() -> None:
    a = cases.TALL
    refused(lambda: ms.gram(np.matrix(a)), "A", "numpy.asarray")
    refused(lambda: ms.gram(a, a.view(Quantity)), "B", "numpy.asarray")
    assert (ms.gram(a.view(Tagged)) == ms.gram(a)).all()
    assert (ms.gram(a.view(np.recarray)) == ms.gram(a)).all()


def test_memory_maps(tmp_path: Path) -> None:
    path = tmp_path / "a"
    np.memmap(path, float, "w+", shape=(50, 2))[...] = cases.TALL
    for mode in ("r", "r+", "c"):
        mapped = np.memmap(path, float, mode, shape=(50, 2))
        assert (ms.gram(mapped) == ms.gram(cases.TALL)).all()
    out = np.memmap(path, float, "r", shape=(2, 2))
    refused(lambda: ms.gram(cases.TALL, out=out), "out", "read-only")


RECORDS = np.zeros((50, 2), [("x", "f8"), ("y", "f8")])
DTYPES = {  # arrays, and what their refusal says
    "foreign": (cases.TALL.astype(">f8"), "foreign byte order|dtype >f8"),
    "records": (RECORDS, "dtype"),
    "objects": (cases.TALL.astype(object), "dtype object"),
    "text": (cases.TALL.astype("U8"), "dtype"),
    "half": (cases.TALL.astype("f2"), "dtype float16"),
    "long": (cases.TALL.astype("g"), "dtype (float128|longdouble)"),
    "dates": (cases.TALL.astype("M8[s]"), "dtype datetime64"),
}


@pytest.mark.parametrize("kind", DTYPES)
def test_dtypes_that_no_kernel_knows(kind: str) -> None:
    odd, what = DTYPES[kind]
    refused(lambda: ms.gram(odd), "A", what)
    refused(lambda: ms.gram(cases.TALL, odd), "B", what)
    refused(lambda: ms.matmul_gram(odd, cases.SMALL), "V", what)
    if kind != "foreign":  # which NumPy's functions take
        refused(lambda: ms.linalg.qr(odd), "a", what)
        refused(lambda: ms.linalg.lstsq(cases.TALL, odd), "b", what)
    refused(lambda: ms.blas.gemm(odd[None], odd.T[None]), "A", what)
    refused(lambda: ms.blas.gemv(odd[None], odd[:2, 0]), "a", what)
    refused(lambda: cases._MATRIX @ odd[:30], "x", what)


def test_strides_between_elements() -> None:
    bytes_ = np.zeros(50 * 18 + 16, np.uint8)
    odd = np.ndarray((50, 2), float, bytes_, 0, (18, 8))
    refused(lambda: ms.gram(odd), "A", "strides of.*ascontiguousarray")
    refused(lambda: ms.linalg.qr(odd), "a", "strides of.*ascontiguousarray")


def test_places_that_overlap_themselves_are_refused() -> None:
    line = np.zeros(8)
    for strides in ((8, 8), (0, 8), (-8, 8)):
        out = np.lib.stride_tricks.as_strided(line[4:], (2, 2), strides)
        refused(partial(ms.gram, cases.TALL, out=out), "out", "share one place")
    out = np.zeros((2, 3))[:, :2]
    assert ms.gram(cases.TALL, out=out) is out


def test_a_held_plan_looks_at_the_same_array_again() -> None:
    a = np.arange(100.0).reshape(50, 2)
    plan = ms.plan("gram", a)
    plan(a)
    plan(a)
    a.shape = (20, 5)
    refused(lambda: plan(a), "A", "differs in shape")
    b = np.zeros((50, 2))
    plan(b)
    b.resize((3, 2), refcheck=False)
    refused(lambda: plan(b), "A", "differs in shape")
    stack = cases.STACK.copy()
    held = ms.plan("gemm", stack, stack)
    held(stack, stack)
    stack.shape = (10, 4, 2, 2)
    refused(lambda: held(stack, stack), "A", "differs in shape")
    refused(lambda: held(list(cases.STACK), cases.STACK), "A", "differs in shape")
    refused(lambda: held(cases.STACK, None), "B", "differs in shape")


class Imposter:
    """Has what NumPy arrays have, and is none."""

    def __init__(self, like: Any) -> None:
        self.shape, self.strides, self.dtype, self.flags = like.shape, like.strides, like.dtype, like.flags
        self.ndim, self.__array_interface__ = like.ndim, like.__array_interface__


def test_only_arrays_are_read_by_their_address() -> None:
    a = cases.TALL
    plan = ms.plan("gram", a)
    plan(a)
    refused(lambda: plan(Imposter(a)), "A", "Mansard takes")
    refused(lambda: ms.gram(Imposter(a)), "A", "Mansard takes")
    refused(lambda: ms.gram(a, Imposter(a)), "B", "Mansard takes")
    refused(lambda: ms.gram(a, out=Imposter(np.zeros((2, 2)))), "out", "Mansard takes")
    refused(lambda: ms.matmul(a, Imposter(a.T)), "B", "Mansard takes")
    refused(lambda: ms.linalg.solve(cases.STACK, Imposter(cases.RIGHT)), "b", "Mansard takes")
    refused(lambda: cases._MATRIX.product(cases.VECTOR, Imposter(cases.VECTOR)), "out", "Mansard takes")
    for array in (a, a[3:, 1:], a.view(Tagged), np.zeros(()), np.zeros((0, 3)), np.zeros(3, "c16").view(np.recarray)):
        assert array_numpy._address(array) == array.__array_interface__["data"][0]


def test_a_result_of_lu_solve_has_its_shape_and_dtype() -> None:
    factors = ms.linalg.lu_factor(cases.STACK)
    refused(lambda: ms.linalg.lu_solve(factors, cases.RIGHT, out=np.zeros((3, *cases.RIGHT.shape))), "out", "shape")
    refused(lambda: ms.linalg.lu_solve(factors, cases.RIGHT, out=np.zeros(cases.RIGHT.shape, "f4")), "out", "dtype")


def _promises_any_memory() -> bool:
    """Whether the system grants allocations that it cannot serve, and kills whoever uses them."""
    path = Path("/proc/sys/vm/overcommit_memory")
    return path.exists() and path.read_text().strip() == "1"


@pytest.mark.skipif(_promises_any_memory(), reason="vm.overcommit_memory is 1: the copy would be begun")
def test_huge_arrays_that_repeat_themselves() -> None:
    """A copy would not fit: the memory says so, nothing is read beyond the one entry."""
    one = np.broadcast_to(np.float64(1.0), (1 << 40, 2))
    with pytest.raises(MemoryError):
        ms.gram(one)
    with pytest.raises(MemoryError):
        ms.blas.gemm(np.broadcast_to(cases.SMALL, (1 << 40, 2, 2)), cases.SMALL)
