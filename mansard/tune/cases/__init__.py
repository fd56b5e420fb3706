"""What can be tuned: one case class per operation."""

from __future__ import annotations

from typing import Any

from ...plan.problem import Problem
from .base import Case
from .factor import FactorCase
from .gemm import GemmCase
from .gemv import GemvCase
from .gram import GramCase
from .matmul_gram import MatmulGramCase
from .rank_k import RankKCase
from .spmv import SpmvCase
from .trmm import TrmmCase
from .trsm import TrsmCase
from .tsm2r import Tsm2rCase
from .tsmm import TsmmCase
from .two_sided import TwoSidedCase

__all__ = ["CASES", "Case", "make_case"]

CASES: dict[str, type[Case]] = {
    "gram": GramCase,
    "tsmm": TsmmCase,
    "tsm2r": Tsm2rCase,
    "matmul_gram": MatmulGramCase,
    "gemm": GemmCase,
    "gemv": GemvCase,
    "rank_k": RankKCase,
    "trsm": TrsmCase,
    "trmm": TrmmCase,
    "cholesky": FactorCase,
    "lu": FactorCase,
    "qr": FactorCase,
    "spmv": SpmvCase,
    **dict.fromkeys(("jacobi", "tridiagonal", "bidiagonal", "sweeps", "back_transform"), TwoSidedCase),
}


def make_case(problem: Problem, backend: Any) -> Case:
    """The case class of the problem's operation."""
    return CASES[problem.operation](problem, backend)
