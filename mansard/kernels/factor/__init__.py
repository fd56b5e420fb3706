"""Kernel families for batched factorizations."""
