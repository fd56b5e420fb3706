"""The kind of `Rows`, as the array boundary sees it: which functions answer calls with matrices by rows."""

from __future__ import annotations

from typing import Any

from ..arrays import kinds
from ..arrays.types import Call
from ..operations.tall_skinny.gram import gram
from .row_factors import cholesky_qr, orthogonalize, qr
from .row_products import multiply, multiply_with_gram, project, start_gram
from .rows import Rows
from .transport import Sum

_ANSWERS = {
    "gram": lambda call: start_gram(call).wait(),
    "matmul": multiply,
    "matmul_gram": multiply_with_gram,
    "project": project,
    "cholesky_qr": cholesky_qr,
    "orthogonalize": orthogonalize,
    "qr": qr,
}


class RowsKind:
    """Rows over processes, which answer whole calls."""

    name, immutable = "distributed", True

    def answer(self, call: Call) -> Any:
        """Run a call on all ranks together. A failure of one rank becomes one of every rank."""
        comm = next(one for one in call.given.values() if isinstance(one, Rows)).comm
        with comm.call(call.name or "linalg"):
            if call.name not in _ANSWERS:
                known = ", ".join(_ANSWERS)
                raise TypeError(f"matrices by rows are taken by {known}: pass Rows.local, or Rows.to_global()")
            return _ANSWERS[call.name](call)

    def view(self, array: Rows, argument: str) -> Any:
        """Plans hold arrays in one memory."""
        raise TypeError(f"{argument} is distributed by rows, which plans do not take: pass {argument}.local")


kinds.adopt(Rows, RowsKind())


def later_gram(A: Rows, B: Rows | None = None, **options: Any) -> Sum:
    """Begin `ms.gram(A, B, **options)`; `.wait()` returns it, and other work may be done meanwhile.

    Cost: that of `ms.gram` for the rows of this rank, and one reduction of M x N numbers over all ranks.

    Examples
    --------
    >>> import numpy as np, mansard as ms
    >>> V = ms.distributed.Rows(np.ones((3, 2)))
    >>> G = ms.distributed.later_gram(V)
    >>> W = ms.matmul(V, np.eye(2))
    >>> bool(G.wait()[0, 0] == len(V))
    True
    """
    if not isinstance(A, Rows):
        raise TypeError(f"A is a {type(A).__name__}: pass Rows(local, comm), or use ms.gram")
    given = {"A": A} | ({} if B is None else {"B": B})
    with A.comm.call("gram"):
        return start_gram(
            Call("gram", given, {"alpha": 1.0, "beta": 0.0} | options, lambda given, options: gram(**given, **options))
        )
