"""Batches of small products and triangular systems."""
