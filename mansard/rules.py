"""Rules that values from files and callers are checked against: ranges, names, numbers, texts and flags.

`rule.refusal(value)` says why a value is not allowed, or None if it is: "is not in 1 to 32". Types are exact: True is
no integer, and 1 is no flag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any

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
class Numbers:
    """One of a few integers."""

    numbers: tuple[int, ...]

    def __init__(self, *numbers: int) -> None:
        object.__setattr__(self, "numbers", numbers)

    def refusal(self, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, Integral):
            return "is no integer"
        return None if int(value) in self.numbers else f"is not one of {', '.join(map(str, self.numbers))}"


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


Rule = Range | Numbers | Names | Matches | Real | Text | Flag


def shown(value: Any) -> str:
    """A refused value as a message repeats it: short, on one line, without control characters."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # integers of thousands of digits, deep nesting
        text = f"a {type(value).__name__}"
    text = text[: _SHOWN + 1].encode("ascii", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
