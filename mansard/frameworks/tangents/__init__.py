"""Derivatives of Mansard's operations for JAX: primitives, and how each behaves under jvp, transposition and vmap.

`primitive.py` makes primitives, `host.py` runs them on XLA's buffers; the other modules define operations, one domain
each: their shapes, what runs, and their tangents. Tangents are linear in what they are given, and made of operations
that can be transposed: reverse mode and higher orders follow.
"""
