"""Dask arrays chunked along their rows: lazy graphs of single-device kernels, whose small results meet in a tree.

Loaded by the array boundary with the first Dask array that an operation is given. Chunks are NumPy or CuPy arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..arrays import kinds
from ..arrays.types import Array, Call
from ..errors import MansardWarning
from ..linalg.orthogonal import qr
from ..operations.tall_skinny.gram import gram
from ..operations.tall_skinny.matmul import matmul
from ..operations.tall_skinny.orthogonal import check_options
from . import lazy_steps as lazy

da: Any = import_module("dask.array")
delayed: Any = import_module("dask").delayed
_FAN_IN = 4  # partial results that meet in one node of the tree


def _by_rows(array: Any, name: str) -> Any:
    """A matrix with all of its columns in every chunk; others are rechunked, with a warning."""
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}: a matrix (two dimensions) is needed")
    if np.isnan(array.shape[1]):
        raise ValueError(f"{name} has an unknown number of columns: call {name}.compute_chunk_sizes() first")
    if array.numblocks[1] > 1:
        warnings.warn(
            f"{name} is divided along its columns, too, and is rechunked: pass {name}.rechunk({{1: -1}})",
            MansardWarning, stacklevel=2,
        )  # fmt: skip
        return array.rechunk({1: -1})
    return array


def _blocks(array: Any) -> list[Any]:
    """The chunks of a matrix by rows, delayed."""
    return list(array.to_delayed()[:, 0])


def _tree(parts: list[Any], meet: Callable[..., Any]) -> Any:
    """One delayed result of many: neighbours meet, level by level, in an order that the chunks alone decide."""
    while len(parts) > 1:
        parts = [
            delayed(meet)(*parts[i : i + _FAN_IN]) if len(parts[i : i + _FAN_IN]) > 1 else parts[i]
            for i in range(0, len(parts), _FAN_IN)
        ]
    return parts[0]


def _sum(*parts: Array) -> Array:
    """Sum of partial results from the first to the last; None where a step had nothing left to do."""
    if parts[0] is None:
        return None
    total = parts[0].copy()
    for one in parts[1:]:
        total += one
    return total


def _small(value: Any, shape: tuple[int, int], like: Any) -> Any:
    return da.from_delayed(value, shape, dtype=like.dtype, meta=like._meta)


def _tall(parts: list[Any], like: Any, columns: int) -> Any:
    """A tall matrix of delayed chunks with the rows of `like`."""
    rows = [da.from_delayed(one, (count, columns), dtype=like.dtype, meta=like._meta)
            for one, count in zip(parts, like.chunks[0], strict=True)]  # fmt: skip
    return da.concatenate(rows, axis=0)


def _pair(A: Any, B: Any) -> Any:
    """B with the chunks of A's rows."""
    if not isinstance(B, da.Array):
        raise TypeError(f"B is a {type(B).__name__} and A a Dask array: pass dask.array.from_array(B, chunks=...)")
    B = _by_rows(B, "B")
    if A.shape[0] != B.shape[0]:
        raise ValueError(f"A has {A.shape[0]} rows and B {B.shape[0]}: both need the same number K")
    if A.chunks[0] != B.chunks[0]:
        warnings.warn("B has other rows in its chunks than A and is rechunked", MansardWarning, stacklevel=2)
        B = B.rechunk({0: A.chunks[0]})
    return B


def _gram(call: Call) -> Any:
    """A^H B: one Gram matrix per chunk, summed in a tree."""
    A = _by_rows(call.given["A"], "A")
    B = _pair(A, call.given["B"]) if "B" in call.given else None
    options = {name: call.options[name] for name in ("alpha", "beta", "backend")} | call.options["form"]._asdict()
    others = [None] * A.numblocks[0] if B is None else _blocks(B)
    parts = [delayed(gram)(a, b, **options) for a, b in zip(_blocks(A), others, strict=True)]
    return _small(_tree(parts, _sum), (A.shape[1], A.shape[1] if B is None else B.shape[1]), A)


def _matmul(call: Call) -> Any:
    """A B, chunk by chunk, for a small B."""
    A, B = call.given["A"], call.given["B"]
    if not isinstance(A, da.Array):
        raise TypeError(f"A is a {type(A).__name__} and B a Dask array: pass B.compute(), or make A a Dask array, too")
    A = _by_rows(A, "A")
    if getattr(B, "ndim", 0) != 2 or A.shape[1] != B.shape[0]:
        raise ValueError(f"A has {A.shape[1]} columns and B shape {getattr(B, 'shape', ())}: A's columns are B's rows")
    small = delayed(_whole)(B.to_delayed().ravel().tolist(), B.numblocks) if isinstance(B, da.Array) else delayed(B)
    options = {name: call.options[name] for name in ("alpha", "beta", "backend")}
    return _tall([delayed(matmul)(a, small, **options) for a in _blocks(A)], A, B.shape[1])


def _whole(chunks: list[Array], counts: tuple[int, int]) -> Array:
    """A small matrix of all its chunks."""
    module = kinds.kind_of(chunks[0], "B").module
    rows = [module.concatenate(chunks[i * counts[1] : (i + 1) * counts[1]], axis=1) for i in range(counts[0])]
    return module.concatenate(rows, axis=0)


class _Node(NamedTuple):
    """A node of a TSQR tree: Q and R of a chunk, or of its children's R factors, one below the other."""

    factors: Any  # (Q, R), delayed
    height: int  # rows of R
    children: tuple[_Node, ...] = ()


