"""Compile lane: configurations compile for real GPUs without warnings, and spill only where declared. No GPU needed."""

from __future__ import annotations

from itertools import product

import pytest
from devices import A100, H200
from gram_cases import CASES, case_id, column_major
from sparing import sliced

from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.kernels.tall_skinny.gram import defaults, emit, space, spec
from mansard.kernels.tall_skinny.gram.space import Config
from mansard.plan.problem import DTYPES, Problem

pytestmark = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


def compiled(problem: Problem, config: Config, device: Device) -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, "cuda"), device.arch)
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


@pytest.mark.parametrize("case", [case for case in CASES if case[1].VARIANT == "tiled"], ids=case_id)
def test_tiled_compiles_for_sm_80(case: tuple[Problem, Config]) -> None:
    assert compiled(*case, A100).spill_bytes == 0


@pytest.mark.parametrize("width, dtype", sliced(list(product([1, 8, 17, 32, 48, 64], DTYPES)), 6))
def test_default_does_not_spill(width: int, dtype: str) -> None:
    problem = spec.problem(dtype, width, width, 1 << 20)
    config = defaults.default(problem, H200)
    assert config is not None
    assert compiled(problem, config, H200).spill_bytes == 0


@pytest.mark.parametrize("width, dtype", sliced(list(product([1, 17, 32, 48, 64], DTYPES)), 7))
def test_default_for_columns_does_not_spill(width: int, dtype: str) -> None:
    for same in (False, True):
        problem = column_major(dtype, width, width, 1 << 20, same=same)
        config = defaults.default(problem, H200)
        assert config is not None and config.VARIANT == "columns"
        assert compiled(problem, config, H200).spill_bytes == 0


def test_a_gpu_without_the_instructions_gets_the_tiled_kernel() -> None:
    config = defaults.default(spec.problem("float64", 16, 16, 1000), A100)
    assert config is not None and config.VARIANT == "tiled"
    reason = space.illegal(spec.problem("float64", 16, 16, 1000), space.Ring(), A100)
    assert reason is not None and "sm_90" in reason


def test_the_shipped_table_is_current() -> None:
    """Every record's kernel text is still what would be generated; a stale table would silently serve nothing."""
    from mansard.kernels.tall_skinny import gram
    from mansard.records import database
    from mansard.records.trials import Store
    from mansard.tune import table

    trials = [trial for path in database.DATA.glob("*/gram.jsonl") for trial in Store(path) if not trial.is_vendor]
    assert len(trials) > 100
    assert all(table.is_current(trial, H200, gram.FAMILY) for trial in trials)
