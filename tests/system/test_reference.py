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
    """


def test_sections_of_a_docstring() -> None:
    text = docstring.markdown(_written)
    assert "- **`a`**: the operand,\n  on two lines\n- **`dtype`**: of the result\n\nA paragraph after" in text
    assert "**Example**\n\n```pycon\n>>> 1 + 1\n2\n```" in text and text.endswith("**Returns**\n\nNothing.")


def test_signatures_name_modules_and_types() -> None:
    assert docstring.signature("f", _written) == "f(a, xp=doctest, *, dtype=float, **more)"


def test_long_signatures_have_an_argument_a_line() -> None:
    def long(self: Any, first: int, /, second: str = "x" * 40, *, third: str = "y" * 40) -> None: ...

    lines = [line.strip(" ,") for line in docstring.signature("f", long).splitlines()]
    assert lines[1:5] == ["first: int", "/", f"second: str = {'x' * 40!r}", "*"]


def test_every_operation_has_its_cost() -> None:
    page = reference.page(next(one for one in reference.groups() if one.file == "linalg"))
    for name in ("eigh", "svdvals", "lu_solve", "solve", "pinv"):
        part = page.partition(f"{{ #{name} }}")[2].partition("\n## ")[0]
        assert "**Cost**" in part and "Mflop |" in part, name
    assert page.index("{ #tridiagonalize }") < page.index("{ #eighresult }")  # results last
