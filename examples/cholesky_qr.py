"""An orthonormal basis of a block of nearly dependent vectors, grown by a block: what block Krylov methods do.

`ms.cholesky_qr` reads and writes the block a handful of times; a Householder QR does so for every few columns.
"""

import time

import numpy as np

import mansard as ms

rng = np.random.default_rng(0)
V = rng.standard_normal((200_000, 16))
V[:, 8:] = V[:, :8] + 1e-9 * V[:, 8:]  # condition number about 1e9: the Gram matrix alone is singular

start = time.perf_counter()
Q, R = ms.cholesky_qr(V)
took = time.perf_counter() - start
print(f"largest entry of Q^H Q - I: {np.abs(ms.gram(Q) - np.eye(16)).max():.1e}, first call {took:.2f} s")
print(f"largest entry of V - Q R:   {np.abs(V - Q @ R).max():.1e}")

new = rng.standard_normal((200_000, 4)) + Q[:, :4]
more, R, H = ms.orthogonalize(new, against=Q)  # new = Q H + more R
print(f"largest entry of Q^H more:  {np.abs(ms.gram(Q, more)).max():.1e}")

new[:, 2] = new[:, 0] - new[:, 1]
try:
    ms.cholesky_qr(new)
except np.linalg.LinAlgError as error:
    print(f"refused: {error}")
_, _, dependent = ms.cholesky_qr(new, on_deficient="flag")
print(f"or marked: {dependent}")
