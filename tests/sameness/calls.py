"""Forty public calls on CPU arrays: the Python functions that a warm call enters, and how long it takes.

Calls are launched natively where that can be had. `python_calls` are the functions entered where Python launches, which
is the path that answers everything else.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse

import mansard as ms
from mansard.operations.launcher import LAUNCHER

Call = Callable[[], Any]
_SAMPLES, _SECONDS = 200, 0.3  # calls that are timed at the most, and for how long


@lru_cache(maxsize=1)
def _made() -> dict[str, Any]:
    """The operands, one set for all calls: a tall pair, stacks, ragged batches, a sparse matrix."""
    random = np.random.default_rng(28)
    A = random.standard_normal((200, 12, 12))
    lower = np.tril(A) + 12 * np.eye(12)
    sizes = [1 + number % 9 for number in range(30)]
    blocks = [random.standard_normal((size, size)) for size in sizes]
    grid = scipy.sparse.diags_array([-1.0, 4.0, -1.0], offsets=[-30, 0, 30], shape=(900, 900)).tocsr()
    return {
        "tall": random.standard_normal((5000, 8)), "wide": random.standard_normal((5000, 6)),
        "small": random.standard_normal((8, 6)), "A": A, "B": random.standard_normal((200, 12, 12)),
        "x": random.standard_normal((200, 12)), "right": random.standard_normal((200, 12, 2)),
        "definite": A @ A.swapaxes(-1, -2) + 12 * np.eye(12), "regular": A + 12 * np.eye(12), "lower": lower,
        "long": random.standard_normal((100, 20, 6)), "observed": random.standard_normal((100, 20, 1)),
        "list": list(A[:40]), "ragged": ms.Ragged.from_list(blocks),
        "positive": ms.Ragged.from_list([a @ a.T + len(a) * np.eye(len(a)) for a in blocks]),
        "grid": grid, "vector": random.standard_normal(900), "vectors": random.standard_normal((900, 4)),
        "basis": np.linalg.qr(random.standard_normal((5000, 4)))[0], "out": np.empty((200, 12, 12)),
    }  # fmt: skip


class _Operands:
    """Attribute access to the operands; `torch` copies them to PyTorch."""

    def __init__(self, torch: bool = False) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        value = _made()[name]
        if not self._torch:
            return value
        import torch

        return torch.from_numpy(value)


def _held(make: Callable[[_Operands], Callable[..., Any]], *names: str) -> Callable[[_Operands], Call]:
    """A call of what is made once, with the operands of these names."""

    def bound(o: _Operands) -> Call:
        function, arguments = make(o), [getattr(o, name) for name in names]
        return lambda: function(*arguments)

    return bound


def _of(function: Callable[..., Any], *names: str, **options: Any) -> Callable[[_Operands], Call]:
    """A call of a public function with the operands of these names."""
    return _held(lambda o: (lambda *given: function(*given, **options)) if options else function, *names)


_lin, _blas = ms.linalg, ms.blas
CALLS: dict[str, Callable[[_Operands], Call]] = {
    "gram": _of(ms.gram, "tall", "wide"),
    "gram of one": _of(ms.gram, "tall"),
    "matmul, tall": _of(ms.matmul, "tall", "small"),
    "matmul, stack": _of(ms.matmul, "A", "B"),
    "matmul, stack, out": lambda o: lambda: ms.matmul(o.A, o.B, out=_made()["out"]),
    "matmul, list": _of(ms.matmul, "list", "list"),
    "matmul, Ragged": _of(ms.matmul, "ragged", "ragged"),
    "matmul_gram": _of(ms.matmul_gram, "tall", "small"),
    "cholesky_qr": _of(ms.cholesky_qr, "tall"),
    "orthogonalize": _of(ms.orthogonalize, "tall", "basis"),
    "solve": _of(_lin.solve, "regular", "right"),
    "solve_ex": _of(_lin.solve_ex, "regular", "right"),
    "cholesky": _of(_lin.cholesky, "definite"),
    "cholesky_ex": _of(_lin.cholesky_ex, "definite"),
    "cholesky, Ragged": _of(_lin.cholesky, "positive"),
    "cho_solve": _held(lambda o: lambda b: _lin.cho_solve((o.lower, True), b), "right"),
    "lu_factor": _of(_lin.lu_factor, "regular"),
    "lu_solve": _held(lambda o: (lambda f: lambda b: _lin.lu_solve(f, b))(_lin.lu_factor(o.regular)), "right"),
    "inv": _of(_lin.inv, "regular"),
    "inv, Ragged": _of(_lin.inv, "positive"),
    "det": _of(_lin.det, "regular"),
    "slogdet": _of(_lin.slogdet, "regular"),
    "qr": _of(_lin.qr, "long"),
    "qr, r": _of(_lin.qr, "long", mode="r"),
    "lstsq": _of(_lin.lstsq, "long", "observed"),
    "solve_triangular": _of(_lin.solve_triangular, "lower", "right", lower=True),
    "blas.gemm": _of(_blas.gemm, "A", "B", alpha=2.0, trans_b="T"),
    "blas.gemv": _of(_blas.gemv, "A", "x"),
    "blas.syrk": _of(_blas.syrk, "A"),
    "blas.trsm": _of(_blas.trsm, "lower", "right"),
    "blas.trsv": _of(_blas.trsv, "lower", "x"),
    "blas.trmm": _of(_blas.trmm, "lower", "right"),
    "M @ x": _held(lambda o: ms.sparse.matrix(o.grid).__matmul__, "vector"),
    "M @ X": _held(lambda o: ms.sparse.matrix(o.grid).__matmul__, "vectors"),
    "matrix_powers": _held(lambda o: ms.matrix_powers(o.grid, 4), "vector"),
    "plan gram": _held(lambda o: ms.plan("gram", o.tall, o.wide), "tall", "wide"),
    "plan gram, run": _held(lambda o: ms.plan("gram", o.tall, o.wide).run, "tall", "wide"),
    "plan gemm": _held(lambda o: ms.plan("gemm", o.A, o.B), "A", "B"),
    "plan trsm": _held(lambda o: ms.plan("trsm", o.lower, o.right), "lower", "right"),
    "plan cholesky": _held(lambda o: ms.plan("cholesky", o.definite), "definite"),
}  # fmt: skip
_WITH_TORCH = ("gram", "matmul, stack", "blas.gemv", "solve", "cholesky", "qr")


def names() -> list[str]:
    """All calls: by NumPy, and some by PyTorch as well."""
    return [f"NumPy: {name}" for name in CALLS] + [f"PyTorch: {name}" for name in _WITH_TORCH]


def measured(name: str) -> dict[str, Any]:
    """Python functions that the fourth call enters, natively launched and not, and the median time of later ones."""
    library, _, call = name.partition(": ")
    LAUNCHER.wait()
    run = CALLS[call](_Operands(library == "PyTorch"))
    run(), run(), run()
    with _launched_by_python():
        by_python = _functions_entered(run)
    found = {"calls": _functions_entered(run), "python_calls": by_python}
    return found | {"microseconds": _median_microseconds(run)}


@contextmanager
def _launched_by_python() -> Iterator[None]:
    """Leave the native launcher out inside the block."""
    names = ("call", "quick", "is_zero")
    held = [getattr(LAUNCHER, name) for name in names]
    for name in names:
        setattr(LAUNCHER, name, None)
    try:
        yield
    finally:
        for name, function in zip(names, held, strict=True):
            setattr(LAUNCHER, name, function)


def _functions_entered(run: Call) -> int:
    """Python functions that one call enters, without the ones here that wrap it."""
    entered: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            entered.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(entered)


def _median_microseconds(run: Call) -> float:
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < _SAMPLES and time.perf_counter() < end:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return round(1e6 * statistics.median(times), 1)
