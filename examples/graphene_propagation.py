"""A wave packet on a sheet of graphene: the same time step again and again, by a Chebyshev series that is planned once.

`python examples/graphene_propagation.py 600` takes a sheet of 600 x 600 sites and compares with SciPy's expm_multiply.
"""

import sys
import time

import numpy as np
from scipy.sparse import linalg as scipy_linalg

import mansard as ms
from mansard.sparse.linalg import Propagator

side = int(sys.argv[1]) if len(sys.argv) > 1 else 40
steps, dt = 10, 2.0  # in units of the hopping time
H = ms.sparse.matrices.graphene(side, side, disorder=0.1)  # the Hamiltonian, 13 entries a row
stored = ms.sparse.matrix(H)  # in the format of our products, once

place = np.arange(side) - side / 2
packet = np.exp(-(place[:, None] ** 2 + place**2) / (0.1 * side) ** 2).astype(complex)
packet *= np.exp(0.6j * place)  # it moves
psi = (packet / np.linalg.norm(packet)).ravel()
opposite = psi.conj()
energy = np.vdot(psi, H @ psi).real

step = Propagator(stored, -1j * dt)  # the spectrum's interval and the terms of the series, for every step
print(step.report)


def width(state):
    """Root of the mean square distance from the centre."""
    density = np.abs(state.reshape(side, side)) ** 2
    return np.sqrt((density * (place[:, None] ** 2 + place**2)).sum())


state, started = psi, time.perf_counter()
for count in range(1, steps + 1):
    state = step(state)
    if count % 5 == 0:
        print(f"time {count * dt:4.0f}: width {width(state):6.2f} sites")
took = time.perf_counter() - started
print(f"norm - 1:          {np.linalg.norm(state) - 1:.1e}")
print(f"change of energy:  {np.vdot(state, H @ state).real - energy:.1e}")
print(f"a step: {step.report.method}, {took / steps * 1e3:.1f} ms")

both = step(np.stack((psi, opposite), axis=1))  # two packets share the passes over H
print(f"two packets at once differ by {np.abs(both[:, 0] - step(psi)).max():.1e}")

back = Propagator(stored, 1j * dt * steps, bounds=step.interval)
print(f"and back again:    {np.linalg.norm(back(state) - psi):.1e}")

if side > 300:
    started = time.perf_counter()
    scipy_linalg.expm_multiply(-1j * dt * H, psi)
    print(f"scipy.sparse.linalg.expm_multiply takes {(time.perf_counter() - started) * 1e3:.1f} ms a step")
