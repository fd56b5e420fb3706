"""Is a kernel right? Asked of every candidate before it is timed; a fast wrong kernel must never win.

First exactly: small integers, where every order of summation gives the same bits, at a K that no chunk divides, at one
smaller than any chunk, and at one that fills the device several times (a bound would not notice a lost chunk of float32
there; equality does). Then on the operands that will be timed, element by element against a bound, with a reference
computed once per problem. Results start as NaN, so an entry that is left out shows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .. import testing
from ..plan.problem import REAL, Problem
from .cases import Case

_LARGE = 1 << 19  # rows of integers whose sums, at most 18 each, stay below 2^24 and are exact in float32


class Wrong(Exception):
    """A kernel's result differs from the reference; the message says where and by how much."""


class Verifier:
    """The checks of one problem; references are made once and shared by all candidates."""

    def __init__(self, case: Case) -> None:
        self.case = case
        extents = dict(case.problem.sizes)
        rows, M = extents.get("K", 0), extents.get("M", 0)  # batches of other operations have neither
        if case.backend.name == "emulated":  # thread by thread: large sizes would take minutes
            sizes = [(66 + M) | 1, 3]
        else:
            sizes = [(4098 + M) | 1, 3] + ([(min(rows, _LARGE) - M) | 1] if rows > 16384 else [])
        self.exact_cases = tuple(case.smaller(K) for K in sizes) if case.exact else ()

    def exact(self, config: Any, wait: Any) -> None:
        """Raise Wrong unless products of small integers come out equal to the last bit."""
        for index, case in enumerate(self.exact_cases):
            out = case.poisoned()
            case.call(case.backend.prepare(case.kernel(config)), out)()
            wait()
            expected = self._expected[index]
            if not bool(case.xp.all(out == expected)):
                raise Wrong(f"integers, {_sizes(case.problem)}: {_worst(case.xp, out, expected)}")

    def bounded(self, out: Any) -> None:
        """Raise Wrong if the result on the timed operands leaves the error bound anywhere, or its case says so."""
        if type(self.case).judged is not Case.judged:
            if reason := self.case.judged(out):
                raise Wrong(f"random, {_sizes(self.case.problem)}: {reason}")
            return
        reference, bound = self._reference
        xp = self.case.xp
        error = xp.abs(out - reference)
        if not bool(xp.all(error <= bound)):  # a NaN compares false and is caught
            raise Wrong(f"random, {_sizes(self.case.problem)}: {_worst(xp, out, reference)}")

    @cached_property
    def _expected(self) -> list[Any]:
        return [case.reference()[0].astype(case.problem.dtype) for case in self.exact_cases]

    @cached_property
    def _reference(self) -> tuple[Any, Any]:
        """The product and the largest permissible error of each entry: that of `mansard.testing`."""
        problem = self.case.problem
        product, scale = self.case.reference()
        tiny = float(np.finfo(REAL[problem.dtype]).tiny)
        return product, 2 * testing.gamma(problem.dtype, self.case.terms) * scale + tiny


def _sizes(problem: Problem) -> str:
    return " ".join(f"{name}={size}" for name, size in problem.sizes)


def _worst(xp: Any, out: Any, expected: Any) -> str:
    """The entry that is farthest off, NaN first."""
    error = xp.abs(out - expected)
    error = xp.where(xp.isnan(error), np.inf, error)
    i, j = divmod(int(xp.argmax(error)), out.shape[1])
    wrong = int(xp.sum(out != expected))
    return f"entry [{i},{j}] = {out[i, j]}, should be {expected[i, j]} ({wrong} of {out.size} entries differ)"
