"""Mansard: linear algebra for the shapes that vendor libraries neglect, at the speed the hardware allows.

Functions are loaded when they are first used, so that `import mansard` costs little more than `import numpy`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import blas, distributed, linalg, sparse
    from .operations.batched.interleaved import Interleaved, deinterleave, interleave
    from .operations.planning import plan
    from .operations.precompile import precompile
    from .operations.ragged import Ragged
    from .operations.sparse.powers.call import matrix_powers
    from .operations.tall_skinny.fused import matmul_gram, project
    from .operations.tall_skinny.gram import gram
    from .operations.tall_skinny.matmul import matmul
    from .operations.tall_skinny.orthogonal import cholesky_qr, orthogonalize
    from .plan.pin import pin
    from .tune.call import tune

__all__ = [
    "Interleaved",
    "Ragged",
    "__version__",
    "blas",
    "cholesky_qr",
    "deinterleave",
    "distributed",
    "gram",
    "interleave",
    "linalg",
    "matmul",
    "matmul_gram",
    "matrix_powers",
    "orthogonalize",
    "pin",
    "plan",
    "precompile",
    "project",
    "sparse",
    "tune",
]

_HOMES = {
    "Interleaved": ".operations.batched.interleaved",
    "Ragged": ".operations.ragged",
    "cholesky_qr": ".operations.tall_skinny.orthogonal",
    "deinterleave": ".operations.batched.interleaved",
    "gram": ".operations.tall_skinny.gram",
    "interleave": ".operations.batched.interleaved",
    "matmul": ".operations.tall_skinny.matmul",
    "matmul_gram": ".operations.tall_skinny.fused",
    "matrix_powers": ".operations.sparse.powers.call",
    "orthogonalize": ".operations.tall_skinny.orthogonal",
    "pin": ".plan.pin",
    "plan": ".operations.planning",
    "precompile": ".operations.precompile",
    "project": ".operations.tall_skinny.fused",
    "tune": ".tune.call",
}
_TRANSFORMABLE = {"cholesky_qr", "gram", "matmul", "matmul_gram", "orthogonalize", "project"}
_FACES = ("blas", "distributed", "linalg", "sparse")


class _Package(ModuleType):
    """The package, in which `plan` and `tune` are the functions although folders of these names are imported, too."""

    def __getattr__(self, name: str) -> Any:
        if name in _FACES:
            return import_module(f".{name}", __name__)
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name], __name__), name)
        if name in _TRANSFORMABLE:
            value = import_module(".operations.transformable", __name__).transformable(value, __name__)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            return  # the import system names a folder after itself in its package
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return __all__


sys.modules[__name__].__class__ = _Package
