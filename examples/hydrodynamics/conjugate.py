"""Conjugate gradients for the velocity: one mass matrix, all components at once, each with its own coefficients.

    z = C r,  d = z,  rho = (r, z)
    repeat:  q = M d,  alpha = rho / (d, q),  x += alpha d,  r -= alpha q,  z = C r,  rho' = (r, z),  d = z + rho'/rho d

C is the inverse diagonal of M, with zeros where a wall stops a component: d and x are zero there, and what r becomes at
these nodes enters no inner product. A component stops when (r, z) has fallen by the square of the tolerance; from then
on its alpha is zero and its x keeps its bits while the other components go on. So the host need not look at residuals
after every iteration: on a device several iterations run as one CUDA graph between two looks.
"""

from __future__ import annotations

from .arrays import Array, Arrays
from .replay import replayed

_LOOK = 4  # iterations between two looks of the host at the residuals of a device


class ConjugateGradients:
    """Solves M x = b for b of shape (nodes, dim), in arrays that are allocated once."""

    def __init__(self, arrays: Arrays, mass: object, preconditioner: Array, tolerance: float, most: int) -> None:
        self.arrays, self.tolerance, self.most = arrays, tolerance, most
        self._mass, self._scale = arrays.sparse(mass), preconditioner
        self.x, self._r, self._d, self._q, self._z = (arrays.zeros_like(preconditioner) for _ in range(5))
        self._size, self._stop, self._done = (arrays.zeros_like(preconditioner[0]) for _ in range(3))
        self._look = _LOOK if arrays.on_gpu else 1
        self._burst = replayed(self._iterations, arrays)

    @property
    def iterations(self) -> int:
        """Iterations so far, of the component that took the most."""
        return int(self.arrays.numpy(self._done).max())

    def solve(self, b: Array) -> Array:
        """x with M x = b, except where the preconditioner is zero; RuntimeError if `most` iterations do not suffice."""
        a = self.arrays
        a.assign(self._r, b)
        self.x *= 0
        a.xp.multiply(self._scale, b, out=self._d)
        a.assign(self._size, a.column_dots(b, self._d))
        a.assign(self._stop, self._size * self.tolerance**2)
        left = self.most
        while self._is_going():
            if left == 0:
                raise RuntimeError(self._failure())
            if left >= self._look:
                self._burst()
            else:
                self._iterations(left)
            left -= min(left, self._look)
        return a.copy(self.x)

    def _is_going(self) -> bool:
        return bool((self._size > self._stop).any())

    def _iterations(self, count: int = 0) -> None:
        for _ in range(count or self._look):
            self._iteration()

    def _iteration(self) -> None:
        a, xp, d, q, z = self.arrays, self.arrays.xp, self._d, self._q, self._z
        going = self._size > self._stop
        self._mass(d, q)
        step = going * self._size / (a.column_dots(d, q) + ~going)
        a.scale_columns(d, step, z)
        self.x += z
        a.scale_columns(q, step, z)
        self._r -= z
        xp.multiply(self._scale, self._r, out=z)
        after = a.column_dots(self._r, z)
        a.scale_columns(d, after / (self._size + ~going), q)
        xp.add(z, q, out=d)
        a.assign(self._size, after * going)
        self._done += going

    def _failure(self) -> str:
        worst = float((self._size / (self._stop + (self._stop == 0))).max()) ** 0.5 * self.tolerance
        return (
            f"conjugate gradients: after {self.most} iterations a residual is {worst:.1e} of the load's, beyond "
            f"{self.tolerance:.0e}; a longer --cg-iterations or a looser --cg-tolerance may do"
        )
