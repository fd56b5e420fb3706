"""Launches of `refinement` on GPUs: matrices and right-hand sides in single precision, corrections, who has converged.

Operands are stacks (count, n, n) and, without gaps, (count, n, k) of float64 or complex128.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ...arrays.types import Array, Kind
from ...backends.base import Backend, Launch
from ...kernels.factor import refinement
from ...kernels.factor.refinement.spec import NARROW
from ...plan import dispatch, pin
from ...plan.problem import REAL, Problem
from .. import run as call
from ..plans import PLANS

_POINTERS = refinement.emit.POINTERS


class _Launches(NamedTuple):
    """The steps that `spec.problem` describes, prepared for one shape."""

    of_matrices: tuple[Launch, ...]  # `whole`, or `norms` and `narrow`
    start: Launch
    update: Launch
    judge: Launch


class Refinement:
    """Arrays of one refinement, and its steps: `start`, then `correct` with every correction."""

    def __init__(self, kind: Kind, backend: Backend, A: Array, B: Array) -> None:
        count, N, sides = (int(size) for size in B.shape)
        view = kind.view(A, "a")
        self.kind, self.stream, self.dtype = kind, kind.stream_of(view.device), view.dtype
        by_columns = view.strides[-2] == 1 and N > 1
        problem = refinement.spec.problem(view.dtype, N, count, NRHS=sides, layout="col" if by_columns else "row")
        parts = refinement.work.chunks(problem, backend.device)
        low, real = NARROW[view.dtype], REAL[view.dtype]
        made = kind.allocate((count, N, N), low, B)
        self.low = made.swapaxes(-1, -2) if by_columns else made
        self.X, self.R = (kind.allocate((count, N, sides), view.dtype, B) for _ in range(2))
        self.D = kind.allocate((count, N, sides), low, B)
        self.state = kind.allocate((count,), "int32", B)
        sizes, norms = kind.allocate((count, 1 + 2 * sides), real, B), kind.allocate((count, parts), real, B)
        self._arrays = {"A": A, "B": B, "X": self.X, "R": self.R, "LOW": self.D, "SIZES": sizes, "PARTS": norms,
                        "STATE": self.state}  # fmt: skip
        strides = (*view.strides, *((1, N) if by_columns else (N, 1)))
        key = ("refinement", backend.name, view.device, problem, strides)
        self.launches: _Launches = PLANS.made(key, lambda: _prepared(problem, backend, strides, parts > 1))

    def start(self) -> None:
        """Round the matrices to `low` and the right-hand sides to `D`; solutions begin with zeros."""
        for launch in self.launches.of_matrices:
            self._run(launch, self._arrays | {"LOW": self.low})
        self._run(self.launches.start)

    def correct(self, subtract_product: Callable[[Array, Array], None]) -> None:
        """Add the corrections in `D`, and replace them by residuals. `subtract_product(X, R)` computes R -= A X."""
        self._run(self.launches.update)
        subtract_product(self.X, self.R)
        self._run(self.launches.judge)

    def states(self) -> Array:
        """RUNNING, CONVERGED or FAILED for every matrix, as a NumPy array; waits for the device."""
        return self.kind.download(self.state)

    def _run(self, launch: Launch, arrays: dict[str, Array] | None = None) -> None:
        used = self._arrays if arrays is None else arrays
        launch(tuple(self.kind.address(used[name]) for name in _POINTERS), (), self.stream())


def _prepared(problem: Problem, backend: Backend, strides: tuple[int, ...], in_parts: bool) -> _Launches:
    def prepared(want: str) -> Launch:
        one = refinement.spec.problem(
            problem.dtype, problem.N, problem.BATCH, NRHS=problem.NRHS, want=want, layout=problem.layout_a
        )
        choice = pin.released().run(dispatch.choose, one, backend.device)
        launch, _, _ = call.prepare(refinement.emit, one, backend, strides, choice=choice)
        assert launch is not None
        return launch

    of_matrices = ("norms", "narrow") if in_parts else ("whole",)
    found = call.together([partial(prepared, want) for want in (*of_matrices, "start", "update", "judge")])
    return _Launches(tuple(found[: len(of_matrices)]), *found[len(of_matrices) :])
