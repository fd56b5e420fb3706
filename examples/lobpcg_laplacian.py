"""The lowest modes of a membrane in three dimensions: LOBPCG on the Laplacian of a cube, with a preconditioner.

`python examples/lobpcg_laplacian.py 100` takes a grid of 100^3 points and compares with SciPy's.
"""

import sys
import time
import warnings

import numpy as np
from scipy.sparse import linalg as scipy_linalg

import mansard as ms
from mansard.sparse.linalg import cg, eigsh, lobpcg

side = int(sys.argv[1]) if len(sys.argv) > 1 else 12
modes, tol = 8, 1e-6
A = ms.sparse.matrices.stencil(7, (side,) * 3)
w = 2 - 2 * np.cos(np.pi * np.arange(1, side + 1) / (side + 1))
exact = np.sort((w[:, None, None] + w[:, None] + w).ravel())[:modes]  # 1, 3, 3 and 1 fold
X = np.random.default_rng(0).standard_normal((side**3, modes))


def damped(R):
    """A few steps of Chebyshev's iteration for A Z = R: an approximate inverse made of products alone."""
    high, low = 12.0, 12.0 / 30
    middle, half = (high + low) / 2, (high - low) / 2
    Z, rho = R / middle, half / middle
    step = Z
    for _ in range(5):
        following = 1 / (2 * middle / half - rho)
        step = rho * following * step + 2 * following / half * (R - A @ Z)
        Z, rho = Z + step, following
    return Z


start = time.perf_counter()
values, vectors, run = lobpcg(A, X, largest=False, tol=tol, maxiter=500, report=True)
took = time.perf_counter() - start
print(run)
print(f"largest error of an eigenvalue: {np.abs(values - exact).max():.1e}")
print(f"largest entry of V^H V - I:     {np.abs(ms.gram(vectors) - np.eye(modes)).max():.1e}")

_, _, run = lobpcg(A, X, M=damped, largest=False, tol=tol, maxiter=500, report=True)
print(f"with a preconditioner: {run.iterations} iterations")

if side > 40:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it ends above the tolerance, it says so
        scipy_linalg.lobpcg(A, X, largest=False, tol=tol, maxiter=500)
    theirs = time.perf_counter() - start
    print(f"{took:.1f} s here, {theirs:.1f} s with scipy.sparse.linalg.lobpcg")

found, _, run = eigsh(A, modes, which="SA", tol=tol, report=True)  # no first guess, no preconditioner
print(f"{run.method}: {run.passes} passes over A, largest error {np.abs(found - exact).max():.1e}")

B = vectors[:, :3] + 0.1 * X[:, :3]
solution, info, run = cg(A, B, rtol=1e-8, report=True)  # three systems, whose products share the passes over A
residual = np.linalg.norm(B - A @ solution, axis=0).max()
print(f"{run.method}: {run.products} products in {run.passes} passes, residual {residual:.1e}, info {info}")
