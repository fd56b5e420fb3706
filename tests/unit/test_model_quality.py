"""The model by replay: the trials recorded on an H200 say what its choices would have cost.

A guard against making the model worse, not a proof that it is good: its constants were fitted on these trials, and it
had chosen most of the configurations that were tried.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mansard.codegen.geometry import Device
from mansard.kernels.tall_skinny import gram
from mansard.machine import machine
from mansard.plan import predict
from mansard.plan.problem import Problem

TRIALS = Path(__file__).resolve().parents[2] / "results" / "h200" / "gram" / "trials.jsonl.gz"
H200 = Device("cuda", "NVIDIA H200", "sm_90a", 132, 232448, 233472, 65536, 2048, 60 << 20)
# the ceilings of the run that recorded the trials
CEILINGS = replace(
    machine.nominal_for(H200),
    read_bandwidth=4.60e12,
    fma={"float32": 65e12, "float64": 33e12},
    tensor={"float64": 66e12},
)


def trials(dtype: str) -> Iterator[tuple[Problem, Any, float]]:
    with gzip.open(TRIALS, "rt") as file:
        for line in file:
            record = json.loads(line)
            problem = record["problem"]
            sizes = problem["sizes"]
            ours = record["status"] == "ok" and record["config"]["VARIANT"] != "vendor"
            if ours and problem["dtype"] == dtype and sizes["K"] > 1_000_000:
                same = problem["traits"]["same"]
                given = gram.spec.problem(dtype, sizes["M"], sizes["N"], sizes["K"], same=same)
                yield given, gram.space.from_dict(record["config"]), record["median"]


@pytest.mark.parametrize("dtype", ("float64", "complex128", "float32", "complex64"))
def test_the_models_choice_is_near_the_best_measured(dtype: str) -> None:
    by_problem: dict[Problem, dict[Any, float]] = {}
    for problem, config, seconds in trials(dtype):
        by_problem.setdefault(problem, {})[config] = seconds
    shares = []
    for problem, measured in by_problem.items():
        chosen = min(measured, key=lambda config: predict.seconds(gram.FAMILY, problem, config, H200, CEILINGS))
        shares.append(min(measured.values()) / measured[chosen])
    assert len(shares) >= 20
    assert statistics.median(shares) >= 0.95 and min(shares) >= 0.70
