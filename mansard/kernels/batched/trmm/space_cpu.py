"""The CPU half of the space: configurations of `simd`, their rules, their default, and the workspace they need.

Operands, tiles and lanes are those of triangular systems, and so are the rules; a product has no divisions to wait for.
"""

from __future__ import annotations

from ..trsm.space_cpu import Simd, candidates, default, illegal, workspace_bytes

__all__ = ["Simd", "candidates", "default", "illegal", "workspace_bytes"]
