"""The reference: every public function has an example that runs, and its docstring is rendered as it is meant."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import doctests
import pytest

from docs.site import docstring, reference

RUN_ELSEWHERE = ("tall-and-skinny", "linalg", "blas", "distributed")  # next to the tests of these functions
MEMBERS = [(group, name, thing) for group in reference.groups() for name, thing in group.members()]


def _is_result(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, tuple)


def test_every_public_function_has_an_example() -> None:
    made_by_others = {"Matrix", "Batch", "Communicator", "DistributedMatrix"}  # classes that functions return
    named = [f"{group.spelled}.{name}" for group, name, thing in MEMBERS
             if not _is_result(thing) and name not in made_by_others and ">>>" not in (inspect.getdoc(thing) or "")]
    assert not named  # fmt: skip


@pytest.mark.parametrize("group", [one for one in reference.groups() if one.file not in RUN_ELSEWHERE],
                         ids=lambda group: group.file)  # fmt: skip
def test_examples_run(group: reference.Group) -> None:
    found = [doctests.run(thing, f"{group.spelled}.{name}") for name, thing in group.members()]
    assert sum(tried for _, tried in found) > 0 and not any(failed for failed, _ in found)


def _written(a: Any, xp: Any = doctest, *, dtype: Any = float, **more: Any) -> None:
    """First line.

    Parameters
    ----------
    a : the operand,
        on two lines
    dtype : of the result

    A paragraph after the list.

    >>> 1 + 1
    2

    Returns
    -------
    Nothing.

    Cost: 2 n flops, and n*n
    bytes.
    """


def test_sections_of_a_docstring() -> None:
    text = docstring.markdown(_written)
    assert "- **`a`**: the operand,\n  on two lines\n- **`dtype`**: of the result\n\nA paragraph after" in text
    assert "**Example**\n\n```pycon\n>>> 1 + 1\n2\n```" in text
    assert text.endswith("**Returns**\n\nNothing.\n\n**Cost**: 2 n flops, and n\\*n\nbytes.")


def test_signatures_name_modules_and_types() -> None:
    assert docstring.signature("f", _written) == "f(a, xp=doctest, *, dtype=float, **more)"


def test_long_signatures_have_an_argument_a_line() -> None:
    def long(self: Any, first: int, /, second: str = "x" * 40, *, third: str = "y" * 40) -> None: ...

    lines = [line.strip(" ,") for line in docstring.signature("f", long).splitlines()]
    assert lines[1:5] == ["first: int", "/", f"second: str = {'x' * 40!r}", "*"]


WITHOUT_COST = {
    "ms.plan": "what it costs is what the compiler takes: docs/first-calls.md",
    "ms.tune": "seconds for every candidate, as its docstring says",
    "ms.sparse.tune": "seconds to minutes, as its docstring says",
    "ms.precompile": "what the compiler takes: docs/first-calls.md",
    "ms.pin": "fixes parameters; nothing is computed",
    "ms.Ragged": "a container; making one moves no data",
    "ms.Interleaved": "a container; `interleave` has the cost",
    "ms.sparse.Matrix": "what `ms.sparse.matrix` returns, which has the cost",
    "ms.sparse.linalg.Propagator": "that of `expm_multiply` for each vector",
    "ms.sparse.linalg.Report": "a record of what a solver did",
    "ms.distributed.Batch": "a container; `batch` has the cost",
    "ms.distributed.Communicator": "a handle",
    "ms.distributed.DistributedMatrix": "a container; `matrix` has the cost",
    "ms.distributed.Rows": "a container; operations on it have theirs, and docs/distributed.md the messages",
}


def test_every_public_function_has_its_cost() -> None:
    """Its own table or sentence, or one for all functions of its page; exceptions are named, and are without."""
    pages = {group.file: reference.page(group) for group in reference.groups()}
    without = set()
    for group, name, thing in MEMBERS:
        part = pages[group.file].partition(f"{{ #{group.anchors()[name]} }}")[2].partition("\n## ")[0]
        if "**Cost**" not in part and not group.cost and not _is_result(thing):
            without.add(f"{group.spelled}.{name}")
    assert without == set(WITHOUT_COST)


def test_anchors_of_a_page_differ() -> None:
    for group in reference.groups():
        anchors = group.anchors()
        assert len(set(anchors.values())) == len(anchors), group.file
    assert reference.places()["sparse.Matrix"].endswith("sparse.md#matrix-class")


def test_every_page_says_what_happens_to_bad_input() -> None:
    for group in reference.groups():
        assert f"**Bad input**: {group.bad_input}" in reference.page(group) and len(group.bad_input) > 40, group.file


def test_public_functions_say_what_they_return() -> None:
    """No signature says Any of its result, but those of modules that load names when they are asked for them."""
    vague = [f"{group.spelled}.{name}" for group, name, thing in MEMBERS
             if not inspect.isclass(thing) and inspect.signature(thing).return_annotation in ("Any", inspect._empty)]
    assert not vague  # fmt: skip


def test_costs_are_tables_of_bytes_and_flops_where_kernels_have_them() -> None:
    page = reference.page(next(one for one in reference.groups() if one.file == "linalg"))
    for name in ("eigh", "svdvals", "lu_solve", "solve", "pinv"):
        part = page.partition(f"{{ #{name} }}")[2].partition("\n## ")[0]
        assert "**Cost**" in part and "Mflop |" in part, name
    assert page.index("{ #tridiagonalize }") < page.index("{ #eighresult }")  # results last
