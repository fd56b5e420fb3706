"""The contract of kernel families: what every family's cases go through, and how many of them on the emulator.

A family's cases are in `<family>_cases.py`: CASES, `case_id`, `exact` and, where results are not exact, `bounded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest
from orders import TURNS
from sparing import SHARE, STEP, Sliced, every, sliced, spared, turns


@dataclass(frozen=True)
class Contract:
    """Shares of a family's cases: one of so many runs, 0 stands for none. On a GPU, and with --all-cases, all run."""

    family: str
    sanitized: int  # under AddressSanitizer, which is slow to compile
    step: int = STEP  # on the emulator
    forms: tuple[dict[str, Any], ...] = ({},)  # options of `exact`, all of which a case goes through,
    in_turn: bool = False  # or, where each form is another kernel, one of them on the emulator
    bounds: int = 2  # of the chosen ones, compared with error bounds
    orders: int = 1  # of the chosen ones, in another order of threads
    compiled: int = 0  # for an H200, without spills; families that are not here have such tests of their choices


PLAIN: dict[str, Any] = {}
SCALED = {"scaled": True}
CONTRACTS = (
    Contract("gram", 40, compiled=10),
    Contract("tsmm", 12, step=8, forms=(PLAIN, SCALED)),
    Contract("tsm2r", 30, forms=(PLAIN, SCALED)),
    Contract("matmul_gram", 2, step=1, forms=(PLAIN, SCALED, {"scaled": True, "beside": True}), orders=2),
    Contract("sketch", 4, step=2, orders=3, compiled=4),
    Contract("small_step", 2, step=1, bounds=0, orders=2),
    Contract("gemm", 21, forms=(PLAIN, SCALED), compiled=20),
    Contract("ragged", 39, forms=(PLAIN, SCALED), in_turn=True, bounds=0, orders=2),
    Contract("gemv", 12, forms=(PLAIN, SCALED), compiled=20),
    Contract("rank_k", 20, step=8, forms=(PLAIN, SCALED), compiled=12),
    Contract("trsm", 33, forms=(PLAIN, SCALED), compiled=10),
    Contract("trmm", 35, forms=(PLAIN, SCALED), compiled=10),
    Contract("cholesky", 36, forms=(PLAIN, {"in_place": True}), orders=2),
    Contract("lu", 57, forms=(PLAIN, {"seed": 3, "spoil": True}), orders=2),
    Contract("qr", 38, bounds=0, orders=2),
    Contract("systems", 10, step=4, orders=2, compiled=8),
    Contract("gradients", 12, step=3, orders=2, compiled=8),
    Contract("refinement", 6, step=2, bounds=0, orders=2, compiled=6),
    Contract("jacobi", 24, step=6, orders=4),
    Contract("tridiagonal", 7, step=5, bounds=0, orders=2),
    Contract("bidiagonal", 7, step=5, bounds=0, orders=2),
    Contract("sweeps", 7, step=4, bounds=0, orders=3, compiled=6),
    Contract("divide", 14, step=7, bounds=0, orders=2, compiled=7),
    Contract("back_transform", 12, step=12, bounds=0, orders=2, compiled=8),
    Contract("spmv", 12, step=1, forms=(PLAIN, SCALED), in_turn=True, bounds=5, orders=5),
    Contract("powers", 8, step=1, bounds=0, orders=1),
    Contract("krylov", 4, step=1, forms=(PLAIN, {"weighted": True}), bounds=0, orders=3, compiled=4),
)


def cases_of(family: str) -> Any:
    """The module of a family's cases."""
    return import_module(f"{family}_cases")


def arguments(case: Any) -> tuple[Any, ...]:
    """A case as `exact` takes it: a problem and a configuration, or one object that holds both."""
    return case if isinstance(case, tuple) else (case,)


def forms(family: str, case: Any, backend: str) -> Sequence[dict[str, Any]]:
    """Options of `exact` for a case."""
    contract = next(one for one in CONTRACTS if one.family == family)
    number = cases_of(family).CASES.index(case)
    return turns(backend, contract.forms, number) if contract.in_turn else contract.forms


def _name(one: tuple[str, Any]) -> str:
    family, case = one
    return f"{family}-{getattr(cases_of(family), 'case_id', str)(case)}"


def _marked(chosen: Sequence[tuple[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("family, case", Sliced(pytest.param(*one, id=_name(one)) for one in chosen))


def _pairs(contract: Contract, cases: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(contract.family, case) for case in cases]


CHOSEN = {one.family: spared(cases_of(one.family).CASES, one.step) for one in CONTRACTS}
EXACT = _marked([pair for one in CONTRACTS for pair in _pairs(one, CHOSEN[one.family])])
BOUNDED = _marked([
    pair for one in CONTRACTS if one.bounds for pair in _pairs(one, every(one.bounds, CHOSEN[one.family]))
    if "det" not in getattr(pair[1][0], "want", "")
])  # fmt: skip
COMPILED = _marked([
    pair for one in CONTRACTS if one.compiled
    for pair in _pairs(one, sliced(cases_of(one.family).CASES, one.compiled))
])  # fmt: skip
SANITIZED = {one.family: one.sanitized for one in CONTRACTS}


def in_turns() -> list[Any]:
    """Cases with an order of threads each: others from slice to slice."""
    chosen = []
    for one in CONTRACTS:
        for number, case in enumerate(every(one.orders, CHOSEN[one.family], 1) if one.orders else ()):
            order = TURNS[(number + SHARE.seed) % len(TURNS)]
            chosen.append(pytest.param(one.family, case, order, id=f"{_name((one.family, case))}-{order}"))
    return chosen
