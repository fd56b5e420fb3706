"""Rivera et al., TSM2X: high-performance tall-and-skinny matrix-matrix multiplication on GPUs."""

from mansard.bench.extension import Extension, Picture

from . import cases, choices, pictures, tables

EXTENSION = Extension(
    sets={
        "matmul": {
            "steps": cases.steps, "smallk": cases.smallk, "rectangles": cases.rectangles,
            "tsm2model": cases.tsm2model,
        }
    },
    tables=(tables.steps, tables.model),
    pictures={
        "steps": Picture("The steps of TSM2 (its figure 6)", pictures.steps),
        "model": Picture("TSM2's model: its choice against all that were tried", pictures.model),
    },
    metrics={"model_share": choices.model_share},
)
