"""Reports of the solvers: iterations, residuals, reasons to stop."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """What a solver did: returned with `report=True`, and printed as a short text.

    Attributes
    ----------
    method : the algorithm
    iterations : columns of a Krylov basis, or terms of a series
    products : products with A, in blocks of powers or one by one
    passes : passes over the entries of A: fewer than products where powers are blocked
    residuals : norms of the residual by iteration; of a series, its last terms
    notes : decisions taken on the way

    >>> import numpy as np, scipy.sparse, mansard as ms
    >>> *_, report = ms.sparse.linalg.cg(scipy.sparse.diags_array([1.0, 2.0, 4.0]), np.ones(3), report=True)
    >>> report.iterations, report.products <= 5
    (3, True)
    """

    method: str
    iterations: int = 0  # columns of a Krylov basis, or terms of a series
    products: int = 0  # products with A, by powers or one by one
    passes: int = 0  # over the entries of A: fewer than products where powers are blocked
    residuals: list[float] = field(default_factory=list)  # by iteration; of a series, its last terms
    notes: list[str] = field(default_factory=list)  # what was decided on the way

    def __str__(self) -> str:
        last = f", residual {self.residuals[-1]:.2e}" if self.residuals else ""
        lines = [f"{self.method}: {self.iterations} iterations, {self.products} products, {self.passes} passes{last}"]
        return "\n  ".join(lines + self.notes)
