"""A problem: what is asked, free of arrays and frameworks. It is the key of dispatch and of the tuning records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

DTYPES = ("float32", "float64", "complex64", "complex128")
ITEMSIZE = {"float32": 4, "float64": 8, "complex64": 8, "complex128": 16}
REAL = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}


Options: TypeAlias = dict[str, Any]  # options, traits or parameters by name: numbers, words, flags


@dataclass(frozen=True)
class Problem:
    """An operation with its sizes and traits, immutable and hashable.

    `sizes` are the dimensions (M, N, K); `traits` everything else a kernel must know (layouts, alignment,
    conjugation). Both read as attributes: `problem.M`, `problem.layout_a`.
    """

    operation: str
    dtype: str
    sizes: tuple[tuple[str, int], ...]
    traits: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        self.__dict__.update(self.sizes)
        self.__dict__.update(self.traits)
        # asked for thousands of times while candidates are ranked
        self.__dict__["_hash"] = hash((self.operation, self.dtype, self.sizes, self.traits))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[object, ...]:  # another process hashes otherwise
        return Problem, (self.operation, self.dtype, self.sizes, self.traits)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.__class__.__name__} has no size or trait {name!r}")

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

    @property
    def is_complex(self) -> bool:
        return self.dtype.startswith("complex")

    def strides(self, side: str) -> tuple[int, int]:
        """Rows and columns of operand `side` in elements, as its layout and pitch say."""
        pitch = getattr(self, f"pitch_{side}")
        return (1, pitch) if getattr(self, f"layout_{side}") == "col" else (pitch, 1)

    def replace(self, **changes: Any) -> Problem:
        """The same problem with other sizes or traits."""
        sizes = tuple((name, changes.pop(name, value)) for name, value in self.sizes)
        traits = tuple((name, changes.pop(name, value)) for name, value in self.traits)
        dtype = changes.pop("dtype", self.dtype)
        if changes:
            raise TypeError(f"{self.operation} has no size or trait {', '.join(changes)}")
        return Problem(self.operation, dtype, sizes, traits)

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes)
        traits = " ".join(f"{name}={value}" for name, value in self.traits)
        return f"{self.operation} {self.dtype} {sizes} {traits}".rstrip()
