"""What every kernel family offers, operands as one class, and the two families that no command names."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import pytest

import mansard as ms
from mansard import kernels
from mansard.codegen.geometry import Device
from mansard.errors import IllegalConfig
from mansard.kernels import FAMILIES, family_of
from mansard.kernels.batched import gemm, ragged_gemm, trsm
from mansard.kernels.common.operands import Operand
from mansard.kernels.factor import lu
from mansard.kernels.family import Family
from mansard.kernels.tall_skinny import gram, small_step
from mansard.plan import dispatch, explain
from mansard.plan.problem import Problem
from mansard.records import database
from mansard.records.trials import Store, Trial, store_path

H200 = explain.NOMINAL["sm_90a"]
CPU = Device("cpu", "two cores", "x86_64", multiprocessors=2, vector_bytes=32)
FOLDERS = {path.parent.name for path in Path(kernels.__file__).parent.glob("*/*/space.py")}


def test_every_folder_is_a_family_once() -> None:
    assert sorted(kernels.names()) == sorted(FOLDERS)
    with pytest.raises(KeyError, match="no family answers 'gone'; there are: gram"):
        family_of("gone")


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_configurations_know_their_target_and_their_header(family: Family) -> None:
    folder = Path(family.spec.__file__).parent  # type: ignore[attr-defined]
    for variant, kind in family.space.VARIANTS.items():
        assert variant == kind.VARIANT and kind.TARGET in ("cuda", "cpu")
        assert (folder / kind.header()).exists(), f"{family.name}: {kind.header()}"
        elsewhere = H200 if kind.TARGET == "cpu" else CPU
        problem = family.spec.problem("float64", **{name: 4 for name in _sizes(family)})
        assert f"{variant} is for" in str(family.space.illegal(problem, kind(), elsewhere))


def _sizes(family: Family) -> list[str]:
    parameters = signature(family.spec.problem).parameters.values()
    return [each.name for each in parameters if each.default is each.empty and each.name.isupper()]


# --- operands ----------------------------------------------------------------------------------------------------


def test_an_operand_is_its_three_keywords() -> None:
    whole = gemm.spec.problem("float64", 3, 4, 5, 6, a=Operand("col", 7, "strided"), c=Operand(stack="pointers"))
    parts = gemm.spec.problem(
        "float64", 3, 4, 5, 6, layout_a="col", pitch_a=7, stack_a="strided", stack_c="pointers"
    )  # fmt: skip
    assert whole == parts and (parts.layout_a, parts.pitch_a, parts.pitch_b, parts.pitch_c) == ("col", 7, 4, 4)


def test_results_lie_like_their_operands() -> None:
    like = lu.spec.problem("float64", 5, 5, 9, NRHS=2, want="solve", layout_a="col", pitch_a=8, stack_b="pointers")
    assert (like.layout_f, like.pitch_f, like.stack_x, like.pitch_x) == ("col", 8, "pointers", 2)
    dense = lu.spec.problem("float64", 5, 5, 9, layout_a="col", pitch_a=8, stack_f="strided")
    assert (dense.layout_f, dense.pitch_f) == ("col", 5)
    one_for_all = trsm.spec.problem("float64", 4, 3, 9, stack_b="shared")
    assert one_for_all.stack_x == "packed"


@pytest.mark.parametrize("keyword", ["layout_z", "stack_a", "a_pitch", "pitch"])
def test_an_unknown_trait_names_those_there_are(keyword: str) -> None:
    with pytest.raises(TypeError, match=f"'{keyword}' is no trait .*layout_a, layout_b, pitch_a, pitch_b"):
        gram.spec.problem("float64", 3, 3, 100, **{keyword: 1})


# --- ragged_gemm and small_step ----------------------------------------------------------------------------------

RAGGED, STEP = ragged_gemm.spec.problem("float64", 500), small_step.spec.problem("float64", 16)


@pytest.mark.parametrize(
    ("problem", "device", "said"),
    [(RAGGED, H200, "VARIANT=tiles CLASS=0"), (RAGGED, CPU, "VARIANT=simd"), (STEP, H200, "VARIANT=block BLOCK=128")],
    ids=["ragged on a GPU", "ragged on a CPU", "step"],
)
def test_they_are_explained(problem: Problem, device: Device, said: str) -> None:
    plan = explain.plan_without_arrays(problem, explain.Absent(device))
    rule = family_of(problem.operation).defaults.default(problem, device)
    assert plan.kernel is not None and plan.choice.config == rule
    assert f"runs     {said}" in plan.explain() and "limit    " in plan.explain()


def test_they_are_pinned() -> None:
    with ms.pin(VARIANT="lanes", CLASS=7, WARPS=2):
        config = dispatch.choose(RAGGED, H200).config
    assert (config.VARIANT, config.CLASS, config.WARPS) == ("lanes", 7, 2)
    with ms.pin(BLOCK=256):
        assert dispatch.choose(STEP, H200).config == small_step.space.Block(256)
    with ms.pin(VARIANT="lanes", CLASS=20), pytest.raises(IllegalConfig, match="CLASS=20: there are 15 classes"):
        dispatch.choose(RAGGED, H200)
    assert dispatch.choose(STEP, CPU).config is None, "on CPUs the array library has the small steps"


@pytest.mark.usefixtures("own_cache")
def test_they_have_records() -> None:
    for problem, device, change in ((RAGGED, CPU, {"TILE_M": 4}), (STEP, H200, {"BLOCK": 512})):
        family = family_of(problem.operation)
        assert database.best(problem, device, family) is None
        values = family.space.to_dict(family.defaults.default(problem, device)) | change
        config = family.space.from_dict(values)
        digest = database.kernel_hash(problem, config, device, family)
        Store(store_path(device, family.name)).append(
            Trial(problem, values, "ok", (1e-3,) * 5, kernel=digest, date="2026-01-02T00:00:00")
        )
        choice = dispatch.choose(problem, device)
        assert (choice.config, choice.origin) == (config, "tuned")
