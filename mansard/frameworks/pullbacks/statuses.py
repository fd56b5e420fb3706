"""Derivatives of the functions that return `info` instead of raising: those of their twins, and none of `info`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from .factor import RULES as FACTORS
from .rule import Given, Gradients, Rule, Tensor, plain
from .spectral import RULES as SPECTRAL
from .systems import RULES as SYSTEMS

_TWINS = {
    rule.name: rule
    for rule in (*FACTORS, *SPECTRAL, *SYSTEMS)
    if rule.name in ("linalg.solve", "linalg.inv", "linalg.cholesky", "linalg.lu_factor", "linalg.eigh", "linalg.svd")
}


def _with_info(twin: Rule) -> Rule:
    """The rule of a function whose last result is `info` and whose others are its twin's."""
    name = f"{twin.name}_ex"

    def run(*operands: Tensor, **options: Any) -> Sequence[Tensor]:
        return tuple(plain(name)(*operands, **options))

    def pullback(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
        return twin.pullback(replace(given, results=given.results[:-1]), cotangents[:-1], needed)

    def tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
        assert twin.tangent is not None
        return *twin.tangent(replace(given, results=given.results[:-1]), tangents), None

    def like(*operands: Tensor, **options: Any) -> Sequence[Tensor]:
        found = twin.like(*operands, **options)
        results = found if isinstance(found, tuple) else (found,)
        leading = torch.broadcast_shapes(*(one.shape[:-2] for one in operands))
        return *results, torch.empty(leading, dtype=torch.int32, device=operands[0].device)

    info = len(twin.results)  # twins keep all of their results
    return Rule(
        name, run, pullback, like, twin.operands, twin.results, tangent if twin.tangent else None,
        (*twin.constant, info),
    )  # fmt: skip


RULES = tuple(map(_with_info, _TWINS.values()))
