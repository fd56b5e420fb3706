"""Parameters of configurations, pins, constants and problems: nothing but what is declared becomes text."""

from __future__ import annotations

import json
import re
from dataclasses import fields as dataclass_fields
from dataclasses import make_dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard import rules
from mansard.codegen.instantiate import CPP_TYPES, SCALARS, Field, instantiate
from mansard.errors import IllegalConfig, UnsupportedProblem
from mansard.kernels import family_of, names, traits
from mansard.kernels.common import fields
from mansard.kernels.sparse.powers.space import Groups
from mansard.kernels.tall_skinny import gram
from mansard.operations import problems as made
from mansard.operations.sizes import Asked, Sizes
from mansard.operations.sparse.powers import plan
from mansard.plan.explain import NOMINAL
from mansard.records.trials import problem_to_dict

PACKAGE = Path(ms.__file__).parent
CODE = 'rotate;};\nint x=system("touch /tmp/x");struct Y{int z'
NASTY = [CODE, "04", "", "rotate ", -64, 0.5, float("nan"), float("inf"), 10**400, 1 << 63, None, [], {}, [4], {"a": 1}]
SPACES: dict[str, Any] = {name: family_of(name).space for name in names()}
EVERY = [(name, variant, config) for name, space in SPACES.items() for variant, config in space.VARIANTS.items()]
H200 = NOMINAL["sm_90a"]


# --- configurations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variant", "config"), EVERY, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_parameter_refuses_what_it_does_not_declare(name: str, variant: str, config: Any) -> None:
    space = SPACES[name]
    good = space.to_dict(config())
    assert space.from_dict(good) == config()
    for field in dataclass_fields(config):
        wrong = [*NASTY, *([1, "true"] if isinstance(field.default, bool) else [True])]
        wrong += ["4"] if isinstance(field.default, int) else []
        for value in wrong:
            with pytest.raises(IllegalConfig, match=f"{name}: {field.name}="):
                space.from_dict({**good, field.name: value})
    for unknown in ("GONE", "__class__", "VARIANT ", CODE):
        with pytest.raises(IllegalConfig, match="has no parameter"):
            space.from_dict({**good, unknown: 1})
    for other in (None, [], {}, 1, "none", CODE):
        with pytest.raises(IllegalConfig, match="VARIANT="):
            space.from_dict({**good, "VARIANT": other})


def test_names_are_enumerators_of_the_headers() -> None:
    """What a parameter declares exists in C++ under the parameter's name."""
    text = "".join(path.read_text() for path in (*PACKAGE.rglob("*.cuh"), *PACKAGE.rglob("*.hpp")))
    enums: dict[str, set[str]] = {}
    for enum, values in re.findall(r"enum class (\w+)[^{]*\{([^}]*)\}", text):
        enums.setdefault(enum, set()).update(re.findall(r"\w+", values))
    for name, variant, config in EVERY:
        for parameter, rule in fields.rules(config).items():
            if isinstance(rule, rules.Names):
                enum = "".join(word.capitalize() for word in parameter.split("_"))
                assert set(rule.names) <= enums[enum], (name, variant, parameter)


def test_a_text_without_names_is_no_parameter() -> None:
    loose = make_dataclass("Loose", [("MODE", str, "any")], frozen=True)
    with pytest.raises(TypeError, match="MODE declares neither"):
        fields.rules(loose)


def test_numpys_integers_are_pinned_as_integers() -> None:
    config = gram.space.from_dict({"VARIANT": "simd", "TILE_M": np.int64(4)})
    assert type(config.TILE_M) is int


@pytest.mark.parametrize("value", [[4], None, 0.5, {"a": 1}, b"ring"])
def test_pins_are_integers_flags_and_names(value: Any) -> None:
    with pytest.raises(IllegalConfig, match="an integer, True, False or a name"), ms.pin(VARIANT=value):
        pass


@needs_cpu
@pytest.mark.parametrize(
    "pins", [{"ROWS": -64}, {"LANES": "4"}, {"PACK": 1}, {"TILE_M": True}, {"ROWS": 1 << 40}], ids=str
)
def test_pins_are_checked_before_they_become_text(pins: dict[str, Any]) -> None:
    A = np.ones((100, 3))
    with ms.pin(VARIANT="simd", **pins), pytest.raises(IllegalConfig, match=next(iter(pins))):
        ms.gram(A, backend="cpu")


