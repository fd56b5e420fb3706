"""Several processes: tall matrices by rows and batches over the ranks of an MPI communicator; Dask arrays by chunks.

`ms.gram`, `ms.cholesky_qr` and their like take `Rows` under their own names, on all ranks together.
"""

from .answers import later_gram
from .batch import Batch, batch
from .communicator import Communicator
from .rows import Rows

__all__ = ["Batch", "Communicator", "Rows", "batch", "later_gram"]


def __dir__() -> list[str]:
    return __all__
