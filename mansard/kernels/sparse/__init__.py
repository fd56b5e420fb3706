"""Kernel families for sparse matrices."""
