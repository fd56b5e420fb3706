"""What a plan of powers is asked for, and how, free of the matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import UnsupportedProblem
from ...plan.problem import DTYPES, ITEMSIZE


class Options(NamedTuple):
    """How, as far as the caller says so."""

    execution: str | None
    threads: int | None
    graph: bool
    limit: float


class Task:
    """What is asked, free of the matrix."""

    def __init__(self, p: int, coefficients: Any, output: str, weights: Any, columns: int) -> None:
        self.p, self.coefficients, self.output, self.weights, self.columns = p, coefficients, output, weights, columns
        self.dtype = ""

    def settle_dtype(self, of_matrix: str, asked: str | None) -> None:
        """That of the vectors; complex where coefficients are."""
        given = (self.coefficients, self.weights)
        turned = any(part is not None and np.iscomplexobj(part) and bool(np.any(part.imag)) for part in given)
        dtype = asked or (str(np.result_type(of_matrix, np.complex64)) if turned else of_matrix)
        if dtype not in DTYPES:
            raise UnsupportedProblem(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}")
        if turned and not dtype.startswith("complex"):
            raise TypeError(f"coefficients are complex and vectors {dtype}: pass dtype='complex128' (or complex64)")
        if not np.can_cast(of_matrix, dtype, "same_kind") or ITEMSIZE[dtype] < ITEMSIZE[of_matrix]:
            raise TypeError(f"A has dtype {of_matrix}, wider than vectors of {dtype}: convert it first")
        self.dtype = dtype

    def packed(self) -> Any:
        """Coefficients and weights as kernels take them."""
        parts = [self.coefficients.ravel()] + ([] if self.weights is None else [self.weights.ravel()])
        flat = np.concatenate(parts)
        return (flat if self.dtype.startswith("complex") else flat.real).astype(self.dtype)

    def shape(self, rows: int) -> tuple[int, ...]:
        vector = (rows,) if self.columns == 1 else (rows, self.columns)
        if self.output == "all":
            return (self.p + 1, *vector)
        return vector if self.weights is None or self.weights.ndim == 1 else (len(self.weights), *vector)
