"""The reference: every public function, from its docstring and the registry of operations."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from mansard import units
from mansard.kernels import family_of
from mansard.operations import registry
from mansard.operations.sizes import Asked

from .docstring import escaped, markdown, signature

COUNTED = {"K": 1_000_000, "batch": 10_000}  # the long sizes for which costs are stated
WIDE, ORDERS = 16, (4, 16, 64)


class Group(NamedTuple):
    """A page: public names of one module."""

    file: str
    title: str
    module: str
    spelled: str  # how users write the module
    names: tuple[str, ...]  # none: its __all__
    without: tuple[str, ...] = ()

    def members(self) -> Iterator[tuple[str, Any]]:
        module = import_module(self.module)
        for name in self.names or tuple(module.__all__):
            thing = getattr(module, name)
            if name not in self.without and not inspect.ismodule(thing) and callable(thing):
                yield name, thing


_TALL = ("gram", "matmul", "matmul_gram", "project", "cholesky_qr", "orthogonalize", "matrix_powers")
_BATCHES = ("Ragged", "Interleaved", "interleave", "deinterleave")
_TOOLS = ("plan", "tune", "pin", "precompile")
GROUPS = [
    Group("tall-and-skinny", "Tall products, bases, powers", "mansard", "ms", _TALL),
    Group("linalg", "ms.linalg", "mansard.linalg", "ms.linalg", ()),
    Group("blas", "ms.blas", "mansard.blas", "ms.blas", ()),
    Group("batches", "Batches: Ragged, Interleaved", "mansard", "ms", _BATCHES),
    Group("sparse", "ms.sparse", "mansard.sparse", "ms.sparse", ()),
    Group("sparse-linalg", "ms.sparse.linalg", "mansard.sparse.linalg", "ms.sparse.linalg", ()),
    Group("sparse-matrices", "ms.sparse.matrices", "mansard.sparse.matrices", "ms.sparse.matrices", ()),
    Group("sparse-io", "ms.sparse.io", "mansard.sparse.io", "ms.sparse.io", ()),
    Group("distributed", "ms.distributed", "mansard.distributed", "ms.distributed", ()),
    Group("plans", "Plans, tuning, pins", "mansard", "ms", _TOOLS),
]


def groups() -> list[Group]:
    """The pages, with public names of `mansard` that no group lists on the first one."""
    package = import_module("mansard")
    listed = {name for group in GROUPS for name in group.names}
    more = tuple(name for name in package.__all__ if name not in listed and inspect.isroutine(getattr(package, name)))
    return [GROUPS[0]._replace(names=GROUPS[0].names + more), *GROUPS[1:]]


def files() -> tuple[str, ...]:
    """The files of the pages, in their order."""
    return tuple(f"docs/reference/{group.file}.md" for group in GROUPS)


def places() -> dict[str, str]:
    """Where each function is described, by its name without `ms.`: a file and an anchor."""
    found = {}
    for group in groups():
        prefix = group.spelled.removeprefix("ms").lstrip(".")
        for name, _ in group.members():
            found[f"{prefix}.{name}" if prefix else name] = f"docs/reference/{group.file}.md#{name.lower()}"
    return found


def pages() -> dict[str, str]:
    """All pages of the reference, by the paths of their files."""
    made = {f"docs/reference/{group.file}.md": page(group) for group in groups()}
    return {"docs/reference/index.md": _index()} | made


def page(group: Group) -> str:
    module = import_module(group.module)
    head = markdown(module) if group.module != "mansard" and not group.names else ""
    parts = [f"# {group.title}", head]
    for name, thing in group.members():
        parts += [f"## {name} {{ #{name.lower()} }}", described(f"{group.spelled}.{name}", thing), costs(name, group)]
        if inspect.isclass(thing):
            parts += members(thing)
    return "\n\n".join(filter(None, parts)) + "\n"


def described(name: str, thing: Any) -> str:
    return f"```python\n{signature(name, thing)}\n```\n\n{markdown(thing)}"


def members(thing: type) -> list[str]:
    """Public methods and properties that have a docstring of their own."""
    found = []
    for name, member in inspect.getmembers(thing):
        text = inspect.getdoc(member) or ""
        if name.startswith("_") or name not in _own(thing) or not text or text.startswith("Alias for field number"):
            continue
        call = signature(name, member) if callable(member) else name
        text = textwrap.indent(markdown(member), "    ").lstrip()
        found.append(f"- **`{' '.join(call.split())}`**\n\n    {text}")
    return ["**Methods and attributes**", *found] if found else []


def _own(thing: type) -> set[str]:
    return {name for base in thing.__mro__ if base.__module__.startswith("mansard") for name in vars(base)}


def costs(name: str, group: Group) -> str:
    """Least traffic and flops of an operation at some sizes, by the same functions as plans and benchmarks."""
    operation = registry.OPERATIONS.get(name)
    if operation is None or operation.home != group.module:
        return ""
    rows = list(filter(None, (_cost(operation, asked) for asked in _asked(operation))))
    if not rows:
        return ""
    head = f"**Cost** in float64, the least that a call must move and compute ({escaped(operation.text)}):"
    table = ["| size | bytes | flops |", "|---|---|---|", *rows]
    return f"{head}\n\n" + "\n".join(table)


def _asked(operation: registry.PublicOperation) -> Iterator[Asked]:
    for order in ORDERS:
        sizes = {"m": order, "batch": COUNTED["batch"], "k": COUNTED["K"]}
        if operation.name == "matmul":
            sizes = {"m": COUNTED["K"], "k": order, "n": order}
        elif "batch" in operation.sizes.takes:
            sizes["k"] = order
        taken = {size: number for size, number in sizes.items() if size in operation.sizes.takes}
        yield Asked(operation.name, **taken)


def _cost(operation: registry.PublicOperation, asked: Asked) -> str | None:
    """A row of the table, or None where the operation is made of others whose sum says little."""
    if operation.problem is None or "sparse" in operation.home or operation.name == "matrix_powers":
        return None
    (_, problem), *_ = operation.problems_for(asked)
    work = family_of(problem.operation).work.work(problem)
    given = {size: getattr(asked, size) for size in ("m", "n", "k", "batch") if getattr(asked, size) is not None}
    label = ", ".join(f"{size.upper() if size != 'batch' else 'batch'} = {number:,}" for size, number in given.items())
    return f"| {label} | {units.volume(work.bytes)} | {work.flops:.3g} |"


def _index() -> str:
    """Every function with the first line of its docstring."""
    lines = ["# Reference", "",
             "Every public function, from its docstring: shapes, options, bad input, an example that the tests run,",
             "and the least bytes and flops of a call. Arguments are checked before anything is written; an error",
             "names the argument and the remedy.", ""]  # fmt: skip
    for group in groups():
        lines += [f"## [{group.title}]({group.file}.md)", "", "| name | what it does |", "|---|---|"]
        for name, thing in group.members():
            first = escaped((inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " "))
            lines.append(f"| [`{name}`]({group.file}.md#{name.lower()}) | {first} |")
        lines.append("")
    return "\n".join(lines)
