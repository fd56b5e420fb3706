"""Derivatives of products with sparse matrices."""

from __future__ import annotations

from .rule import Rule

RULES: tuple[Rule, ...] = ()
