"""Dong, Batched linear algebra problems on GPU accelerators (dissertation)."""

from mansard.bench.extension import Extension, Picture
from mansard.bench.peers import Peer

from . import cases, energy, pictures, reductions, tables
from .streamed_peer import StreamedPeer


def _peers(backend: str, family: str) -> list[Peer]:
    return [StreamedPeer()] if (backend, family) == ("cuda", "batched") else []


EXTENSION = Extension(
    sets={
        "batched": {"kernels": cases.kernels, "streamed": cases.streamed},
        "factor": {
            "steps": cases.steps, "devices": cases.devices, "power": cases.power, "alignment": reductions.alignment,
            "settings": reductions.settings, "gebrd": reductions.gebrd, "phases": reductions.phases,
        },
    },
    peers=(_peers,),
    tables=(tables.kernels, tables.streamed, tables.steps, energy.greenup),
    pictures={
        "kernels": Picture(
            "Kernels for updates of rank 8, 16 and 32 (Dong, figures 3.12 to 3.14)", pictures.kernels
        ),
        "streamed": Picture("Batched and one by one in streams (Dong, figures 3.15 and 3.16)", pictures.streamed),
        "factor_steps": Picture(
            "Factorizations of 2,000 matrices, step by step (Dong, figures 4.1 to 4.3)", pictures.steps
        ),
        "power_qr": Picture("Power of QR factorizations over time (Dong, figure 4.13)", energy.qr),
        "power_parts": Picture("Power of a CPU's packages and memory (Dong, figure 5.7)", energy.parts),
        "power_components": Picture("Power of different computations (Dong, figure 5.8)", energy.components),
        **{name: Picture(*about) for name, about in reductions.PICTURES.items()},
    },
)
