"""Functions of sparse matrices and solvers that take several products with a matrix at a time."""

from .expm import expm_multiply
from .gmres import gmres
from .report import Report

__all__ = ["Report", "expm_multiply", "gmres"]
