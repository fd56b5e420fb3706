"""Compare two recordings: what is the same, and how the rest differs, per family with examples."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

EXAMPLES = 10  # per family and kind of difference
SAME, MORE_CALLS, FEWER_CALLS = "same", "more Python calls", "fewer Python calls"
HARMLESS = (SAME, FEWER_CALLS)
KINDS = ("missing", "problem differs", "error differs", "choice differs", "route differs", "origin differs",
         "launch differs", "code differs", MORE_CALLS, FEWER_CALLS)  # fmt: skip
Line = dict[str, Any]
Found = dict[tuple[str, str], list[str]]  # family and kind -> one text per difference


def differences(old: dict[str, Line], new: dict[str, Line], renamed: dict[str, str] | None = None) -> Found:
    """Everything that was compared, by family and kind; `renamed` maps origins of the old recording to new names."""
    found: Found = defaultdict(list)
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            family = (before or after or {})["family"]
            found[family, "missing"].append(f"{name}: only in the {'new' if before is None else 'old'} recording")
            continue
        for kind, text in _compared(before, after, renamed or {}):
            found[before["family"], kind].append(f"{name} {text}".rstrip())
    return found


def _compared(before: Line, after: Line, renamed: dict[str, str]) -> Iterator[tuple[str, str]]:
    if "targets" not in before:
        yield _calls(before, after)
        return
    if any(before[name] != after[name] for name in ("dtype", "fields")):
        yield "problem differs", "does not describe the same problem in both recordings"
        return
    for target in sorted({*before["targets"], *after["targets"]}):
        one, other = before["targets"].get(target, {}), after["targets"].get(target, {})
        kind, text = _outcome(one, other, renamed)
        shape = "" if kind == SAME else f"{before['dtype']} {_shown(before['fields'])}: "
        yield kind, f"{target} {shape}{text}"


def _outcome(one: Line, other: Line, renamed: dict[str, str]) -> tuple[str, str]:
    """The first difference, in the order in which one causes the next."""
    origin = renamed.get(one.get("origin", ""), one.get("origin"))
    pairs = {
        "error differs": (one.get("error"), other.get("error")),
        "choice differs": (one.get("configs"), other.get("configs")),
        "route differs": (one.get("routes"), other.get("routes")),
        "launch differs": tuple([k["launch"] for k in each.get("kernels", ())] for each in (one, other)),
        "code differs": tuple([k["code"] for k in each.get("kernels", ())] for each in (one, other)),
        "origin differs": (origin, renamed.get(other.get("origin", ""), other.get("origin"))),
    }
    for kind, (was, now) in pairs.items():
        if was != now:
            more = "".join(f" ({each['message']})" for each in (one, other) if "message" in each)
            return kind, _change(was, now) + more
    return SAME, ""


def _calls(before: Line, after: Line) -> tuple[str, str]:
    if "error" in before or "error" in after:
        was, now = before.get("error"), after.get("error")
        return (SAME, "") if was == now else ("error differs", _change(was, now))
    names = [name for name in ("calls", "python_calls") if name in before and name in after]
    was, now = ([line[name] for name in names] for line in (before, after))
    counts = ", by Python ".join(f"{one} -> {other}" for one, other in zip(was, now, strict=True))
    text = f"{counts}, {before['microseconds']} -> {after['microseconds']} us"
    more = any(other > one for one, other in zip(was, now, strict=True))
    return SAME if was == now else MORE_CALLS if more else FEWER_CALLS, text


def _change(was: Any, now: Any) -> str:
    """Only what changed, where both are equally long lists of dictionaries with the same names."""
    if _is_configs(was) and _is_configs(now) and len(was) == len(now):
        parts = []
        for one, other in zip(was, now, strict=True):
            names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
            parts += [f"{name} {one.get(name)} -> {other.get(name)}" for name in names]
        return ", ".join(parts)
    return f"{json.dumps(was)} -> {json.dumps(now)}"


def _is_configs(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _shown(fields: Line) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


def report(found: Found) -> tuple[str, bool]:
    """A table of counts per family, examples of every difference, and whether there is no harmful one."""
    families = sorted({family for family, _ in found})
    kinds = [SAME, *(kind for kind in KINDS if any(found.get((family, kind)) for family in families))]
    widths = [max(len(kind), 6) for kind in kinds]
    lines = ["  ".join([f"{'family':14}", *(f"{kind:>{wide}}" for kind, wide in zip(kinds, widths, strict=True))])]
    for family in families:
        counts = [len(found.get((family, kind), ())) for kind in kinds]
        lines.append("  ".join([f"{family:14}", *(f"{n:>{wide}}" for n, wide in zip(counts, widths, strict=True))]))
    for kind in kinds[1:]:
        for family in families:
            texts = found.get((family, kind), [])
            if texts:
                lines += ["", f"{kind}: {family}, {len(texts)}", *(f"  {text}" for text in texts[:EXAMPLES])]
                lines += [f"  and {len(texts) - EXAMPLES} more"] if len(texts) > EXAMPLES else []
    is_same = not any(texts and kind not in HARMLESS for (_, kind), texts in found.items())
    return "\n".join(lines), is_same
