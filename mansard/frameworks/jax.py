"""Calls of public functions whose operands JAX transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import Transformed


def answer(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], refusal: Transformed
) -> Any:
    """The result of `function`, known as `name` (`gram`, `linalg.solve`), on transformed operands."""
    raise refusal
