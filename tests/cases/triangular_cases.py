"""Triangular systems for tests: a solver played by NumPy, operands whose solutions are exact."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from batched_cases import Played, integers, matrices_at

from mansard import testing
from mansard.kernels.batched import trmm, trsm
from mansard.kernels.batched.trsm import spec
from mansard.operations import run as call
from mansard.plan import batched_rules
from mansard.plan.route import Choice

OPTIONS = list(product("LR", "LU", "NTC", "NU"))  # side, uplo, trans, diag
OP = {"N": lambda x: x, "T": lambda x: x.swapaxes(-1, -2), "C": lambda x: x.swapaxes(-1, -2).conj()}


class PlayedSolver(Played):
    """Kernels played by NumPy, of all three families; descriptions of operands are taken at their word, and checked."""

    def __call__(
        self, emit: Any, problem: Any, backend: Any, strides: tuple[int, ...], choice: Choice | None = None
    ) -> Any:
        family = next((one for one in (trsm, trmm) if emit is one.emit), None)
        if family is None:
            return super().__call__(emit, problem, backend, strides, choice)
        assert choice is not None
        if choice.config is None:
            return None, choice, None
        self.problems.append(problem)

        def launch(pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
            self.launches += 1
            places = [
                self.triangular(problem, operand, pointer, strides[3 * i : 3 * i + 3])
                for i, (operand, pointer) in enumerate(zip("abx", pointers, strict=True))
            ]
            alpha = complex(*scalars[:2]) if problem.is_complex else scalars[0]
            traits = problem.side, problem.uplo, problem.trans, problem.unit
            with np.errstate(all="ignore"):
                for a, b, x in zip(*places, strict=True):
                    x[...] = family.spec.reference(a, b, alpha, *traits)

        return launch, choice, None

    @staticmethod
    def triangular(problem: Any, operand: str, pointer: int, strides: tuple[int, ...]) -> list[Any]:
        rows, columns = spec.shape(problem, operand)
        layout, stack, pitch = (getattr(problem, f"{trait}_{operand}") for trait in ("layout", "stack", "pitch"))
        matrix, row, column = strides
        if layout != "any":
            assert (row, column) == ((pitch, 1) if layout == "row" else (1, pitch))
            assert pitch >= (columns if layout == "row" else rows)
        if stack == "packed":
            assert layout != "any" and pitch == (columns if layout == "row" else rows)
            assert problem.BATCH == 1 or matrix == rows * columns
        assert stack != "shared" or (matrix == 0 and operand != "x")
        return matrices_at(problem, stack, pointer, (rows, columns), strides)


@pytest.fixture(name="played")
def play_solver(monkeypatch: pytest.MonkeyPatch) -> PlayedSolver:
    found = PlayedSolver()
    monkeypatch.setattr(call, "prepare", found)
    return found


@pytest.fixture(name="small_blocks")
def in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks begin beyond four unknowns, also where a backend was asked for."""
    monkeypatch.setattr(batched_rules, "block_order", lambda problem: 4)
    monkeypatch.setattr(batched_rules, "INVERTED", 4)
    monkeypatch.setattr(spec, "WIDEST", 4)
    monkeypatch.setattr(spec, "WIDEST_OF_FEW", 4)


def moved(array: Any, backend: str) -> Any:
    return testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def named(side: str, uplo: str, trans: str, diag: str) -> dict[str, str]:
    return {"side": side, "uplo": uplo, "trans": trans, "diag": diag}


def triangles(
    rng: Any, shape: tuple[int, ...], dtype: str = "float64", uplo: str = "L", diag: str = "N"
) -> tuple[Any, Any]:  # fmt: skip
    """Integer ones whose diagonals divide everything: with zeros and ones where nothing is referenced, and with NaN."""
    values, every = integers(rng, shape, dtype), range(shape[-1])
    beside = np.tri(shape[-1], k=-1, dtype=bool)
    beside = beside if uplo == "L" else beside.T
    clean, dirty = (np.where(beside, values, other).astype(dtype) for other in (0, np.nan))
    diagonal = rng.choice([1, -1, 2, -2, 4], shape[:-1])
    clean[..., every, every] = 1 if diag == "U" else diagonal
    if diag == "N":
        dirty[..., every, every] = diagonal
    return clean, dirty


def applied(clean: Any, X: Any, side: str, trans: str) -> Any:
    return OP[trans](clean) @ X if side == "L" else X @ OP[trans](clean)


def exact_case(rng: Any, lead: tuple[int, ...], n: int, k: int, dtype: str, options: Any) -> tuple[Any, Any, Any, Any]:
    """Triangles with zeros, with NaN, the solution and the right-hand side."""
    side, uplo, trans, diag = options
    clean, dirty = triangles(rng, (*lead, n, n), dtype, uplo, diag)
    X = integers(rng, (*lead, *((n, k) if side == "L" else (k, n))), dtype)
    return clean, dirty, X, applied(clean, X, side, trans)


def wide(array: Any) -> Any:
    return np.asarray(array).astype(np.clongdouble if np.iscomplexobj(array) else np.longdouble)
