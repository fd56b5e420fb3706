"""Which problems `spmv` accepts, and what the right answer is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....plan.problem import DTYPES, ITEMSIZE, REAL, Problem
from ...common import operands, specs

LONG = ("ROWS", "COLS", "NNZ")
SHAPES: dict[str, tuple[str, str]] = {}
shape = partial(operands.shape, SHAPES)
FORMATS = ("sell", "ell", "csr")
INDEX_BYTES = {"int32": 4, "int64": 8, "delta16": 2}
MOST_VECTORS = 64
C_SIZES = (1, 2, 4, 8, 16, 32)


def problem(
    dtype: str, ROWS: int, COLS: int, NNZ: int, NVECS: int = 1, *, format: str = "sell", values: str | None = None,
    index: str = "int32", C: int = 32, ragged: bool = True, permuted: bool = False, skewed: bool = False,
    accumulate: bool = False, recurrence: bool = False, conj: bool = False, vector: int = 1, wide: bool = False,
) -> Problem:  # fmt: skip
    """Y = alpha A X + beta Y for a sparse A of ROWS x COLS with NNZ entries and NVECS vectors, the columns of X.

    `values` is the dtype of A's entries (they may be narrower than the vectors', and real where these are complex),
    `ragged` says that rows of a chunk differ in length, `permuted` that they are not stored in their order, `skewed`
    that few rows have many of the entries, `wide` that rows' places are 64-bit numbers (csr). `recurrence`:
    alpha A X + beta X + gamma Z instead. Of X, Y and Z, `vector` columns can be read at once.
    """
    sizes = (("ROWS", ROWS), ("COLS", COLS), ("NNZ", NNZ), ("NVECS", NVECS))
    traits = (
        ("format", format), ("values", values or dtype), ("index", index), ("C", C if format == "sell" else 32),
        ("ragged", ragged), ("permuted", permuted), ("skewed", skewed), ("accumulate", accumulate),
        ("recurrence", recurrence), ("conj", conj), ("vector", vector), ("wide", wide),
    )  # fmt: skip
    return Problem("spmv", dtype, sizes, traits)


def strides(problem: Problem) -> tuple[int, ...]:
    """What `emit.kernel` wants to know where there are no arrays: rows of X, Y and Z without gaps."""
    return (problem.NVECS, problem.NVECS, problem.NVECS, 0, 0)


def refusal(problem: Problem) -> str | None:
    """Why this family has no kernel for the problem, or None if it has."""
    if reason := specs.unknown_dtype(problem):
        return reason
    if not narrows(problem.values, problem.dtype):
        return f"spmv: entries in {problem.values} do not fit vectors in {problem.dtype}"
    if problem.format not in FORMATS:
        return f"spmv: format {problem.format} is not one of {', '.join(FORMATS)}"
    if problem.C not in C_SIZES:
        return f"spmv: chunks of {problem.C} rows are not one of {', '.join(map(str, C_SIZES))}"
    if problem.index not in INDEX_BYTES or (problem.index == "delta16" and problem.format != "sell"):
        return f"spmv: {problem.index} columns in format {problem.format}"
    if problem.NVECS > MOST_VECTORS:
        return f"spmv: {problem.NVECS} vectors at once, {MOST_VECTORS} at most"
    return None


def narrows(values: str, dtype: str) -> bool:
    """Whether entries of dtype `values` can multiply vectors of `dtype` without losing anything."""
    if values not in DTYPES or (values.startswith("complex") and not dtype.startswith("complex")):
        return False
    return ITEMSIZE[REAL[values]] <= ITEMSIZE[REAL[dtype]]


def reference(
    A: Any, X: Any, Y: Any = None, alpha: complex = 1, beta: complex = 0, conj: bool = False, Z: Any = None,
    gamma: complex = 0,
) -> Any:  # fmt: skip
    """The answer by scipy (or CuPy); with Z, that of the recurrence."""
    product = alpha * ((A.conj() if conj else A) @ X)
    if Z is not None:
        return product + beta * X + gamma * Z
    return specs.accumulated(product, Y, beta)
