"""What the parameters of a configuration may be: each is declared with its type, and with its names or its range.

    ROWS: int = 32                                           a count, 1 to MOST
    TRIANGLE: bool = False
    AHEAD: Annotated[int, Range(0, 1 << 20)] = 2048
    FEED: Annotated[str, Names("own", "producer")] = "own"

Values come from files that anyone may have written and become C++ text, so that `checked` refuses whatever is not of
exactly that type and among those values. A text without declared names is a mistake of the class, and refused at once.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from ...errors import IllegalConfig
from ...rules import Flag, Names, Numbers, Range, Rule, shown

MOST = 1024  # of a count that declares no range: threads of a block are not more

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
    counts = {name for name, rule in declared.items() if isinstance(rule, Range | Numbers)}
    return {name: int(value) if name in counts else value for name, value in values.items()}
