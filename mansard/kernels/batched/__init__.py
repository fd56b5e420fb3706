"""Kernel families for batches of small products and triangular systems."""
