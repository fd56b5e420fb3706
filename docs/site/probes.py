"""Ask operations what they take: calls with operands of each form, library and dtype, and derivatives.

A call stops where a kernel would be compiled: by then every argument has been accepted. Derivatives are computed, by
LAPACK instead of kernels. PyTorch runs backward once and twice, and both results are compared with differences of the
function. JAX traces its derivatives: rules that do not exist raise, and XLA compiles nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import mansard as ms
from mansard import settings
from mansard.compile import cxx
from mansard.operations import registry

DTYPES = ("float32", "float64", "complex64", "complex128")
COUNT, ROWS = 3, 8  # matrices of a stack, rows of a tall matrix
FORMS = ("matrix", "stack", "list", "ragged list", "`Ragged`", "`Interleaved`")
_SQUARE = np.random.default_rng(3).standard_normal((COUNT, 3, 3))
POSITIVE = _SQUARE @ _SQUARE.swapaxes(1, 2) + 3 * np.eye(3)
TALL = np.random.default_rng(4).standard_normal((ROWS, 3))
ORTHONORMAL = np.linalg.qr(np.random.default_rng(5).standard_normal((ROWS, 3)))[0]
_VECTORS = ("gemv", "trsv")  # operations whose second operand is a vector


class _Reached(BaseException):
    """A kernel would be compiled now."""


@contextmanager
def without_compiling() -> Iterator[None]:
    """Compiling ends the call."""

    def stop(*_: object, **__: object) -> None:
        raise _Reached

    before = cxx.compile_cpu
    cxx.compile_cpu = stop  # type: ignore[assignment]
    try:
        yield
    finally:
        cxx.compile_cpu = before


@contextmanager
def by_lapack() -> Iterator[None]:
    """Calls are computed by the array library, backward included."""
    before = settings.current().backend
    settings.reread(backend="reference")
    try:
        yield
    finally:
        settings.reread(backend=before)


@contextmanager
def double_precision() -> Iterator[None]:
    """JAX, where it is loaded, has 64-bit numbers."""
    jax = sys.modules.get("jax")
    before = jax and jax.config.jax_enable_x64
    try:
        if jax:
            jax.config.update("jax_enable_x64", True)
        yield
    finally:
        if jax:
            jax.config.update("jax_enable_x64", before)


class Cell(NamedTuple):
    """Whether a call was accepted, and what the error says if it was not."""

    text: str
    reason: str = ""


YES, NO = Cell("yes"), Cell("-")
Convert = Callable[[Any], Any]


def accepts(call: Callable[[], Any]) -> Cell:
    """Whether a call gets past its checks."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except _Reached:
        return YES
    except (TypeError, ValueError, RuntimeError) as error:
        return Cell("-", str(error).split("\n")[0])
    except ImportError:  # says nothing of the operation
        raise
    except Exception as error:  # no refusal that was meant: the page shows the defect
        return Cell("-", f"{type(error).__name__}: {error}".split("\n")[0])
    return YES


class Probe(NamedTuple):
    """A public function and the operands of a call of it: `make(form, convert)`."""

    home: str
    name: str
    make: Callable[[str, Convert], list[Any]]
    options: dict[str, Any] = {}  # noqa: RUF012 (of a named tuple)

    @property
    def spelled(self) -> str:
        return f"`{self.home.replace('mansard', 'ms', 1)}.{self.name}`"

    @property
    def usual(self) -> str:
        """The form in which libraries are asked."""
        return "matrix" if self.home == "mansard" else "stack"

    def call(self, operands: Sequence[Any]) -> Any:
        return getattr(import_module(self.home), self.name)(*operands, **self.options)

    def takes(self, form: str, convert: Convert) -> Cell:
        return accepts(lambda: self.call(self.make(form, convert)))


def as_dtype(values: Any, dtype: str) -> Any:
    """Numbers in a dtype. Complex ones get phases by rows and columns, so that Hermitian, positive definite and
    orthonormal matrices stay what they are."""
    values = np.asarray(values)
    if dtype.startswith("complex"):
        phases = np.exp(1j * np.arange(values.shape[-1]))
        values = values * phases
        if values.ndim > 1 and values.shape[-2] == values.shape[-1]:
            values = values * phases.conj()[:, None]
    return values.astype(dtype)


