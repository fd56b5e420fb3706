"""SciPy's names and conventions on matrices, stacks (..., rows, columns) and lists of small matrices."""

from .triangular import solve_triangular

__all__ = ["solve_triangular"]
