"""What the parameters of a configuration may be: each is declared with its type, and with its names or its range.

    ROWS: int = 32                                           a count, 1 to MOST
    TRIANGLE: bool = False
    AHEAD: Annotated[int, Range(0, 1 << 20)] = 2048
    FEED: Annotated[str, Names("own", "producer")] = "own"

Values come from files that anyone may have written and become C++ text, so that `checked` refuses whatever is not of
exactly that type and among those values. A text without declared names is a mistake of the class, and refused at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import lru_cache
from numbers import Integral
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from ..errors import IllegalConfig

MOST = 1024  # of a count that declares no range: threads of a block are not more
_SHOWN = 40  # characters of a refused value that a message repeats


@dataclass(frozen=True)
class Range:
    """Integers from `least` to `most`."""

    least: int
    most: int

    def refusal(self, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, Integral):
            return "is no integer"
        return None if self.least <= int(value) <= self.most else f"is not in {self.least} to {self.most}"


@dataclass(frozen=True)
class Names:
    """One of a few names."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)

    def refusal(self, value: Any) -> str | None:
        return None if isinstance(value, str) and value in self.names else f"is not one of {', '.join(self.names)}"


@dataclass(frozen=True)
class Matches:
    """A text that a regular expression matches from end to end."""

    pattern: str
    meaning: str

    def refusal(self, value: Any) -> str | None:
        matched = isinstance(value, str) and re.fullmatch(self.pattern, value)
        return None if matched else f"is not of the form {self.meaning}"


@dataclass(frozen=True)
class Real:
    """Finite numbers from `least` to `most`."""

    least: float
    most: float

    def refusal(self, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "is no number"
        return None if self.least <= value <= self.most else f"is not in {self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Text:
    """A text for people, of at most so many characters; it never becomes a part of a program."""

    longest: int

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, str) or len(value) > self.longest:
            return f"is no text of up to {self.longest} characters"
        printable = value.isprintable() or all(letter.isprintable() or letter in "\n\t" for letter in value)
        return None if printable else "has characters that cannot be printed"


@dataclass(frozen=True)
class Flag:
    """True or False, and no other number."""

    def refusal(self, value: Any) -> str | None:
        return None if isinstance(value, bool) else "is neither True nor False"


Rule = Range | Names | Matches | Real | Text | Flag

# How the blocks of a launch add their sums up (reduce.cuh).
Reduce: TypeAlias = Annotated[str, Names("ticket", "sliced", "block", "atomic")]


@lru_cache(maxsize=256)
def rules(config: type) -> dict[str, Rule]:
    """The declared rule of every parameter of a configuration class."""
    hints = get_type_hints(config, include_extras=True)
    return {field.name: _rule(config, field.name, hints[field.name]) for field in fields(config)}


def _rule(config: type, name: str, hint: Any) -> Rule:
    if get_origin(hint) is Annotated:
        found = [rule for rule in get_args(hint)[1:] if isinstance(rule, Rule)]
        if found:
            return found[0]
    if hint is bool:
        return Flag()
    if hint is int:
        return Range(1, MOST)
    raise TypeError(f"{config.__qualname__}.{name} declares neither names nor a range")


def checked(operation: str, config: type, values: dict[str, Any]) -> dict[str, Any]:
    """The values as plain Python ones if every parameter may have its value; raises IllegalConfig otherwise."""
    declared = rules(config)
    unknown = sorted(str(name) for name in set(values) - set(declared))
    variant = getattr(config, "VARIANT", config.__name__)
    if unknown:
        raise IllegalConfig(f"{operation}: {variant} has no parameter {shown(', '.join(unknown))}")
    for name, value in values.items():
        reason = declared[name].refusal(value)
        if reason:
            raise IllegalConfig(f"{operation}: {name}={shown(value)} of {variant} {reason}")
    return {name: int(value) if isinstance(declared[name], Range) else value for name, value in values.items()}


def shown(value: Any) -> str:
    """A refused value as a message repeats it: short, on one line, without control characters."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # integers of thousands of digits, deep nesting
        text = f"a {type(value).__name__}"
    text = text[: _SHOWN + 1].encode("ascii", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
