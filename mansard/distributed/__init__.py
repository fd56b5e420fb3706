"""Several processes: tall matrices by rows, batches and sparse matrices over MPI communicators; Dask arrays by chunks.

`ms.gram`, `ms.cholesky_qr` and their like take `Rows` under their own names, on all ranks together. Sparse matrices are
loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .answers import later_gram
from .batch import Batch, batch
from .communicator import Communicator
from .rows import Rows

if TYPE_CHECKING:
    from .sparse.call import matrix
    from .sparse.matrix import DistributedMatrix
    from .sparse.powers import matrix_powers

__all__ = ["Batch", "Communicator", "DistributedMatrix", "Rows", "batch", "later_gram", "matrix", "matrix_powers"]

_SPARSE = {"DistributedMatrix": ".sparse.matrix", "matrix": ".sparse.call", "matrix_powers": ".sparse.powers"}


def __getattr__(name: str) -> Any:
    if name in _SPARSE:
        return getattr(import_module(_SPARSE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
