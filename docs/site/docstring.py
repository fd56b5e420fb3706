"""A docstring in the sections of numpydoc, as Markdown."""

from __future__ import annotations

import inspect
import re
from typing import Any

SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Examples", "Notes")
COST = "Cost: "  # begins a paragraph
_LISTS = ("Parameters", "Attributes")
_ITEM = re.compile(r"^(\**\w[\w*, .]*?) : (.*)$")
_TICKS = re.compile(r"(`[^`]*`)")


def markdown(thing: Any) -> str:
    """The docstring of a function, class or property: the text, then each section under its name in bold."""
    lines = (inspect.getdoc(thing) or "").split("\n")
    parts: list[tuple[str, list[str]]] = [("", [])]
    at = 0
    while at < len(lines):
        if lines[at].strip() in SECTIONS and at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}:
            parts.append((lines[at].strip(), []))
            at += 2
            continue
        begins = not at or not lines[at - 1].strip()  # a paragraph
        if begins and lines[at].startswith(">>>") and parts[-1][0] != "Examples":
            parts.append(("Examples", []))
        elif begins and parts[-1][0] in _LISTS and _leaves_list(lines[at]):
            parts.append(("", []))
        parts[-1][1].append(lines[at])
        at += 1
    return "\n\n".join(filter(None, (_section(name, body) for name, body in parts)))


def _leaves_list(line: str) -> bool:
    """Whether a line after a blank one is no further parameter: a paragraph, or an example."""
    return bool(line.strip()) and not line.startswith(" ") and not _ITEM.match(line)


def _section(name: str, body: list[str]) -> str:
    if not any(line.strip() for line in body):
        return ""
    if name == "Examples":
        return f"**Example**\n\n{_prose(body)}"
    if name in _LISTS:
        return f"**{name}**\n\n{_items(body)}"
    return f"**{name}**\n\n{_prose(body)}" if name else _prose(body)


def _items(body: list[str]) -> str:
    """`name : what it is`, whose later lines are indented, as a list."""
    found: list[str] = []
    for line in body:
        match = _ITEM.match(line)
        if match:
            found.append(f"- **`{match.group(1)}`**: {escaped(match.group(2))}")
        elif line.strip():
            found.append(f"  {escaped(line.strip())}" if line.startswith(" ") else f"- {escaped(line)}")
    return "\n".join(found)


def _prose(body: list[str]) -> str:
    """Paragraphs; those with prompts, or deeper than their neighbours, are code."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(body).strip("\n"))
    found: list[str] = []
    for text in paragraphs:
        lines = text.split("\n")
        if lines[0].startswith(">>>"):
            code = "\n".join("" if line.strip() == "<BLANKLINE>" else line for line in lines)
            found.append(f"```pycon\n{code}\n```")
        elif lines[0].startswith("    "):
            found.append(f"```text\n{inspect.cleandoc(text)}\n```")
        else:
            text = "\n".join(map(escaped, lines))
            found.append(f"**Cost**: {text.removeprefix(COST)}" if text.startswith(COST) else text)
    return "\n\n".join(found)


def escaped(text: str) -> str:
    """Characters of mathematics that Markdown and HTML would take for theirs; code between ticks stays."""
    parts = _TICKS.split(text)
    for at in range(0, len(parts), 2):
        plain = re.sub(r"^(\s*)([*+-])(?=\s)", "\\1\u0000\\2", parts[at]) if at == 0 else parts[at]
        plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace("*", r"\*").replace("|", "&#124;")
        plain = re.sub(r"(?<!\w)_(?=\w)|(?<=\w)_(?!\w)", r"\\_", plain)
        parts[at] = plain.replace("[", r"\[").replace("\u0000\\", "").replace("\u0000", "")
    return "".join(parts)


def signature(name: str, function: Any) -> str:
    """The call as a user writes it: types where they say something, one argument a line if it is long."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return name
    parameters = []
    for one in found.parameters.values():
        kept = _said(one.annotation)
        named = inspect.ismodule(one.default) or inspect.isclass(one.default)
        default = _Bare(one.default.__name__) if named and one.default is not inspect.Parameter.empty else one.default
        if repr(default) == "<factory>":  # of a dataclass
            default = _Bare("...")
        parameters.append(one.replace(annotation=_Bare(kept) if kept else inspect.Parameter.empty, default=default))
    answer: Any = found.return_annotation
    says = isinstance(answer, str) and answer not in ("Any", "None")
    answer = _Bare(answer) if says else inspect.Signature.empty
    text = str(found.replace(parameters=parameters, return_annotation=answer))
    if len(name) + len(text) <= 88:
        return name + text
    shown = [one for one in parameters if one.name != "self"]
    inside = [str(one) for one in shown]
    kinds = [one.kind for one in shown]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        inside.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        inside.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    tail = f" -> {answer!r}" if isinstance(answer, _Bare) else ""
    return f"{name}(\n" + "".join(f"    {one},\n" for one in inside) + f"){tail}"


def _said(annotation: Any) -> Any:
    """An annotation that tells a reader something, or nothing; fields of named tuples have references to names."""
    name = getattr(annotation, "__forward_arg__", annotation)
    return "" if name in (inspect.Parameter.empty, "Any") else name


class _Bare:
    """An annotation that prints without quotes."""

    def __init__(self, text: Any) -> None:
        self.text = text if isinstance(text, str) else inspect.formatannotation(text)

    def __repr__(self) -> str:
        return self.text
