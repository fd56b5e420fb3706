"""Conjugate gradients for the velocity: one mass matrix, all components at once, each with its own coefficients.

    z = C r,  d = z,  rho = (r, z)
    repeat:  q = M d,  alpha = rho / (d, q),  x += alpha d,  r -= alpha q,  z = C r,  rho' = (r, z),  d = z + rho'/rho d

C is the inverse diagonal of M, with zeros where a wall stops a component: d and x are zero there, and what r becomes at
these nodes enters no inner product. A component stops when (r, z) has fallen by the square of the tolerance; from then
on its alpha is zero and its x keeps its bits while the other components go on. So the host need not look at residuals
after every iteration: on a device several iterations run as one CUDA graph between two looks.
"""

from __future__ import annotations

from collections.abc import Callable

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
        self._look = _LOOK if arrays.records_graphs else 1
        self._burst = replayed(self._iterations, arrays)
        self._advance, self._turn = _updates(arrays)

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
        a, d, q, r, z, size = self.arrays, self._d, self._q, self._r, self._z, self._size
        self._mass(d, q)
        self._advance(size, self._stop, a.column_dots(d, q), d, q, self._scale, self.x, r, z)
        after = a.column_dots(r, z)
        self._turn(size, self._stop, after, z, d, q)
        going = size > self._stop
        self._done += going
        a.assign(size, after * going)

    def _failure(self) -> str:
        worst = float((self._size / (self._stop + (self._stop == 0))).max()) ** 0.5 * self.tolerance
        return (
            f"conjugate gradients: after {self.most} iterations a residual is {worst:.1e} of the load's, beyond "
            f"{self.tolerance:.0e}; a longer --cg-iterations or a looser --cg-tolerance may do"
        )


def _updates(arrays: Arrays) -> tuple[Callable[..., object], Callable[..., object]]:
    """The two updates of an iteration, x, r, z and then d; CuPy's are one launch each."""
    if arrays.library == "cupy":
        kernel = arrays.xp.ElementwiseKernel
        given = "float64 size, float64 stop, "
        step = "const double step = size > stop ? size / dq : 0.0; x += step * d; r -= step * q; z = scale * r"
        advance = kernel(given + "float64 dq, float64 d, float64 q, float64 scale", "float64 x, float64 r, float64 z",
                         step, "cg_advance")  # fmt: skip
        turn = kernel(given + "float64 after, float64 z", "float64 d",
                      "d = z + (size > stop ? after / size : 0.0) * d", "cg_turn")  # fmt: skip
        return advance, lambda size, stop, after, z, d, spare: turn(size, stop, after, z, d)
    add, multiply, scaled = arrays.xp.add, arrays.xp.multiply, arrays.column_scaling()

    def advance_by_parts(
        size: Array, stop: Array, dq: Array, d: Array, q: Array, scale: Array, x: Array, r: Array, z: Array
    ) -> None:
        going = size > stop
        step = going * size / (dq + ~going)
        add(x, scaled(d, step, z), out=x)
        add(r, scaled(q, -step, z), out=r)
        multiply(scale, r, out=z)

    def turn_by_parts(size: Array, stop: Array, after: Array, z: Array, d: Array, spare: Array) -> None:
        going = size > stop
        add(z, scaled(d, going * after / (size + ~going), spare), out=d)

    return advance_by_parts, turn_by_parts
