"""Several processes: tall matrices by rows, batches and sparse matrices over the ranks of an MPI communicator."""

from .communicator import Communicator

__all__ = ["Communicator"]


def __dir__() -> list[str]:
    return __all__