def test_pins_of_powers_are_checked_too() -> None:
    with ms.pin(CACHE=CODE), pytest.raises(IllegalConfig, match="CACHE="):
        plan._pinned(Groups)


GOOD: dict[str, Any] = {
    "title": "t",
    "header": "kernels/tall_skinny/gram/kernel.hpp",
    "function": "gram_simd",
    "target": "cpu",
    "types": {"T": "double"},
    "constants": {"M": 4, "SAME": True, "FEED": "own"},
    "arguments": SCALARS,
}


@pytest.mark.parametrize(
    "change",
    [
        {"constants": {"SPREAD": CODE}},
        {"constants": {"M": "4;"}},
        {"constants": {"M": 4.0}},
        {"constants": {"M": 1 << 31}},
        {"constants": {"M": None}},
        {"constants": {"M = 1; int N": 4}},
        {"title": "x\nint y;"},
        {"title": "x\\"},
        {"header": "/etc/passwd"},
        {"header": "kernels/../../x.hpp"},
        {"function": "f(); g"},
        {"types": {"T": "int"}},
        {"types": {"T; int x": "double"}},
        {"arguments": (Field("x; int y", "double", "real"),)},
        {"arguments": (Field("x", "double; int", "real"),)},
        {"target": "cuda", "bounds": (0, 1)},
        {"target": "cuda", "bounds": ("256", 1)},
    ],
    ids=str,
)
def test_nothing_else_becomes_text(change: dict[str, Any]) -> None:
    assert "static constexpr mansard::Feed FEED = mansard::Feed::own;" in instantiate(**GOOD).text
    with pytest.raises(IllegalConfig):
        instantiate(**{**GOOD, **change})
    assert set(CPP_TYPES) == {"float32", "float64", "complex64", "complex128"}


# --- problems and records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_problems_of_every_family_are_read_back(name: str) -> None:
    make = made.of_lu("factor") if name == "lu" else getattr(made, f"of_{name}", None)
    for dtype in ("float32", "complex128"):
        if make:
            problem = make(Asked(name, dtype, layout="col"), Sizes(4, 3, 64, 5))
        else:  # families that no command names: every size that has no default
            given = signature(family_of(name).spec.problem).parameters.values()
            needed = [one.name for one in given if one.default is one.empty and one.name.isupper()]
            problem = family_of(name).spec.problem(dtype, **dict.fromkeys(needed, 5))
        assert problem.operation == name
        assert traits.problem_from_dict(json.loads(json.dumps(problem_to_dict(problem)))) == problem


PROBLEM = problem_to_dict(gram.spec.problem("float64", 4, 4, 100))
BAD_PROBLEMS: list[Any] = [
    None,
    [],
    {},
    {**PROBLEM, "operation": "gone"},
    {**PROBLEM, "operation": ["gram"]},
    {**PROBLEM, "dtype": "float16"},
    {**PROBLEM, "more": 1},
    {**PROBLEM, "sizes": {"M": 4}},
    {**PROBLEM, "sizes": [4, 4, 100]},
    *({**PROBLEM, "sizes": {**PROBLEM["sizes"], "K": K}} for K in (-1, 0, True, "4", 4.0, 1 << 70, None, [])),
    {**PROBLEM, "sizes": {**PROBLEM["sizes"], "_hash": 1}},
    {**PROBLEM, "traits": {"itemsize": 8}},
    *(
        {**PROBLEM, "traits": {**PROBLEM["traits"], "layout_a": value}}
        for value in (CODE, 1, None, ["row"], "diagonal")
    ),
    *({**PROBLEM, "traits": {**PROBLEM["traits"], "aligned": value}} for value in (1, "true", None)),
    *({**PROBLEM, "traits": {**PROBLEM["traits"], "pitch_a": value}} for value in (-1, "4", True, 1.5)),
]


@pytest.mark.parametrize("values", BAD_PROBLEMS, ids=range(len(BAD_PROBLEMS)))
def test_made_up_problems_are_refused(values: Any) -> None:
    with pytest.raises(UnsupportedProblem):
        traits.problem_from_dict(values)
