"""Sparse matrices: storage, products with vectors, and powers."""
