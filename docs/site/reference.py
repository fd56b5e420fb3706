"""The reference: every public function, from its docstring and the registry of operations."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from mansard import units
from mansard.kernels import family_of
from mansard.machine.roofline import Work
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
    bad_input: str  # what happens to it, which is alike for all functions of the page
    cost: str = ""  # of every function of the page, where one sentence says it

    def members(self) -> list[tuple[str, Any]]:
        """Functions and classes; named tuples, which are results of functions, last."""
        module = import_module(self.module)
        found = [(name, getattr(module, name)) for name in self.names or tuple(module.__all__)]
        found = [(name, thing) for name, thing in found if not inspect.ismodule(thing) and callable(thing)]
        return sorted(found, key=lambda each: inspect.isclass(each[1]) and issubclass(each[1], tuple))

    def anchors(self) -> dict[str, str]:
        """Where each name is on the page: in lower case; of a class that is named as a function, with `-class`."""
        names = [name for name, _ in self.members()]
        return {name: name if name.islower() else name.lower() + "-class" * (name.lower() in names) for name in names}


_WRONG = ("a wrong shape or option raises ValueError, a wrong kind of array or dtype TypeError or ValueError; the text "
          "names the argument and the remedy, and nothing has been written by then.")  # fmt: skip
_PRODUCTS = f"{_WRONG} NaN and infinity propagate as in IEEE arithmetic."
_SYSTEMS = (f"{_WRONG} A singular, indefinite or not finite matrix raises LinAlgError where a function says so; it "
            "never changes the results of other matrices of the batch.")  # fmt: skip
_READING = ("a broken or hostile file raises ValueError with its name and the line; a file that does not exist raises "
            "OSError, and a matrix that cannot be written TypeError or ValueError.")  # fmt: skip
_RANKS = (f"{_WRONG} Ranks that disagree (width, dtype, options, another call) all raise RanksDiffer, which names the "
          "rank and both calls. A rank that fails inside a call makes the others raise RankError with its text, in "
          "that call or in their next one.")  # fmt: skip
_FORMED = "time and memory grow with the number of entries; the values and the index of each are written once."
_TALL = ("gram", "matmul", "matmul_gram", "project", "cholesky_qr", "orthogonalize", "matrix_powers")
_BATCHES = ("Ragged", "Interleaved", "interleave", "deinterleave")
_TOOLS = ("plan", "tune", "pin", "precompile")
GROUPS = [
    Group("tall-and-skinny", "Tall products, bases, powers", "mansard", "ms", _TALL, _PRODUCTS),
    Group("linalg", "ms.linalg", "mansard.linalg", "ms.linalg", (), _SYSTEMS),
    Group("blas", "ms.blas", "mansard.blas", "ms.blas", (), _PRODUCTS),
    Group("batches", "Batches: Ragged, Interleaved", "mansard", "ms", _BATCHES, _WRONG),
    Group("sparse", "ms.sparse", "mansard.sparse", "ms.sparse", (), _PRODUCTS),
    Group("sparse-linalg", "ms.sparse.linalg", "mansard.sparse.linalg", "ms.sparse.linalg", (), _WRONG),
    Group("sparse-matrices", "ms.sparse.matrices", "mansard.sparse.matrices", "ms.sparse.matrices", (), _WRONG,
          _FORMED),
    Group("sparse-io", "ms.sparse.io", "mansard.sparse.io", "ms.sparse.io", (), _READING),
    Group("distributed", "ms.distributed", "mansard.distributed", "ms.distributed", (), _RANKS),
    Group("plans", "Plans, tuning, pins", "mansard", "ms", _TOOLS, _WRONG),
]


_TYPES = (
    "| type in a signature | what may be passed |", "|---|---|",
    "| `Array` | an array of NumPy, CuPy, PyTorch or JAX; results are of the same library and on the same device |",
    "| `Matrices` | an `Array` (..., rows, columns): with more than two dimensions a stack of matrices. Or a list of "
    "arrays. Or a [`Ragged`](batches.md#ragged) or [`Interleaved`](batches.md#interleaved) batch, if the function says "
    "so. Vectors are (..., n) |",
    "| `SparseMatrix` | a sparse matrix of SciPy, CuPy or PyTorch, or one that `ms.sparse.matrix` made |",
    "| `backend` | None: where the arrays are. `cpu`, `cuda`; `emulated` runs the CUDA kernel on the CPU, for tests; "
    "`reference` computes with the array library |",
)  # fmt: skip


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
        for name, anchor in group.anchors().items():
            found[f"{prefix}.{name}" if prefix else name] = f"docs/reference/{group.file}.md#{anchor}"
    return found


def pages() -> dict[str, str]:
    """All pages of the reference, by the paths of their files."""
    made = {f"docs/reference/{group.file}.md": page(group) for group in groups()}
    return {"docs/reference/index.md": _index()} | made


def page(group: Group) -> str:
    module = import_module(group.module)
    head = markdown(module) if group.module != "mansard" and not group.names else ""
    cost = f"**Cost**: {group.cost}" if group.cost else ""
    parts = [f"# {group.title}", head, f"**Bad input**: {group.bad_input}", cost]
    anchors = group.anchors()
    for name, thing in group.members():
        parts += [f"## {name} {{ #{anchors[name]} }}", described(f"{group.spelled}.{name}", thing), costs(name, group)]
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
        is_described = callable(member) or isinstance(member, property)  # a default's docstring is that of its type
        if name.startswith("_") or name not in _own(thing) or not text or not is_described:
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
    found = [(asked, _works(operation, asked)) for asked in _asked(operation)]
    if not all(works for _, works in found):
        return ""
    names = Counter(name for name, _ in found[0][1])
    steps = ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in names.items())
    what = "the least that a call must move and compute" if len(found[0][1]) == 1 else f"the sum of its steps {steps}"
    table = ["| size | bytes | flops |", "|---|---|---|", *(_cost(asked, works) for asked, works in found)]
    return f"**Cost** in float64, {what} ({escaped(operation.text.partition(';')[0])}):\n\n" + "\n".join(table)


def _asked(operation: registry.PublicOperation) -> Iterator[Asked]:
    for order in ORDERS:
        sizes = {"m": order, "batch": COUNTED["batch"], "k": COUNTED["K"]}
        if operation.name == "matmul":
            sizes = {"m": COUNTED["K"], "k": order, "n": order}
        elif "batch" in operation.sizes.takes:
            sizes["k"] = order
        taken = {size: number for size, number in sizes.items() if size in operation.sizes.takes}
        yield Asked(operation.name, **taken)


def _works(operation: registry.PublicOperation, asked: Asked) -> list[tuple[str, Work]]:
    """Names and work of the operation, or of each of its steps; none for products with sparse matrices."""
    if "sparse" in operation.home or operation.name == "matrix_powers":
        return []
    return [(name, family_of(problem.operation).work.work(problem)) for name, problem in operation.problems_for(asked)]


def _cost(asked: Asked, works: list[tuple[str, Work]]) -> str:
    """A row of the table."""
    given = {size: getattr(asked, size) for size in ("m", "n", "k", "batch") if getattr(asked, size) is not None}
    label = ", ".join(f"{size.upper() if size != 'batch' else 'batch'} = {number:,}" for size, number in given.items())
    moved, computed = (sum(getattr(work, field) for _, work in works) for field in ("bytes", "flops"))
    return f"| {label} | {units.volume(moved)} | {units.quantity(computed, 'flop')} |"


def _index() -> str:
    """Every function with the first line of its docstring."""
    lines = ["# Reference", "",
             "Every public function, from its docstring: the formula, shapes, options, bad input, an example that the",
             "tests run, and the bytes and flops of a call.", "", *_TYPES, ""]  # fmt: skip
    for group in groups():
        lines += [f"## [{group.title}]({group.file}.md)", "", "| name | what it does |", "|---|---|"]
        anchors = group.anchors()
        for name, thing in group.members():
            first = escaped((inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " "))
            lines.append(f"| [`{name}`]({group.file}.md#{anchors[name]}) | {first} |")
        lines.append("")
    return "\n".join(lines)
