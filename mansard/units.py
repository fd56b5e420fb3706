"""Numbers as people read them: times, sizes and rates with a fitting unit, counts with their noun."""

from __future__ import annotations

import math

_PREFIXES = (
    (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"),
)  # fmt: skip
_DIGITS = 4  # significant ones: a spread of a per cent needs no more


def quantity(value: float, unit: str, digits: int = _DIGITS) -> str:
    """`value` in `unit` with the SI prefix that leaves 1 to 999 before the point: 0.0128 s is 12.8 ms."""
    if not math.isfinite(value):
        return f"{value} {unit}"
    if value == 0:
        return f"0 {unit}"
    value = float(f"{value:.{digits}g}")  # first: 999.96 us is 1 ms
    factor, prefix = next((pair for pair in _PREFIXES if abs(value) >= 0.9999999 * pair[0]), _PREFIXES[-1])
    scaled = value / factor
    places = max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-9))
    text = f"{scaled:.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {prefix}{unit}"


def duration(seconds: float, digits: int = _DIGITS) -> str:
    """A time: 850 ns, 12.8 ms, 42 s, 3 min 20 s, 5 h, 12 days."""
    for length, name in ((48 * 3600, "days"), (7200, "h")):
        if math.isfinite(seconds) and seconds >= length:
            return f"{seconds / (86400 if name == 'days' else 3600):.4g} {name}"
    if math.isfinite(seconds) and seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    return quantity(seconds, "s", digits)


def volume(size: float) -> str:
    """Bytes that are moved, in powers of ten: 256 MB."""
    return quantity(size, "B")


def capacity(size: int) -> str:
    """Bytes of a memory or a cache, in powers of two: 48 KiB, 256 MiB."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {name}"
    return f"{size} B"


def rate(value: float, unit: str) -> str:
    """Bytes or flops per second: 4.4 TB/s."""
    return quantity(value, unit)


def count(number: int, noun: str) -> str:
    """`1 problem`, `2 problems`, `0 entries`."""
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"
    return f"{number} {noun}"
