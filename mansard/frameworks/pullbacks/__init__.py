"""Derivatives of Mansard's functions, in terms of Mansard's functions: one module per domain.

A cotangent G of a result Y belongs to a real loss with d loss = Re sum conj(G) dY: PyTorch's convention for complex
numbers. Rules call public functions, so that a rule that is itself differentiated gives derivatives of second order.
"""

from __future__ import annotations

from .rule import Rule

__all__ = ["RULES", "Rule"]


def _rules() -> dict[str, Rule]:
    from . import factor, products, sparse, spectral, statuses, systems

    modules = (products, systems, factor, spectral, statuses, sparse)
    return {rule.name: rule for module in modules for rule in module.RULES}


RULES = _rules()
