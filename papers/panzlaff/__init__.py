"""Panzlaff's thesis on powers of sparse matrices on GPUs."""

from mansard.bench.extension import Extension, Picture

from . import cases, pictures, tables
from .metrics import METRICS

EXTENSION = Extension(
    sets={
        "powers": {
            "formats": cases.formats, "cache": cases.cache, "budget": cases.budget, "thesis": cases.thesis,
        }
    },
    tables=(tables.formats, tables.ramp, tables.budget, tables.streams),
    pictures={
        "formats": Picture("Chunks, lanes per row and sorting (figures 3.2 to 3.8)", pictures.formats),
        "ramp": Picture(
            "How small matrices and small kernels gain speed (figures 4.1, 4.2, 4.4, 4.6 and 4.10)", pictures.ramp
        ),
    },
    metrics=METRICS,
)
