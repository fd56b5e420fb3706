"""Who takes part in a contest: the peers of each family on each backend."""

from __future__ import annotations

from .batched import compiled_peers
from .factor import compiled as compiled_factors
from .factor import peers as factors
from .factor.spectral import Approximate, CusolverSpectral, JaxSpectral
from .factor.vendors import VendorFactors
from .peers import CupyPeer, NumpyPeer, Peer, TorchCudaPeer, TorchPeer
from .random import peers as random_peers
from .sparse import peers as sparse


def peers_for(backend_name: str, family: str = "gram") -> list[Peer]:
    """The peers of a backend, missing ones included; factorizations and sparse matrices have others."""
    if family == "powers":
        return sparse.peers_for(backend_name)
    if family == "random":
        return random_peers.peers_for(backend_name)
    if family == "factor":
        if backend_name == "cuda":
            usual = [VendorFactors(), factors.TorchCusolver(), factors.TorchMagma()]
            return [*usual, *(make() for make in (CusolverSpectral, Approximate, JaxSpectral))]
        known = (factors.NumpyFactors, factors.ScipyFactors, factors.TorchFactors, *compiled_factors.PEERS)
        return [make() for make in known]
    if backend_name == "cuda":
        return [CupyPeer(), TorchCudaPeer()]
    return [NumpyPeer(), TorchPeer(), *(make() for make in compiled_peers.PEERS)]
