"""Ernst et al., Performance engineering for real and complex tall & skinny matrix multiplication kernels on GPUs."""

from mansard.bench.extension import Extension, Picture
from mansard.bench.peers import Peer

from . import cases, pictures
from .split_peer import SplitCudaPeer, SplitPeer


def _peers(backend: str, family: str) -> list[Peer]:
    kinds: dict[str, type[Peer]] = {"cuda": SplitCudaPeer, "cpu": SplitPeer}
    return [kinds[backend]()] if family == "gram" and backend in kinds else []


EXTENSION = Extension(
    sets={
        "gram": {
            "tilesize": cases.tilesize, "mapping": cases.mapping, "mapping_search": cases.mapping_search,
            "reduction": cases.reduction,
        },
        "matmul": {"source": cases.source, "unroll": cases.unroll, "threads": cases.threads},
    },
    peers=(_peers,),
    pictures={
        "tile_size": Picture("Speed against tile size (figure 16)", pictures.tile_size),
        "leapfrog_transposed": Picture("Leap-frogging and transposed mapping (figure 15)", pictures.mapping),
        "reduction": Picture("Cost of the reduction against the number of rows (figure 19)", pictures.reduction),
        "source": Picture("Where C is read from (Ernst et al., figure 20)", pictures.source),
        "unroll": Picture("Rows per thread at once (figure 21)", pictures.unroll),
        "threads": Picture("Threads per row (figure 22)", pictures.threads),
    },
)
