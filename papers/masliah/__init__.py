"""Masliah et al., High-performance matrix-matrix multiplications of very small matrices."""

from mansard.bench.extension import Extension, Picture

from . import cases, pictures, tables

EXTENSION = Extension(
    sets={"batched": {"tba": cases.tba, "readonly": cases.readonly}},
    tables=(tables.per_block, tables.cached, tables.counters),
    pictures={
        "tba": Picture("Several matrices per block (Masliah et al., figure 6b)", pictures.per_block),
        "readonly": Picture("Through the read-only cache (Masliah et al.)", pictures.cached),
        "counters": Picture(
            "Occupancy and efficiency of loads, computed, not counted (Masliah et al., figures 7 and 8)",
            pictures.counters,
        ),
    },
)
