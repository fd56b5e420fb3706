"""Dask arrays chunked along their rows: lazy, and right when they are computed."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard.errors import MansardWarning, RankDeficient

sys.modules["sparse"] = None  # type: ignore[assignment]  # Dask would take a folder of tests for this package
try:
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
finally:  # also where Dask is not installed: SciPy looks at this entry
    del sys.modules["sparse"]

LIBRARY = {"backend": "reference"}  # compiles nothing


def tall(columns: int, dtype: str = "float64", rows: int = 1003) -> Any:
    random = np.random.default_rng(columns)
    A = random.standard_normal((rows, columns))
    return (A + 1j * random.standard_normal(A.shape)).astype(dtype) if dtype.startswith("complex") else A.astype(dtype)


def computed(*arrays: Any) -> Any:
    return dask.compute(*arrays, scheduler="threads")


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_products(dtype: str) -> None:
    A, B, S = tall(6, dtype), tall(3, dtype), tall(2, dtype, 6)
    a, b = da.from_array(A, chunks=(100, -1)), da.from_array(B, chunks=(100, -1))
    close = {"rtol": 1e-3 if dtype == "float32" else 1e-10, "atol": 1e-3 if dtype == "float32" else 1e-10}
    G = ms.gram(a, **LIBRARY)
    assert isinstance(G, da.Array) and G.shape == (6, 6) and G.dtype == A.dtype
    assert np.allclose(*computed(G), A.conj().T @ A, **close)
    assert np.allclose(*computed(ms.gram(a, b, conj=False, alpha=2.0, **LIBRARY)), 2 * A.T @ B, **close)
    for small in (S, da.from_array(S, chunks=(4, 1))):
        C = ms.matmul(a, small, **LIBRARY)
        assert C.chunks[0] == a.chunks[0] and np.allclose(*computed(C), A @ S, **close)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("rows", [300, 3])  # of chunks, some with fewer rows than columns
def test_factors(dtype: str, rows: int) -> None:
    A = tall(6, dtype, 1003 if rows > 3 else 40)
    a, unit = da.from_array(A, chunks=(rows, -1)), np.eye(6)
    for Q, R in (computed(*ms.linalg.qr(a, **LIBRARY)), computed(*ms.cholesky_qr(a, **LIBRARY))):
        assert np.allclose(Q @ R, A) and np.abs(Q.conj().T @ Q - unit).max() < 1e-13
        assert np.allclose(np.tril(R, -1), 0)
    assert np.allclose(np.abs(computed(ms.linalg.qr(a, mode="r", **LIBRARY))[0]), np.abs(R))


def test_ill_conditioned_blocks_become_orthonormal() -> None:
    V = np.vander(np.linspace(0, 1, 500), 14)  # condition 4e9
    Q, R = computed(*ms.cholesky_qr(da.from_array(V, chunks=(90, -1)), **LIBRARY))
    assert np.abs(Q.T @ Q - np.eye(14)).max() < 1e-13 and np.abs(Q @ R - V).max() < 1e-12
    with pytest.raises(RankDeficient):
        computed(*ms.cholesky_qr(da.ones((50, 2), chunks=(20, 2)), **LIBRARY))


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def fail(block: Any) -> Any:
        raise RuntimeError("computed")

    a = da.from_array(tall(4), chunks=(100, -1)).map_blocks(fail, dtype=float, meta=np.empty((0, 0)))
    results = [ms.gram(a), ms.matmul(a, np.eye(4)), *ms.linalg.qr(a), *ms.cholesky_qr(a)]
    for one in results:
        with pytest.raises(RuntimeError, match="computed"):
            computed(one)


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "dask" in one)
    block = re.sub(r"ms\.(\w+)\((\w)\)", r'ms.\1(\2, backend="reference")', block)
    exec(compile(block, "distributed.md", "exec"), {"ms": ms, "np": np})


@pytest.mark.parametrize("name", ["gram", "qr", "r", "cholesky_qr"])
def test_partial_results_meet_in_a_tree(name: str) -> None:
    """No task takes more than four partial results, however many chunks there are: 22 take three levels."""
    A = tall(3, rows=64)
    a, count = da.from_array(A, chunks=(3, -1)), 22
    found = {
        "gram": lambda: (ms.gram(a, **LIBRARY),),
        "qr": lambda: ms.linalg.qr(a, **LIBRARY),
        "r": lambda: (ms.linalg.qr(a, mode="r", **LIBRARY),),
        "cholesky_qr": lambda: ms.cholesky_qr(a, **LIBRARY),
    }[name]()
    assert a.numblocks == (count, 1)
    graph = {key: task for one in found for key, task in dict(one.__dask_graph__()).items()}
    fan_in = [len(getattr(task, "dependencies", ())) for task in graph.values()]
    assert max(fan_in) == 4 and len(graph) > count
    results = computed(*found)
    assert np.allclose(results[0], A.T @ A) if name == "gram" else np.allclose(results[-1].T @ results[-1], A.T @ A)
    if len(results) == 2:
        assert np.allclose(results[0] @ results[1], A) and np.allclose(results[0].T @ results[0], np.eye(3))


def test_other_chunks_are_rechunked_with_a_warning() -> None:
    A, B = tall(4), tall(2)
    with pytest.warns(MansardWarning, match="rechunk"):
        G = ms.gram(da.from_array(A, chunks=(100, 2)), **LIBRARY)
    assert np.allclose(*computed(G), A.T @ A)
    with pytest.warns(MansardWarning, match="rechunked"):
        G = ms.gram(da.from_array(A, chunks=(100, -1)), da.from_array(B, chunks=(70, -1)), **LIBRARY)
    assert np.allclose(*computed(G), A.T @ B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.gram(da.from_array(A, chunks=(100, -1)))


def test_refusals_name_the_argument_and_the_remedy() -> None:
    a, A = da.from_array(tall(4), chunks=(100, -1)), tall(4)
    for call, error, text in (
        (lambda: ms.gram(a, A), TypeError, "B is a ndarray"),
        (lambda: ms.matmul(A.T, a), TypeError, "A is a ndarray"),
        (lambda: ms.matmul(a, np.ones((5, 2))), ValueError, "columns"),
        (lambda: ms.gram(a, a[:500]), ValueError, "rows"),
        (lambda: ms.gram(a, out=np.empty((4, 4))), TypeError, "out"),
        (lambda: ms.gram(a[:, 0]), ValueError, "A has shape"),
        (lambda: ms.gram(a[:, a[0] > 9]), ValueError, "compute_chunk_sizes"),
        (lambda: ms.cholesky_qr(a, on_deficient="flag"), ValueError, "flag"),
        (lambda: ms.cholesky_qr(a[:3]), ValueError, "fewer rows"),
        (lambda: ms.linalg.qr(a, mode="complete"), ValueError, "mode"),
        (lambda: ms.linalg.qr(a[a[:, 0] > 0]), ValueError, "compute_chunk_sizes"),
        (lambda: ms.linalg.svd(a), TypeError, "compute"),
        (lambda: ms.plan("gram", a), TypeError, "compute"),
    ):
        with pytest.raises(error, match=text):
            call()
