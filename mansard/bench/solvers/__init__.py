"""Solvers of sparse systems and eigenvalues beside those of SciPy and CuPy: `mansard bench solvers`."""
