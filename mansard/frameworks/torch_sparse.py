"""Sparse matrices and plans of powers on tensors that are differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..operations.sparse.matrix import Matrix
from ..operations.sparse.powers.run import Powers
from .pullbacks.sparse import Pattern, PowersPattern, Side, check_tensor, product
from .torch_calls import Unrecorded
from .torch_function import apply

Tensor = Any


def _without_out(out: Any) -> None:
    if out is not None:
        raise Unrecorded("out cannot record derivatives, as PyTorch's own out: leave it out, or detach the operands")


class _Products:
    """Products with a matrix whose side and values are known."""

    _side: Side
    _values: Tensor

    def __matmul__(self, x: Tensor) -> Tensor:
        return product(self._side, x, self._values)

    def product(self, x: Tensor, out: Tensor = None, alpha: complex = 1.0, beta: complex = 0.0) -> Tensor:
        """alpha A x."""
        _without_out(out)
        if beta != 0:
            raise ValueError("beta scales the content of out: pass out")
        found = self @ x
        return found if alpha == 1 else alpha * found

    def recurrence(self, x: Tensor, z: Tensor = None, out: Tensor = None, alpha: complex = 1.0, beta: complex = 0.0,
                   gamma: complex = 0.0) -> Tensor:  # fmt: skip
        """alpha A x + beta x + gamma z."""
        _without_out(out)
        found = alpha * (self @ x) + beta * x
        return found if z is None else found + gamma * z


class _Fixed(_Products):
    """A matrix whose values need no gradient."""

    def __init__(self, matrix: Matrix) -> None:
        self._side, self._values = Side(Pattern(matrix)), None


class RecordedMatrix(_Products):
    """What `with_values` returns for values that require a gradient: products record it. Values are copied, as by every
    matrix; `detach` gives the matrix itself."""

    def __init__(self, side: Side, values: Tensor) -> None:
        self._side, self._values = side, values
        shape = side.pattern.matrix.shape
        self.shape = (shape[1], shape[0]) if side.transposed else shape
        self.dtype, self.nnz = side.pattern.matrix.dtype, side.pattern.matrix.nnz

    @property
    def T(self) -> RecordedMatrix:
        return RecordedMatrix(self._side.transpose(), self._values)

    @property
    def H(self) -> RecordedMatrix:
        return RecordedMatrix(self._side.adjoint(), self._values)

    def detach(self) -> Matrix:
        """The matrix without a gradient."""
        return self._side.on(self._values.detach())

    def with_values(self, values: Tensor) -> Any:
        """Return a matrix of this pattern with other values."""
        side = self._side
        return RecordedMatrix(Side(Pattern(side.pattern.matrix, values), side.transposed, side.conj), values)


class RecordedPowers:
    """What `with_values` of a plan of powers returns for values that require a gradient."""

    def __init__(self, pattern: PowersPattern, values: Tensor) -> None:
        self._pattern, self._values = pattern, values

    def __call__(self, x: Tensor, out: Tensor = None) -> Tensor:
        """The powers of x."""
        _without_out(out)
        check_tensor(x)
        return apply("sparse.powers", (x, self._values), {"pattern": self._pattern})

    def detach(self) -> Powers:
        """The plan without a gradient."""
        return self._pattern.at(self._values.detach())  # type: ignore[no-any-return]


def _with_values(matrix: Matrix, data: Tensor) -> RecordedMatrix:
    return RecordedMatrix(Side(Pattern(matrix, data)), data)


def _powers_with_values(powers: Powers, data: Tensor) -> RecordedPowers:
    return RecordedPowers(PowersPattern(powers, data), data)


def _powers(powers: Powers, x: Tensor, out: Tensor = None) -> Tensor:
    _without_out(out)
    return apply("sparse.powers", (x,), {"pattern": PowersPattern(powers)})


CALLS: dict[str, Callable[..., Any]] = {
    "sparse.Matrix.__matmul__": lambda matrix, x: _Fixed(matrix) @ x,
    "sparse.Matrix.product": lambda matrix, *args: _Fixed(matrix).product(*args),
    "sparse.Matrix.recurrence": lambda matrix, *args: _Fixed(matrix).recurrence(*args),
    "sparse.Matrix.with_values": _with_values,
    "Powers.__call__": _powers,
    "Powers.with_values": _powers_with_values,
}
