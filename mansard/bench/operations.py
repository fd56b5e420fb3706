"""The operations that are measured: shapes of their operands, and what they must move and compute at the least.

M, N and K are each family's own: A is K x M and tall for gram, tsmm and the fused passes, M x K for tsm2r and matmul;
for those of batches see batched/operations.py.
"""

from __future__ import annotations

from typing import Any

from ..kernels import family_of
from ..kernels import names as families
from ..machine.roofline import Work
from ..plan.problem import ITEMSIZE, Problem
from ..plan.tall_skinny_rules import family_for
from .batched import operations as batched_operations
from .batched.operations import BATCHED, Shape
from .declared import operations as declared_operations
from .declared.operations import DECLARED
from .factor import operations as factor_operations
from .factor.operations import FACTORS, STACKED
from .random import operations as random_operations
from .random.operations import DRAWN
from .sparse import operations as sparse_operations
from .sparse.operations import SPARSE

ORTHOGONAL = ("matmul_gram", "project", "cholesky_qr")
TALL = ("gram", "tsmm")  # one width and many rows: what tables and pictures by width show
_TWO_STEPS = 1e7  # to this condition number two steps of Cholesky QR do, in double precision


def shapes(operation: str, M: int, N: int, K: int) -> tuple[Shape, Shape, Shape]:
    """Shapes of A, B and the result of one product; cholesky_qr has no B."""
    if operation in ("tsm2r", "matmul"):
        return (M, K), (K, N), (M, N)
    if operation == "gram":
        return (K, M), (K, N), (M, N)
    if operation in ("project", "cholesky_qr"):
        return (K, M), (K, N), (K, N)
    return (K, M), (M, N), (K, N)


def both_large(operation: str) -> bool:
    """B is as large as A: it has A's layout, and rotates through memory with it."""
    return operation in ("gram", "project", *STACKED, *DECLARED)


def routed_problems(dtype: str, M: int, N: int, K: int, layout_a: str, layout_b: str) -> tuple[Problem, ...]:
    """The problem that `ms.matmul` hands to a family; none where it hands the operands to the vendor."""
    name = family_for(dtype, M, K, N)  # those of the CPU, which need no kernel for few rows, have it all the same
    if not name:
        return ()
    make = family_of(name).spec.problem
    if name == "gram":  # A^T comes as A
        layout_a = "col" if layout_a == "row" else "row"
        return (make(dtype, M, N, K, layout_a=layout_a, layout_b=layout_b, conj=False),)
    if name == "tsmm":
        return (make(dtype, K, N, M, layout_a=layout_a),)
    return (make(dtype, M, N, K, layout_a=layout_a, layout_b=layout_b),)


def work(operation: str, dtype: str, M: int, N: int, K: int, same: bool = False, condition: float = 0.0) -> Work:
    """Bytes and flops. The passes of cholesky_qr are those its condition number asks for."""
    if operation in families():
        spec, traits = family_of(operation), {"same": same} if operation == "gram" else {}
        return spec.work.work(spec.spec.problem(dtype, M, N, K, **traits))
    item, flop = ITEMSIZE[dtype], 8 if dtype.startswith("complex") else 2
    if operation == "matmul":
        return Work((M * K + K * N) * item, M * N * item, flop * M * N * K, dtype)
    if operation == "project":  # V and W for V^H W, both again for the difference, which is written
        products = 2 * M * N + N * (N + 1) // 2
        return Work(2 * K * (M + N) * item, K * N * item, flop * products * K, dtype)
    steps = 1 if condition <= 1 else 2 if condition <= _TWO_STEPS else 3
    products = steps * (M * (M + 1) // 2 + M * M)
    return Work((steps + 1) * K * M * item, steps * K * M * item, flop * products * K, dtype)


def work_of(row: dict[str, Any]) -> Work:
    """The work of a row, or of a case's fields; rows of former versions are gram's and lack some."""
    if row.get("operation") in BATCHED:
        return batched_operations.work({"form": "", **row})
    if row.get("operation") in FACTORS:
        return factor_operations.work(row)
    if row.get("operation") in SPARSE:
        return sparse_operations.work(row)
    if row.get("operation") in DECLARED:
        return declared_operations.work(row)
    if row.get("operation") in DRAWN:
        return random_operations.work(row)
    sizes = (str(row.get("operation", "gram")), row["dtype"], row["M"], row["N"], row["K"])
    return work(*sizes, bool(row.get("same")), float(row.get("condition", 0.0)))


def orthogonal_problems(operation: str, dtype: str, M: int, N: int, K: int) -> tuple[Problem, ...]:
    """The kernels that a fused pass, or Cholesky QR, calls."""
    gram, fused, tsmm = (family_of(name).spec.problem for name in ("gram", "matmul_gram", "tsmm"))
    one = fused(dtype, M, N, K)
    if operation == "matmul_gram":
        return (one,)
    if operation == "project":
        return gram(dtype, M, N, K), one
    in_place = fused(dtype, M, M, K, in_place=True), tsmm(dtype, M, M, K, in_place=True)
    return one, gram(dtype, M, M, K, same=True), *in_place
