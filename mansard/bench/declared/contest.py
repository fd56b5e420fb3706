"""Declared operations in a contest: cases, operands, our call, peers' spellings, and whether results are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import isnan
from typing import Any

import numpy as np

import mansard as ms

from ...operations import registry
from ...operations.sizes import Sizes
from ...plan.problem import Options
from ...testing import gamma
from ..batched.routines import count
from ..cases import Case, CaseSet, Size
from .operations import DECLARED, call_of, elements, fields, unit, ways_of, with_long

_SAMPLE = 256  # matrices that are compared
_SEED = 17


def case(set: str, operation: str, dtype: str, s: Sizes) -> Case:
    return Case(set, dtype, operation=operation, **fields(operation, s))


def sets(catalogue: str) -> dict[str, CaseSet]:
    """The sets of a group of `mansard bench`: one per declared operation, of its name."""
    return {name: _set_of(name) for name, declared in DECLARED.items() if declared.catalogue == catalogue}


def _set_of(operation: str) -> CaseSet:
    def cases(size: Size) -> list[Case]:
        """The first dtype at every size, others at the second one."""
        declared, found = DECLARED[operation], []
        for dtype in declared.dtypes:
            chosen = declared.sizes if dtype == declared.dtypes[0] or size.every else declared.sizes[1:2]
            for options in chosen:
                s = unit(operation, dtype, options)
                s = with_long(operation, s, count(size, dtype, elements(operation, s)))
                found.append(case(operation, operation, dtype, s))
        return found

    cases.__name__, cases.__doc__ = operation, registry.named(operation).text
    return cases


def pair(xp: Any, given: Case, A: Any, B: Any) -> tuple[Any, Any]:
    """The operands of a case from random numbers."""
    return DECLARED[given.operation].operands(xp, A, B)


def ours(given: Case, pairs: list[tuple[Any, Any]], outs: list[Any], asked: str | None) -> tuple[
    str, Callable[[int], Any], Any
]:  # fmt: skip
    """How our call is written, the call on a pair, and the choice that answers it."""
    declared, (written, call) = DECLARED[given.operation], call_of(given.operation)
    where: Options = {"backend": asked} if asked else {}
    planned = registry.named(given.operation).options
    known: Options = {name: value for name, value in declared.options.items() if name in planned} | where
    run = partial(call, **declared.options, **where)
    operands = [tuple(one for one in pair if one is not None) for pair in pairs]
    with ms.pin(**dict(given.pins)):
        choice = ms.plan(given.operation, *operands[0], **known).choice
    if declared.into:
        return written, lambda i: run(*operands[i], out=outs[i]), choice
    return written, lambda i: run(*operands[i]), choice


def spellings(library: str, module: Any, given: Case) -> dict[str, Callable[..., Any]]:
    """A library's ways to write the operation, as functions of A, B and memory for the result."""
    return {way.written: partial(way.run, module) for way in ways_of(DECLARED[given.operation], library)}


def taken(library: str, module: Any, given: Case, A: Any, B: Any) -> tuple[Any, Any]:
    """A library's operands, converted to its conventions before anything is timed."""
    change = DECLARED[given.operation].taken.get(library)
    return change(module, A, B) if change else (A, B)


class Reference:
    """The registry's answer for some matrices, first and last included, in double precision. A result may differ by the
    roundoff of a sum, times the declared room, relative to the matrix's largest entry, or to the mean of these."""

    def __init__(self, given: Case, A: Any, B: Any) -> None:
        self.declared, self.A, self.B = DECLARED[given.operation], A, B
        if self.declared.error is not None:
            return
        first, last = given.shapes[0][0], given.shapes[0][-1]
        drawn = np.random.default_rng(_SEED).integers(0, first, _SAMPLE)
        self.chosen = sorted({0, first - 1, *drawn.tolist()})
        operands = [_wide(_some(one, self.chosen)) for one in (A, B) if one is not None]
        expected = (self.declared.reference or registry.named(given.operation).reference)(*operands)
        self.expected = expected if isinstance(expected, tuple) else (expected,)
        self.allowed = self.declared.room * gamma(given.dtype, last)

    def prepare(self, out: Any, in_place: bool = False) -> None:
        if out is not None:
            out.fill(np.nan)

    def error(self, result: Any) -> float:
        """The largest error of any entry in units of what is allowed; at most 1 is right."""
        if self.declared.error is not None:
            return self.declared.error(self.A, self.B, result)
        found = result if isinstance(result, tuple) else (result,)
        return max(self._errors(found))

    def _errors(self, found: tuple[Any, ...]) -> Iterator[float]:
        for one, exact in zip(found, self.expected, strict=False):  # what follows the answer, such as ranks, is not one
            counts = self.declared.counts
            if one.shape[1:] != exact.shape[1:] or not (counts or bool(abs(one.sum()) < np.inf)):
                yield float("inf")
                continue
            both = _host(one[self.chosen]), exact
            sample, exact = (each.reshape(len(exact), -1) for each in (map(counts, both) if counts else both))
            scale = abs(exact).max(axis=1, keepdims=True)
            scale = np.maximum(scale, scale.mean())
            worst = float((abs(sample - exact) / (self.allowed * scale)).max())
            yield float("inf") if isnan(worst) else worst


def _some(operand: Any, chosen: Any) -> Any:
    """Some matrices of a stack, or of each part of a factored one, on the host."""
    if isinstance(operand, tuple):
        return tuple(one if isinstance(one, bool) else _some(one, chosen) for one in operand)
    return _host(operand[chosen])


def _wide(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(_wide, operand))
    if isinstance(operand, bool) or operand.dtype.kind in "iu":
        return operand
    return operand.astype("complex128" if operand.dtype.kind == "c" else "float64")


def _host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()
