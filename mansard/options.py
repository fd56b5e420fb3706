"""Types of command-line options: sizes, ranges, dtypes, seconds; and the nearest word to a mistyped one."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Iterable

from .plan.problem import DTYPES

MOST = 1 << 48  # a size beyond this is a slip of the finger: no machine holds as many numbers
_MOST_SIZES = 100_000  # of one list or range


def add_sizes(parser: argparse.ArgumentParser, of: Callable[[str], object], text: str) -> None:
    """The options that describe operands, under the names that all commands have for them."""
    for name, what in (("m", "M"), ("n", "N"), ("k", "K"), ("batch", "number of matrices")):
        parser.add_argument(f"--{name}", type=of, help=f"{what}; {text}")


def near(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'gram'?)`, or nothing if no known word resembles this one."""
    found = difflib.get_close_matches(word.lower(), list(known), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def number(text: str) -> int:
    """`2^28`, `2**28`, `1e8`, `1_000_000` or `4096`."""
    return _number(text, 1)


def size(text: str) -> int:
    """A dimension, which may be 0; written like a number."""
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    base, power, exponent = text.replace("**", "^").partition("^")
    try:
        if power:
            value = _power(int(base), int(exponent))
        else:
            value = int(base) if base.strip().lstrip("+-").replace("_", "").isdigit() else _whole(float(base))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number such as 4096, 2^28 or 1e8") from None
    if not least <= value <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} must be at least {least} and at most 2^{MOST.bit_length() - 1}")
    return value


def _power(base: int, exponent: int) -> int:
    """The power, or something that is too large as well without computing it."""
    if exponent < 0:
        raise ValueError
    return base**exponent if abs(base) < 2 or abs(base).bit_length() * exponent < 256 else MOST + 1


def _whole(value: float) -> int:
    if value != math.floor(value):  # also NaN
        raise ValueError
    return int(value)


def sizes(text: str) -> tuple[int, ...]:
    """`1,2,5:8` -> (1, 2, 5, 6, 7, 8); `a:b:step` counts in steps, both ends included."""
    found: list[int] = []
    for part in text.split(","):
        ends = [_end(end, part) for end in part.split(":")]
        first, last, step = ends[0], ends[min(1, len(ends) - 1)], ends[2] if len(ends) == 3 else 1
        if len(ends) > 3 or first < 1 or last < first or step < 1:
            raise argparse.ArgumentTypeError(f"{part!r}: a range a:b[:step] with 1 <= a <= b and step >= 1 is needed")
        if last > MOST or (last - first) // step >= _MOST_SIZES:
            raise argparse.ArgumentTypeError(f"{part!r}: sizes up to 2^48, at most {_MOST_SIZES} of them")
        found.extend(range(first, last + 1, step))
    return tuple(dict.fromkeys(found))


def _end(text: str, part: str) -> int:
    try:
        return _number(text, 0)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{part!r} is neither a number nor a range a:b[:step]") from None


def dtypes(text: str) -> tuple[str, ...]:
    """Comma-separated dtypes, or `all`."""
    found = DTYPES if text == "all" else tuple(word.strip() for word in text.split(",") if word.strip())
    unknown = [name for name in found if name not in DTYPES]
    if unknown or not found:
        words = ", ".join(unknown) or repr(text)
        hint = near(unknown[0], DTYPES) if unknown else ""
        raise argparse.ArgumentTypeError(f"{words}: dtypes are {', '.join(DTYPES)}, or all{hint}")
    return found


def seconds(text: str) -> float:
    """A time limit in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds such as 60")
    return value


def at_least(least: int) -> Callable[[str], int]:
    """A whole number that is not below `least`."""

    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= MOST:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return value

    return whole
