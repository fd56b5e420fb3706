"""Sparse matrices whose rows live on ranks: products with halo exchange, powers with ghost zones, sums for solvers."""
