"""Systems, inverses and determinants under JAX's transformations: `solve`, `inv`, `det`, `slogdet` and their twins."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import mansard as ms
from mansard.linalg.lu import SlogdetResult
from mansard.operations.factor import refined

from . import host, launches
from .checks import is_complex, matrices, promoted, same_rows
from .primitive import Array, Result, Rules, Shape, conj, define, finfo, lead, or_nan, reduced, t
from .products import product
from .triangular import apart, beside

# ---- solve --------------------------------------------------------------------------------------------------


def _solve_shapes(a: Any, b: Any, **_: Any) -> list[Result]:
    return [((*lead((a, 2), (b, 2)), *b.shape[-2:]), a.dtype)]


def _solve_host(out: Any, a: Any, b: Any, **options: Any) -> None:
    """NaN for singular matrices: a result of its own that says which they are would not be linear in b."""
    _, info = ms.linalg.solve_ex(a, b, out=out[0], **options)
    if host.on_gpu(info) or info.any():
        out[0][...] = host.masked(out[0], info)


def _solved(a: Array, b: Array, **options: Any) -> Array:
    return _solve(a, b, **options)[0]


def _solve_tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    """a dx = db - da x."""
    a, (da, db) = primals[0], tangents
    right = db
    if da is not None:
        moved = product(da, results[0], backend=options["backend"])
        right = -moved if db is None else db - moved
    return [None if right is None else _solved(a, right, **options)]


def _solve_transpose(cts: Any, operands: Any, shape: Shape, **options: Any) -> Array:
    a = operands[0]
    a = conj(a) if options["assume_a"] == "pos" else t(a)  # a Hermitian matrix is read in its lower triangle
    return reduced(_solved(a, cts[0], **options), shape)


def _solve_batch(operands: Any, mapped: Any, **options: Any) -> list[Array] | None:
    together = beside(operands, mapped)
    return None if together is None else [apart(_solved(operands[0], together, **options), operands[1])]


_solve = define(
    Rules(
        "solve", _solve_shapes, _solve_host, (2, 2), _solve_tangent, _solve_transpose, _solve_batch,
        describe=launches.solve, finish=lambda x, info: [or_nan(x, info)],
    )
)  # fmt: skip


def _solve_ex_shapes(a: Any, b: Any, **_: Any) -> list[Result]:
    return [*_solve_shapes(a, b), (lead((a, 2), (b, 2)), "int32")]


def _solve_ex_host(out: Any, a: Any, b: Any, **options: Any) -> None:
    _, info = ms.linalg.solve_ex(a, b, out=out[0], **options)
    out[1][...] = info


def _solve_ex_tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    return [*_solve_tangent(results, primals, tangents, **options), None]


_solve_ex = define(
    Rules("solve_ex", _solve_ex_shapes, _solve_ex_host, (2, 2), _solve_ex_tangent, describe=launches.solve)
)


def solve_ex(
    a: Array, b: Array, *, assume_a: str = "gen", pivot: bool = True, refine: bool | None = None,
    backend: str | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    a, columns = _system(a, b, assume_a, refined.is_asked(refine))
    x, info = _solve_ex(a, columns, assume_a=assume_a, pivot=bool(pivot), refine=bool(refine), backend=backend)
    return (x[..., 0] if b.ndim == 1 else x), info


def solve(
    a: Array, b: Array, *, assume_a: str = "gen", pivot: bool = True, refine: bool | None = None,
    backend: str | None = None,
) -> Array:  # fmt: skip
    a, columns = _system(a, b, assume_a, refined.is_asked(refine))
    x = _solved(a, columns, assume_a=assume_a, pivot=bool(pivot), refine=bool(refine), backend=backend)
    return x[..., 0] if b.ndim == 1 else x


def _system(a: Array, b: Array, assume_a: str, refines: bool) -> tuple[Array, Array]:
    """Matrices and right-hand sides in columns, checked."""
    if assume_a not in ("gen", "pos"):
        raise ValueError(f"assume_a={assume_a!r} is not one of 'gen', 'pos'")
    a, b = promoted(a=a, b=b)
    if refines:
        refined.check_dtype(str(a.dtype))
    columns = b[:, None] if b.ndim == 1 else b
    matrices(a, "a", square=True)
    matrices(columns, "b")
    same_rows(a=a, b=columns)
    return a, columns


# ---- inverses and determinants ------------------------------------------------------------------------------


def _inverse_shapes(a: Any, **_: Any) -> list[Result]:
    return [(a.shape, a.dtype), (a.shape[:-2], "int32")]


def _inverse_host(out: Any, a: Any, **options: Any) -> None:
    _, info = ms.linalg.inv_ex(a, out=out[0], **options)
    out[1][...] = info


def _inverse_tangent(results: Any, primals: Any, tangents: Any, **options: Any) -> list[Array | None]:
    """-a^-1 da a^-1."""
    by = options["backend"]
    inverse = or_nan(*results)
    return [-product(product(inverse, tangents[0], backend=by), inverse, backend=by), None]


_inv = define(Rules("inv", _inverse_shapes, _inverse_host, (2,), _inverse_tangent, describe=launches.inverse))


def inv_ex(a: Array, *, pivot: bool = True, backend: str | None = None) -> tuple[Array, Array]:
    (a,) = promoted(a=a)
    matrices(a, "a", square=True)
    inverse, info = _inv(a, pivot=bool(pivot), backend=backend)
    return inverse, info


def inv(a: Array, *, pivot: bool = True, backend: str | None = None) -> Array:
    return or_nan(*inv_ex(a, pivot=pivot, backend=backend))


def _trace_with_inverse(a: Array, da: Array, backend: str | None) -> Array:
    """The trace of a^-1 da: the relative change of the determinant."""
    return jnp.sum(t(inv(a, backend=backend)) * da, (-2, -1))


def _det_host(out: Any, a: Any, *, backend: str | None) -> None:
    out[0][...] = ms.linalg.det(a, backend=backend)


def _det_tangent(results: Any, primals: Any, tangents: Any, *, backend: str | None) -> list[Array | None]:
    return [results[0] * _trace_with_inverse(primals[0], tangents[0], backend)]


_det = define(
    Rules(
        "det", lambda a, **_: [(a.shape[:-2], a.dtype)], _det_host, (2,), _det_tangent,
        describe=launches.determinant, finish=lambda det, info: [det],
    )
)  # fmt: skip


def det(a: Array, *, backend: str | None = None) -> Array:
    (a,) = promoted(a=a)
    matrices(a, "a", square=True)
    return _det(a, backend=backend)[0]


def _slogdet_shapes(a: Any, **_: Any) -> list[Result]:
    return [(a.shape[:-2], a.dtype), (a.shape[:-2], finfo(a.dtype).dtype)]


def _slogdet_host(out: Any, a: Any, *, backend: str | None) -> None:
    out[0][...], out[1][...] = ms.linalg.slogdet(a, backend=backend)


def _slogdet_tangent(results: Any, primals: Any, tangents: Any, *, backend: str | None) -> list[Array | None]:
    change = _trace_with_inverse(primals[0], tangents[0], backend)
    if is_complex(change):
        return [results[0] * (1j * change.imag), change.real]
    return [None, change]


_slogdet = define(
    Rules(
        "slogdet", _slogdet_shapes, _slogdet_host, (2,), _slogdet_tangent,
        describe=launches.logdet, finish=lambda sign, log, info: [sign, log],
    )
)  # fmt: skip


def slogdet(a: Array, *, backend: str | None = None) -> SlogdetResult:
    (a,) = promoted(a=a)
    matrices(a, "a", square=True)
    return SlogdetResult(*_slogdet(a, backend=backend))


PUBLIC = {
    "linalg.solve": solve, "linalg.solve_ex": solve_ex, "linalg.inv": inv, "linalg.inv_ex": inv_ex,
    "linalg.det": det, "linalg.slogdet": slogdet,
}  # fmt: skip
