"""Solvers of sparse systems, eigenvalues, and functions of sparse matrices, with SciPy's calling convention."""

from .cg import cg
from .eigsh import eigsh
from .expm import expm_multiply
from .gmres import gmres
from .lobpcg import lobpcg
from .minres import minres
from .propagator import Propagator
from .report import Report

__all__ = ["Propagator", "Report", "cg", "eigsh", "expm_multiply", "gmres", "lobpcg", "minres"]
