"""Derivatives of products with sparse matrices and of their powers, with respect to vectors and to stored values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch

from ...operations.sparse.matrix import Matrix, of_source
from ...operations.sparse.powers.run import Powers
from .products import gemm, total
from .rule import Given, Gradients, Rule, Tensor


class Stored:
    """Sparse matrices and plans of powers in graphs of PyTorch, by the numbers that stand for them there. A graph does
    not keep its matrix; whoever compiled a function that uses the matrix does."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._next = count()

    def number_of(self, matrix: Any) -> int:
        known = matrix.__dict__.get("_number_in_graphs")
        if known is None:
            known = matrix.__dict__["_number_in_graphs"] = next(self._next)
            self._known[known] = matrix
        return known  # type: ignore[no-any-return]

    def numbered(self, number: int) -> Any:
        found = self._known.get(number)
        if found is None:
            raise TypeError(
                f"the graph uses sparse matrix {number} of the process that traced it, which is no longer there: keep "
                "the matrix as long as the compiled function, and trace programs anew in another process"
            )
        return found


STORED = Stored()


class Pattern:
    """A matrix, or a plan of powers, with tensors as values: with `values`, which are copied here, or with others."""

    def __init__(self, matrix: Any, values: Tensor | None = None) -> None:
        self.matrix = matrix
        self._places: tuple[Tensor, Tensor] | None = None
        self._values = self._made = None
        if values is not None and not torch._C._functorch.is_functorch_wrapped_tensor(values):
            self._values = values.detach()  # it stays alive, so that its address is no other's
            self._made = matrix.with_values(self._values)

    def at(self, values: Tensor | None) -> Any:
        """The matrix, or the plan of powers, with these values."""
        if values is None:
            return self.matrix
        known = self._values
        if known is not None and known.data_ptr() == values.data_ptr() and known.stride() == values.stride():
            return self._made
        return self.matrix.with_values(values.detach())

    def places(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and columns of the entries."""
        if self._places is None:
            rows = self.matrix._rows()
            columns, starts = (torch.as_tensor(one, device=like.device) for one in (rows.indices, rows.indptr))
            counts = starts.diff()
            lines = torch.arange(len(counts), device=like.device).repeat_interleave(counts)
            self._places = lines, columns.to(torch.int64)
        return self._places


class Side:
    """A pattern, transposed or conjugated."""

    def __init__(self, pattern: Pattern, transposed: bool = False, conj: bool = False) -> None:
        self.pattern, self.transposed, self.conj = pattern, transposed, conj

    @property
    def literal(self) -> tuple[int, bool, bool]:
        """Number of the stored matrix and flags, by which a traced graph refers to this operand."""
        return STORED.number_of(self.pattern.matrix), self.transposed, self.conj

    @classmethod
    def of(cls, literal: tuple[int, bool, bool]) -> Side:
        return cls(Pattern(STORED.numbered(literal[0])), *literal[1:])

    def adjoint(self) -> Side:
        return Side(self.pattern, not self.transposed, not self.conj)

    def transpose(self) -> Side:
        return Side(self.pattern, not self.transposed, self.conj)

    def on(self, values: Tensor | None) -> Matrix:
        """The matrix with these values."""
        matrix: Matrix = self.pattern.at(values)
        matrix = matrix.T if self.transposed else matrix
        return matrix.H.T if self.conj else matrix

    def values_gradient(self, x: Tensor, G: Tensor) -> Tensor:
        """y_i = a_ij x_j: da_ij = G_i conj(x_j), for the entries of the pattern."""
        i, j = self.pattern.places(x)
        if self.transposed:
            i, j = j, i
        found = G[i] * x[j].conj()
        found = found.sum(-1) if found.dim() > 1 else found
        return found.conj() if self.conj else found


def check_tensor(x: Tensor) -> None:
    """Vectors of a recorded product are tensors."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"data requires a gradient and x is a {type(x).__name__}: pass x as a tensor, or data.detach()")


def product(side: Side, x: Tensor, values: Tensor | None) -> Tensor:
    """A x, recorded."""
    from ..torch_function import apply

    check_tensor(x)
    return apply("sparse.product", (x,) if values is None else (x, values), {"side": side})


def _run_product(x: Tensor, values: Tensor | None = None, *, side: Side) -> Tensor:
    return side.on(values) @ x


def _like_product(x: Tensor, values: Tensor | None = None, *, side: Side) -> Tensor:
    matrix = side.pattern.matrix
    found = torch.promote_types(x.dtype, getattr(torch, str(matrix.dtype)))
    return x.new_empty((matrix.shape[1 if side.transposed else 0], *x.shape[1:]), dtype=found)


def _product(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """y = A x: dx = A^H G."""
    side, (x, *others), (G,) = given.options["side"], given.operands, cotangents
    values = others[0] if others else None
    dx = product(side.adjoint(), G, values) if needed[0] else None
    return (dx,) if values is None else (dx, side.values_gradient(x, G) if needed[1] else None)


def _product_tangent(given: Given, tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    side, (x, *others) = given.options["side"], given.operands
    along = None if tangents[0] is None else product(side, tangents[0], others[0] if others else None)
    changed = product(side, x, tangents[1]) if others and tangents[1] is not None else None
    return (total(along, changed),)


def _mapped_product(x: Tensor, values: Tensor | None = None, *, side: Side) -> Tensor:
    """Vectors of a mapped dimension, which is the first, side by side."""
    across = x.movedim(0, -1)
    found = product(side, across.reshape(across.shape[0], -1), values)
    return found.reshape(found.shape[0], *across.shape[1:]).movedim(-1, 0)


# ---- powers -----------------------------------------------------------------------------------------------


class PowersPattern(Pattern):
    """A plan of powers whose values may be a tensor, and its matrix for products."""

    def __init__(self, powers: Powers, values: Tensor | None = None) -> None:
        super().__init__(powers, values)
        self._of_values = values

    @property
    def literal(self) -> int:
        """Number of the stored matrix, by which a traced graph refers to this plan."""
        return STORED.number_of(self.matrix)

    @classmethod
    def of(cls, literal: int) -> PowersPattern:
        return cls(STORED.numbered(literal))

    @cached_property
    def side(self) -> Side:
        made = self.matrix.__dict__.get("_matrix_of_products") or of_source(self.matrix._source)
        self.matrix.__dict__["_matrix_of_products"] = made  # stored once for a plan
        return Side(Pattern(made, self._of_values))


def _run_powers(x: Tensor, values: Tensor | None = None, *, pattern: PowersPattern) -> Tensor:
    return pattern.at(values)(x)


def _like_powers(x: Tensor, values: Tensor | None = None, *, pattern: PowersPattern) -> Tensor:
    return x.new_empty(pattern.matrix.shape)


def chain(pattern: PowersPattern, x: Tensor, values: Tensor | None) -> list[Tensor]:
    """v_0 .. v_p by products, one after the other."""
    vectors = [x]
    for alpha, beta, gamma in _coefficients(pattern, x):
        found = alpha * product(pattern.side, vectors[-1], values) + beta * vectors[-1]
        vectors.append(found + gamma * vectors[-2] if gamma else found)
    return vectors


def _coefficients(pattern: PowersPattern, like: Tensor) -> list[tuple[Any, Any, Any]]:
    rows = pattern.matrix._task.coefficients
    return [tuple(complex(c) if like.is_complex() else float(np.real(c)) for c in row) for row in rows]  # type: ignore[misc]


def _cotangents(task: Any, G: Tensor) -> list[Tensor | None]:
    """Cotangent of every vector v_k (None for zero), from the cotangent of the returned powers."""
    if task.output == "all":
        return list(G.unbind(0))
    if task.output == "last":
        return [None] * task.p + [G]
    weights = torch.as_tensor(np.conj(np.atleast_2d(task.weights)), device=G.device)
    weights = (weights if G.is_complex() else weights.real).to(G.dtype)
    sets = G[None] if task.weights.ndim == 1 else G
    return list(gemm(weights.T, sets.flatten(1)).unflatten(1, sets.shape[1:]).unbind(0))


def _powers(given: Given, cotangents: Gradients, needed: Sequence[bool]) -> Gradients:
    """The recurrence backwards: g_k = G_k + (conj(alpha_k) A^H + conj(beta_k)) g_(k+1) + conj(gamma_(k+1)) g_(k+2)."""
    pattern: PowersPattern = given.options["pattern"]
    (x, *others), (G,) = given.operands, cotangents
    values = others[0] if others else None
    task, steps, adjoint = pattern.matrix._task, _coefficients(pattern, G), pattern.side.adjoint()
    found: list[Tensor] = list(_cotangents(task, G))
    for k in reversed(range(task.p)):
        alpha, beta, _ = (c.conjugate() for c in steps[k])
        after = steps[k + 1][2].conjugate() if k + 1 < task.p else 0
        found[k] = total(
            found[k], alpha * product(adjoint, found[k + 1], values) if alpha else None,
            beta * found[k + 1] if beta else None, after * found[k + 2] if after else None,
        )  # fmt: skip
        if found[k] is None:
            found[k] = torch.zeros_like(found[k + 1])
    if values is None:
        return (found[0],)
    vectors = chain(pattern, x, values)
    parts = [steps[k][0].conjugate() * pattern.side.values_gradient(vectors[k], found[k + 1]) for k in range(task.p)]
    return found[0], total(*parts) if parts else torch.zeros_like(values)


RULES = (
    Rule(
        "sparse.product", _run_product, _product, _like_product, (0, 1), tangent=_product_tangent, stacks=False,
        stacked=_mapped_product, alone=(1,),
    ),
    Rule("sparse.powers", _run_powers, _powers, _like_powers, (0, 1), stacks=False),
)  # fmt: skip
