"""Declared operations by name: sizes of a case, shapes, problems and work, all from the table and the registry.

A case has the sizes of the command line: M, N, `inner` (0: M) for --k, and K for --batch; where --k is the long one, K
is that.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...errors import MansardError
from ...kernels import family_of
from ...machine.roofline import Work
from ...operations import registry
from ...operations.sizes import Asked, Sizes, sizes_of
from ...plan.problem import ITEMSIZE, Options, Problem
from .declaration import Declared, Shape, Way
from .table import DECLARED

__all__ = ["DECLARED"]
_COMPLEX = 4  # flops of a product and a sum of complex numbers, over those of real ones


def fields(operation: str, s: Sizes) -> Options:
    """Sizes as a case has them."""
    if _is_tall(operation):
        return {"M": s.m, "N": s.n, "K": s.k}
    return {"M": s.m, "N": s.n, "K": s.batch, "inner": 0 if s.k == s.m else s.k}


def sizes(row: dict[str, Any]) -> Sizes:
    """Sizes of a row, or of a case's fields, as the registry has them."""
    if _is_tall(row["operation"]):
        return Sizes(row["M"], row["N"], row["K"], 1)
    return Sizes(row["M"], row["N"], row["inner"] or row["M"], row["K"])


def written_sizes(row: dict[str, Any]) -> str:
    """The sizes that the operation has, the long one left out: `16 x 8`."""
    options, found = registry.named(row["operation"]).sizes, sizes(row)
    return " x ".join(str(getattr(found, name)) for name in ("m", "n", "k") if name in options.takes
                      and name != options.long)  # fmt: skip


def unit(operation: str, dtype: str, options: Options) -> Sizes:
    """The sizes that options of the command line stand for, the long one 1."""
    public = registry.named(operation)
    return sizes_of(Asked(operation, dtype, **{public.sizes.long: 1, **options}), public.sizes, public.text)


def with_long(operation: str, s: Sizes, count: int) -> Sizes:
    return s._replace(**{registry.named(operation).sizes.long: count})


def elements(operation: str, s: Sizes) -> int:
    """Elements of operands and result per unit of the long size."""
    return sum(_product(shape) for shape in DECLARED[operation].shapes(s))


def shapes(row: dict[str, Any]) -> tuple[Shape, Shape, Shape]:
    return DECLARED[row["operation"]].shapes(sizes(row))


def problems(row: dict[str, Any]) -> tuple[Problem, ...]:
    """Problems whose kernels are compiled ahead: those that `mansard explain` shows."""
    public, s = registry.named(row["operation"]), sizes(row)
    given = {name: getattr(s, name) for name in public.sizes.takes}
    try:
        found = public.problems_for(Asked(public.name, row["dtype"], **given))
    except MansardError:  # no kernel answers such sizes
        return ()
    return tuple(dict.fromkeys(problem for _, problem in found))


def work(row: dict[str, Any]) -> Work:
    """Least work of a row or a case: what its declaration says, or the family that answers."""
    operation, dtype, s = row["operation"], row["dtype"], sizes(row)
    least = DECLARED[operation].least
    if least is None:
        (problem,) = problems(row)
        return family_of(problem.operation).work.work(problem)
    count, item, each = (s.k if _is_tall(operation) else s.batch), ITEMSIZE[dtype], least(s)
    flops = each.flops * (_COMPLEX if dtype.startswith("complex") else 1)
    return Work(int(each.read * count * item), int(each.written * count * item), int(flops * count), dtype)


def call_of(operation: str) -> tuple[str, Callable[..., Any]]:
    """The public function and how it is written, `ms.blas.trmm(a, b, out=out)`."""
    public, declared = registry.named(operation), DECLARED[operation]
    given = [*filter(None, public.operands[: 2 if public.required == 2 else 1])]
    given += [f"{name}={value!r}" for name, value in declared.options.items()] + ["out=out"] * declared.into
    name = f"{public.home}.{operation}".replace("mansard", "ms", 1)
    return f"{name}({', '.join(given)})", getattr(import_module(public.home), operation)


def ways_of(declared: Declared, library: str) -> list[Way]:
    return [way for way in declared.ways if library in way.libraries.split()]


def _is_tall(operation: str) -> bool:
    return registry.named(operation).sizes.long == "k"


def _product(shape: Shape) -> int:
    found = 1
    for side in shape:
        found *= side
    return found
