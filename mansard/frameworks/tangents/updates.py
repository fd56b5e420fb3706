"""Updates under JAX's transformations: `syrk`, `herk`, `syr2k`, `her2k`."""

from __future__ import annotations

from typing import Any

from .checks import matrices, same_dtype, scaled
from .primitive import Array, h, t
from .products import product


def syrk(
    a: Array, *, alpha: Any = 1.0, beta: Any = 0.0, uplo: str = "L", trans: str = "N", backend: str | None = None
) -> Array:
    return scaled(_rank_k(a, uplo, trans, "T", backend), alpha, beta, 2)


def herk(
    a: Array, *, alpha: Any = 1.0, beta: Any = 0.0, uplo: str = "L", trans: str = "N", backend: str | None = None
) -> Array:
    return scaled(_rank_k(a, uplo, trans, "C", backend), alpha, beta, 2)


def _rank_k(a: Array, uplo: str, trans: str, other: str, backend: str | None) -> Array:
    matrices(a, "a")
    _check_form(uplo, trans, other)
    found = _of(a, a, trans, other, backend)
    return (found + (h(found) if other == "C" else t(found))) / 2  # rounding may have told the triangles apart


def syr2k(
    a: Array, b: Array, *, alpha: Any = 1.0, beta: Any = 0.0, uplo: str = "L", trans: str = "N",
    backend: str | None = None,
) -> Array:  # fmt: skip
    found = scaled(_rank_2k(a, b, uplo, trans, "T", backend), alpha, beta, 2)
    return found + t(found)


def her2k(
    a: Array, b: Array, *, alpha: Any = 1.0, beta: Any = 0.0, uplo: str = "L", trans: str = "N",
    backend: str | None = None,
) -> Array:  # fmt: skip
    found = scaled(_rank_2k(a, b, uplo, trans, "C", backend), alpha, beta, 2)
    return found + h(found)


def _rank_2k(a: Array, b: Array, uplo: str, trans: str, other: str, backend: str | None) -> Array:
    matrices(a, "a")
    matrices(b, "b")
    same_dtype(a=a, b=b)
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}: both need the same matrices")
    _check_form(uplo, trans, other)
    return _of(a, b, trans, other, backend)


def _of(a: Array, b: Array, trans: str, other: str, backend: str | None) -> Array:
    """a b' or a' b."""
    return product(a, b, *(("N", other) if trans == "N" else (other, "N")), backend=backend)


def _check_form(uplo: str, trans: str, other: str) -> None:
    if uplo not in ("L", "U"):
        raise ValueError(f"uplo={uplo!r} is neither 'L' nor 'U'")
    if trans not in ("N", other):
        raise ValueError(f"trans={trans!r} is neither 'N' nor {other!r}")


PUBLIC = {"blas.syrk": syrk, "blas.herk": herk, "blas.syr2k": syr2k, "blas.her2k": her2k}
