"""Problems from files: operation, dtype, sizes and traits are checked before a `Problem` is made of them.

A family's `spec.problem` makes an example; a problem of the same operation has the same names in the same order, with
values of the same types. Texts among the traits are names that are listed here.
"""

from __future__ import annotations

from functools import lru_cache
from inspect import signature
from typing import Any

from ..errors import UnsupportedProblem
from ..plan.problem import DTYPES, Problem
from ..rules import Flag, Names, Range, Rule, shown
from . import family_of, names

_LONG, _WIDTH = Range(1, 1 << 62), Range(1, 1 << 20)  # sizes; an empty problem has no records
_MAY_BE_ZERO, _PITCH, _COUNT = Range(0, 1 << 20), Range(0, 1 << 62), Range(0, 1 << 10)
_TEXTS = {
    "layout": Names("row", "col", "any"),
    "stack": Names("packed", "strided", "shared", "pointers", "interleaved", "ragged"),
    "want": Names(
        *("factor", "solve", "inverse", "determinant", "logdet", "swap", "raw", "r", "reduced", "complete", "panel"),
        *("eigh", "eigvalsh", "svd", "svdvals", "values", "vectors", "rotations"),
        *("whole", "norms", "narrow", "start", "judge", "update"),
    ),
    "method": Names("lu", "cholesky", "qr", "triangle"),
    "solver": Names("cg", "minres"),
    "side": Names("left", "right", "eigenvectors"),
    "form": Names("tridiagonal", "bidiagonal"),
    "uplo": Names("lower", "upper"),
    "part": Names("lower", "upper", "full"),
    "trans": Names("N", "T", "C", "R"),
    "format": Names("sell", "ell", "csr"),
    "index": Names("int32", "int64", "delta16"),
    "output": Names("all", "last", "combination"),
    "values": Names(*DTYPES),
}  # by the part of a trait's name before the underscore: layout_a, layout_b, ...


def problem_from_dict(values: Any) -> Problem:
    """The problem that `values` (operation, dtype, sizes, traits) describe; raises UnsupportedProblem if they do not
    describe one that a family knows."""
    if not isinstance(values, dict) or set(values) != {"operation", "dtype", "sizes", "traits"}:
        raise UnsupportedProblem("a problem has operation, dtype, sizes and traits")
    operation, dtype = values["operation"], values["dtype"]
    for what, value, rule in (("operation", operation, Names(*names())), ("dtype", dtype, Names(*DTYPES))):
        if reason := rule.refusal(value):
            raise UnsupportedProblem(f"{what} {shown(value)} {reason}")
    sizes, traits = declared(operation)
    given = (_checked(operation, sizes, values["sizes"]), _checked(operation, traits, values["traits"]))
    return Problem(operation, dtype, *given)


@lru_cache(maxsize=32)
def declared(operation: str) -> tuple[dict[str, Rule], dict[str, Rule]]:
    """The rules of an operation's sizes and of its traits, in their order."""
    spec = family_of(operation).spec
    required = [each.name for each in signature(spec.problem).parameters.values() if each.default is each.empty]
    example = spec.problem("float64", **{name: 4 for name in required if name.isupper()})
    sizes: dict[str, Rule] = {name: _LONG if name in spec.LONG else _WIDTH for name, _ in example.sizes}
    sizes |= {name: _MAY_BE_ZERO for name in ("NRHS", "CAPACITY") if name in sizes}
    return sizes, {name: _rule(name, value) for name, value in example.traits}


def _rule(name: str, example: Any) -> Rule:
    if isinstance(example, bool):
        return Flag()
    kind = name.partition("_")[0]
    if isinstance(example, int):
        return _PITCH if kind == "pitch" else _COUNT
    return _TEXTS[kind]


def _checked(operation: str, rules: dict[str, Rule], values: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(values, dict) or tuple(values) != tuple(rules):
        raise UnsupportedProblem(f"{operation} has {', '.join(rules)}, not {shown(values)}")
    for name, value in values.items():
        if reason := rules[name].refusal(value):
            raise UnsupportedProblem(f"{operation}: {name}={shown(value)} {reason}")
    return tuple(values.items())
