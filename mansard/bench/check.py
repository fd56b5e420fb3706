"""Is a contender's result right, at full size? One reference per case, compared with every contender entry by entry."""

from __future__ import annotations

from typing import Any

from ..plan.tall_skinny_rules import family_for
from .batched import check as batched_check
from .batched.operations import BATCHED
from .cases import Case
from .declared import contest as declared
from .declared.operations import DECLARED
from .factor import check as factor_check
from .factor.operations import FACTORS
from .random import check as random_check
from .random.operations import DRAWN
from .references import FusedReference, ProjectedReference, QrReference, Reference, SmallReference
from .sparse import check as sparse_check
from .sparse.operations import SPARSE

__all__ = ["Reference", "reference_for"]


def reference_for(case: Case, A: Any, B: Any) -> Any:
    """Make the reference that results of the case are compared with."""
    if case.operation == "matmul_gram":
        return FusedReference(A, B)
    if case.operation == "project":
        return ProjectedReference(A, B)
    if case.operation == "cholesky_qr":
        return QrReference(A)
    if case.operation in BATCHED:
        return batched_check.reference_for(case, A, B)
    if case.operation in DRAWN:
        return random_check.Reference(case.drawn, A, B)
    if case.operation in DECLARED:
        return declared.Reference(case, A, B)
    if case.operation in FACTORS:
        return factor_check.reference_for(case, A, B)
    if case.operation in SPARSE:
        return sparse_check.reference_for(case, A, B)
    if case.operation == "matmul" and family_for(case.dtype, case.M, case.K, case.N) == "gram":  # real, and long sums
        return Reference(A.T, B)
    return Reference(A, B) if case.operation == "gram" else SmallReference(A, B)
