"""Stage 3 of a call: how. One folder per kernel family, always with the same file names.

`spec` says which problems a family accepts and defines the reference; `space` its configurations; `work` bytes,
flops and resources; `emit` source text and launch geometry; `defaults` the rules before anything is measured.
`family.py` types what each of them offers. Families are pure: they compile and run nothing. They are loaded when they
are first asked for: there are some two hundred modules.
"""

from __future__ import annotations

from importlib import import_module

from .family import Family

FAMILIES: tuple[Family, ...]  # all of them, in this order

_DOMAINS = {
    "tall_skinny": ("gram", "tsmm", "tsm2r", "matmul_gram", "sketch", "small_step"),
    "batched": ("gemm", "gemv", "rank_k", "trsm", "trmm", "ragged_gemm"),
    "factor": ("cholesky", "lu", "qr", "ragged_factor", "systems", "jacobi", "tridiagonal", "bidiagonal", "sweeps",
               "divide", "back_transform", "gradients", "refinement"),
    "sparse": ("spmv", "powers", "krylov"),
}  # fmt: skip
_HOMES = {name: f".{domain}.{name}" for domain, names in _DOMAINS.items() for name in names}
_loaded: dict[str, Family] = {}


def family_of(operation: str) -> Family:
    """The family that answers `operation`."""
    found = _loaded.get(operation)
    if found is None:
        if operation not in _HOMES:
            raise KeyError(f"no family answers {operation!r}; there are: {', '.join(names())}")
        found = _loaded.setdefault(operation, import_module(_HOMES[operation], __name__).FAMILY)
    return found


def names() -> tuple[str, ...]:
    return tuple(_HOMES)


def __getattr__(name: str) -> object:
    if name == "FAMILIES":
        return tuple(map(family_of, _HOMES))
    if name in _HOMES:
        return import_module(_HOMES[name], __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