def _qr(call: Call) -> tuple[Any, ...]:
    """Q R by TSQR: Q_i R_i of each chunk; R factors meet in a tree, and Q factors go down it again."""
    a, want = _by_rows(call.given["a"], "a"), call.options["mode"]
    if want not in ("reduced", "r"):
        raise ValueError(f"mode={want!r}: of a Dask array, 'reduced' and 'r' can be had")
    if np.isnan(a.shape[0]):
        raise ValueError("a has chunks of unknown length: call a.compute_chunk_sizes() first")
    columns, width, backend = a.shape[1], min(a.shape), call.options["backend"]
    if want == "r":
        R = _tree([delayed(qr)(one, "r", backend=backend) for one in _blocks(a)], partial(_r_of, backend))
        return (_small(R, (width, columns), a),)
    first = [
        _Node(delayed(qr)(one, backend=backend), min(count, columns))
        for one, count in zip(_blocks(a), a.chunks[0], strict=True)
    ]
    root = _tsqr(first, columns, backend)
    smalls = _small_factors(root, None, backend)
    parts = [
        one.factors[0] if small is None else delayed(matmul)(one.factors[0], small, backend=backend)
        for one, small in zip(first, smalls, strict=True)
    ]
    return _tall(parts, a, width), _small(root.factors[1], (width, columns), a)


def _tsqr(nodes: list[_Node], columns: int, backend: str | None) -> _Node:
    """The root of the tree over these nodes: R factors of up to `_FAN_IN` neighbours are factored together."""
    while len(nodes) > 1:
        groups = [tuple(nodes[i : i + _FAN_IN]) for i in range(0, len(nodes), _FAN_IN)]
        nodes = [group[0] if len(group) == 1 else _parent(group, columns, backend) for group in groups]
    return nodes[0]


def _parent(children: tuple[_Node, ...], columns: int, backend: str | None) -> _Node:
    factors = delayed(_qr_of)(backend, *(child.factors[1] for child in children))
    return _Node(factors, min(columns, sum(child.height for child in children)), children)


def _small_factors(node: _Node, above: Any, backend: str | None) -> Iterator[Any]:
    """For each chunk below a node the small factor that its Q_i is multiplied by; None if the chunk is the root.

    It is the product of the chunk's rows of all Q above it; `above` is that product for the node.
    """
    if not node.children:
        yield above
    first = 0
    for child in node.children:
        rows = node.factors[0][first : first + child.height]
        product = rows if above is None else delayed(matmul)(rows, above, backend=backend)
        yield from _small_factors(child, product, backend)
        first += child.height


def _qr_of(backend: str | None, *parts: Array) -> Any:
    """Q and R of matrices, one below the other."""
    return qr(kinds.kind_of(parts[0], "a").module.concatenate(parts, axis=0), backend=backend)


def _r_of(backend: str | None, *parts: Array) -> Array:
    return _qr_of(backend, *parts)[1]


def _cholesky_qr(call: Call) -> tuple[Any, Any]:
    """Q R of full rank by as many steps of Cholesky QR as that takes at most.

    How many are needed depends on values, which a lazy graph does not have: the graph holds all of them, and those
    after the last do nothing when they run.
    """
    V, (shift, on_deficient) = _by_rows(call.given["V"], "V"), (call.options[n] for n in ("shift", "on_deficient"))
    check_options(shift, on_deficient)
    if on_deficient != "raise":
        raise ValueError("on_deficient='flag' looks at values, which a lazy graph does not have: compute V first")
    if V.shape[0] < V.shape[1]:
        raise ValueError(f"V has shape {V.shape}: fewer rows than columns cannot be orthonormal; pass V.T")
    backend, columns, dtype = call.options["backend"], V.shape[1], V.dtype.name
    blocks = _blocks(V)
    G = _tree([delayed(gram)(one, backend=backend) for one in blocks], _sum)
    step = delayed(lazy.first)(G, dtype, shift)
    for _ in range(lazy.MOST - 1):
        pairs = [delayed(lazy.advanced)(one, step, backend) for one in blocks]
        blocks = [one[0] for one in pairs]
        step = delayed(lazy.following)(step, _tree([one[1] for one in pairs], _sum))
    factors = delayed(lazy.finished)(step, G)
    Q = _tall([delayed(matmul)(one, factors[0], backend=backend) for one in blocks], V, columns)
    return Q, _small(factors[1], (columns, columns), V)


_ANSWERS: dict[str, Callable[[Call], Any]] = {"gram": _gram, "matmul": _matmul, "cholesky_qr": _cholesky_qr, "qr": _qr}


class DaskKind:
    """dask.array.Array, which answers whole calls with lazy results."""

    name, immutable = "Dask", True

    def answer(self, call: Call) -> Any:
        """Build the graph of a call; nothing is computed."""
        if call.name not in _ANSWERS:
            raise TypeError(f"Dask arrays are taken by {', '.join(_ANSWERS)}: pass .compute() of them to others")
        if "out" in call.given or call.options.get("beta"):
            raise TypeError(f"{call.name} of Dask arrays is lazy and writes to no out: leave out and beta away")
        return _ANSWERS[call.name](call)

    def view(self, array: Any, argument: str) -> Any:
        """Plans hold arrays in one memory."""
        raise TypeError(f"{argument} is a Dask array, which plans do not take: pass {argument}.compute()")


kinds.adopt(da.Array, DaskKind())