def batch(values: Any, form: str) -> Any:
    """Matrices (COUNT, rows, columns) in one of the forms."""
    parts = list(values)
    if form == "ragged list":
        return [part[(slice(2),) * part.ndim] if at % 2 else part for at, part in enumerate(parts)]
    made = {"matrix": lambda: values[0], "list": lambda: parts, "`Interleaved`": lambda: ms.interleave(values),
            "`Ragged`": lambda: ms.Ragged.from_list(batch(values, "ragged list"))}  # fmt: skip
    return made.get(form, lambda: values)()


def _operands(operation: registry.PublicOperation) -> Callable[[str, Convert], list[Any]]:
    """Tall matrices for tall & skinny operations, positive definite ones for all others."""
    name = operation.name

    def make(form: str, convert: Convert) -> list[Any]:
        if operation.sizes.takes[-1] != "batch" and operation.sizes.long == "k" and form == "matrix":
            first = ORTHONORMAL if name == "project" else TALL
            second = {"matmul_gram": POSITIVE[0], "orthogonalize": ORTHONORMAL}.get(name, TALL)
            return [convert(one) for one in (first, second)[: operation.required]]
        made = [batch(convert(POSITIVE), form)]
        if name == "lu_solve":
            made = [ms.linalg.lu_factor(made[0], backend="reference")]
        elif name == "cho_solve":
            made = [(made[0], True)]
        if operation.required == 2:
            right = POSITIVE
            if name in _VECTORS:
                right = POSITIVE[..., :1] if form == "`Ragged`" else POSITIVE[..., 0]
            made.append(batch(convert(right), form))
        return made

    return make


def _vectors(count: int) -> Callable[[str, Convert], list[Any]]:
    """Vectors, which are matrices of one column in containers."""

    def make(form: str, convert: Convert) -> list[Any]:
        values = POSITIVE[..., :1] if form.startswith("`") else POSITIVE[..., 0]
        return [batch(convert(values), form) for _ in range(count)]

    return make


def _reflectors(name: str) -> Callable[[str, Convert], list[Any]]:
    """Make operands of functions that take factors: results of `qr` or `lu_factor`, in the library of the matrices."""

    def make(form: str, convert: Convert) -> list[Any]:
        a = batch(convert(POSITIVE), form)
        if name == "laswp":
            return [a, ms.linalg.lu_factor(a, backend="reference")[1]]
        h, tau = ms.linalg.qr(a, "raw", backend="reference")
        if name == "ormqr":
            return [h, tau, a]
        if isinstance(h, ms.Ragged):
            h, tau = h.to_list(), list(tau)
        v = [one.swapaxes(-1, -2) for one in h] if isinstance(h, list) else h.swapaxes(-1, -2)
        return [v, tau] if name == "larft" else [v, ms.linalg.larft(v, tau, backend="reference"), a]

    return make


_SPARSE = ("matvec", "matrix_powers")


def probes() -> list[Probe]:
    """Every public function of dense matrices: those of the registry, and those that need no plan."""
    named = [one for one in registry.OPERATIONS.values() if one.home and one.name not in _SPARSE]
    found = [Probe(one.home, one.name, _operands(one)) for one in named if not one.name.endswith("_ex")]
    found += [Probe("mansard.blas", name, _vectors(2)) for name in ("dot", "ger", "axpy", "swap")]
    found += [Probe("mansard.blas", "iamax", _vectors(1)), Probe("mansard.blas", "scal", _vectors(1), {"alpha": 2.0})]
    return found + [Probe("mansard.linalg", name, _reflectors(name)) for name in ("ormqr", "larft", "larfb", "laswp")]


def by_dtype(probe: Probe, form: str, convert: Callable[[Any, str], Any]) -> Cell:
    """Whether all dtypes are taken, or which of them."""
    cells = [probe.takes(form, lambda values, dtype=dtype: convert(values, dtype)) for dtype in DTYPES]
    taken = [dtype for dtype, cell in zip(DTYPES, cells, strict=True) if cell.text == YES.text]
    refused = next((cell for cell in cells if cell.text != YES.text), YES)
    if len(taken) == len(DTYPES) or not taken:
        return refused
    return Cell(", ".join(taken), refused.reason)
