"""Functions of sparse matrices and solvers that take several products with a matrix at a time."""

from .cg import cg
from .expm import expm_multiply
from .gmres import gmres
from .report import Report

__all__ = ["Report", "cg", "expm_multiply", "gmres"]
