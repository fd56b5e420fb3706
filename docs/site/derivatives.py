"""First and second derivatives of operations, by running backward (PyTorch) or tracing it (JAX)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .probes import YES, Cell, Probe, accepts, as_dtype

DTYPES = ("float64", "complex128")  # single precision takes the same formulas
_STEP, _CLOSE = 1e-5, 1e-4  # of differences; their relative error is that of the step's square and of rounding
Leaves = list[Any]


class Wrong(TypeError):
    """A derivative that exists and is not that of the function."""


def torch_cells(probe: Probe, form: str) -> tuple[Cell, Cell]:
    """First and second derivatives of PyTorch for all dtypes, compared with differences."""
    found = [_first_two(lambda order, dtype=dtype: _torch_runs(probe, form, dtype, order)) for dtype in DTYPES]
    return _of_dtypes([first for first, _ in found]), _of_dtypes([second for _, second in found])


def jax_cells(probe: Probe, form: str) -> tuple[Cell, Cell]:
    """First and second derivatives of JAX for all dtypes."""
    found = [_first_two(lambda order, dtype=dtype: _jax_traces(probe, form, dtype, order)) for dtype in DTYPES]
    return _of_dtypes([first for first, _ in found]), _of_dtypes([second for _, second in found])


def _first_two(run: Callable[[int], None]) -> tuple[Cell, Cell]:
    """The second implies the first, which is asked for where the second is refused."""
    second = accepts(lambda: run(2))
    return (YES, YES) if second == YES else (accepts(lambda: run(1)), second)


def _of_dtypes(cells: Sequence[Cell]) -> Cell:
    taken = [dtype for dtype, cell in zip(DTYPES, cells, strict=True) if cell == YES]
    if not taken or len(taken) == len(cells):
        return cells[0]
    return Cell(", ".join(taken), next(cell.reason for cell in cells if cell != YES))


def _leaves(tree: Any, is_leaf: Callable[[Any], bool]) -> Leaves:
    """Arrays of nested lists and tuples, in their order."""
    if is_leaf(tree):
        return [tree]
    return [leaf for one in tree for leaf in _leaves(one, is_leaf)] if isinstance(tree, list | tuple) else []


def _weights(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(len(shape)).random(shape)


# ---- PyTorch ----------------------------------------------------------------------------------------------


def _torch_runs(probe: Probe, form: str, dtype: str, order: int) -> None:
    """Run backward once or twice along a direction; raises where a derivative is missing or wrong."""
    import torch

    def leaf(values: Any) -> Any:
        return torch.from_numpy(as_dtype(values, dtype)).requires_grad_()

    def is_tensor(one: Any) -> bool:
        return torch.is_tensor(one) and one.is_floating_point() | one.is_complex()

    operands = probe.make(form, leaf)
    given = [one for one in _leaves(operands, torch.is_tensor) if one.requires_grad]
    along = [torch.from_numpy(_along(one.detach().numpy(), dtype)) for one in given]

    def value() -> Any:
        """A number that all results determine."""
        results = [one for one in _leaves(probe.call(operands), is_tensor) if one.requires_grad]
        if not results:
            raise TypeError("no part of the result has a derivative")
        squares = [((one * one.conj()).real, torch.from_numpy(_weights(tuple(one.shape)))) for one in results]
        return sum((square * weights).sum() for square, weights in squares)

    def slope() -> Any:
        """Its derivative along the direction, from one backward."""
        found = torch.autograd.grad(value(), given, create_graph=True, allow_unused=True)
        pairs = [(g, d) for g, d in zip(found, along, strict=True) if g is not None]
        if not pairs:
            raise TypeError("the result does not depend on the operands")
        return sum((g.conj() * d).real.sum() for g, d in pairs)

    first = slope()
    _compare(value, given, along, float(first), float(abs(value())))
    if order == 2:
        found = torch.autograd.grad(first, given, allow_unused=True)
        second = sum((g.conj() * d).real.sum() for g, d in zip(found, along, strict=True) if g is not None)
        _compare(slope, given, along, float(second), float(abs(first)))


def _compare(value: Callable[[], Any], given: Leaves, along: Leaves, slope: float, scale: float) -> None:
    """The derivative with the difference of the function at two points of the direction."""
    import torch

    def moved(by: float) -> float:
        with torch.no_grad():
            for one, d in zip(given, along, strict=True):
                one.data.add_(d, alpha=by)  # lists are views of a stack, which PyTorch does not let change in place
        return float(value())

    difference = (moved(_STEP) - moved(-2 * _STEP)) / (2 * _STEP)
    moved(_STEP)
    if not abs(slope - difference) <= _CLOSE * (abs(difference) + scale + 1):
        raise Wrong(f"the derivative is {slope:.6g}, differences give {difference:.6g}")


def _along(operand: Any, dtype: str) -> Any:
    """A direction in which Hermitian operands stay Hermitian, and orthonormal columns orthonormal to first order."""
    values = np.random.default_rng(7).random(operand.shape)
    if operand.ndim > 1 and operand.shape[-1] == operand.shape[-2]:
        return as_dtype(values + values.swapaxes(-1, -2), dtype)
    found = as_dtype(values, dtype)
    if operand.ndim == 2 and np.allclose(operand.conj().T @ operand, np.eye(operand.shape[1])):
        inner = operand.conj().T @ found
        found = found - operand @ (inner + inner.conj().T) / 2
    return found


# ---- JAX --------------------------------------------------------------------------------------------------


def _jax_traces(probe: Probe, form: str, dtype: str, order: int) -> None:
    """Trace backward once or twice, with respect to every array of numbers."""
    import jax

    leaves, tree = jax.tree.flatten(probe.make(form, lambda values: as_dtype(values, dtype)))
    is_number = [isinstance(one, np.ndarray) and one.dtype.kind in "fc" for one in leaves]
    given = [one for one, number in zip(leaves, is_number, strict=True) if number]
    constants = [jax.numpy.asarray(one) if isinstance(one, np.ndarray) else one for one in leaves]

    def value(*arrays: Any) -> Any:
        rest = iter(arrays)
        joined = [next(rest) if number else one for one, number in zip(constants, is_number, strict=True)]
        results = jax.tree.leaves(probe.call(tree.unflatten(joined)))
        numbers = [one for one in results if one.dtype.kind in "fc"]
        if not numbers:
            raise TypeError("no part of the result has a derivative")
        return sum((abs(one) ** 2).sum() for one in numbers)

    every = tuple(range(len(given)))

    def slope(*arrays: Any) -> Any:
        return sum((abs(one) ** 2).sum() for one in jax.grad(value, argnums=every)(*arrays))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jax.make_jaxpr(jax.grad(value if order == 1 else slope, argnums=every))(*given)
